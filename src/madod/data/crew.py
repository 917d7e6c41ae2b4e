"""Several processes that decode pictures: each has a few at a time, and the work of one that dies is done here."""

import json
import logging
import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import Self

from madod.data.decoder import Array, Entry, Refusal, decode
from madod.data.threads import workers

log = logging.getLogger(__name__)

WORTH = 32 << 20
"""Bytes of picture files from which on processes gain more than their start costs: a second or two of decoding."""
HANDFUL = 32
"""Pictures that a process is given at a time."""
START = """
import runpy, sys
sys.path.append(sys.argv.pop(1))
runpy.run_module(sys.argv.pop(1), run_name="__main__")
"""
"""Finds the package where its parent did, behind everything else; the working folder has no say in what is imported."""
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

Process = subprocess.Popen[str]


def worthwhile(entries: Sequence[Entry]) -> bool:
    """Tell whether there is enough to do, and more than one core to do it on."""
    return workers() > 1 and sum(entry.identity[0] for entry in entries) >= WORTH


class Crew:
    """As many processes as there are threads to give them work."""

    def __init__(self, array: Array) -> None:
        self.array = array
        self.over = False
        self.processes = [process for process in (_started(array) for _ in range(workers())) if process]
        self.idle: SimpleQueue[Process | None] = SimpleQueue()
        for k in range(workers()):
            self.idle.put(self.processes[k] if k < len(self.processes) else None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.over = True
        for process in self.processes:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                with suppress(OSError):  # what was never sent
                    pipe.close()  # type: ignore[union-attr]  # both are pipes

    def decode(self, entries: Sequence[Entry]) -> list[Refusal]:
        """Put pictures into their rows in one of the processes, or here where it is dead."""
        process = self.idle.get()
        answer = _ask(process, entries) if process else ""
        self.idle.put(process if answer else None)
        if self.over:
            return []
        if not answer:
            if process:
                log.warning("a process that decodes pictures died; its work goes on in this one")
            return decode(self.array, entries)
        found = json.loads(answer)
        if isinstance(found, int):
            raise OSError(found, os.strerror(found))
        return [Refusal(*refusal) for refusal in found]


def program(module: str) -> tuple[str, ...]:
    """Return the command that runs one of our modules as a program of its own."""
    package = str(Path(__file__).parents[2])  # wherever this process found it
    return sys.executable, "-P", "-c", START, package, module


def _started(array: Array) -> Process | None:
    """Return a process that decodes, or nothing where none can be started; the user's own program is not run again."""
    with suppress(OSError):
        return subprocess.Popen(
            [*program("madod.data.decoder"), *map(str, array)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, encoding="utf-8",
            env=os.environ | ONE_THREAD, start_new_session=True,
        )  # fmt: skip
    return None


def _ask(process: Process, entries: Sequence[Entry]) -> str:
    """Return a process's answer, or nothing where it is dead."""
    assert process.stdin
    assert process.stdout
    with suppress(OSError, ValueError):  # a pipe that is broken, or closed by now
        process.stdin.write(json.dumps(entries) + "\n")
        process.stdin.flush()
        return process.stdout.readline()
    return ""
