"""A request's body, read in bounded memory and bounded time."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import HTTPException, Request
from starlette.requests import ClientDisconnect

from madod.serve.limits import MIB, Limits
from madod.serve.uploads import FORM, kind


class Budget:
    """Bytes that all bodies may hold together; beyond it one at a time goes on, so that it ends and frees its own."""

    def __init__(self, total: int) -> None:
        self.total, self.used = total, 0
        self.beyond: Held | None = None
        self.freed = asyncio.Event()

    def grant(self, held: "Held", amount: int) -> bool:
        """Give a body so many bytes more, and tell so, where there is room or it is the one that goes on beyond."""
        if self.used + amount > self.total:
            if self.beyond not in (None, held):
                return False
            self.beyond = held
        self.used += amount
        held.amount += amount
        return True


class Held:
    """What one body holds of the budget."""

    def __init__(self, budget: Budget) -> None:
        self.budget, self.amount = budget, 0

    async def add(self, amount: int) -> None:
        """Wait until so many bytes more may be held; whoever has waited longest is asked first."""
        while not self.budget.grant(self, amount):
            await self.budget.freed.wait()

    def free(self) -> None:
        """Give everything back."""
        self.budget.used -= self.amount
        if self.budget.beyond is self:
            self.budget.beyond = None
        self.budget.freed.set()  # wakes all that wait now, in their order, and nobody later
        self.budget.freed.clear()


@asynccontextmanager
async def body(request: Request, budget: Budget, limits: Limits) -> AsyncIterator[memoryview]:
    """Give the whole body of a request, and take it back; refuse one that is too long or comes too slowly."""
    declared = request.headers.get("content-length", "0")
    if declared.isdecimal() and int(declared[:20]) > limits.body_bytes:
        raise too_long(request, limits)
    held = Held(budget)
    try:
        yield memoryview(await _read(request, held, limits))
    finally:
        held.free()


async def _read(request: Request, held: Held, limits: Limits) -> bytearray:
    content = bytearray()
    stream = aiter(request.stream())
    loop, slack = asyncio.get_running_loop(), limits.patience
    while True:
        start = loop.time()
        try:
            async with asyncio.timeout(slack):
                piece = await anext(stream, None)
        except TimeoutError:
            raise HTTPException(408, "the request came too slowly: send it again over a faster line") from None
        except ClientDisconnect:
            raise HTTPException(400, "the request broke off: send it again, whole") from None
        if piece is None:
            return content
        if len(content) + len(piece) > limits.body_bytes:
            raise too_long(request, limits)
        slack += len(piece) / limits.body_rate - (loop.time() - start)
        slack = min(slack, limits.patience)  # what came fast buys no silence later
        await _room(held, len(piece), limits)
        content += piece


async def _room(held: Held, amount: int, limits: Limits) -> None:
    """Wait for room for a piece, or ask to come back later."""
    try:
        async with asyncio.timeout(limits.room_seconds):
            await held.add(amount)
    except TimeoutError:
        sentence = "other requests take all the memory just now: come back in a while, or send fewer pictures at a time"
        raise HTTPException(503, sentence, {"Retry-After": "10"}) from None


def too_long(request: Request, limits: Limits) -> HTTPException:
    """Return the refusal of a body over the limit."""
    alone = kind(request.headers.get("content-type", "")) != FORM
    mend = "send a smaller picture" if alone else "send fewer pictures at a time, or smaller ones"
    return HTTPException(413, f"the request has more than the {limits.body_bytes // MIB} MiB of a body: {mend}")
