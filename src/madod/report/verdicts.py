"""What a classifier says about each picture at its threshold, and whether that is so."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from madod.report import words
from madod.report.html import Markup, table, tag
from madod.report.inputs import Cell, Page
from madod.report.pictures import picture

SHOWN = 24


class Outcome(NamedTuple):
    """One way in which a verdict can meet the truth."""

    name: str
    right: bool
    meaning: str


OUTCOMES = (
    Outcome("right label", True, "known, kept, labelled right"),
    Outcome("wrong label", False, "known, kept, labelled wrong"),
    Outcome("false alarm", False, "known, flagged as unknown"),
    Outcome("caught", True, "unknown, flagged"),
    Outcome("missed", False, "unknown, taken for a known class"),
)


def outcomes(cell: Cell, detector: str) -> NDArray[np.intp]:
    """Return for every target image the index of its outcome in `OUTCOMES` (n,)."""
    flagged = cell.scores[detector] > cell.threshold[detector]
    known = np.where(flagged, 2, np.where(cell.predicted == cell.y, 0, 1))
    return np.where(cell.y < 0, np.where(flagged, 3, 4), known)


def tally(page: Page, detector: str) -> Markup:
    """Return a table of how many target pictures met which outcome, a row an algorithm."""
    rows = []
    for cell in page.cells:
        if detector in cell.detectors():
            counts = np.bincount(outcomes(cell, detector), minlength=len(OUTCOMES))
            rows.append([words.algorithm(cell.algorithm).title, *(f"{count:,}" for count in counts)])
    heads = [f"{'✓' if outcome.right else '✗'} {outcome.name}" for outcome in OUTCOMES]
    meanings = "; ".join(f"{outcome.name}: {outcome.meaning}" for outcome in OUTCOMES)
    shown = (
        f"All {len(page.images):,} pictures of the unseen domain at the threshold of {words.detector(detector).title}"
    )
    caption = f"{shown} ({meanings})."
    return table(["", *heads], rows, caption, class_="tally")


def extremes(page: Page, cell: Cell, detector: str) -> tuple[Markup, Markup]:
    """Return the most and the least unknown pictures, in that order, each with its verdict and the truth."""
    order = np.argsort(-cell.scores[detector], kind="stable")
    kinds = outcomes(cell, detector)
    most, least = order[:SHOWN], order[::-1][:SHOWN]
    return _tiles(page, cell, detector, most, kinds), _tiles(page, cell, detector, least, kinds)


def _tiles(page: Page, cell: Cell, detector: str, chosen: NDArray[np.intp], kinds: NDArray[np.intp]) -> Markup:
    return tag("ol", *(_tile(page, cell, detector, int(i), OUTCOMES[kinds[i]]) for i in chosen), class_="tiles")


def _tile(page: Page, cell: Cell, detector: str, i: int, outcome: Outcome) -> Markup:
    known = cell.y[i] >= 0
    truth = page.classes[cell.y[i]] if known else page.unknown[0] if len(page.unknown) == 1 else "unknown class"
    nearest, score = page.classes[cell.predicted[i]], f"{cell.scores[detector][i]:.2f}".replace("-", "\N{MINUS SIGN}")
    flagged = cell.scores[detector][i] > cell.threshold[detector]
    said = f"unknown, nearest {nearest}" if flagged else nearest
    alt = f"Target picture {i}: is {truth}{'' if known else ', an unknown class'}; called {said}: {outcome.name}"
    return tag(
        "li",
        picture(page.images[i], alt),
        tag("strong", "✓ " if outcome.right else "✗ ", outcome.name),
        tag("span", f"said {'unknown' if flagged else nearest}"),
        tag("span", f"nearest {nearest}", class_="quiet") if flagged else None,
        tag("span", f"is {truth}{'' if known else ' ★'}"),
        tag("span", score, class_="quiet"),
        class_="right" if outcome.right else "wrong",
        title=f"score {score}, threshold {cell.threshold[detector]:.2f}, confidence {100 * cell.confidence[i]:.0f} %",
    )
