"""Whether pictures still come through: seen where some did just now, and tried with a blank one where none did."""

import asyncio
import time
from collections.abc import Awaitable, Callable

from madod.serve.limits import Limits

FRESH = 1.0
"""Seconds for which a picture that came through is proof enough, so that under load nothing is tried."""


class Pulse:
    """Knows when a picture last came through; tries one at a time, however many ask."""

    def __init__(self, attempt: Callable[[], Awaitable[str | None]], limits: Limits) -> None:
        self.attempt, self.limits = attempt, limits
        self.last = self.began = 0.0
        self.reason: str | None = None
        self.trial: asyncio.Task[None] | None = None

    def beat(self) -> None:
        """Note that a picture came through."""
        self.last, self.reason = time.monotonic(), None

    async def fault(self) -> str | None:
        """Return why pictures do not come through, if so; soon, even where the one tried waits behind others."""
        if time.monotonic() - self.last < FRESH:
            return None
        if self.trial is None or self.trial.done():
            self.trial, self.began = asyncio.create_task(self._try()), time.monotonic()
        await asyncio.wait([self.trial], timeout=self.limits.health_seconds)
        waited = time.monotonic() - max(self.last, self.began)
        if not self.trial.done() and waited > self.limits.stalled_seconds:
            return f"none came through in the last {waited:.0f} seconds"
        return self.reason

    async def _try(self) -> None:
        try:
            self.reason = await self.attempt()
        except Exception as error:  # whatever the network died of
            self.reason = f"{type(error).__name__}: {error}"

    def close(self) -> None:
        """Give up a trial that is under way."""
        if self.trial is not None:
            self.trial.cancel()
