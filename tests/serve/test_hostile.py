"""Whatever is sent, the server lives, holds no more memory than it should, and blames itself for nothing."""

import asyncio
import json
import os
import re
import signal
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import httpx
import numpy as np
import pytest
from PIL import Image

from tests.serve import hostile
from tests.serve.conftest import written
from tests.serve.process import Served, children

MIB = 2**20


def status(answer: bytes) -> int:
    found = re.match(rb"HTTP/1\.1 (\d{3})", answer)
    return int(found[1]) if found else 0


async def attack(server: Served, count: int, seed: int) -> Counter[int]:
    """Send hostile requests, sixteen at a time, and count what comes back; nothing at all counts as 0."""
    rng, seen, peak = np.random.default_rng(seed), Counter[int](), 0
    turns = iter(range(count))

    async def attacker() -> None:
        nonlocal peak
        for turn in turns:
            content, leave = hostile.draw(rng)
            answer = await server.exchange(content, half=leave)
            code = status(answer)
            assert code < 500, (seed, turn, content[:300], answer[:300])
            if code >= 400 and b"\r\n\r\n{" in answer:
                said = json.loads(answer.partition(b"\r\n\r\n")[2])["error"]
                assert said, content[:300]
                assert "\n" not in said
                assert "Traceback" not in said
            seen[code] += 1
            if turn % 50 == 0:
                peak = max(peak, server.memory())

    await asyncio.gather(*(attacker() for _ in range(16)))
    assert peak < 1500 * MIB
    return seen


def sound(server: Served, picture: bytes) -> dict:
    answer = httpx.post(f"{server.url}/predict", content=picture, headers={"content-type": "image/png"}, timeout=30)
    assert answer.status_code == 200, answer.text
    return answer.json()["images"][0]


def test_hundreds_of_hostile_requests(server, digits):
    before = sound(server, digits[0])
    seen = asyncio.run(attack(server, 400, seed=0))
    assert {200, 400, 404, 405, 413, 415, 421, 422} <= set(seen), seen
    assert sound(server, digits[0]) == before
    assert server.memory() < 1000 * MIB


@pytest.mark.long
def test_ten_thousand_hostile_requests(folder, digits):
    with Served(folder) as server:
        before, held = sound(server, digits[0]), server.memory()
        seen = asyncio.run(attack(server, 10_000, seed=1))
        assert sum(seen.values()) == 10_000
        assert seen[0] < 600  # those that left early
        assert sound(server, digits[0]) == before
        assert server.memory() < held + 300 * MIB


@pytest.mark.parametrize("size", [(20_000, 20_000), (51_000, 1000)])
def test_a_bomb_is_refused_by_its_header(client, size):
    answer = client.post("/predict", content=hostile.bomb(*size), headers={"content-type": "image/png"})
    assert answer.status_code == 422
    assert "it has more than the 50,000,000 pixels that are allowed" in answer.json()["error"]


def test_a_picture_below_the_limit_of_pixels_is_read(client):
    answer = client.post("/predict", content=hostile.bomb(7000, 7000), headers={"content-type": "image/png"})
    assert answer.status_code == 200


@pytest.mark.parametrize("name", [*hostile.NAMES, "ok.png"])
def test_names_are_shown_but_never_used(client, digits, name):
    content = hostile.form([(name.replace('"', "%22").replace("\n", "%0A"), digits[0])])
    answer = client.post("/predict", content=content, headers={"content-type": "multipart/form-data; boundary=xyz"})
    assert answer.status_code == 200
    shown = answer.json()["images"][0]["name"]
    assert shown
    assert not re.search(r"[/\\\x00\n\u202e]", shown)
    assert len(shown) <= 100


def test_a_slow_head_is_cut_off_and_slow_bodies_hold_nobody_up(server, digits):
    async def trickle(start: bytes) -> float:
        """Send a beginning, then a byte a second, until the server has enough; return how long that took."""
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        begun, loop = asyncio.get_running_loop().time(), asyncio.get_running_loop()
        writer.write(start)
        while loop.time() - begun < 30:
            try:
                if await asyncio.wait_for(reader.read(1000), 1) == b"":
                    break
            except TimeoutError:
                writer.write(b"a")
            except ConnectionError:
                break
        writer.close()
        return loop.time() - begun

    async def all_of_it() -> tuple[list[float], float]:
        bodies = (
            b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: image/png\r\nContent-Length: 60000000\r\n\r\n"
        )
        slow = [asyncio.create_task(trickle(start)) for start in [b"POST /predict HT", bodies] * 40]
        await asyncio.sleep(1)
        begun = asyncio.get_running_loop().time()
        await asyncio.to_thread(sound, server, digits[0])
        waited = asyncio.get_running_loop().time() - begun
        return await asyncio.gather(*slow), waited

    lasted, waited = asyncio.run(all_of_it())
    assert waited < 3
    assert max(lasted) < 10  # the answer to a slow body is left to be read for as long again
    assert min(lasted) > 2


def test_a_body_that_came_fast_and_then_falls_silent_is_refused(server):
    head = b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: image/png\r\nContent-Length: 60000000\r\n\r\n"
    refusal = asyncio.run(server.exchange(head + bytes(2**20)))  # it would be due in 32 seconds
    assert status(refusal) == 408
    assert b"came too slowly" in refusal


@pytest.mark.parametrize("size", [100_000, 5_000_000])
def test_a_head_that_is_too_long_is_told_so(server, size):
    long = b"GET / HTTP/1.1\r\nHost: localhost\r\nA: " + b"a" * size + b"\r\n\r\n"
    answers = [asyncio.run(server.exchange(long)) for _ in range(5)]
    assert {status(answer) for answer in answers} <= {400, 431}
    assert all(b"head has more than 32 KiB" in answer for answer in answers)


@pytest.mark.parametrize(
    "order", [("Content-Length: 6", "Transfer-Encoding: chunked"), ("tRANSFER-eNCODING: CHUNKED", "content-length: 6")]
)
@pytest.mark.parametrize("first", ["POST /predict", "GET /health"])
def test_a_request_that_says_its_length_in_two_ways_is_refused_with_whatever_follows_it(server, first, order):
    hidden = "GET /model HTTP/1.1\r\nHost: localhost\r\n\r\n"
    whole = "\r\n".join(
        [f"{first} HTTP/1.1", "Host: localhost", "Content-Type: image/png", *order, "", "0", "", hidden]
    )

    async def talk() -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(whole.encode())
        found = await asyncio.wait_for(reader.read(), 10)
        writer.close()
        return found

    found = asyncio.run(talk())
    assert status(found) == 400
    assert found.count(b"HTTP/1.1") == 1
    assert b"both Content-Length and Transfer-Encoding: send one of them" in found


def test_a_body_over_the_limit_is_refused_before_it_is_read(server):
    head = (
        b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: image/png\r\nContent-Length: 999999999999\r\n\r\n"
    )
    assert status(asyncio.run(server.exchange(head))) == 413


@pytest.mark.parametrize(
    ("kind", "mend"),
    [
        ("image/png", "send a smaller picture"),
        ("multipart/form-data; boundary=x", "send fewer pictures at a time, or smaller ones"),
    ],
)
def test_a_body_over_the_limit_is_told_the_limit(make_client, kind, mend):
    client = make_client(body_bytes=2**20)
    answer = client.post("/predict", content=bytes(2**20 + 1), headers={"content-type": kind})
    assert answer.json() == {"error": f"the request has more than the 1 MiB of a body: {mend}"}


def test_a_body_without_a_length_is_refused_when_it_grows_too_long(make_client, digits):
    client = make_client(body_bytes=20_000)

    def pieces():
        for _ in range(30):
            yield bytes(1000)

    answer = client.post("/predict", content=pieces(), headers={"content-type": "image/png"})
    assert answer.status_code == 413
    assert client.post("/predict", content=digits[0], headers={"content-type": "image/png"}).status_code == 200


def test_one_picture_too_large_does_not_spoil_the_others(make_client, digits):
    client = make_client(image_bytes=5000)
    large = written(Image.fromarray(np.random.default_rng(0).integers(0, 256, (90, 90, 3), np.uint8)))
    answer = client.post("/predict", files=[("files", ("large.png", large)), ("files", ("small.png", digits[0]))])
    assert answer.status_code == 200
    first, second = answer.json()["images"]
    assert "MiB that are allowed" in first["error"]
    assert second["label"]


def test_a_decoder_that_died_in_its_sleep_is_not_the_next_picture_s_fault(server, digits):
    before = sound(server, digits[0])
    for child in children(server.process.pid):
        os.kill(child, signal.SIGKILL)
    assert sound(server, digits[0]) == before


def test_the_working_folder_has_no_say_in_what_decoders_import(make_client, digits, monkeypatch, tmp_path):
    (tmp_path / "PIL.py").write_text("raise SystemExit('not the module that is meant')")
    monkeypatch.chdir(tmp_path)
    answer = make_client().post("/predict", content=digits[0], headers={"content-type": "image/png"})
    assert answer.status_code == 200


@pytest.fixture
def odd_decoders(monkeypatch, tmp_path):
    """Decoders are swapped for one that dies over one picture, hangs over another and takes its time over a third."""
    program = tmp_path / "decoder.py"
    program.write_text(
        "import os, sys, time\n"
        "from madod.serve import decoder\n"
        "plain = decoder.answer\n"
        "def answer(picture, size, limit):\n"
        "    if picture == b'die': os.kill(os.getpid(), 11)\n"
        "    if picture == b'hang': time.sleep(60)\n"
        "    if picture.endswith(b'slow'): time.sleep(0.12)\n"
        "    return plain(picture, size, limit)\n"
        "decoder.answer = answer\n"
        "decoder.serve(sys.stdin.buffer, sys.stdout.buffer, int(sys.argv[1]), int(sys.argv[2]))\n",
        encoding="utf-8",
    )
    monkeypatch.setattr("madod.serve.decoding.PROGRAM", (sys.executable, str(program)))


def test_a_decoder_that_dies_or_hangs_is_replaced(make_client, digits, odd_decoders):
    client = make_client(decode_seconds=2.0)
    contents = [digits[0], b"die", digits[1], b"hang", digits[2]]
    answer = client.post("/predict", files=[("files", (f"{k}.png", data)) for k, data in enumerate(contents)])
    entries = answer.json()["images"]
    assert [list(entry)[1] for entry in entries] == ["label", "error", "label", "error", "label"]
    assert "broke down" in entries[1]["error"]
    assert "2 seconds" in entries[3]["error"]


def test_a_request_of_slow_pictures_lets_others_have_their_turn(make_client, digits, odd_decoders):
    client = make_client(batch=16)
    names = [f"{place}.png" for place in range(64)]
    long = [("files", (name, digits[place % 12] + b"slow")) for place, name in enumerate(names)]
    with ThreadPoolExecutor() as pool:
        start = time.monotonic()
        slow = pool.submit(client.post, "/predict", files=long)
        time.sleep(0.5)
        asked = time.monotonic()
        assert client.post("/predict", content=digits[0], headers={"content-type": "image/png"}).status_code == 200
        waited = time.monotonic() - asked
        entries = slow.result().json()["images"]
    assert waited < (time.monotonic() - start) / 2
    assert [entry["name"] for entry in entries] == names
    short = client.post("/predict", files=[("files", (name, digits[place])) for place, name in enumerate(names[:12])])
    expected = [entry["label"] for entry in short.json()["images"]]
    assert [entry["label"] for entry in entries] == [expected[place % 12] for place in range(64)]
