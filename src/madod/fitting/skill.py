"""How far a measure is above guessing, and whether that may be chance."""

import math
from collections.abc import Sequence
from statistics import NormalDist, fmean, stdev
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

FLOOR = 0.2
"""Share of the way from guessing to perfect that is worth having: an AUROC of 0.6."""
CONFIDENCE = 0.95
Doubt = Literal["", "weak", "chance"]


class Measured(NamedTuple):
    """A share that was measured, what guessing comes to, and the variance that guessing has on so few pictures."""

    value: float
    guess: float
    variance: float


class Skill(NamedTuple):
    """Means over domains: of a measure, of guessing, and of the way from guessing (0) to perfect (1)."""

    value: float
    guess: float
    way: float
    margin: float
    """How far the way may be off by chance, to either side."""
    domains: int

    @property
    def doubt(self) -> Doubt:
        """Why not to rely on it: too little is gained over guessing, or the gain may be chance."""
        if self.way < FLOOR:
            return "weak"
        return "chance" if self.way <= self.margin else ""


def skill(measured: Sequence[Measured], choices: int = 1) -> Skill | None:
    """Return what some domains come to; None of none. `choices` is how many detectors the best was chosen from.

    The standard error is the larger of two: that of guessing on so few pictures, and that of the domains' differences.
    """
    if not measured:
        return None
    ways = [(each.value - each.guess) / (1 - each.guess) for each in measured]
    noise = math.sqrt(sum(each.variance / (1 - each.guess) ** 2 for each in measured)) / len(ways)
    spread = stdev(ways) / math.sqrt(len(ways)) if len(ways) > 1 else 0.0
    margin = NormalDist().inv_cdf(1 - (1 - CONFIDENCE) / 2 / choices) * max(noise, spread)
    value, guess = (fmean(column) for column in list(zip(*measured, strict=True))[:2])
    return Skill(value, guess, fmean(ways), margin, len(ways))


def guessing(y: ArrayLike, said: ArrayLike) -> float | None:
    """sum_k P(y = k) P(said = k), what the same answers dealt out at random get right [Cohen 1960].

    None where there are no pictures of two classes, and nothing to guess.
    """
    y, said = np.asarray(y), np.asarray(said)
    classes = np.unique(y)
    return float(sum((y == k).mean() * (said == k).mean() for k in classes)) if len(classes) > 1 else None


def of_accuracy(value: float, guess: float, pictures: int) -> Measured:
    """Return a share of right labels, beside guesses that are each right with the same chance."""
    return Measured(value, guess, guess * (1 - guess) / pictures)


def of_auroc(value: float, known: int, unknown: int) -> Measured:
    """Return an AUROC, with the variance (n + m + 1) / (12 n m) of scores that mean nothing [Mann & Whitney 1947]."""
    return Measured(value, 0.5, (known + unknown + 1) / (12 * known * unknown))
