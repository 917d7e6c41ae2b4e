"""What a sweep tells those who do its runs, and what it hears back; needs no torch."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple


@dataclass(frozen=True)
class Places:
    """Where a sweep reads and writes, and what it computes on."""

    runs: Path
    cache: Path
    root: Path | None = None
    device: str = "cpu"
    threads: int = 1
    """Threads of a run on a CPU; the last bits of its numbers depend on it."""


class Ended(NamedTuple):
    """What became of a run: done, failed with a reason, in other hands (busy), or its process died (lost)."""

    folder: str
    outcome: Literal["done", "failed", "busy", "lost"]
    reason: str = ""
