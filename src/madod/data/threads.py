"""Work in threads: results in order, few of them in flight."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def workers() -> int:
    """Return how many threads work at a time: one a core, and at most eight."""
    return min(8, os.cpu_count() or 1)


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
