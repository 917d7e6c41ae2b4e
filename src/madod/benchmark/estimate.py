"""How long the rest of a sweep will take, from the runs that are done."""

import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from madod.benchmark.jobs import Job
from madod.benchmark.state import facts_of

Like = tuple[str, str, int]
"""Runs of a dataset, an algorithm and a number of steps take about as long as each other."""


class Estimate:
    """Learns from records what runs take."""

    def __init__(self, runs: Path) -> None:
        self.runs = runs
        self.took: dict[Like, list[float]] = defaultdict(list)
        self.began: dict[str, float] = {}

    def learn(self, job: Job) -> None:
        """Look at what a finished run took."""
        facts = facts_of(self.runs / job.folder)
        if facts is not None:
            self.took[_like(job)].append(sum(facts["seconds"].values()))

    def start(self, job: Job) -> None:
        """Note that a run begins."""
        self.began[job.folder] = time.monotonic()

    def left(self, waiting: Sequence[Job], running: Sequence[Job], slots: int) -> float | None:
        """Return the seconds until the last run ends, or nothing while no run has ended."""
        if not self.took:
            return None
        now = time.monotonic()
        rest = [max(0.0, self._usual(job) - (now - self.began[job.folder])) for job in running]
        return max([*rest, (sum(rest) + sum(map(self._usual, waiting))) / slots])

    def _usual(self, job: Job) -> float:
        known = self.took.get(_like(job)) or [second for times in self.took.values() for second in times]
        return sum(known) / len(known)


def _like(job: Job) -> Like:
    return job.data, job.spec.algorithm, job.spec.steps
