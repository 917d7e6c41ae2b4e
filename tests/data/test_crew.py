"""Several processes decode what one would, and none of them is missed when it dies."""

import errno
import io
import json
import logging
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from madod.benchmark import local
from madod.cli.bench import Run, engine_of
from madod.data import cache as room
from madod.data import crew, threads
from madod.data.cache import decoded
from madod.data.crew import Crew
from madod.data.decoder import Array, Entry, Refusal, serve
from madod.data.images import read_image
from madod.data.stamps import identity
from madod.errors import InputError
from madod.serve.limits import Limits


@pytest.fixture
def files(tmp_path):
    (tmp_path / "photos").mkdir()
    paths = [tmp_path / "photos" / f"{k:02}.png" for k in range(40)]
    for k, path in enumerate(paths):
        Image.fromarray(np.random.default_rng(k).integers(0, 256, (12, 12, 3), np.uint8)).save(path)
    return paths


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "cache"


@pytest.fixture(autouse=True)
def hired(monkeypatch):
    """The processes started, three at a time, for any amount of work."""
    started, start = [], crew._started
    monkeypatch.setattr(crew, "WORTH", 0)
    monkeypatch.setattr(crew, "workers", lambda: 3)
    monkeypatch.setattr(room, "HANDFUL", 4)
    monkeypatch.setattr(crew, "_started", lambda array: started.append(start(array)) or started[-1])
    return started


def expected(files, size=8):
    return torch.from_numpy(np.stack([read_image(file, size) for file in files]))


def test_processes_make_what_one_makes(files, cache, hired, tmp_path, monkeypatch, caplog):
    (tmp_path / "json.py").write_text("raise SystemExit('not the module that is meant')")
    monkeypatch.chdir(tmp_path)
    calls = []
    found = decoded(files, 8, cache=cache, progress=lambda _, done, total: calls.append((done, total)))
    assert torch.equal(found.images, expected(files))
    assert caplog.text == ""  # no process died, so that all of the work was theirs
    assert calls == [(k, 40) for k in range(4, 41, 4)]
    assert len(hired) == 3
    assert all(process.returncode is not None for process in hired)


def test_little_work_is_done_here(files, cache, hired, monkeypatch):
    monkeypatch.setattr(crew, "WORTH", 32 << 20)
    assert torch.equal(decoded(files, 8, cache=cache).images, expected(files))
    assert hired == []


@pytest.mark.parametrize(
    ("limit", "cores"), [(None, 6), ("max 100000", 6), ("250000 100000", 2), ("50000 100000", 1), ("9900000 100000", 6)]
)
def test_processors_count_that_this_process_may_use(limit, cores, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(6)), raising=False)
    monkeypatch.setattr(threads, "LIMIT", tmp_path / "cpu.max")
    if limit:
        (tmp_path / "cpu.max").write_text(f"{limit}\n")
    assert threads.cores() == threads.workers() == cores
    assert Limits().decoders == max(1, cores // 2)
    monkeypatch.setattr(local, "Local", lambda context, places, workers, gpus: workers)
    assert engine_of(Run(Path("plan"), Path("runs"), device="cpu"), object()) == cores


def test_bad_files_leave_no_gap(files, cache):
    files[0].write_text("not a picture")
    files[20].write_bytes(files[20].read_bytes()[:200])
    files[39].write_text("not a picture either")
    good = [k for k in range(40) if k not in (0, 20, 39)]
    for _ in range(2):
        found = decoded(files, 8, cache=cache)
        assert torch.equal(found.images, expected([files[k] for k in good]))
        assert found.kept == tuple(good)
        unknown = "its content is not a picture of a known kind"
        assert [bad.reason for bad in found.bad] == [unknown, "it is truncated", unknown]
        assert [bad.name for bad in found.bad] == [str(files[k]) for k in (0, 20, 39)]


@pytest.mark.parametrize("victims", [1, 3])
def test_work_goes_on_when_processes_are_killed(files, cache, hired, victims, caplog):
    def kill(stage, done, total):
        if done == 4:
            for process in hired[:victims]:
                process.kill()

    with caplog.at_level(logging.WARNING):
        found = decoded(files, 8, cache=cache, progress=kill)
    assert torch.equal(found.images, expected(files))
    assert "died" in caplog.text
    assert len(caplog.records) <= victims


def test_work_is_done_here_where_no_process_can_be_started(files, cache, hired, monkeypatch):
    monkeypatch.setattr(sys, "executable", "/no/such/program")
    assert torch.equal(decoded(files, 8, cache=cache).images, expected(files))
    assert hired == [None] * 3


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs Linux's device that is always full")
def test_a_full_disk_is_told_by_the_process(files):
    with Crew(Array("/dev/full", 0, 64)) as hands, pytest.raises(OSError, match="No space left") as caught:
        hands.decode([Entry(0, str(files[0]), identity(files[0]))])
    assert caught.value.errno == errno.ENOSPC


def test_a_full_disk_is_one_sentence_and_leaves_nothing(files, cache, monkeypatch):
    def full(self, entries):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Crew, "decode", full)
    with pytest.raises(InputError, match="the disk is full; free some space"):
        decoded(files, 8, cache=cache)
    assert [item for item in cache.iterdir() if item.is_dir()] == []


def test_an_exception_of_the_progress_ends_the_processes(files, cache, hired):
    def broken(stage, done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        decoded(files, 8, cache=cache, progress=broken)
    assert all(process.returncode is not None for process in hired)
    assert [item for item in cache.iterdir() if item.is_dir()] == []


def test_the_process_answers_line_by_line(files, tmp_path):
    array = tmp_path / "array"
    array.touch()
    files[1].write_text("not a picture")
    entries = [Entry(2, str(files[0]), identity(files[0])), Entry(0, str(files[1]), identity(files[1]))]
    asked, told = io.StringIO("".join(json.dumps([entry]) + "\n" for entry in entries)), io.StringIO()
    serve(asked, told, Array(str(array), 5, 8))
    first, second = (json.loads(line) for line in told.getvalue().splitlines())
    assert first == []
    assert [Refusal(*refusal) for refusal in second] == [Refusal(0, "its content is not a picture of a known kind")]
    assert array.read_bytes()[5 + 2 * 192 :] == read_image(files[0], 8).tobytes()


def test_a_process_starts_without_torch():
    check = "import sys, madod.data.decoder; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0


# A user's program without a guard against being imported again, on pictures that take a while.
PROGRAM = """
import sys, time
from pathlib import Path
from madod.data import cache, crew

crew.WORTH, crew.workers, cache.HANDFUL = 0, lambda: 2, 2
photos, where, go = map(Path, sys.argv[1:])
start = crew._started

def started(array):
    process = start(array)
    print(process.pid, flush=True)
    return process

crew._started = started
print("ready", flush=True)
while not go.exists():
    time.sleep(0.001)
found = cache.decoded(sorted(photos.iterdir()), 8, cache=where, progress=lambda _, *now: print(*now, flush=True))
print("sum", int(found.images.sum()), flush=True)
"""


@pytest.fixture
def launch(tmp_path, cache):
    """Start the program so many times at once, on sixty links to one large picture."""
    (tmp_path / "large").mkdir()
    large = tmp_path / "large" / "00.png"
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (900, 900, 3), np.uint8)).save(large, compress_level=1)
    for k in range(1, 60):
        os.link(large, large.with_name(f"{k:02}.png"))
    (tmp_path / "program.py").write_text(PROGRAM)

    def start(count: int) -> list[subprocess.Popen]:
        command = [sys.executable, tmp_path / "program.py", large.parent, cache, tmp_path / "go"]
        programs = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(count)]
        assert [program.stdout.readline() for program in programs] == ["ready\n"] * count
        (tmp_path / "go").touch()
        return programs

    return start


def test_two_programs_decode_once(launch, tmp_path):
    told = [program.communicate(timeout=120)[0].splitlines() for program in launch(2)]
    assert sorted(map(len, told)) == [1, 2 + 30 + 1]  # only one of them started processes and decoded
    one = int(read_image(tmp_path / "large" / "00.png", 8).sum())
    assert {lines[-1] for lines in told} == {f"sum {60 * one}"}


def test_a_killed_program_leaves_nothing_trusted_and_no_process(launch, cache, tmp_path):
    (program,) = launch(1)
    processes = [int(program.stdout.readline()) for _ in range(2)]
    assert program.stdout.readline() == "2 60\n"
    program.send_signal(signal.SIGKILL)
    program.wait()
    program.stdout.close()
    end = time.monotonic() + 30
    while any(alive(process) for process in processes):
        assert time.monotonic() < end, "a process outlives its program"
        time.sleep(0.05)
    assert [".part" in item.name for item in cache.iterdir() if item.is_dir()] == [True]
    files = sorted((tmp_path / "large").iterdir())
    assert torch.equal(decoded(files, 8, cache=cache).images, expected(files[:1]).expand(60, -1, -1, -1))
    assert [".part" in item.name for item in cache.iterdir() if item.is_dir()] == [False]


def alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
