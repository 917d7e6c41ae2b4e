"""Wild images out of source images: a domain and a unit are held out for an epoch, and mixed back without labels."""

from math import ceil
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from madod.data.base import Pool
from madod.tasks import Batch, Rows, Transform, gather


class Wild(NamedTuple):
    """A labelled batch, wild images (none in the warm start), and the known images of an epoch that has just ended."""

    known: Batch
    wild: Tensor
    census: Pool | None


class Mixer:
    """Draws P_wild = (1 - pi_c - pi_s) P_in + pi_c P_covariate + pi_s P_semantic [Bai et al. 2023, eq. 2]."""

    def __init__(self, pool: Pool, batch: int, held: tuple[float, float], transform: Transform, seed: int = 0) -> None:
        """Mix batches with the shares `held` of covariate and semantic images; what is held out depends on the seed."""
        self.pool, self.batch, self.transform, self.seed = pool, batch, transform, seed
        self.shares = (1 - sum(held), *held)
        self.domains, self.units = pool.d.numpy(force=True), pool.u.numpy(force=True)
        self.epoch_steps = ceil(len(pool) / batch)

    def draw(self, rng: np.random.Generator, step: int) -> Wild:
        """Return the batch of a step, each wild image of a kind drawn for itself; before step 0 none is wild."""
        epoch, place = divmod(step, self.epoch_steps)
        if epoch < 0:
            known = gather(self.pool, rng.choice(len(self.pool), self.batch), self.transform)
            return Wild(known, known.x[:0], None)
        parts = roles(self.domains, self.units, epoch, self.seed)
        options = np.stack([rng.choice(rows, self.batch) for rows in parts])
        wild = options[rng.choice(3, self.batch, p=self.shares), np.arange(self.batch)]
        both = gather(self.pool, np.concatenate([rng.choice(parts[0], self.batch), wild]), self.transform)
        known = Batch(*(column[: self.batch] for column in both))
        return Wild(known, both.x[self.batch :], None if place else self.census(epoch - 1))

    def census(self, epoch: int) -> Pool:
        """Return all known images of an epoch; all images of the warm start."""
        if epoch < 0:
            return self.pool
        return self.pool.subset(
            torch.from_numpy(roles(self.domains, self.units, epoch, self.seed)[0]).to(self.pool.device)
        )


def turn(present: Rows, epoch: int, seed: tuple[int, ...]) -> int:
    """Return which of these numbers has its turn in an epoch: each once a round, in an order drawn for the round.

    It depends on seed and epoch alone, so that a run resumed within an epoch finds the same.
    """
    numbers = np.unique(present)
    past, place = divmod(epoch, len(numbers))
    return int(np.random.default_rng([*seed, past]).permutation(numbers)[place])


def roles(domains: Rows, units: Rows, epoch: int, seed: int) -> tuple[Rows, Rows, Rows]:
    """Return the rows of known, covariate and semantic images in an epoch, which holds out one domain and one unit."""
    away, strange = domains == turn(domains, epoch, (seed, 0)), units == turn(units, epoch, (seed, 1))
    known, covariate, semantic = (np.flatnonzero(mask) for mask in (~away & ~strange, away & ~strange, strange))
    if not len(known):
        known = np.flatnonzero(~away)
    return known, covariate if len(covariate) else known, semantic
