"""A trained model on the command line: which one, and above which score it calls a picture unknown."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from madod.cli.arguments import left_open, torch_device
from madod.errors import InputError

if TYPE_CHECKING:
    from madod.predict import Model


@dataclass(frozen=True, kw_only=True)
class Using:
    """The words that predict, evaluate and export have in common."""

    model: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="MODEL")]
    """Folder of a trained model, as `madod train --out` makes it."""
    keep: Annotated[float | None, left_open("SHARE")] = None
    """Set the threshold so that this share of the pictures held out in training passes as known; 0.95 in training."""
    threshold: Annotated[float | None, left_open("SCORE")] = None
    """Set the threshold itself: the score above which a picture is called unknown."""

    def loaded(self, device: str = "cpu", others: Iterable[Path | str] = ()) -> "Model":
        """Return the model, with the threshold that the command says; `others` are the other things that it names."""
        if self.keep is not None and self.threshold is not None:
            raise InputError("--keep and --threshold both set the threshold: give one of them")
        model = model_in(self.model, others)
        if self.keep is not None:
            model.set_threshold(self.keep)
        if self.threshold is not None:
            model.threshold = self.threshold
        return model.to(torch_device(device))


def model_in(folder: Path, others: Iterable[Path | str] = ()) -> "Model":
    """Return the model in a folder; where there is none, say what is there, or which of the others was meant."""
    from madod.benchmark.claim import LOCK
    from madod.benchmark.record import RECORD
    from madod.predict import load
    from madod.predict.saved import is_model

    if not is_model(folder):
        for other in map(Path, others):
            if is_model(other):
                raise InputError(f"there is no model in {folder}, but there is in {other}: name the model first")
        finished = any(place.exists() for place in (folder / RECORD, *folder.glob(f"*/{RECORD}")))
        if (folder / LOCK).exists() and not finished:
            raise InputError(
                f"the training in {folder} is not finished: wait while it runs; stopped, it goes on with the same "
                "command again"
            )
    return load(folder)
