"""How far a measure is above guessing, and whether that may be chance."""

import math
from collections.abc import Sequence
from statistics import NormalDist, fmean, variance
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import stdtrit

FLOOR = 0.2
"""Share of the way from guessing to perfect that is worth having: an AUROC of 0.6."""
CONFIDENCE = 0.95
USUAL = 0.25
"""Standard deviation of the way between domains before any is seen; in results/ it is 0.10 for labels and 0.20 for the
AUROC on PACS, 0.15 and 0.41 on the digits, 0.54 and 0.28 on ColoredMNIST."""
WORTH = 2
"""Degrees of freedom that this counts for: with so few, domains that differ more are believed, too."""
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

    The margin is the larger of two: that of guessing on so few pictures and, from two domains on, that of the domains'
    differences, since the mean is to hold in new ones; both at the level 1 - (1 - CONFIDENCE) / choices.
    """
    if not measured:
        return None
    ways = [way(each.value, each.guess) for each in measured]
    level = 1 - (1 - CONFIDENCE) / 2 / choices
    value, guess = (fmean(column) for column in list(zip(*measured, strict=True))[:2])
    return Skill(value, guess, fmean(ways), max(by_pictures(measured, level), by_domains(ways, level)), len(ways))


def way(value: float, guess: float) -> float:
    """(value - guess) / (1 - guess): 0 is guessing, 1 is perfect [Cohen 1960]."""
    return (value - guess) / (1 - guess)


def by_pictures(measured: Sequence[Measured], level: float) -> float:
    """z sqrt(sum_i variance_i / (1 - guess_i)^2) / n: how far guesses may come on so few pictures.

    z is the normal quantile.
    """
    noise = math.sqrt(sum(each.variance / (1 - each.guess) ** 2 for each in measured)) / len(measured)
    return NormalDist().inv_cdf(level) * noise


def by_domains(ways: Sequence[float], level: float) -> float:
    """t sqrt(s^2 / n), s^2 = (d USUAL^2 + (n - 1) variance(ways)) / (d + n - 1), d = WORTH: moderated [Smyth 2004].

    t is Student's quantile with d + n - 1 degrees of freedom. By Student alone, d = 0, two domains that happen to agree
    prove everything, and two that do not prove nothing. 0 for one domain, which stands for no other.
    """
    n = len(ways)
    if n < 2:
        return 0.0
    freedom = WORTH + n - 1
    spread = (WORTH * USUAL**2 + (n - 1) * variance(ways)) / freedom
    return float(stdtrit(freedom, level)) * math.sqrt(spread / n)


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
