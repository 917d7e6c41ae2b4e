"""Decoding processes leave nothing behind, however they end."""

import asyncio
import gc
import io
import warnings

from PIL import Image

from madod.data.images import BadImage
from madod.serve.decoder import answer
from madod.serve.decoding import Decoders
from madod.serve.limits import Limits


def test_processes_that_are_killed_over_their_work_are_gone_with_their_pipes_when_the_loop_ends(monkeypatch):
    complaints = []
    monkeypatch.setattr("sys.unraisablehook", lambda fault: complaints.append(fault.exc_value))

    async def given_up() -> None:
        decoders = Decoders(8, Limits(decoders=2))
        await decoders.start()
        halves = [memoryview(bytes(1 << 20))] * 8  # more than a pipe takes at once
        begun = [asyncio.create_task(decoders.together(halves)) for _ in range(2)]
        await asyncio.sleep(0)
        for task in begun:
            task.cancel()
        await asyncio.gather(*begun, return_exceptions=True)
        await decoders.close()

    with warnings.catch_warnings():
        warnings.simplefilter("error", ResourceWarning)
        for _ in range(5):
            asyncio.run(given_up())
            gc.collect()
    assert not complaints


def test_a_long_reason_is_cut_between_letters(monkeypatch):
    def refused(*_args, **_kwargs):
        raise BadImage("it", "é" * 10_001)

    monkeypatch.setattr("madod.serve.decoder.from_bytes", refused)
    said = answer(b"", 8, 100)
    assert said[4:].decode() == "é" * 250
    assert int.from_bytes(said[:4], "little") == len(said) - 4


def test_a_killed_process_whose_answers_nobody_reads_does_not_keep_the_server():
    """Its pipe is full, so that its end would not be noticed."""

    async def given_up(pictures: list[memoryview]) -> None:
        decoders = Decoders(384, Limits(decoders=1))
        await decoders.start()
        for delay in (0.02, 0.05, 0.1):
            task = asyncio.create_task(decoders.together(pictures))
            await asyncio.sleep(delay)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        async with asyncio.timeout(20):
            await decoders.close()

    file = io.BytesIO()
    Image.new("RGB", (16, 16)).save(file, format="PNG")
    asyncio.run(given_up([memoryview(file.getvalue())] * 60))
