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
        self.overdraft = asyncio.Lock()

    def fits(self, amount: int) -> bool:
        """Tell whether there is room for so many bytes more."""
        return self.used + amount <= self.total


class Held:
    """What one body holds of the budget."""

    def __init__(self, budget: Budget) -> None:
        self.budget, self.amount, self.overdrawn = budget, 0, False

    async def add(self, amount: int) -> None:
        """Wait until so many bytes more may be held."""
        if not self.overdrawn and not self.budget.fits(amount):
            await self.budget.overdraft.acquire()
            self.overdrawn = not self.budget.fits(amount)
            if not self.overdrawn:
                self.budget.overdraft.release()
        self.budget.used += amount
        self.amount += amount

    def free(self) -> None:
        """Give everything back."""
        self.budget.used -= self.amount
        if self.overdrawn:
            self.budget.overdraft.release()


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
    loop, waited = asyncio.get_running_loop(), 0.0
    while True:
        start = loop.time()
        try:
            async with asyncio.timeout(limits.patience + len(content) / limits.body_rate - waited):
                piece = await anext(stream, None)
        except TimeoutError:
            raise HTTPException(408, "the request came too slowly: send it again over a faster line") from None
        except ClientDisconnect:
            raise HTTPException(400, "the request broke off: send it again, whole") from None
        if piece is None:
            return content
        waited += loop.time() - start
        if len(content) + len(piece) > limits.body_bytes:
            raise too_long(request, limits)
        await held.add(len(piece))
        content += piece


def too_long(request: Request, limits: Limits) -> HTTPException:
    """Return the refusal of a body over the limit."""
    alone = kind(request.headers.get("content-type", "")) != FORM
    mend = "send a smaller picture" if alone else "send fewer pictures at a time, or smaller ones"
    return HTTPException(413, f"the request has more than the {limits.body_bytes // MIB} MiB of a body: {mend}")
