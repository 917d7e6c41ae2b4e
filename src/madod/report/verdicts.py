"""What a classifier says about each picture at its threshold, and whether that is so."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from madod.report import words
from madod.report.html import Markup, table, tag
from madod.report.inputs import Cell, Page
from madod.report.pictures import picture

SHOWN = 24


class Kind(NamedTuple):
    """A kind of verdict: one way in which it can meet the truth."""

    name: str
    right: bool
    meaning: str


KINDS = (
    Kind("right label", True, "known, kept, labelled right"),
    Kind("wrong label", False, "known, kept, labelled wrong"),
    Kind("false alarm", False, "known, flagged as unknown"),
    Kind("caught", True, "unknown, flagged"),
    Kind("missed", False, "unknown, taken for a known class"),
)


def kinds(cell: Cell, detector: str) -> NDArray[np.intp]:
    """Return for every target image the index of its verdict's kind in `KINDS` (n,)."""
    flagged = cell.scores[detector] > cell.threshold[detector]
    known = np.where(flagged, 2, np.where(cell.predicted == cell.y, 0, 1))
    return np.where(cell.y < 0, np.where(flagged, 3, 4), known)


def tally(page: Page, detector: str) -> Markup:
    """Return a table of how many target pictures are of which kind, one row per algorithm."""
    rows = []
    for cell in page.cells:
        if detector in cell.detectors():
            counts = np.bincount(kinds(cell, detector), minlength=len(KINDS))
            rows.append([words.algorithm(cell.algorithm).title, *(f"{count:,}" for count in counts)])
    heads = [f"{'✓' if kind.right else '✗'} {kind.name}" for kind in KINDS]
    meanings = "; ".join(f"{kind.name}: {kind.meaning}" for kind in KINDS)
    shown = (
        f"All {len(page.images):,} pictures of the unseen domain at the threshold of {words.detector(detector).title}"
    )
    caption = f"{shown} ({meanings})."
    return table(["", *heads], rows, caption, class_="tally")


def extremes(page: Page, cell: Cell, detector: str) -> tuple[Markup, Markup]:
    """Return the most and the least unknown pictures, in that order, each with its verdict and the truth."""
    order = np.argsort(-cell.scores[detector], kind="stable")
    found = kinds(cell, detector)
    most, least = order[:SHOWN], order[::-1][:SHOWN]
    return _tiles(page, cell, detector, most, found), _tiles(page, cell, detector, least, found)


def _tiles(page: Page, cell: Cell, detector: str, chosen: NDArray[np.intp], found: NDArray[np.intp]) -> Markup:
    return tag("ol", *(_tile(page, cell, detector, int(i), KINDS[found[i]]) for i in chosen), class_="tiles")


def _tile(page: Page, cell: Cell, detector: str, i: int, kind: Kind) -> Markup:
    known = cell.y[i] >= 0
    truth = page.classes[cell.y[i]] if known else page.unknown[0] if len(page.unknown) == 1 else "unknown class"
    nearest, score = page.classes[cell.predicted[i]], f"{cell.scores[detector][i]:.2f}".replace("-", "\N{MINUS SIGN}")
    flagged = cell.scores[detector][i] > cell.threshold[detector]
    said = f"unknown, nearest {nearest}" if flagged else nearest
    alt = f"Target picture {i}: is {truth}{'' if known else ', an unknown class'}; called {said}: {kind.name}"
    return tag(
        "li",
        picture(page.images[i], alt),
        tag("strong", "✓ " if kind.right else "✗ ", kind.name),
        tag("span", f"said {'unknown' if flagged else nearest}"),
        tag("span", f"nearest {nearest}", class_="quiet") if flagged else None,
        tag("span", f"is {truth}{'' if known else ' ★'}"),
        tag("span", score, class_="quiet"),
        class_="right" if kind.right else "wrong",
        title=f"score {score}, threshold {cell.threshold[detector]:.2f}, confidence {100 * cell.confidence[i]:.0f} %",
    )
