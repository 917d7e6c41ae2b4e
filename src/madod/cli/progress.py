"""What a person sees while something long runs: bars on a terminal, plain lines elsewhere."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from madod.progress import Progress, silent

EVERY = 10.0
"""Seconds between plain lines."""


@contextmanager
def shown(quiet: bool) -> Iterator[Progress]:
    """Give something to report progress to: one bar per stage, or a line now and then where nobody watches."""
    if quiet:
        yield silent
    elif sys.stderr.isatty():
        with bars() as report:
            yield report
    else:
        yield lines()


@contextmanager
def bars() -> Iterator[Progress]:
    """Draw one bar per stage on standard error."""
    from rich import progress as rich
    from rich.console import Console

    columns = ("{task.description:>14}", rich.BarColumn(), rich.MofNCompleteColumn(), rich.TimeRemainingColumn())
    with rich.Progress(*columns, console=Console(stderr=True)) as live:
        tasks: dict[str, Any] = {}

        def report(stage: str, done: int, total: int) -> None:
            if stage not in tasks:
                tasks[stage] = live.add_task(stage, total=total)
            live.update(tasks[stage], completed=done, total=total)

        yield report


def lines() -> Progress:
    """Write a plain line when a stage ends, and every few seconds before that."""
    last = time.monotonic()

    def report(stage: str, done: int, total: int) -> None:
        nonlocal last
        if done >= total or time.monotonic() - last >= EVERY:
            last = time.monotonic()
            sys.stderr.write(f"{stage}: {done} of {total}\n")
            sys.stderr.flush()

    return report
