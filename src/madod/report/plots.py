"""The figures, each a function from numbers to inline SVG."""

from collections.abc import Mapping, Sequence
from textwrap import fill
from typing import Any

import numpy as np
from numpy.typing import NDArray

from madod.evaluation.metrics import aupr, auroc
from madod.report.drawing import DASHES, FAINT, INK, MARKERS, PALETTE, PAPER, axes, svg
from madod.report.embedding import densest, embed, subsample
from madod.report.html import Markup

MOST_POINTS = 450
WIDEST = 30
"""Letters of a line in a legend inside a drawing; a method may be named after all of its settings."""


def roc(
    scores: Mapping[str, NDArray[np.floating]],
    unknown: NDArray[np.bool_],
    thresholds: Mapping[str, float] | None = None,
    name: str = "roc",
) -> Markup:
    """Draw one curve per algorithm: unknown images flagged against known images flagged, a dot at its threshold."""
    from sklearn.metrics import roc_curve

    with axes(3.4, 3.2) as ax:
        ax.plot([0, 1], [0, 1], color=FAINT, linewidth=0.8, linestyle=(0, (2, 3)))
        said = []
        for index, (title, score) in enumerate(scores.items()):
            if unknown.all() or not unknown.any():
                said.append(f"{title}: no curve, as not both kinds of image are there")
                continue
            wrong, found, _ = roc_curve(unknown, score)
            label = f"{title} {100 * auroc(score, unknown):.1f}"
            colour = PALETTE[index % len(PALETTE)]
            look = {"color": colour, "linestyle": DASHES[index % len(DASHES)]}
            ax.plot(wrong, found, linewidth=2, label=fill(label, WIDEST), **look)
            if thresholds and title in thresholds:
                flagged = score > thresholds[title]
                at = flagged[~unknown].mean(), flagged[unknown].mean()
                ax.plot(*at, marker="o", markersize=7, color=colour, markeredgecolor=PAPER, markeredgewidth=1.2)
            said.append(label)
        ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), aspect="equal")
        ax.set(xlabel="known images flagged by mistake", ylabel="unknown images flagged")
        if ax.get_legend_handles_labels()[1]:
            ax.legend(loc="best", title="AUROC", alignment="left").set_in_layout(False)
        return svg(ax, name, f"ROC curves. AUROC in percent: {'; '.join(said)}.")


def precision_recall(
    scores: Mapping[str, NDArray[np.floating]], unknown: NDArray[np.bool_], name: str = "precision"
) -> Markup:
    """Draw one curve per algorithm: how many flagged images are unknown against how many unknown ones are flagged."""
    from sklearn.metrics import precision_recall_curve

    with axes(3.4, 3.2) as ax:
        ax.axhline(unknown.mean() if len(unknown) else 0, color=FAINT, linewidth=0.8, linestyle=(0, (2, 3)))
        said = []
        for index, (title, score) in enumerate(scores.items()):
            if not unknown.any():
                continue
            precision, recall, _ = precision_recall_curve(unknown, score)
            label = f"{title} {100 * aupr(score, unknown):.1f}"
            look = {"color": PALETTE[index % len(PALETTE)], "linestyle": DASHES[index % len(DASHES)]}
            ax.plot(recall, precision, linewidth=2, drawstyle="steps-post", label=fill(label, WIDEST), **look)
            said.append(label)
        ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), aspect="equal")
        ax.set(xlabel="unknown images flagged", ylabel="flagged images that are unknown")
        if said:
            ax.legend(loc="best", title="AUPR", alignment="left").set_in_layout(False)
        return svg(ax, name, f"Precision over recall. AUPR in percent: {'; '.join(said) or 'no unknown images'}.")


def energies(
    score: NDArray[np.floating],
    unknown: NDArray[np.bool_],
    threshold: float | None = None,
    xlabel: str = "energy (right: more unknown)",
    name: str = "energies",
) -> Markup:
    """Draw how the scores of known and of unknown images are spread, each as shares of its own number."""
    finite = np.isfinite(score)
    bins = np.histogram_bin_edges(score[finite], bins=32) if finite.any() else np.linspace(0, 1, 33)
    with axes(3.9, 3.0) as ax:
        for kind, title, colour, look in (
            (~unknown, "known", PALETTE[0], {"alpha": 0.55}),
            (unknown, "unknown", PALETTE[1], {"fill": False, "hatch": "////"}),
        ):
            values = score[finite & kind]
            shares = np.full(len(values), 100 / max(len(values), 1))
            label = f"{title} ({int(kind.sum()):,})"
            ax.hist(values, bins, weights=shares, label=label, histtype="stepfilled", edgecolor=colour, linewidth=1.4,
                    facecolor=colour, **look)  # fmt: skip
        if threshold is not None and np.isfinite(threshold):
            ax.axvline(threshold, color=INK, linewidth=1.2, linestyle=(0, (4, 2)), label="threshold")
        ax.set(xlabel=xlabel, ylabel="% of its kind")
        ax.locator_params(axis="x", nbins=6)  # long numbers would run into each other
        ax.figure.legend(loc="outside upper left", ncols=3, columnspacing=1, handlelength=1.4, fontsize=9)
        middles = [
            f"median of {title} images {np.median(score[finite & kind]):.2f}"
            for title, kind in (("known", ~unknown), ("unknown", unknown))
            if (finite & kind).any()
        ]
        return svg(ax, name, f"Histogram of scores: {', '.join(middles) or 'none are finite'}.")


def tsne(
    features: NDArray[np.floating],
    y: NDArray[np.integer],
    classes: Sequence[str],
    name: str = "tsne",
) -> Markup:
    """Draw at most 450 images as points, near where their features are near; known by class, unknown as stars."""
    chosen = subsample(len(y), MOST_POINTS)
    points, labels = embed(features[chosen]), y[chosen]
    with axes(3.9, 3.7) as ax:
        for index in range(len(classes)):
            mine = points[labels == index]
            if len(mine):
                look = {"marker": MARKERS[index % len(MARKERS)], "color": PALETTE[index % len(PALETTE)]}
                ax.plot(*mine.T, linestyle="none", markersize=3.8, markeredgewidth=0, alpha=0.8, **look)
        ax.plot(*points[labels < 0].T, linestyle="none", marker="*", markersize=7.5, color=INK, markeredgecolor=PAPER,
                markeredgewidth=0.5)  # fmt: skip
        for index, title in enumerate(classes):
            mine = points[labels == index]
            if len(mine):
                at = {"xytext": (0, 8), "textcoords": "offset points", "gid": f"label-{index}"}
                ax.annotate(title, mine[densest(mine)], **at, ha="center", va="center", weight="bold")
        ax.set(xticks=[], yticks=[])
        ax.spines[:].set_visible(False)
        known, unknown = int((labels >= 0).sum()), int((labels < 0).sum())
        return svg(ax, name, f"t-SNE: {known} known images in {len(classes)} classes, {unknown} unknown ones as stars.")


def learning_curves(history: Sequence[Mapping[str, float]], name: str = "learning") -> Markup:
    """Draw every named number of a training history against its step, each as the mean of about a hundred stretches."""
    terms = [term for term in dict.fromkeys(key for row in history for key in row) if term != "step"]
    drawn: list[str] = []
    with axes(3.9, 2.7) as ax:
        for term in terms:
            kept = [(row.get("step", index), row[term]) for index, row in enumerate(history) if _number(row.get(term))]
            if not kept:
                continue
            stretches = np.array_split(np.asarray(kept, dtype=np.float64), min(100, len(kept)))
            steps, values = np.array([stretch.mean(axis=0) for stretch in stretches]).T
            look = {"color": PALETTE[len(drawn) % len(PALETTE)], "linestyle": DASHES[len(drawn) % len(DASHES)]}
            ax.plot(steps, values, linewidth=1.6, marker="o" if len(steps) == 1 else None, **look)
            drawn.append(term)
        _spread(ax)
        ax.set(xlabel="step")
        if drawn:
            ax.figure.legend(ax.lines, [term.lstrip("_") for term in drawn], loc="outside upper left",
                             ncols=4, fontsize=9)  # fmt: skip
        return svg(ax, name, f"Learning curves of {', '.join(drawn) or 'nothing'}.")


def _number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and bool(np.isfinite(value))


def _spread(ax: Any) -> None:
    """Turn to a logarithmic scale, with plain numbers, where all values are positive and far apart."""
    from matplotlib.ticker import LogLocator, NullLocator

    values = np.concatenate([np.asarray(line.get_ydata()) for line in ax.lines]) if ax.lines else np.ones(1)
    if values.min() > 0 and values.max() > 20 * values.min():
        ax.set_yscale("log")
        ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        ax.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        ax.yaxis.set_minor_locator(NullLocator())
