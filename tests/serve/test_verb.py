"""`madod serve` as a command: what it says, what it refuses, and how it ends."""

import asyncio
import signal
import socket
import subprocess
import sys

import httpx
import pytest

from madod.cli.main import main
from tests.serve.conftest import WARNED
from tests.serve.hostile import request
from tests.serve.process import Served, answer, children


def test_it_says_where_it_is_warns_when_others_can_reach_it_and_ends_at_once(folder):
    with Served(folder, "--host", "0.0.0.0") as server:
        assert "open it in a browser" in server.said
        answered = httpx.get(f"http://127.0.0.1:{server.port}/health", headers={"host": "a.name"})
        assert answered.status_code == 200
        with httpx.Client(base_url=f"http://127.0.0.1:{server.port}") as client:
            for address in ("/", "/health", "/model", "/metrics", "/similar/0.png", "/openapi.json", "/predict", "/no"):
                head, whole = client.head(address), client.get(address)  # one connection: a body would be in the way
                assert (head.status_code, head.content) == (whole.status_code, b"")
                assert head.headers["content-type"] == whole.headers["content-type"]
        server.process.send_signal(signal.SIGINT)
        _, errors = server.process.communicate(timeout=30)
    assert server.process.returncode == 0
    assert errors.startswith("madod: warning: 0.0.0.0 can be reached from other machines")
    assert errors.count("\n") == 1


def test_it_says_what_the_model_s_own_check_warned_of(warned, tmp_path):
    warned.save(tmp_path / "model")
    with Served(tmp_path / "model") as server:
        assert server.end() == (0, "".join(f"madod: of this model's own check: {each}\n" for each in WARNED.warnings))


def test_requests_under_way_are_answered_before_it_ends(folder, digits):
    """A request of which half has come when the server is told to end is still answered; a new one is not taken."""

    async def half_and_half(server: Served) -> bytes:
        whole = request(digits[0], "image/png")
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(whole[:-100])
        await asyncio.sleep(0.5)
        server.process.terminate()
        await asyncio.sleep(1)
        with pytest.raises(OSError, match="Connect"):
            await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(whole[-100:])
        found = await answer(reader)
        writer.close()
        return found

    with Served(folder) as server:
        assert asyncio.run(half_and_half(server)).startswith(b"HTTP/1.1 200")
        _, errors = server.process.communicate(timeout=30)
        assert (server.process.returncode, errors) == (0, "")


def test_its_decoders_end_with_it_even_when_it_is_killed(folder):
    server = Served(folder)
    decoders = children(server.process.pid)
    assert decoders
    server.process.kill()
    server.process.communicate()
    for child in decoders:
        subprocess.run(["timeout", "10", "tail", f"--pid={child}", "-f", "/dev/null"], check=True)


def refused(capsys, *words: object) -> str:
    assert main(["serve", *map(str, words)]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("madod: ")
    assert said.err.count("\n") == 1
    return said.err


def test_what_it_refuses(folder, tmp_path, capsys):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert f"cannot listen on port {port} of 127.0.0.1" in refused(capsys, folder, "--port", port)
    assert "cannot listen on port 0 of 127.0.0..1" in refused(capsys, folder, "--port", 0, "--host", "127.0.0..1")
    assert "there is no port 70000" in refused(capsys, folder, "--port", 70000)
    assert "no.such.host.invalid" in refused(capsys, folder, "--host", "no.such.host.invalid")
    assert "there is no model" in refused(capsys, tmp_path)
    assert "--max-images 0" in refused(capsys, folder, "--max-images", 0)
    assert "--max-megapixels 101" in refused(capsys, folder, "--max-megapixels", 101)


def test_it_does_not_start_where_pictures_cannot_be_decoded(folder, capsys, monkeypatch):
    monkeypatch.setattr("madod.serve.decoding.PROGRAM", (sys.executable, "-c", ""))
    said = refused(capsys, folder, "--port", 0, "--device", "cpu")
    assert "pictures cannot be decoded on this machine (of a blank one: its decoder broke down over it)" in said


@pytest.mark.parametrize("missing", ["fastapi", "uvicorn", "python_multipart"])
def test_without_the_extra_it_says_what_to_install(missing, folder, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, missing, None)
    assert "pip install 'madod[serve]'" in refused(capsys, folder)
