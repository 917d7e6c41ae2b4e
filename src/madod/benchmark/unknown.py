"""Which classes are unknown in which run."""

import math
from collections.abc import Sequence

import numpy as np

from madod.benchmark.plan import Unknown, together

SHARE = 0.4
"""Share of the classes that have had their turn as unknown when a rotation is through [MADOD, experiments]."""


def unknown_of(wanted: Unknown, units: Sequence[str], seeds: Sequence[int]) -> dict[int, list[tuple[str, ...]]]:
    """Return by seed the groups of classes that are unknown together, one group per run."""
    if wanted == "rotate":
        return rotated(units, seeds)
    groups = together(units if isinstance(wanted, str) else wanted)
    return {seed: list(groups) for seed in seeds}


def rotated(units: Sequence[str], seeds: Sequence[int]) -> dict[int, list[tuple[str, ...]]]:
    """Deal classes to the seeds in a drawn order until 40 % of them had their turn; every seed gets one at least.

    The order is drawn once from the number of classes, so that all methods and domains meet the same classes.
    """
    order = np.random.default_rng(len(units)).permutation(len(units))
    turn = [units[k] for k in order[: math.ceil(SHARE * len(units))]]
    dealt = {seed: turn[k :: len(seeds)] or [turn[k % len(turn)]] for k, seed in enumerate(seeds)}
    return {seed: [(name,) for name in names] for seed, names in dealt.items()}
