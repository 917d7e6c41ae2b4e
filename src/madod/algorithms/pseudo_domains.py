"""Domains out of one domain, for methods that need more of them than there are."""

from dataclasses import replace

import numpy as np
import torch

from madod.data.base import Pool


def pseudo_domains(pool: Pool, needed: int) -> Pool:
    """Return the pool with its largest domain dealt at random into as many as are missing, each unit evenly.

    The deal depends on the pool alone, so that a resumed run finds the same pseudo-domains.
    """
    domains, units = pool.d.numpy(force=True), pool.u.numpy(force=True)
    present, counts = np.unique(domains, return_counts=True)
    parts = needed - len(present) + 1
    if parts < 2:
        return pool
    largest = int(present[counts.argmax()])
    rows = np.random.default_rng(0).permutation(np.flatnonzero(domains == largest))
    rows = rows[units[rows].argsort(kind="stable")]
    dealt = domains.copy()
    for part in range(1, parts):
        dealt[rows[part::parts]] = len(pool.domains) + part - 1
    return replace(
        pool,
        d=torch.from_numpy(dealt).to(pool.device),
        domains=pool.domains + tuple(f"{pool.domains[largest]} ({part + 1})" for part in range(1, parts)),
    )
