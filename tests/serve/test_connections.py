"""Connections that are kept open for nothing are closed, and no more are taken than there may be."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import nullcontext

import uvicorn

from madod.serve.connection import guarded
from madod.serve.limits import Limits
from madod.serve.server import Server, listening
from tests.serve.process import answer

Talk = Callable[[int], Awaitable[object]]


async def app(scope, receive, send) -> None:
    """Answer at once, without reading the body: with very much at /large, with little elsewhere."""
    content = bytes(50_000_000) if scope["path"] == "/large" else b"ok"
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(content))]})
    for start in range(0, len(content), 100_000):
        await send({"type": "http.response.body", "body": content[start : start + 100_000], "more_body": True})
    await send({"type": "http.response.body", "body": b""})


def served(talk: Talk, **limits) -> object:
    """Run a talk with a server of these limits, and return what it returns."""

    async def both() -> object:
        door = listening("127.0.0.1", 0)
        protocol = guarded(Limits(**limits))
        config = uvicorn.Config(app, http=protocol, lifespan="off", log_config=None, timeout_graceful_shutdown=1)
        server = Server(config, nullcontext())
        running = asyncio.create_task(server.serve([door]))
        try:
            return await talk(door.getsockname()[1])
        finally:
            server.should_exit = True
            await running

    return asyncio.run(both())


def test_no_more_connections_than_there_may_be():
    async def talk(port: int) -> list[bytes]:
        open_ones = [await asyncio.open_connection("127.0.0.1", port) for _ in range(3)]
        more = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
        refusals = [await reader.read() for reader, _ in more]
        open_ones[0][1].write(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        taken = await answer(open_ones[0][0])
        for _, writer in open_ones + more:
            writer.close()
        return [taken, *refusals]

    taken, *refusals = served(talk, connections=3)
    assert taken.startswith(b"HTTP/1.1 200")
    for refusal in refusals:
        assert refusal.startswith(b"HTTP/1.1 429")
        assert b"retry-after: 1" in refusal.lower()
        assert b"too many connections" in refusal


def test_whoever_does_not_take_the_answer_is_cut_off():
    async def talk(port: int) -> float:
        loop = asyncio.get_running_loop()
        _, writer = await asyncio.open_connection("127.0.0.1", port, limit=1000)
        writer.write(b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n")
        start = loop.time()
        while loop.time() - start < 10:
            writer.write(b"x")  # sending on is no excuse
            try:
                await writer.drain()
            except ConnectionError:
                break
            await asyncio.sleep(0.1)
        writer.close()
        return loop.time() - start

    assert 0.5 < served(talk, patience=1.0) < 6


def test_a_head_that_never_ends_is_cut_off_also_on_a_connection_that_was_good():
    async def talk(port: int) -> tuple[bytes, bytes]:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        first = await answer(reader)
        await asyncio.sleep(1.5)  # between requests it may rest
        writer.write(b"GET / HTTP/1.1\r\nHo")
        rest = await asyncio.wait_for(reader.read(), 5)
        writer.close()
        return first, rest

    first, rest = served(talk, patience=1.0)
    assert first.endswith(b"ok")
    assert rest == b""


def test_a_body_that_nobody_wants_may_end_and_the_connection_lives_on():
    async def talk(port: int) -> list[bytes]:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n")
        found = [await answer(reader)]
        writer.write(bytes(1_000_000))
        await asyncio.sleep(1.5)
        writer.write(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        found.append(await answer(reader))
        writer.write(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n")
        found += [await answer(reader), await asyncio.wait_for(reader.read(), 5)]
        writer.close()
        return found

    *answers, rest = served(talk, patience=1.0)
    assert all(each.endswith(b"ok") for each in answers)
    assert rest == b""


def test_a_body_that_breaks_off_before_it_was_answered_gets_one_answer_and_no_complaint(caplog):
    async def talk(port: int) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nno number\r\n")
        found = await asyncio.wait_for(reader.read(), 5)
        writer.close()
        return found

    found = served(talk)
    assert found.startswith(b"HTTP/1.1 400")
    assert found.count(b"HTTP/1.1") == 1
    assert "Exception in ASGI application" not in caplog.text
