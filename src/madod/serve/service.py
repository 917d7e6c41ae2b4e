"""A model with everything around it that answers many requests at once."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

import numpy as np

from madod.data.images import Pixels
from madod.errors import InputError
from madod.evaluation.threshold import threshold
from madod.predict import Model
from madod.report.pictures import png
from madod.serve.answers import Similar, Unreadable, Verdict
from madod.serve.batching import Batcher
from madod.serve.body import Budget
from madod.serve.decoding import Decoders
from madod.serve.limits import Limits
from madod.serve.metrics import Gauges, Metrics
from madod.serve.pulse import Pulse
from madod.serve.uploads import Upload, oversized

CHUNK = 16
"""Pictures that are decoded in one go."""
SIMILAR = 8
"""Training pictures that can be shown beside one picture, at most."""
BLANK = png(np.zeros((1, 1, 3), np.uint8))


class Judged(NamedTuple):
    """What the network says of one picture, with rows of the gallery and how similar they are."""

    best: int
    confidence: float
    score: float
    rows: list[int]
    cosines: list[float]


class Service:
    """Uploads in, verdicts out; holds no more pictures in memory than its limits say."""

    def __init__(self, model: Model, limits: Limits) -> None:
        self.model, self.limits = model, limits
        self.decoders = Decoders(model.size, limits)
        self.batcher = Batcher(self.judge, limits.batch, limits.company)
        self.budget, self.metrics = Budget(limits.held_bytes), Metrics()
        self.slots = asyncio.Semaphore(max(4 * limits.batch // CHUNK, limits.decoders + 1))
        self.active = 0
        self.shown = captions(model)
        self.runner: asyncio.Task[None] | None = None
        self.pulse = Pulse(self._try_blank, limits)

    async def start(self) -> None:
        """Start the decoders and have everything run once, so that the first request is as fast as the others."""
        await self.decoders.start()
        self.runner = asyncio.create_task(self.batcher.run())
        if reason := await self._try_blank():
            raise InputError(
                f"pictures cannot be decoded on this machine (of a blank one: {reason}): free some memory, or install "
                "pillow and simplejpeg anew"
            )

    async def _try_blank(self) -> str | None:
        """Send a blank picture the way of all pictures, and return why it cannot be read, if so."""
        (judged,) = await self._chunk([Upload("blank", memoryview(BLANK))])
        return judged if isinstance(judged, str) else None

    async def close(self) -> None:
        """End the processes and the thread; nothing is under way any more."""
        self.pulse.close()
        if self.runner:
            self.runner.cancel()
            with suppress(asyncio.CancelledError):
                await self.runner
        self.batcher.close()
        await self.decoders.close()

    def judge(self, pictures: Sequence[Pixels]) -> list[Judged]:
        """Return what the network says of pictures, and which training pictures they resemble."""
        probabilities, scores, features = self.model.examine(pictures)
        confidence, best = probabilities.max(1)
        rows: list[list[int]] = [[] for _ in pictures]
        cosines: list[list[float]] = [[] for _ in pictures]
        if self.model.gallery is not None:
            rows, cosines = (found.tolist() for found in self.model.gallery.nearest(features, SIMILAR))
        return [
            Judged(*each)
            for each in zip(best.tolist(), confidence.tolist(), scores.tolist(), rows, cosines, strict=True)
        ]

    async def entries(self, uploads: Sequence[Upload], limit: float, similar: int) -> list[Verdict | Unreadable]:
        """Return one entry per picture, in order; `limit` is the threshold, `similar` how many neighbours to name."""
        chunks = [uploads[start : start + CHUNK] for start in range(0, len(uploads), CHUNK)]
        ahead = asyncio.Semaphore(self.limits.decoders + 2)  # so that others get their turn

        async def admitted(chunk: Sequence[Upload]) -> list[Judged | str]:
            async with ahead:
                return await self._chunk(chunk)

        found = await asyncio.gather(*(admitted(chunk) for chunk in chunks))
        entries = [
            self._entry(upload, judged, limit, similar)
            for chunk, answers in zip(chunks, found, strict=True)
            for upload, judged in zip(chunk, answers, strict=True)
        ]
        self.metrics.images.update(
            "unreadable" if isinstance(entry, Unreadable) else "unknown" if entry.unknown else "known"
            for entry in entries
        )
        return entries

    async def _chunk(self, uploads: Sequence[Upload]) -> list[Judged | str]:
        """Decode and judge a few pictures, in as many turns as it takes."""
        refused = [oversized(upload, self.limits) for upload in uploads]
        sound = [upload.data for upload, reason in zip(uploads, refused, strict=True) if reason is None]
        done: list[Judged | str] = []
        while len(done) < len(sound):
            done += await self._turn(sound[len(done) :])
        told = iter(done)
        return [next(told) if reason is None else reason for reason in refused]

    async def _turn(self, pictures: Sequence[memoryview]) -> list[Judged | str]:
        """Decode and judge the first of the pictures; only so many are in memory as there are slots."""
        async with self.slots:
            read = await self.decoders.decode(pictures)
            judged = await self.batcher.submit([pixels for pixels in read if not isinstance(pixels, str)])
            if judged:
                self.pulse.beat()
            told = iter(judged)
            return [each if isinstance(each, str) else next(told) for each in read]

    def _entry(self, upload: Upload, judged: Judged | str, limit: float, similar: int) -> Verdict | Unreadable:
        if isinstance(judged, str):
            return Unreadable(name=upload.name, error=f"cannot read {upload.name!r}: {judged}")
        near = zip(judged.rows[:similar], judged.cosines[:similar], strict=True)
        return Verdict(
            name=upload.name,
            label=self.model.classes[judged.best],
            confidence=min(judged.confidence, 1.0),
            score=judged.score,
            threshold=limit,
            unknown=judged.score > limit,
            similar=[self._similar(row, cosine) for row, cosine in near],
        )

    def _similar(self, row: int, cosine: float) -> Similar:
        label, domain = self.shown[row]
        return Similar(index=row, label=label, domain=domain, similarity=cosine)

    def threshold(self, given: float | None, keep: float | None) -> float:
        """Return the threshold that a request asks for: its own, one that keeps a share of known pictures, or ours."""
        if given is not None or keep is None:
            return self.model.threshold if given is None else given
        return threshold(self.model.held_scores, keep)

    def gauges(self) -> Gauges:
        """Return the values of this moment."""
        return {
            "madod_passes_total": ("passes of the network", self.batcher.passes),
            "madod_judged_total": ("pictures in all passes of the network", self.batcher.judged),
            "madod_requests_active": ("requests for predictions under way", self.active),
            "madod_pictures_waiting": ("decoded pictures that wait for the network", self.batcher.depth),
            "madod_body_bytes": ("bytes of request bodies in memory", self.budget.used),
        }


def captions(model: Model) -> list[tuple[str, str]]:
    """Return class and domain of every picture in a model's gallery."""
    if model.gallery is None:
        return []
    pairs = zip(model.gallery.labels.tolist(), model.gallery.domains.tolist(), strict=True)
    return [(model.classes[label], model.card.domains[domain]) for label, domain in pairs]
