"""`madod serve` in a process of its own, with what can be seen of it from outside."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Self

from tests.test_benchmarks import program


class Served:
    """A running server: where it listens, what it holds, and how it ended."""

    def __init__(self, model: Path, *flags: object) -> None:
        words = [sys.executable, "-m", "madod", "serve", str(model), "--port", "0", "--device", "cpu"]
        self.process = subprocess.Popen(
            [*words, *map(str, flags)], env=os.environ | {"OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self.process.stdout
        self.said = self.process.stdout.readline()
        assert self.said, self.process.communicate()[1]
        self.url = self.said.split(": ")[0]
        self.port = int(self.url.rpartition(":")[2])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            assert self.end() == (0, "")

    def end(self) -> tuple[int, str]:
        """Ask it to end; return its exit code and what it said about errors."""
        self.process.terminate()
        _, errors = self.process.communicate(timeout=60)
        return self.process.returncode, errors

    def memory(self) -> int:
        """Return the bytes that it holds, its decoders included."""
        return int(program("serve_load").memory(self.process.pid))

    async def exchange(self, request: bytes, *, half: bool = False, patience: float = 20.0) -> bytes:
        """Send bytes, and return all that comes back until the server closes, answers once, or `half` leaves early."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            async with asyncio.timeout(patience):
                writer.write(request)
                await writer.drain()
                return b"" if half else await answer(reader)
        except ConnectionError:
            return b""
        finally:
            writer.close()


async def answer(reader: asyncio.StreamReader) -> bytes:
    """Read one answer, or what there is of it."""
    head = b""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
        while head.startswith(b"HTTP/1.1 100"):
            head = await reader.readuntil(b"\r\n\r\n")
        _, found, length = head.lower().partition(b"content-length:")
        return head + (await reader.readexactly(int(length.split(b"\r\n")[0])) if found else await reader.read())
    except asyncio.IncompleteReadError as error:
        return head + error.partial


def children(pid: int) -> list[int]:
    """Return the processes that a process started."""
    return list(program("serve_load").family(pid)[1:])
