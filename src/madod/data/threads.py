"""Work in threads: results in order, few of them in flight."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

LIMIT = Path("/sys/fs/cgroup/cpu.max")
"""Where a container says how many microseconds of processors it has, and in how many."""
T = TypeVar("T")
R = TypeVar("R")


def cores() -> int:
    """Return how many processors this process may use: those that it is bound to, or fewer by its container's limit."""
    bound = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with suppress(OSError, ValueError):  # no container, or one whose limit is "max"
        quota, period = map(int, LIMIT.read_text().split())
        return min(bound, max(1, quota // period))
    return bound


def workers() -> int:
    """Return how many threads work at a time: one a core, and at most eight."""
    return min(8, cores())


def ordered(function: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
    """Apply a function in threads and yield its results in order, with few in flight at any time."""
    with ThreadPoolExecutor(workers()) as threads:
        waiting: deque[Future[R]] = deque()
        for item in items:
            waiting.append(threads.submit(function, item))
            if len(waiting) >= 2 * workers():
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
