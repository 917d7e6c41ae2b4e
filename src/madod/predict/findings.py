"""How a model does on pictures whose classes are known to whoever asks."""

from collections import Counter
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from madod.data.base import UNKNOWN
from madod.data.finding import LabelledFile, find_pictures, folder_name, listing, pictures_below, warn_of_loose
from madod.data.images import is_picture
from madod.errors import InputError
from madod.evaluation.metrics import detection

LAYOUT = "the layout is FOLDER/DOMAIN/CLASS/*.jpg or FOLDER/CLASS/*.jpg"


class Measures(NamedTuple):
    """Shares of pictures; None where there is no picture to take it from.

    A picture of a class that the model does not have is unknown.
    """

    known: int
    """Pictures of classes that the model has."""
    unknown: int
    """Pictures of other classes."""
    accuracy: float | None
    """Share of the known that get their own label, flagged or not."""
    kept: float | None
    """Share of the known that pass as known."""
    flagged: float | None
    """Share of the unknown that are called unknown."""
    auroc: float | None
    """Chance that an unknown picture scores above a known one."""


@dataclass(frozen=True)
class Findings:
    """What came out over all pictures, by domain, which classes were taken for which, and what could not be read."""

    overall: Measures
    by_domain: dict[str, Measures]
    confused: Counter[tuple[str, str]]
    """How many pictures of the first class got the label of the second."""
    strange: Counter[str]
    """How many pictures there were of every class that the model does not have."""
    unreadable: tuple[str, ...]


class Verdict(NamedTuple):
    """A picture's domain and class as they are, and what the model said."""

    domain: str
    truth: str
    label: str
    score: float
    unknown: bool


def findings(verdicts: Sequence[Verdict], classes: Sequence[str], unreadable: Sequence[str]) -> Findings:
    """Count what the verdicts come to."""
    domains = sorted({verdict.domain for verdict in verdicts})
    by_domain = {name: [verdict for verdict in verdicts if verdict.domain == name] for name in domains}
    wrong = (each for each in verdicts if each.truth in classes and each.truth != each.label)
    return Findings(
        overall=measures(verdicts, classes),
        by_domain={name: measures(found, classes) for name, found in by_domain.items()},
        confused=Counter((each.truth, each.label) for each in wrong),
        strange=Counter(each.truth for each in verdicts if each.truth not in classes),
        unreadable=tuple(unreadable),
    )


def measures(verdicts: Sequence[Verdict], classes: Sequence[str]) -> Measures:
    """Return the shares of some pictures."""
    number = {name: k for k, name in enumerate(classes)}
    y = np.array([number.get(verdict.truth, UNKNOWN) for verdict in verdicts], dtype=np.int64)
    said = np.array([number[verdict.label] for verdict in verdicts], dtype=np.int64)
    flagged = np.array([verdict.unknown for verdict in verdicts], dtype=bool)
    known = y != UNKNOWN
    found = detection([verdict.score for verdict in verdicts], y, said) if len(y) else {}
    return Measures(
        known=int(known.sum()),
        unknown=int((~known).sum()),
        accuracy=share((said == y)[known]),
        kept=share(~flagged[known]),
        flagged=share(flagged[~known]),
        auroc=found.get("auroc"),
    )


def share(marks: NDArray[np.bool_]) -> float | None:
    """Return the share of marks that are set; None of none."""
    return float(marks.mean()) if len(marks) else None


def labelled(root: Path, classes: Collection[str]) -> list[LabelledFile]:
    """Return the pictures of ROOT/DOMAIN/CLASS, or of ROOT/CLASS as one domain of the root's name; warn of others."""
    found: list[LabelledFile] = []
    if root.is_dir() and not _without_domains(root, classes):
        with suppress(InputError):
            found = find_pictures(root)
    depth = 2 if found else 1
    found = found or _in_classes(root) or find_pictures(root, layout=LAYOUT)  # which says why there are none
    _refuse_deeper(found, root, depth, classes)
    return found


def _in_classes(root: Path) -> list[LabelledFile]:
    """Return the pictures of ROOT/CLASS."""
    if not root.is_dir():
        return []
    domain, (folders, files) = root.resolve().name, listing(root)
    found = [
        LabelledFile(domain, folder_name(folder), file)
        for folder in folders
        for file in sorted(pictures_below(folder, warn=True))
    ]
    if not found and any(map(is_picture, files)):
        raise InputError(
            f"the pictures of {root} lie in no class: put them into {root}/CLASS or {root}/DOMAIN/CLASS, unknown ones "
            "under any other name than those of the model's classes"
        )
    warn_of_loose(root)
    return found


def _refuse_deeper(found: Sequence[LabelledFile], root: Path, depth: int, classes: Collection[str]) -> None:
    """Refuse a folder that is called like a class but lies in another, unknown one, and would count as part of it."""
    for _, label, file in found:
        parts = () if label in classes else file.relative_to(root).parts[:-1]
        for end in range(depth + 1, len(parts) + 1):
            folder = root.joinpath(*parts[:end])
            if folder_name(folder) in classes:
                raise InputError(
                    f"{folder} is called like a class of the model, but lies so deep that it would count as part of an "
                    f"unknown class, {label!r}: name {folder.parent.parent} instead, or move it; {LAYOUT}"
                )


def _without_domains(root: Path, classes: Collection[str]) -> bool:
    """Tell whether folders are called like classes, and none of those in them."""
    folders = listing(root).folders
    inner = (below for folder in folders for below in listing(folder).folders)
    return any(folder_name(folder) in classes for folder in folders) and not any(
        folder_name(below) in classes for below in inner
    )
