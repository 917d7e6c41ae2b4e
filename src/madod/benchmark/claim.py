"""Who is at work on a run: a lock that dies with its process, and a heartbeat that others can read."""

import json
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from filelock import FileLock, Timeout

from madod.errors import InputError
from madod.storage import ordinary

LOCK, BEAT = "lock", "heartbeat.json"
EVERY = 1.0
"""Seconds between heartbeats."""
STALE = 30.0
"""Seconds without a heartbeat after which a process counts as hung."""
PATIENCE = 0.3
"""Seconds to wait for a lock: somebody may only be looking whether it is held."""


class Beat(NamedTuple):
    """The last sign of life of a run."""

    stage: str = "starting"
    done: int = 0
    total: int = 0
    since: float = 0.0
    """When work on it began, in seconds since the epoch."""


class Claim:
    """A run's folder in our hands; reports to whoever asks from outside."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / BEAT
        self.beat = Beat(since=time.time())
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._keep_beating, daemon=True)

    def progress(self, stage: str, done: int, total: int) -> None:
        """Note how far the run is."""
        self.beat = self.beat._replace(stage=stage, done=done, total=total)

    def start(self) -> None:
        """Show the first sign of life, and go on."""
        self._write()
        self._thread.start()

    def stop(self) -> None:
        """Fall silent and leave no trace."""
        self._over.set()
        self._thread.join()
        self.file.unlink(missing_ok=True)

    def _keep_beating(self) -> None:
        while not self._over.wait(EVERY):
            with suppress(OSError):  # a full disk is the run's to report
                self._write()

    def _write(self) -> None:
        part = self.file.with_suffix(".part")
        part.write_text(json.dumps(self.beat._asdict()), encoding="utf-8")
        os.replace(part, self.file)  # noqa: PTH105  # a heartbeat need not survive a power cut, so it is not synced


@contextmanager
def claimed(folder: Path) -> Iterator[Claim | None]:
    """Hold a run's folder; gives nothing where another process does."""
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / LOCK)
    try:
        lock.acquire(timeout=PATIENCE, poll_interval=0.02)
    except Timeout:
        yield None
        return
    try:
        claim = Claim(folder)
        claim.start()  # which a full disk may refuse
        try:
            yield claim
        finally:
            claim.stop()
    finally:
        lock.release()


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Hold a folder; refuse where another process is at work in it."""
    with claimed(folder) as claim:
        if claim is None:
            raise busy(folder)
        yield


def busy(folder: Path) -> InputError:
    """Return the refusal of a folder that another process holds."""
    return InputError(f"another process is at work in {folder}: wait until it has ended, or choose another folder")


def held(folder: Path) -> bool:
    """Tell whether a living process holds a run's folder."""
    if not (folder / LOCK).exists():
        return False
    try:
        with FileLock(folder / LOCK, timeout=0):
            return False
    except Timeout:
        return True
    except OSError:  # a folder that may only be read: whoever looks from there goes by the signs of life
        return heartbeat(folder) is not None


def heartbeat(folder: Path) -> Beat | None:
    """Return the last sign of life, or nothing where there is none or it is stale."""
    file = folder / BEAT
    try:
        age = time.time() - file.stat().st_mtime
        return Beat(**json.loads(ordinary(file).read_text(encoding="utf-8"))) if age < STALE else None
    except (OSError, ValueError, TypeError):
        return None
