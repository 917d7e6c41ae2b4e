"""A person's own unknowns: scored by the finished model, never trained on."""

from pathlib import Path
from typing import NamedTuple

from madod.data.finding import pictures_below
from madod.data.images import BadImage
from madod.errors import InputError
from madod.evaluation.metrics import auroc
from madod.predict import Model


class Strangers(NamedTuple):
    """The scores of pictures that show nothing known, and the files that could not be read."""

    folder: str
    scores: list[float]
    auroc: float | None
    """The chance that one of them scores above a held-out training picture."""
    held: int
    """How many held-out training pictures there are."""
    unreadable: tuple[str, ...]

    def flagged(self, threshold: float) -> float | None:
        """Return the share that is called unknown at a threshold."""
        return sum(score > threshold for score in self.scores) / len(self.scores) if self.scores else None


def kept_apart(folder: Path, root: Path | None) -> Path:
    """Return the folder of unknowns, or refuse one that is empty or that training would see."""
    if not folder.is_dir():
        raise InputError(f"--ood-folder {folder} is no folder: name one with pictures that show nothing known")
    if root is not None:
        own, seen = folder.resolve(), root.resolve()
        if own == seen or seen in own.parents or own in seen.parents:
            raise InputError(f"--ood-folder {folder} and the training folder {root} overlap: keep the unknowns apart")
    if not any(pictures_below(folder)):
        raise InputError(f"--ood-folder {folder} has no pictures in it: put some there that show nothing known")
    return folder


def scored(model: Model, folder: Path) -> Strangers:
    """Return what a model says of every picture in a folder."""
    answers = list(model.predict_iter(sorted(pictures_below(folder))))
    scores = [answer.score for answer in answers if not isinstance(answer, BadImage)]
    unreadable = tuple(str(answer) for answer in answers if isinstance(answer, BadImage))
    held = [] if model.held_scores is None else model.held_scores.tolist()
    return Strangers(str(folder), scores, told_apart(held, scores), len(held), unreadable)


def told_apart(known: list[float], unknown: list[float]) -> float | None:
    """Return how well scores tell the unknown from the known; None where there are none of either."""
    return auroc([*known, *unknown], [False] * len(known) + [True] * len(unknown)) if known and unknown else None
