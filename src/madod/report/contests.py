"""Figures that compare methods over many cells: ablation bars and mean ranks."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from madod.report import words
from madod.report.drawing import FAINT, INK, PALETTE, PAPER, axes, svg
from madod.report.frame import CELL
from madod.report.html import Markup
from madod.report.measured import mean_of_three
from madod.report.significance import by_cell, wide_cells

HATCHES = ("", "////", "....", "xxxx", "\\\\\\\\", "++++")


class Ranks(NamedTuple):
    """Mean rank of every method over cells, 1 the best, and how far apart two must be to differ."""

    mean: Mapping[str, float]
    cells: int
    critical: float
    """By `critical_difference`."""
    p: float
    """By `friedman_p`, of all methods being alike."""
    left_out: Sequence[str]
    """Methods that have runs in less than half of the reference's cells."""


def friedman_p(places: NDArray[np.floating]) -> float:
    """p of (k - 1) n² Σ_j (mean_i r_ij - (k + 1) / 2)² / Σ_ij (r_ij - (k + 1) / 2)², chi-squared with k - 1 degrees.

    Ranks r (n, k) of k methods in n cells, ties shared; small where the methods are not alike [Friedman 1937].
    """
    from scipy import stats

    n, k = places.shape
    apart, spread = (float(((ranks - (k + 1) / 2) ** 2).sum()) for ranks in (places.mean(axis=0), places))
    return float(stats.chi2.sf((k - 1) * n**2 * apart / spread, k - 1)) if spread else 1.0


def critical_difference(k: int, n: int) -> float:
    """q sqrt(k (k + 1) / (6 n)), q the 95 % point of the studentized range of k over sqrt 2 [Nemenyi; Demsar 2006].

    Two of k methods whose mean ranks over n cells lie further apart differ.
    """
    from scipy import stats

    return float(stats.studentized_range.ppf(0.95, k, np.inf)) / 2**0.5 * (k * (k + 1) / (6 * n)) ** 0.5


def ranks(frame: pd.DataFrame, reference: str) -> Ranks | None:
    """Rank methods by mean AUROC in the cells that all have, those with few left out; None for one method or cell."""
    from scipy import stats

    table = wide_cells(by_cell(frame), "auroc", "mean")
    if table is None:
        return None
    methods, values = [str(name) for name in table], table.to_numpy(dtype=np.float64)
    there = ~np.isnan(values)
    widest = methods.index(reference) if reference in methods else int(there.sum(axis=0).argmax())
    values, there = values[there[:, widest]], there[there[:, widest]]
    whole = there.sum(axis=0) * 2 >= len(there)
    values = values[there[:, whole].all(axis=1)]
    n, k = len(values), int(whole.sum())
    if n < 2 or k < 2:
        return None
    places = stats.rankdata(-values[:, whole], axis=1)
    ranked = [name for name, kept in zip(methods, whole, strict=True) if kept]
    left_out = [name for name in methods if name not in ranked]
    means = zip(ranked, places.mean(axis=0), strict=True)
    best_first = dict(sorted(means, key=lambda item: item[1]))
    return Ranks(best_first, n, critical_difference(k, n), friedman_p(places), left_out)


def rank_plot(found: Ranks, reference: str) -> Markup:
    """Draw mean ranks, best at the top, the reference coloured; bars a critical difference apart do not overlap."""
    with axes(5.2, 0.9 + 0.34 * len(found.mean)) as ax:
        for line, (method, rank) in enumerate(found.mean.items()):
            colour = PALETTE[1] if method == reference else PALETTE[0]
            ax.plot(
                [rank - found.critical / 2, rank + found.critical / 2],
                [line, line],
                color=colour,
                linewidth=3,
                alpha=0.35,
            )
            ax.plot(rank, line, marker="o", markersize=8, color=colour, markeredgecolor=PAPER)
            ax.annotate(f"{rank:.2f}", (rank, line), xytext=(0, 7), textcoords="offset points", ha="center", fontsize=8)
        ax.set_yticks(range(len(found.mean)), [words.method(method) for method in found.mean])
        ax.set(xlabel="mean rank over cells (1 is best)", ylim=(len(found.mean) - 0.4, -0.8))
        ax.spines["left"].set_visible(False)
        ax.tick_params(left=False)
        ax.grid(axis="x", color=FAINT, linewidth=0.4, alpha=0.5)
        said = ", ".join(f"{words.method(method)} {rank:.2f}" for method, rank in found.mean.items())
        return svg(ax, "ranks", f"Mean ranks over {found.cells} cells: {said}.")


class Ablation(NamedTuple):
    """Mean and standard error in percent over the runs that all variants share, by dataset and variant."""

    numbers: Mapping[tuple[str, str], tuple[float, float]]
    runs: Mapping[str, int]
    """By dataset."""


def ablation(frame: pd.DataFrame, algorithm: str, metric: str) -> Ablation | None:
    """Return the mean of three detectors of every variant of an algorithm, on the cells and seeds that all have."""
    mine = frame[(frame["algorithm"] == algorithm) & frame["detector"].notna()]
    means = mean_of_three(mine)
    numbers: dict[tuple[str, str], tuple[float, float]] = {}
    runs: dict[str, int] = {}
    for dataset, part in means.groupby("dataset", sort=False):
        wide = part.drop_duplicates([*CELL, "method"]).pivot(index=CELL, columns="method", values=metric).dropna()
        if wide.shape[1] > 1 and len(wide):
            runs[str(dataset)] = len(wide)
            for method in wide:
                values = 100 * wide[method].to_numpy(dtype=np.float64)
                error = values.std(ddof=1) / len(values) ** 0.5 if len(values) > 1 else float("nan")
                numbers[str(dataset), str(method)] = float(values.mean()), float(error)
    return Ablation(numbers, runs) if numbers else None


def ablation_bars(found: Ablation, ylabel: str, name: str = "ablation") -> Markup:
    """Draw a group of bars a dataset, one a variant, with standard errors."""
    datasets = list(found.runs)
    variants = list(dict.fromkeys(method for _, method in found.numbers))
    variants.sort(key=lambda method: (method in words.ALGORITHMS, method))  # the whole method last, as in the paper
    width = 0.8 / len(variants)
    with axes(5.2, 3.4) as ax:
        for place, variant in enumerate(variants):
            here = [
                (x, *found.numbers[data, variant])
                for x, data in enumerate(datasets)
                if (data, variant) in found.numbers
            ]
            at = [x + (place - (len(variants) - 1) / 2) * width for x, _, _ in here]
            colour = PALETTE[place % len(PALETTE)]
            label = words.method(variant).partition(", ")[2] or words.method(variant)
            look = {"facecolor": colour, "alpha": 0.75, "hatch": HATCHES[place % len(HATCHES)], "edgecolor": PAPER}
            ax.bar(at, [mean for _, mean, _ in here], 0.92 * width, label=label, **look)
            errors = np.nan_to_num([error for _, _, error in here])
            ax.errorbar(at, [mean for _, mean, _ in here], errors, fmt="none", ecolor=INK, elinewidth=1, capsize=2)
        ax.set_xticks(range(len(datasets)), [f"{words.dataset(data)} ({found.runs[data]})" for data in datasets])
        ax.set(ylabel=ylabel)
        ax.figure.legend(loc="outside upper left", ncols=2, fontsize=9)
        said = "; ".join(
            f"{words.dataset(d)}, {words.method(m)} {mean:.1f}" for (d, m), (mean, _) in found.numbers.items()
        )
        return svg(ax, name, f"Bars of {ylabel}: {said}.")
