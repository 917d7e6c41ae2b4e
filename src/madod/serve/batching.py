"""Pictures of many requests in one pass of the network."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

from madod.data.images import Pixels

R = TypeVar("R")
Judge = Callable[[list[Pixels]], Sequence[R]]


class Batcher(Generic[R]):
    """Collects what arrives while the network is busy, or within a moment, and judges it together."""

    def __init__(self, judge: Judge[R], most: int, company: float) -> None:
        self.judge, self.most, self.company = judge, most, company
        self.waiting: deque[tuple[Sequence[Pixels], asyncio.Future[Sequence[R]]]] = deque()
        self.arrived = asyncio.Event()
        self.thread = ThreadPoolExecutor(1, "judge")
        self.passes = self.judged = 0

    async def submit(self, pictures: Sequence[Pixels]) -> Sequence[R]:
        """Return what the network says of the pictures, when it has."""
        if not pictures:
            return []
        future: asyncio.Future[Sequence[R]] = asyncio.get_running_loop().create_future()
        self.waiting.append((pictures, future))
        self.arrived.set()
        return await future

    async def run(self) -> None:
        """Judge whatever arrives, for ever."""
        while True:
            await self.arrived.wait()
            if self.depth < self.most:
                await asyncio.sleep(self.company)
            await self.pass_on(self.take())

    async def pass_on(self, groups: list[tuple[Sequence[Pixels], asyncio.Future[Sequence[R]]]]) -> None:
        """Judge groups of pictures together and give every group its own."""
        everything = [picture for pictures, _ in groups for picture in pictures]
        loop = asyncio.get_running_loop()
        try:
            results = await loop.run_in_executor(self.thread, self.judge, everything)
        except Exception as error:
            for _, future in groups:
                if not future.done():
                    future.set_exception(error)
            return
        self.passes, self.judged = self.passes + 1, self.judged + len(everything)
        start = 0
        for pictures, future in groups:
            if not future.done():  # whoever asked may have left
                future.set_result(results[start : start + len(pictures)])
            start += len(pictures)

    def take(self) -> list[tuple[Sequence[Pixels], asyncio.Future[Sequence[R]]]]:
        """Return the groups that waited longest, one at least, of as many pictures as go into one pass."""
        groups = [self.waiting.popleft()]
        count = len(groups[0][0])
        while self.waiting and count + len(self.waiting[0][0]) <= self.most:
            groups.append(self.waiting.popleft())
            count += len(groups[-1][0])
        if not self.waiting:
            self.arrived.clear()
        return groups

    @property
    def depth(self) -> int:
        """How many pictures wait."""
        return sum(len(pictures) for pictures, _ in self.waiting)

    def close(self) -> None:
        """Let the thread end."""
        self.thread.shutdown(wait=False, cancel_futures=True)
