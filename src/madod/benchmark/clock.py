"""How long the stages of a run take, over all of its starts."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from madod.training import Seconds


class Clock:
    """Seconds by stage, with those that were spent before the run was killed."""

    def __init__(self, past: Seconds) -> None:
        self.past = past
        self.seconds: dict[str, float] = {}

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Note how long a stage took."""
        start = time.perf_counter()
        yield
        self.seconds[name] = round(self.past.get(name, 0.0) + time.perf_counter() - start, 3)

    def add(self, name: str, seconds: float) -> None:
        """Note that a stage took longer than it seemed, or less."""
        self.seconds[name] = round(self.seconds[name] + seconds, 3)
