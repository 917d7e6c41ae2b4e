"""How long runs take, and so the rest of a sweep, from the runs that are done."""

import math
import time
from collections import defaultdict
from collections.abc import Hashable, Sequence
from pathlib import Path
from statistics import fmean

from madod.benchmark.jobs import Job
from madod.benchmark.state import facts_of

Like = tuple[str, str, int]
"""Runs of a dataset, an algorithm and a number of steps take about as long as each other, once they have their G."""


class Estimate:
    """Learns from records what runs take."""

    def __init__(self, runs: Path) -> None:
        self.runs = runs
        self.took: dict[Like, list[float]] = defaultdict(list)
        self.making: dict[Hashable, float] = {}  # seconds that each G took, spent by one of the runs that share it
        self.began: dict[str, float] = {}

    def learn(self, job: Job) -> None:
        """Look at what a finished run took."""
        facts = facts_of(self.runs / job.folder)
        if facts is not None:
            seconds = dict(facts["seconds"])
            spent = seconds.pop("generator", 0.0)
            if job.generator is not None:
                self.making[job.generator] = max(spent, self.making.get(job.generator, 0.0))
            self.took[_like(job)].append(sum(seconds.values()))

    def start(self, job: Job) -> None:
        """Note that a run begins."""
        self.began[job.folder] = time.monotonic()

    def of(self, job: Job) -> float:
        """Return what runs like this one take without G; infinity where none has ended, so that one is tried soon."""
        known = self.took.get(_like(job))
        return fmean(known) if known else math.inf

    def left(self, waiting: Sequence[Job], running: Sequence[Job], slots: int) -> float | None:
        """Return the seconds until the last run ends, or nothing while no run has ended."""
        if not self.took:
            return None
        now = time.monotonic()
        rest = [max(0.0, self._usual(job) + self._new(job) - (now - self.began[job.folder])) for job in running]
        begun = {job.generator for job in running}
        makers = {job.generator: job for job in waiting if job.generator not in begun}  # one a G
        work = sum(map(self._usual, waiting)) + sum(map(self._new, makers.values()))
        return max([*rest, (sum(rest) + work) / slots])

    def _usual(self, job: Job) -> float:
        known = self.of(job)
        return fmean(second for times in self.took.values() for second in times) if math.isinf(known) else known

    def _new(self, job: Job) -> float:
        """Return what the run's G takes where it is yet to be made."""
        if job.generator is None or job.generator in self.making or not self.making:
            return 0.0
        return fmean(self.making.values())


def _like(job: Job) -> Like:
    return job.data, job.spec.algorithm, job.spec.steps
