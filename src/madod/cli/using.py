"""A trained model on the command line: which one, and above which score it calls a picture unknown."""

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

    def loaded(self, device: str = "cpu") -> "Model":
        """Return the model, with the threshold that the command says."""
        if self.keep is not None and self.threshold is not None:
            raise InputError("--keep and --threshold both set the threshold: give one of them")
        from madod.predict import load

        model = load(self.model)
        if self.keep is not None:
            model.set_threshold(self.keep)
        if self.threshold is not None:
            model.threshold = self.threshold
        return model.to(torch_device(device))
