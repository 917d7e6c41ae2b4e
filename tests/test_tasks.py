"""The task distribution, over random pools."""

import logging

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from madod.data.base import Domain, Pool, pool
from madod.errors import InputError
from madod.tasks import Batch, Shelf, all_units, episodes, minibatches


def numbered_pool(counts: list[list[int]], labels: list[int] | None = None) -> Pool:
    """A pool with counts[d][u] images of unit u in domain d; image i has its own number in its first two pixels."""
    units = len(counts[0])
    labels = labels or list(range(units))
    domains, start = [], 0
    for k, row in enumerate(counts):
        u = torch.repeat_interleave(torch.arange(units), torch.tensor(row))
        numbers = torch.arange(start, start + len(u))
        start += len(u)
        images = torch.zeros(len(u), 1, 2, 2, dtype=torch.uint8)
        images[:, 0, 0, 0], images[:, 0, 0, 1] = numbers // 256, numbers % 256
        domains.append(Domain(f"d{k}", images, torch.tensor(labels)[u], u))
    classes = [str(k) for k in range(max(labels) + 1)]
    return pool(domains, classes, [f"u{k}" for k in range(units)])


def numbers(batch: Batch) -> list[int]:
    pixels = (batch.x * 255).round().long()
    return (pixels[:, 0, 0, 0] * 256 + pixels[:, 0, 0, 1]).tolist()


def units_with(images, counts):
    """Return how many units have so many images, or more, over all domains."""
    return sum(sum(unit) >= images for unit in zip(*counts, strict=True))


pools = (
    st.integers(1, 4)
    .flatmap(
        lambda domains: st.integers(3, 6).flatmap(
            lambda units: st.lists(
                st.lists(st.integers(0, 9), min_size=units, max_size=units), min_size=domains, max_size=domains
            )
        )
    )
    .filter(lambda counts: units_with(1, counts) >= 3 and units_with(2, counts) >= 2)
)


@settings(max_examples=60, deadline=None)
@given(counts=pools, shots=st.integers(1, 5), tasks=st.integers(1, 8), seed=st.integers(0, 99))
def test_tasks_hold_their_promises_over_random_pools(counts, shots, tasks, seed):
    source = numbered_pool(counts)
    present = {u for u in range(len(counts[0])) if sum(row[u] for row in counts)}
    held_out = []
    for task in next(episodes(source, np.random.default_rng(seed), tasks=tasks, shots=shots)):
        s, q, o = (numbers(batch) for batch in task)
        assert len(set(s + q + o)) == len(s + q + o), "an image is in two sets, or twice in one"
        held = {int(source.u[i]) for i in o}
        assert len(held) == 1
        held_out.append(held.pop())
        assert not {int(source.u[i]) for i in s + q} & {held_out[-1]}, "a pseudo-unknown unit is in S or Q"
        for unit in present - {held_out[-1]}:
            available = sum(row[unit] for row in counts)
            in_s, in_q = (sum(int(source.u[i]) == unit for i in rows) for rows in (s, q))
            assert in_s == min(shots, (available + 1) // 2)
            assert in_q == min(shots, available // 2)
        assert len(o) == min(shots, sum(row[held_out[-1]] for row in counts))
        assert task.support.y.tolist() == [int(source.y[i]) for i in s]
        assert task.support.d.tolist() == [int(source.d[i]) for i in s]
    for start in range(0, tasks, len(present)):
        turn = held_out[start : start + len(present)]
        assert len(set(turn)) == len(turn), "a unit was held out twice while others were left"


@settings(max_examples=40, deadline=None)
@given(counts=pools, shots=st.integers(1, 5), seed=st.integers(0, 99))
def test_shots_are_spread_over_the_domains(counts, shots, seed):
    source = numbered_pool(counts)
    shelf = Shelf(source)
    rng = np.random.default_rng(seed)
    for unit, rows in shelf.rows.items():
        drawn = shelf.mixed(rng, rows, shots)
        taken = [int((source.d[torch.from_numpy(drawn)] == k).sum()) for k in range(len(counts))]
        for a, b in zip(*np.triu_indices(len(counts), 1), strict=True):
            more, fewer = (a, b) if taken[a] > taken[b] else (b, a)
            exhausted = taken[fewer] == counts[fewer][unit]
            assert taken[more] - taken[fewer] <= 1 or exhausted, "a domain gave more than its share"


def test_pseudo_unknowns_are_drawn_anew_for_every_step():
    source = numbered_pool([[6] * 5, [6] * 5])
    steps = episodes(source, np.random.default_rng(0), tasks=2, shots=2)
    held = [[int(source.u[numbers(task.pseudo_ood)[0]]) for task in next(steps)] for _ in range(40)]
    assert len({tuple(pair) for pair in held}) > 10
    assert {unit for pair in held for unit in pair} == set(range(5))


def test_the_same_generator_gives_the_same_tasks():
    source = numbered_pool([[6] * 4] * 2)
    first, second = (next(episodes(source, np.random.default_rng(7), tasks=3, shots=2)) for _ in range(2))
    assert [numbers(batch) for task in first for batch in task] == [numbers(batch) for task in second for batch in task]


def test_units_finer_than_labels_are_what_is_held_out():
    source = numbered_pool([[5] * 6], labels=[0, 0, 0, 1, 1, 1])
    for task in next(episodes(source, np.random.default_rng(0), tasks=6, shots=2)):
        assert set(task.support.y.tolist()) == {0, 1}
        assert len({int(source.u[i]) for i in numbers(task.pseudo_ood)}) == 1


def test_scarce_classes_are_named(caplog):
    source = numbered_pool([[9, 3, 9, 9]])
    with caplog.at_level(logging.WARNING):
        next(episodes(source, np.random.default_rng(0), tasks=1, shots=5))
    assert "'u1' (3)" in caplog.text
    assert "u0" in caplog.text  # nine images are fewer than twice five


def test_holding_out_needs_two_classes_left():
    with pytest.raises(InputError, match="fewer than two to tell apart"):
        next(episodes(numbered_pool([[5, 5]]), np.random.default_rng(0), tasks=1, shots=2))
    with pytest.raises(InputError, match="fewer than two to tell apart"):
        next(episodes(numbered_pool([[5, 5, 5]], labels=[0, 0, 1]), np.random.default_rng(0), tasks=1, shots=2))


def test_holding_out_needs_a_class_left_with_two_images():
    """A task that holds out the only class with two would have no query set."""
    with pytest.raises(InputError, match="no more than 1 of 4 known classes have two to train on: add pictures"):
        next(episodes(numbered_pool([[1, 1, 1, 4]]), np.random.default_rng(0), tasks=1, shots=2))
    for task in next(episodes(numbered_pool([[1, 1, 2, 4]]), np.random.default_rng(0), tasks=4, shots=2)):
        assert len(task.query.y)


def test_minibatches_are_balanced_and_use_every_image():
    source = numbered_pool([[3, 0, 2], [4, 4, 4]])
    batches = minibatches(source, np.random.default_rng(0), per_domain=4)
    seen = set()
    for _ in range(60):
        batch = next(batches)
        assert batch.d.bincount().tolist() == [4, 4]
        seen |= set(numbers(batch))
    assert seen == set(range(17))


def test_all_class_adaptation_sees_every_class_and_domain():
    source = numbered_pool([[3, 0, 2], [4, 4, 4]])
    batch = all_units(source, np.random.default_rng(0), shots=3)
    taken = numbers(batch)
    assert len(set(taken)) == len(taken) == 3 + 2 + 3 + 3 + 3
    assert {(int(source.d[i]), int(source.u[i])) for i in taken} == {(0, 0), (0, 2), (1, 0), (1, 1), (1, 2)}
