"""Pictures decoded in processes of their own, so that no picture can take the server with it."""

import asyncio
import os
import struct
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Sequence
from contextlib import suppress

import numpy as np

from madod.data.crew import ONE_THREAD, program
from madod.data.images import Pixels
from madod.serve.decoder import LATER
from madod.serve.limits import Limits

PROGRAM = program("madod.serve.decoder")


class Broken(Exception):  # noqa: N818  # a verdict on a picture, not a fault of the server
    """A decoding process died over what it was given; says so."""


class Slow(Broken):
    """A decoding process took too long over what it was given; says so."""


class Worker:
    """One decoding process, started when it is first needed and again after it died."""

    def __init__(self, size: int, limits: Limits) -> None:
        self.size, self.limits = size, limits
        self.process: Process | None = None
        self.ending: set[asyncio.Task[None]] = set()

    async def start(self) -> Process:
        """Return the process, alive."""
        if self.process is None or self.process.returncode is not None:
            words = (str(value) for value in (self.size, self.limits.pixels, self.limits.decode_bytes))
            self.process = await asyncio.create_subprocess_exec(
                *PROGRAM, *words,
                stdin=PIPE, stdout=PIPE, stderr=DEVNULL, env=os.environ | ONE_THREAD, start_new_session=True,
            )  # fmt: skip
        return self.process

    async def decode(self, pictures: Sequence[memoryview]) -> list[Pixels | str]:
        """Return the pixels, or the reason why there are none, of as many pictures as a turn has time for."""
        process = await self.start()
        assert process.stdin
        assert process.stdout
        process.stdin.write(struct.pack(f"<{len(pictures) + 1}I", len(pictures), *map(len, pictures)))
        process.stdin.writelines(pictures)
        found: list[Pixels | str] = []
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(None) as alarm:
            for _ in pictures:
                alarm.reschedule(loop.time() + self.limits.decode_seconds)
                (reason,) = struct.unpack("<I", await process.stdout.readexactly(4))
                if reason == LATER:
                    continue
                content = await process.stdout.readexactly(reason or 3 * self.size**2)
                found.append(content.decode() if reason else self.pixels(content))
        return found

    def pixels(self, content: bytes) -> Pixels:
        """Return bytes as a picture (3, size, size)."""
        return np.frombuffer(content, np.uint8).reshape(3, self.size, self.size)

    def kill(self) -> None:
        """End the process at once; what it leaves is cleared away meanwhile."""
        if self.process is not None:
            if self.process.returncode is None:
                self.process.kill()
            task = asyncio.create_task(cleared(self.process))
            self.ending.add(task)
            task.add_done_callback(self.ending.discard)
        self.process = None


async def cleared(process: Process) -> None:
    """Wait until a killed process and its pipes are gone: one left open cries out when its loop has ended."""
    assert process.stdin
    assert process.stdout
    process.stdin.close()
    with suppress(RuntimeError):  # whoever waits for an answer reads it to the end instead
        await process.stdout.read()  # a pipe that nobody empties stays open
    await process.wait()
    with suppress(OSError):  # it may have died over what was being written
        await process.stdin.wait_closed()


class Decoders:
    """Several decoding processes; each has one request at a time."""

    def __init__(self, size: int, limits: Limits) -> None:
        self.limits = limits
        self.workers = [Worker(size, limits) for _ in range(limits.decoders)]
        self.idle: asyncio.Queue[Worker] = asyncio.Queue()

    async def start(self) -> None:
        """Start all processes."""
        for worker in self.workers:
            await worker.start()
            self.idle.put_nowait(worker)

    async def decode(self, pictures: Sequence[memoryview]) -> list[Pixels | str]:
        """Return the pixels of pictures, or the reason why one has none; a guilty one does not spoil the others.

        These are the first so many, one at least: the others had better wait for their next turn.
        """
        try:
            return await self.together(pictures)
        except Broken as broken:
            if isinstance(broken, Slow) and len(pictures) == 1:
                return [str(broken)]
            return [await self.alone(picture) for picture in pictures]  # it may have died before they came

    async def alone(self, picture: memoryview) -> Pixels | str:
        """Return one picture's pixels, or the reason why it has none."""
        try:
            return (await self.together([picture]))[0]
        except Broken as broken:
            return str(broken)

    async def together(self, pictures: Sequence[memoryview]) -> list[Pixels | str]:
        """Have one process decode pictures for one turn, or raise `Broken`."""
        worker = await self.idle.get()
        try:
            return await worker.decode(pictures)
        except BaseException as error:
            worker.kill()
            if isinstance(error, TimeoutError):
                raise Slow(f"it takes more than {self.limits.decode_seconds:g} seconds to decode") from None
            if isinstance(error, (asyncio.IncompleteReadError, OSError)):
                raise Broken("its decoder broke down over it") from None
            raise
        finally:
            self.idle.put_nowait(worker)

    async def close(self) -> None:
        """End all processes."""
        for worker in self.workers:
            worker.kill()
        await asyncio.gather(*(task for worker in self.workers for task in worker.ending))
