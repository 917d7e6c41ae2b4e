"""A sweep: does what is missing of a plan, nothing twice, and stops for no single run."""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Protocol

from madod.benchmark.estimate import Estimate
from madod.benchmark.jobs import Job
from madod.benchmark.messages import Ended
from madod.benchmark.state import fail, finished
from madod.errors import InputError

TICK = 0.5
"""Seconds between two looks at how the sweep stands."""
PAUSE = 2.0
"""Seconds before another look at a run that is in other hands."""
TRIES = 2
"""How often a run is started whose process dies under it."""


class Engine(Protocol):
    """Whatever does runs: processes here, or a cluster."""

    def slots(self) -> int:
        """Return how many runs it can do at once."""
        ...

    def submit(self, job: Job) -> None:
        """Start a run."""
        ...

    def ended(self, timeout: float) -> list[Ended]:
        """Return the runs that ended, waiting a little for the first."""
        ...

    def close(self) -> None:
        """Stop everything at once; nothing is lost, since files are whole or absent."""
        ...


class Tally(NamedTuple):
    """How a sweep stands."""

    done: int
    running: tuple[str, ...]
    """Folders of the runs at work."""
    failed: dict[str, str]
    """Reasons by folder."""
    left: int
    elsewhere: int
    """Runs among those left that another sweep is at."""
    seconds_left: float | None
    """An estimate, once there is something to estimate from."""


Watch = Callable[[Tally], None]


class Sweep:
    """The runs of a plan on their way through an engine."""

    def __init__(self, jobs: Sequence[Job], runs: Path, engine: Engine) -> None:
        self.runs, self.engine = runs, engine
        self.estimate = Estimate(runs)
        self.done = 0
        self.failed: dict[str, str] = {}
        self.running: dict[str, Job] = {}
        self.made: set[object] = set()  # generators that a finished run has used
        self.tries: dict[str, int] = {}
        self.again: dict[str, float] = {}  # not before this moment: another sweep has it
        self.waiting: list[Job] = []
        for job in jobs:
            if finished(runs / job.folder, job.detectors):
                self._finish(job)
            else:
                self.waiting.append(job)

    def go(self, watch: Watch) -> Tally:
        """Carry everything through; `watch` is told how it stands, about twice a second."""
        while self.waiting or self.running:
            self._fill()
            for end in self.engine.ended(TICK):
                self._take(end)
            watch(self.tally())
        return self.tally()

    def tally(self) -> Tally:
        """Return how the sweep stands."""
        slots = max(1, self.engine.slots())
        left = self.estimate.left(tuple(self.waiting), tuple(self.running.values()), slots)
        return Tally(self.done, tuple(self.running), dict(self.failed), len(self.waiting), len(self.again), left)

    def _fill(self) -> None:
        """Start runs while there is room; those in other hands are looked at again after a pause."""
        while len(self.running) < self.engine.slots() and (job := self._next()) is not None:
            self.waiting.remove(job)
            if self.again.pop(job.folder, None) and finished(self.runs / job.folder, job.detectors):
                self._finish(job)  # by the other sweep
            else:
                self.running[job.folder] = job
                self.estimate.start(job)
                self.engine.submit(job)

    def _next(self) -> Job | None:
        """Return the run to start: one that makes a G, which others share, else the longest, so that short ones end it.

        One that would have to wait for a G in the making comes after all others. Among equals the plan's order holds.
        """
        now = time.monotonic()
        ready = [job for job in self.waiting if self.again.get(job.folder, now) <= now]
        there = self.made | {None}
        making = {job.generator for job in self.running.values()} - there

        def rank(job: Job) -> tuple[bool, bool, float]:
            return job.generator in making, job.generator in there, -self.estimate.of(job)

        return min(ready, key=rank, default=None)

    def _take(self, end: Ended) -> None:
        job = self.running.pop(end.folder)
        if end.outcome == "done":
            self._finish(job)
        elif end.outcome == "busy":
            self.again[job.folder] = time.monotonic() + PAUSE
            self.waiting.append(job)
        elif end.outcome == "lost" and self.tries.get(job.folder, 1) < TRIES:
            self.tries[job.folder] = self.tries.get(job.folder, 1) + 1
            self.waiting.append(job)
        else:
            if end.outcome == "lost":
                with suppress(OSError, InputError):  # where nothing can be written, the others go on all the same
                    fail(self.runs / job.folder, end.reason)
            self.failed[job.folder] = end.reason

    def _finish(self, job: Job) -> None:
        self.done += 1
        self.made.add(job.generator)
        self.estimate.learn(job)
