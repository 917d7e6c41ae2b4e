"""A person's own unknowns: scored by the finished model, never trained on."""

import logging
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

from madod.data.finding import LabelledFile, find_pictures, pictures_below
from madod.data.folder import MIN_SIZE, report_bad
from madod.data.images import BadImage, read_image
from madod.data.threads import ordered
from madod.errors import InputError
from madod.evaluation.metrics import auroc
from madod.fitting.survey import identical
from madod.predict import Model

log = logging.getLogger(__name__)


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


def kept_apart(folder: Path, root: Path | None, *, skip_bad: bool = False) -> Path:
    """Return the folder of unknowns, or refuse one that is empty, that training would see or that cannot be read.

    With `skip_bad` a warning lists what cannot be read, as of the training pictures.
    """
    if not folder.is_dir():
        raise InputError(f"--ood-folder {folder} is no folder: name one with pictures that show nothing known")
    if root is not None:
        own, seen = folder.resolve(), root.resolve()
        if own == seen or seen in own.parents or own in seen.parents:
            raise InputError(f"--ood-folder {folder} and the training folder {root} overlap: keep the unknowns apart")
    pictures = list(pictures_below(folder))
    if not pictures:
        raise InputError(f"--ood-folder {folder} has no pictures in it: put some there that show nothing known")
    bad = [trouble for trouble in ordered(_trouble, pictures) if trouble]
    if bad:
        report_bad(bad, len(pictures), f"--ood-folder {folder}", skip_bad)
    if len(bad) == len(pictures):
        raise InputError(f"none of the pictures in --ood-folder {folder} can be read: put others there")
    return folder


def _trouble(file: Path) -> BadImage | None:
    try:
        read_image(file, MIN_SIZE)
    except BadImage as bad:
        return bad
    return None


def warn_of_copies(folder: Path, root: Path, *, test_domain: str | None, ood_classes: Collection[str]) -> None:
    """Warn of unknowns that are copies of pictures that are trained on: these are known."""
    learned = [p for p in find_pictures(root, warn=False) if p.domain != test_domain and p.label not in ood_classes]
    unknown = [LabelledFile("", "", file) for file in pictures_below(folder)]
    groups = [group for group in identical([*unknown, *learned]) if any(picture.domain for picture in group)]
    if copies := [picture.path for group in groups for picture in group if not picture.domain]:
        log.warning(
            "%d of %d pictures in --ood-folder %s are copies of pictures that are trained on, such as %s: remove them, "
            "since what is measured there counts them as unknown",
            len(copies), len(unknown), folder, copies[0],
        )  # fmt: skip


def scored(model: Model, folder: Path) -> Strangers:
    """Return what a model says of every picture in a folder."""
    answers = list(model.predict_iter(sorted(pictures_below(folder))))
    scores = [answer.score for answer in answers if not isinstance(answer, BadImage)]
    unreadable = tuple(str(answer) for answer in answers if isinstance(answer, BadImage))
    held = model.held_scores.tolist()
    return Strangers(str(folder), scores, told_apart(held, scores), len(held), unreadable)


def told_apart(known: list[float], unknown: list[float]) -> float | None:
    """Return how well scores tell the unknown from the known; None where there are none of either."""
    return auroc([*known, *unknown], [False] * len(known) + [True] * len(unknown)) if known and unknown else None
