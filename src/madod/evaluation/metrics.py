"""How well the unknown is told from the known, and the known from each other: fractions, the unknown is positive."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from madod.errors import InputError
from madod.evaluation.threshold import checked, threshold


def detection(scores: ArrayLike, y: ArrayLike, predicted: ArrayLike) -> dict[str, float]:
    """Return all detection metrics for labels y (-1: unknown); nothing where there is no known or no unknown image."""
    scores, unknown = checked(scores), np.asarray(y) < 0
    if unknown.all() or not unknown.any():
        return {}
    return {
        "auroc": auroc(scores, unknown),
        "aupr": aupr(scores, unknown),
        "base_rate": base_rate(unknown),
        "fpr95": fpr95(scores, unknown),
        "oscr": oscr(scores, y, predicted),
    }


def classification(probabilities: ArrayLike, y: ArrayLike) -> dict[str, float]:
    """Return accuracy and ECE of probabilities (n, k) over the known images; nothing where there are none."""
    probabilities, y = np.asarray(probabilities, dtype=np.float64), np.asarray(y)
    known = y >= 0
    if not known.any():
        return {}
    predicted = probabilities.argmax(1)
    return {"accuracy": accuracy(y, predicted), "ece": ece(probabilities.max(1)[known], (predicted == y)[known])}


def auroc(scores: ArrayLike, unknown: ArrayLike) -> float:
    """P(score of an unknown > score of a known), ties count half."""
    unknown = np.asarray(unknown, dtype=bool)
    return float(_ahead(scores, unknown, ~unknown) / (unknown.sum() * (~unknown).sum()))


def aupr(scores: ArrayLike, unknown: ArrayLike) -> float:
    """Average precision sum_n (R_n - R_(n-1)) P_n, n over the distinct scores from the highest."""
    ranks = _ranks(scores)
    seen, found = np.bincount(ranks)[::-1], np.bincount(ranks, weights=np.asarray(unknown, dtype=bool))[::-1]
    return float((found * found.cumsum() / seen.cumsum()).sum() / found.sum())


def base_rate(unknown: ArrayLike) -> float:
    """Share of unknowns: the AUPR of guessing."""
    return float(np.asarray(unknown, dtype=bool).mean())


def fpr95(scores: ArrayLike, unknown: ArrayLike) -> float:
    """Share of unknowns that pass for known at the threshold that keeps 95 % of the known."""
    scores, unknown = checked(scores), np.asarray(unknown, dtype=bool)
    return float((scores[unknown] <= threshold(scores[~unknown])).mean())


def oscr(scores: ArrayLike, y: ArrayLike, predicted: ArrayLike) -> float:
    """Area under the share of known accepted and right over the share of unknown accepted [Dhamija et al. 2018]."""
    y = np.asarray(y)
    unknown, right = y < 0, (y >= 0) & (np.asarray(predicted) == y)
    return float(_ahead(scores, unknown, right) / (unknown.sum() * (~unknown).sum()))


def accuracy(y: ArrayLike, predicted: ArrayLike) -> float:
    """Share of the known images (y >= 0) whose class is right."""
    y = np.asarray(y)
    if not (y >= 0).any():
        raise InputError("no image of a known class to measure accuracy on")
    return float((np.asarray(predicted) == y)[y >= 0].mean())


def ece(confidence: ArrayLike, right: ArrayLike, bins: int = 15) -> float:
    """sum_b |B_b| / n * |accuracy(B_b) - confidence(B_b)|, bins (low, high] of equal width [Guo et al. 2017, eq. 3]."""
    confidence, right = np.asarray(confidence, dtype=np.float64), np.asarray(right, dtype=np.float64)
    which = np.searchsorted(np.linspace(0, 1, bins + 1)[1:-1], confidence, side="left")
    return float(np.abs(np.bincount(which, weights=right - confidence, minlength=bins)).sum() / len(confidence))


def _ahead(scores: ArrayLike, unknown: NDArray[np.bool_], others: NDArray[np.bool_]) -> np.float64:
    """Count the pairs of an unknown and another in which the unknown's score is higher, ties half."""
    ranks = _ranks(scores)
    here, there = (np.bincount(ranks, weights=which) for which in (unknown, others))
    return np.float64((here * (there.cumsum() - there / 2)).sum())


def _ranks(scores: ArrayLike) -> NDArray[np.int64]:
    """Rank scores from 0, equal ones alike, which keeps infinite scores measurable."""
    return np.unique(checked(scores), return_inverse=True)[1].astype(np.int64)
