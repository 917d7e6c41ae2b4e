"""The parts behind the addresses: batches over requests, bytes in memory, forms."""

import asyncio
import time
from collections.abc import Sequence

import numpy as np
import pytest
from fastapi import HTTPException, Request
from hypothesis import given
from hypothesis import strategies as st

from madod.serve.batching import Batcher
from madod.serve.body import Budget, Held, body
from madod.serve.limits import Limits
from madod.serve.metrics import Metrics
from madod.serve.uploads import plain, uploads
from tests.serve.hostile import form

FORM = "multipart/form-data; boundary=xyz"


def images(*values: int) -> list[np.ndarray]:
    return [np.full((3, 2, 2), value, np.uint8) for value in values]


def batched(judge, work, most: int = 8, company: float = 0.01):
    """Run work with a batcher, and return what it returns."""

    async def all_of_it():
        batcher = Batcher(judge, most, company)
        runner = asyncio.create_task(batcher.run())
        try:
            return await work(batcher)
        finally:
            runner.cancel()
            batcher.close()

    return asyncio.run(all_of_it())


def test_groups_share_passes_and_get_their_own():
    sizes = []

    def judge(pictures):
        sizes.append(len(pictures))
        time.sleep(0.02)
        return [int(picture[0, 0, 0]) for picture in pictures]

    async def work(batcher):
        return await asyncio.gather(*(batcher.submit(images(k, k + 1, k + 2)) for k in range(0, 60, 3)))

    answers = batched(judge, work)
    assert answers == [[k, k + 1, k + 2] for k in range(0, 60, 3)]
    assert max(sizes) <= 8
    assert len(sizes) < 20


def test_a_group_larger_than_a_pass_goes_alone():
    async def work(batcher):
        return await asyncio.gather(batcher.submit(images(*range(20))), batcher.submit(images(99)), batcher.submit([]))

    first, second, none = batched(lambda pictures: [int(picture.max()) for picture in pictures], work)
    assert (first, second, none) == (list(range(20)), [99], [])


def test_a_pass_that_fails_fails_its_own_groups_only():
    def judge(pictures):
        if any(picture.max() == 13 for picture in pictures):
            raise ValueError("thirteen")
        return [0] * len(pictures)

    async def work(batcher):
        with pytest.raises(ValueError, match="thirteen"):
            await batcher.submit(images(13))
        return await batcher.submit(images(1))

    assert batched(judge, work) == [0]


def test_whoever_leaves_does_not_stop_the_others():
    async def work(batcher):
        leaving = asyncio.create_task(batcher.submit(images(1)))
        staying = asyncio.create_task(batcher.submit(images(2)))
        await asyncio.sleep(0)
        leaving.cancel()
        return await staying

    assert batched(lambda pictures: [int(picture.max()) for picture in pictures], work) == [2]


def test_over_the_budget_bodies_go_on_one_at_a_time_and_none_waits_for_ever():
    budget, most, peak = Budget(100), 60, 0

    async def read() -> None:
        nonlocal peak
        held = Held(budget)
        for _ in range(most // 10):
            await held.add(10)
            peak = max(peak, budget.used)
            await asyncio.sleep(0)
        held.free()

    async def all_of_them() -> None:
        async with asyncio.timeout(5):
            await asyncio.gather(*(read() for _ in range(50)))

    asyncio.run(all_of_them())
    assert 100 < peak <= 100 + most
    assert budget.used == 0
    assert budget.beyond is None


def test_room_that_comes_free_is_given_to_whoever_waits_though_one_goes_on_beyond():
    async def work() -> None:
        budget = Budget(100)
        ended, stuck, third = Held(budget), Held(budget), Held(budget)
        await ended.add(60)
        await stuck.add(60)  # goes on beyond, and stays
        waiting = asyncio.create_task(third.add(30))
        await asyncio.sleep(0)
        ended.free()
        await asyncio.wait_for(waiting, 5)
        assert budget.used == 90

    asyncio.run(work())


def fetched(pieces: Sequence[tuple[float, int]], budget: Budget, **limits) -> int:
    """Return the bytes of a body of which so many come after so many seconds each."""
    coming = iter(pieces)

    async def receive() -> dict[str, object]:
        pause, size = next(coming, (0, 0))
        await asyncio.sleep(pause)
        return {"type": "http.request", "body": bytes(size), "more_body": size > 0}

    async def read() -> int:
        request = Request({"type": "http", "headers": [(b"content-type", b"image/png")]}, receive)
        async with asyncio.timeout(5), body(request, budget, Limits(**limits)) as content:
            return len(content)

    return asyncio.run(read())


@pytest.mark.parametrize("rest", [[(60.0, 1)], [(0.1, 1)] * 100])
def test_a_body_that_came_fast_may_not_be_silent_nor_trickle(rest):
    budget = Budget(10**6)
    with pytest.raises(HTTPException) as refusal:
        fetched([(0.0, 1000)] * 60 + rest, budget, patience=0.4, body_rate=1000.0)
    assert refusal.value.status_code == 408
    assert "came too slowly" in refusal.value.detail
    assert budget.used == 0


def test_a_slow_but_steady_body_comes_whole():
    assert fetched([(0.1, 200)] * 20, Budget(10**6), patience=0.5, body_rate=1000.0) == 4000


def test_whoever_waits_for_memory_in_vain_is_told_when_to_come_back():
    budget = Budget(100)
    others = Held(budget)
    assert budget.grant(others, 100)
    assert budget.grant(others, 1)
    with pytest.raises(HTTPException) as refusal:
        fetched([(0.0, 10)], budget, room_seconds=0.1)
    assert (refusal.value.status_code, refusal.value.headers) == (503, {"Retry-After": "10"})
    assert "come back in a while" in refusal.value.detail
    others.free()
    assert budget.used == 0
    assert fetched([(0.0, 10)], budget) == 10


@given(st.lists(st.binary(max_size=200), min_size=1, max_size=20))
def test_a_form_gives_back_what_was_put_in(contents):
    contents = [content.replace(b"--xyz", b"") for content in contents]
    found = uploads(memoryview(form([(f"{k}", data) for k, data in enumerate(contents)])), FORM, Limits())
    assert [bytes(upload.data) for upload in found] == contents
    assert [upload.name for upload in found] == [str(k) for k in range(len(contents))]


@given(st.binary(max_size=400), st.integers(0, 400))
def test_any_other_form_is_read_or_refused(noise, cut):
    whole = bytearray(form([("a", noise), ("b", noise)]))
    whole[cut : cut + 3] = noise[:3]
    try:
        found = uploads(memoryview(whole), FORM, Limits())
    except HTTPException:
        return
    assert sum(len(upload.data) for upload in found) <= len(whole)


@given(st.text(max_size=300))
def test_a_name_is_made_plain(text):
    shown = plain(text)
    assert shown.isprintable()
    assert len(shown) <= 100
    if text.isprintable() and len(text) <= 100:
        assert shown == text


def test_times_are_counted_once_in_rising_bins():
    metrics = Metrics()
    for seconds in (0.001, 0.02, 0.02, 100.0):
        metrics.answered("/predict", 200, seconds)
    lines = metrics.text({"madod_x": ("meaning", 1.5)}).splitlines()
    counts = [int(line.split()[1]) for line in lines if "bucket" in line]
    assert counts == sorted(counts)
    assert (counts[0], counts[2], counts[-2], counts[-1]) == (1, 3, 3, 4)
    assert lines[-1] == "madod_x 1.5"
