"""What a person sees while a sweep runs: a live table on a terminal, plain lines elsewhere."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from madod.benchmark.claim import heartbeat
from madod.cli.escaped import escaped
from madod.cli.progress import EVERY

if TYPE_CHECKING:
    from madod.benchmark.sweep import Tally, Watch

SHOWN = 12
"""Runs at work that the table shows one by one."""


def in_words(tally: "Tally") -> str:
    """Say in a line how a sweep stands."""
    counts = f"{tally.done} done, {len(tally.running)} running, {len(tally.failed)} failed, {tally.left} left"
    elsewhere = f" ({tally.elsewhere} of them in another sweep)" if tally.elsewhere else ""
    rest = f", about {duration(tally.seconds_left)} to go" if tally.seconds_left and _open(tally) else ""
    return counts + elsewhere + rest


def _open(tally: "Tally") -> bool:
    return bool(tally.running or tally.left)


def duration(seconds: float) -> str:
    """Say a time span in its two largest units."""
    seconds = round(seconds)
    if seconds < 60:
        return f"{seconds} s"
    hours, minutes = divmod(seconds // 60, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {seconds % 60:02} s"


@contextmanager
def watched(runs: Path, total: int, quiet: bool) -> Iterator["Watch"]:
    """Give something to tell how the sweep stands: a live table, a line now and then, or nobody."""
    if quiet:
        yield lambda tally: None
    elif sys.stderr.isatty():
        with live(runs, total) as watch:
            yield watch
    else:
        yield lines()


def lines() -> "Watch":
    """Write a line when runs end, at most one every few seconds."""
    last, known = time.monotonic() - EVERY, -1

    def watch(tally: "Tally") -> None:
        nonlocal last, known
        ended = tally.done + len(tally.failed)
        if ended != known and (time.monotonic() - last >= EVERY or not _open(tally)):
            last, known = time.monotonic(), ended
            sys.stderr.write(in_words(tally) + "\n")
            sys.stderr.flush()

    return watch


@contextmanager
def live(runs: Path, total: int) -> Iterator["Watch"]:
    """Draw a table of the sweep on standard error, over and over."""
    from rich.console import Console
    from rich.live import Live

    with Live(console=Console(stderr=True), auto_refresh=False, transient=True) as view:

        def watch(tally: "Tally") -> None:
            view.update(drawn(tally, runs, total), refresh=True)

        yield watch


def drawn(tally: "Tally", runs: Path, total: int) -> Any:
    """Return the table: counts and a bar, the runs at work, the latest failures."""
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("at work", "stage", "", "for"):
        table.add_column(name, no_wrap=True)
    for folder in tally.running[:SHOWN]:
        beat = heartbeat(runs / folder)
        stage, steps, since = (beat.stage, f"{beat.done}/{beat.total}", beat.since) if beat else ("starting", "", 0.0)
        table.add_row(Text(escaped(folder)), stage, steps, duration(time.time() - since) if since else "")
    hidden = len(tally.running) - SHOWN
    notes = [Text(f"... and {hidden} more")] if hidden > 0 else []
    for folder, why in list(tally.failed.items())[-3:]:
        notes.append(Text.assemble(("failed", "red"), f" {escaped(folder)}: {escaped(why)}"))
    bar = ProgressBar(total=total, completed=tally.done, width=60)
    return Group(in_words(tally), bar, table, *notes)
