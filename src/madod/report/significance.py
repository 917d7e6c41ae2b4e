"""Is one method better than another? Paired over cells, with intervals."""

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from madod.detectors import THREE
from madod.report import words
from madod.report.frame import PLACE
from madod.report.measured import with_rows_beside
from madod.report.order import detectors_in_order, methods_in_order, standing_beside
from madod.report.planned import detectors_asked
from madod.report.table import MISSING, Row, Table, signed

LEVEL = 0.95
REFERENCE = "madod"
"""The method that others are compared with unless another is named."""
HOW = (
    "paired over cells, an unseen domain with an unknown class: both methods' seeds are averaged in a cell first, then "
    "the cells' differences are taken, in points",
    f"the interval is Student's over cells ({100 * LEVEL:.0f} %), p is Wilcoxon's signed-rank test, the last column is "
    "p corrected after Holm for all comparisons of this table",
    "cells of one dataset share domains and training pictures: an interval speaks of these cells, not of new domains",
)


class Comparison(NamedTuple):
    """One method less another: cells, mean difference and its interval, p; NaN where cells are too few."""

    cells: int
    mean: float
    low: float
    high: float
    p: float


def compare(differences: Sequence[float] | NDArray[np.floating]) -> Comparison:
    """Return the mean of paired differences, its t interval, and the p of Wilcoxon's signed-rank test."""
    values = np.asarray(differences, dtype=np.float64)
    n, mean = len(values), float(values.mean())
    if n < 2:
        return Comparison(n, mean, *(float("nan"),) * 3)
    half = _quantile(n - 1) * float(values.std(ddof=1)) / n**0.5
    return Comparison(n, mean, mean - half, mean + half, signed_rank_p(values))


@cache
def _quantile(freedom: int) -> float:
    """Return how many standard errors a t interval reaches to either side."""
    from scipy import stats

    return float(stats.t.ppf((1 + LEVEL) / 2, freedom))


def signed_rank_p(differences: NDArray[np.floating]) -> float:
    """Return the exact two-sided p of the signed-rank test: ties share ranks, zeros are left out [Wilcoxon 1945]."""
    values = np.round(differences, 9)
    values = values[values != 0]
    _, which, counts = np.unique(np.abs(values), return_inverse=True, return_counts=True)
    twice = (2 * np.cumsum(counts) - counts + 1)[which]  # ranks from 1, times two: whole numbers even where tied
    chances = np.ones(1)  # of every sum of ranks, when each sign is a coin toss
    for rank in twice:
        chances = (np.pad(chances, (0, rank)) + np.pad(chances, (rank, 0))) / 2
    found = int(twice[values > 0].sum())
    return min(1.0, 2 * float(min(chances[: found + 1].sum(), chances[found:].sum())))


def by_cell(frame: pd.DataFrame) -> pd.DataFrame:
    """Return measures in percent, averaged over seeds, by cell, method and detector, those beside them too."""
    tested = with_rows_beside(frame.dropna(subset=["detector"]))
    return 100 * tested.groupby([*PLACE, "method", "detector"], sort=False)[["accuracy", "auroc", "aupr"]].mean()


def comparisons(frame: pd.DataFrame, reference: str = REFERENCE, detectors: Sequence[str] = ()) -> Table:
    """Return one row per dataset, other method, metric and detector: the reference less the other.

    Compared are the detectors that are named, or else the paper's three, or else all that were measured; the more they
    are, the more Holm's correction takes.
    """
    cells, right = by_cell(frame), _accuracy_by_cell(frame)
    methods = methods_in_order(right.columns)
    found: dict[tuple[str, str, str, str], Comparison] = {}
    there = detectors_in_order(frame["detector"].dropna())
    compared = [name for name in there if name in (detectors or THREE)] or ([] if detectors else there)
    pairs = ((metric, name) for metric in ("auroc", "aupr") for name in (*compared, *standing_beside(compared)))
    wide = {("accuracy", ""): right, **{pair: wide_cells(cells, *pair) for pair in pairs}}
    datasets = list(dict.fromkeys(right.index.get_level_values("dataset")))
    for dataset in [*datasets, *(["all"] if len(datasets) > 1 else [])]:
        for other in (name for name in methods if name != reference):
            for pair, one in wide.items():
                result = _compared(one, dataset, reference, other)
                if result:
                    found[dataset, other, *pair] = result
    adjusted = holm([one.p for one in found.values()])
    rows = tuple(
        Row((words.dataset(dataset), words.method(other), *_column(metric, detector)), _said(one, p))
        for ((dataset, other, metric, detector), one), p in zip(found.items(), adjusted, strict=True)
    )
    heads = ("cells", "difference", f"{100 * LEVEL:.0f} % interval", "p", "p, Holm")
    notes: tuple[str, ...] = HOW if rows else (_nothing(reference, methods),)
    if left := [words.detector(name).title for name in there if name not in compared and not detectors]:
        notes += (f"not compared: {', '.join(left)}; bench table --shape significance --detector NAME ... does it",)
    if due := [words.detector(name).title for name in detectors or detectors_asked(frame) if name not in there]:
        notes += (f"asked for, and no run was measured with it yet: {', '.join(due)}",)
    title = f"{words.method(reference)} less the others, paired over cells"
    return Table(title, ("dataset", "against", "metric", "detector"), tuple(("", head) for head in heads), rows, notes)


def _accuracy_by_cell(frame: pd.DataFrame) -> pd.DataFrame:
    """Return mean accuracy over seeds in percent: one column per method, one row per cell, also without unknowns."""
    runs = frame.dropna(subset=["test_domain"]).drop_duplicates(["folder", "method"])
    return (100 * runs.groupby([*PLACE, "method"], sort=False)["accuracy"].mean()).unstack("method")


def _nothing(reference: str, methods: Sequence[str]) -> str:
    """Say that there is nothing to compare, and what there is."""
    others = "; ".join(name for name in methods if name != reference)
    other = f": name the method to compare with as --reference; there are: {others}" if others else ""
    return f"no cell has runs of {words.method(reference)} and of another method{other}"


def holm(ps: Sequence[float]) -> list[float]:
    """Return p values corrected for their number [Holm 1979]; NaN stays NaN and does not count."""
    adjusted, largest = [float("nan")] * len(ps), 0.0
    order = sorted((place for place, p in enumerate(ps) if p == p), key=lambda place: ps[place])
    for rank, place in enumerate(order):
        largest = max(largest, min(1.0, (len(order) - rank) * ps[place]))
        adjusted[place] = largest
    return adjusted


def wide_cells(cells: pd.DataFrame, metric: str, detector: str) -> pd.DataFrame | None:
    """Return one column per method, one row per cell; None where the detector was measured nowhere."""
    if detector not in cells.index.get_level_values("detector"):
        return None
    return cells[metric].xs(detector, level="detector").unstack("method")


def _compared(wide: pd.DataFrame | None, dataset: str, reference: str, other: str) -> Comparison | None:
    if wide is None or reference not in wide or other not in wide:
        return None
    difference = (wide[reference] - wide[other]).dropna()
    if dataset != "all":
        difference = difference[difference.index.get_level_values("dataset") == dataset]
    return compare(difference.to_numpy()) if len(difference) else None


def _column(metric: str, detector: str) -> tuple[str, str]:
    return ("accuracy", "any") if metric == "accuracy" else (metric.upper(), words.detector(detector).title)


def _said(one: Comparison, adjusted: float) -> tuple[str, ...]:
    interval = MISSING if one.low != one.low else f"{signed(one.low)} to {signed(one.high)}"
    return str(one.cells), signed(one.mean), interval, said_p(one.p), said_p(adjusted)


def said_p(p: float) -> str:
    """Return a p as it is printed."""
    return MISSING if p != p else f"{p:.3f}" if p >= 0.0005 else "< 0.001"
