"""What a sweep expects its runs to take."""

import json
from pathlib import Path

import pytest

from madod.benchmark.estimate import Estimate
from madod.benchmark.jobs import Job, expand
from tests.benchmark.drawn import FACTS
from tests.benchmark.plans import written

PLAN = """
algorithms = ["erm", "madod"]
seeds = [0, 1]
[[datasets]]
name = "digits"
test_domains = ["neon", "outline"]
unknown = ["4"]
"""


def finish(runs: Path, job: Job, **seconds: float) -> None:
    (runs / job.folder).mkdir(parents=True)
    (runs / job.folder / "record.json").write_text(
        json.dumps(FACTS | {"thresholds": {}, "seconds": seconds}), encoding="utf-8"
    )


@pytest.fixture
def jobs(tmp_path):
    return {job.folder.rsplit("-", 1)[0]: job for job in expand(written(tmp_path, PLAN), None)[1]}


def test_a_generator_is_expected_once_for_all_who_share_it(tmp_path, jobs):
    estimate = Estimate(tmp_path)
    rest = [job for job in jobs.values() if job.spec.algorithm == "madod"]
    assert estimate.left(rest, (), 2) is None
    first = rest.pop(0)
    finish(tmp_path, first, data=1.0, generator=20.0, training=9.0)
    estimate.learn(first)
    same, other, third = rest  # the seed that shares the G, and two that share another
    assert same.generator == first.generator != other.generator == third.generator
    assert estimate.left((same,), (), 1) == 10.0
    assert estimate.left(rest, (), 1) == 3 * 10.0 + 20.0
    finish(tmp_path, same, data=1.0, generator=0.1, training=9.0)
    estimate.learn(same)  # which found its G
    assert estimate.left((other, third), (), 2) == pytest.approx((2 * 10.0 + 20.0) / 2)
    estimate.start(other)
    assert estimate.left((third,), (other,), 2) == pytest.approx(30.0, abs=0.5)  # the G is the one at work's


def test_what_is_not_known_is_taken_for_the_mean_and_for_the_longest_where_runs_are_put_in_order(tmp_path, jobs):
    estimate, madod, erm = Estimate(tmp_path), jobs["digits-madod-neon-4-0"], jobs["digits-erm-neon-4-0"]
    finish(tmp_path, erm, training=4.0)
    estimate.learn(erm)
    assert estimate.of(jobs["digits-erm-outline-4-1"]) == 4.0
    assert estimate.of(madod) > 1e9
    assert estimate.left((madod,), (), 1) == 4.0
