"""What a training step is drawn from: minibatches balanced over domains, and episodes with pseudo-unknown units."""

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from madod.data.base import Pool
from madod.errors import InputError

log = logging.getLogger(__name__)

Transform = Callable[[Tensor], Tensor]
"""Varies images (n, c, h, w) in [0, 1]; augmentation with its generator bound."""
Rows = NDArray[np.int64]


class Batch(NamedTuple):
    """Images x (n, c, h, w) in [0, 1], labels y (n,) and domain indices d (n,)."""

    x: Tensor
    y: Tensor
    d: Tensor


class Task(NamedTuple):
    """Support S, query Q and pseudo-unknowns O: disjoint images; no unit of O is in S or Q."""

    support: Batch
    query: Batch
    pseudo_ood: Batch


def identity(images: Tensor) -> Tensor:
    """Return images as they are."""
    return images


def gather(pool: Pool, rows: Rows, transform: Transform = identity) -> Batch:
    """Return the batch of these images, varied."""
    index = torch.from_numpy(rows).to(pool.device, non_blocking=True)
    return Batch(transform(pool.take(index)), pool.y[index], pool.d[index])


def minibatches(
    pool: Pool, rng: np.random.Generator, *, per_domain: int, transform: Transform = identity
) -> Iterator[Batch]:
    """Yield batches with the same number of images from every domain, drawn with replacement, for ever.

    Nothing but `rng` carries over from one batch to the next, so its state is all that a resumed run needs.
    """
    domains = pool.d.cpu().numpy()
    members = [np.flatnonzero(domains == k) for k in np.unique(domains)]
    while True:
        yield gather(pool, np.concatenate([rng.choice(rows, per_domain) for rows in members]), transform)


def episodes(
    pool: Pool,
    rng: np.random.Generator,
    *,
    tasks: int,
    shots: int,
    pseudo_units: int = 1,
    transform: Transform = identity,
) -> Iterator[list[Task]]:
    """Yield the tasks of one meta-step, for ever.

    Every task draws its pseudo-unknown units anew, for all domains together; within a step a unit is not drawn twice
    while others last. S and Q hold `shots` images of every other unit and O of the drawn ones, each spread over the
    domains as evenly as the unit's images allow. A unit with fewer than `2 * shots` images gives S the larger half.
    Nothing but `rng` carries over from one step to the next.
    """
    shelf = Shelf(pool)
    shelf.check_tasks(pseudo_units)
    shelf.warn_of_scarcity(shots)
    while True:
        held = shelf.pseudo_unknowns(rng, tasks, pseudo_units)
        drawn = [shelf.task_rows(rng, out, shots) for out in held]
        sizes = [len(rows) for task in drawn for rows in task]
        batch = gather(pool, np.concatenate([rows for task in drawn for rows in task]), transform)
        parts = [Batch(*part) for part in zip(*(column.split(sizes) for column in batch), strict=True)]
        yield [Task(*parts[i : i + 3]) for i in range(0, len(parts), 3)]


class Shelf:
    """The images of a pool, sorted by unit and domain, ready to be drawn from."""

    def __init__(self, pool: Pool) -> None:
        units, domains, labels = (column.cpu().numpy() for column in (pool.u, pool.d, pool.y))
        self.names = pool.units
        self.units = np.unique(units)
        self.rows = {
            unit: [np.flatnonzero((units == unit) & (domains == k)) for k in np.unique(domains[units == unit])]
            for unit in self.units
        }
        self.labels = {unit: set(labels[units == unit].tolist()) for unit in self.units}

    def check(self, pseudo_units: int) -> None:
        """Refuse a pool in which some choice of pseudo-unknowns leaves fewer than two labels to tell apart."""
        carried = [label for labels in self.labels.values() for label in labels]
        units_of_a_label = np.sort(np.unique(carried, return_counts=True)[1])
        losing = units_of_a_label.cumsum()  # units held out by which the first label is lost, the second, and so on
        if (losing > pseudo_units).sum() < 2:
            raise InputError(
                f"holding out {pseudo_units} of {len(self.units)} known classes as pseudo-unknown leaves fewer than "
                "two to tell apart: add a class, or train with the algorithm erm"
            )

    def check_tasks(self, pseudo_units: int) -> None:
        """Refuse a pool in which some choice of pseudo-unknowns leaves nothing to tell apart, or no query set."""
        self.check(pseudo_units)
        if sum(sum(map(len, rows)) > 1 for rows in self.rows.values()) <= pseudo_units:
            raise InputError(
                f"tasks learn from one image of a class and test on another, and no more than {pseudo_units} of "
                f"{len(self.units)} known classes have two to train on: add pictures, or train with the algorithm erm"
            )

    def warn_of_scarcity(self, shots: int) -> None:
        """Say which units have too few images for full support and query sets."""
        counts = {self.names[unit]: sum(map(len, rows)) for unit, rows in self.rows.items()}
        scarce = {name: n for name, n in counts.items() if n < 2 * shots}
        if scarce:
            listed = ", ".join(f"{name!r} ({n})" for name, n in scarce.items())
            log.warning("tasks want %d images of a class and take fewer of: %s", 2 * shots, listed)

    def pseudo_unknowns(self, rng: np.random.Generator, tasks: int, pseudo_units: int) -> list[Rows]:
        """Draw each task's pseudo-unknown units: none twice within a step while units last."""
        deck: list[int] = []
        hands = []
        for _ in range(tasks):
            if len(deck) < pseudo_units:
                fresh = rng.permutation(self.units).tolist()
                deck += [unit for unit in fresh if unit not in deck]
            hands.append(np.array(deck[:pseudo_units]))
            deck = deck[pseudo_units:]
        return hands

    def task_rows(self, rng: np.random.Generator, held: Rows, shots: int) -> tuple[Rows, Rows, Rows]:
        """Draw the rows of S, Q and O for a task that holds out these units."""
        support, query, pseudo = [], [], []
        for unit in self.units:
            if unit in held:
                pseudo.append(self.mixed(rng, self.rows[unit], shots))
                continue
            rows = self.mixed(rng, self.rows[unit], 2 * shots)
            cut = (len(rows) + 1) // 2
            support.append(rows[:cut])
            query.append(rows[cut:])
        return np.concatenate(support), np.concatenate(query), np.concatenate(pseudo)

    @staticmethod
    def mixed(rng: np.random.Generator, by_domain: Sequence[Rows], n: int) -> Rows:
        """Draw up to n rows without replacement, going round the domains in a random order."""
        turns = [rng.permutation(by_domain[k])[:n] for k in rng.permutation(len(by_domain))]
        order = np.concatenate([np.arange(len(rows)) for rows in turns]).argsort(kind="stable")
        return np.concatenate(turns)[order][:n]


def all_units(pool: Pool, rng: np.random.Generator, *, shots: int, transform: Transform = identity) -> Batch:
    """Return up to `shots` images of every unit in every domain: the support of an all-class adaptation."""
    cells = [rows for by_domain in Shelf(pool).rows.values() for rows in by_domain]
    return gather(pool, np.concatenate([rng.permutation(rows)[:shots] for rows in cells]), transform)
