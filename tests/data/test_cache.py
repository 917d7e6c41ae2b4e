"""Decoded once, found by content, whole or absent."""

import errno
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image

from madod.data import decoder, stamps
from madod.data.cache import cache_dir, decoded
from madod.data.images import BadImage, read_image
from madod.data.threads import ordered
from madod.errors import InputError


def picture(path: Path, seed: int) -> Path:
    noise = np.random.default_rng(seed).integers(0, 256, (12, 12, 3), np.uint8)
    Image.fromarray(noise).save(path)
    return path


@pytest.fixture
def files(tmp_path):
    (tmp_path / "photos").mkdir()
    return [picture(tmp_path / "photos" / f"{k}.png", k) for k in range(40)]


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "cache"


@pytest.fixture
def reads(monkeypatch):
    """The files that were decoded, in any order."""
    seen: list[Path] = []
    monkeypatch.setattr(decoder, "read_image", lambda path, size: seen.append(path) or read_image(path, size))
    return seen


@pytest.fixture
def hashed(monkeypatch):
    """The files whose content was hashed."""
    seen: list[Path] = []
    original = stamps.hashed
    monkeypatch.setattr(stamps, "hashed", lambda file: seen.append(file) or original(file))
    return seen


def expected(files, size=8):
    return torch.from_numpy(np.stack([read_image(file, size) for file in files]))


def entries(cache: Path) -> list[Path]:
    """The folders whose content would be trusted."""
    return [item for item in cache.iterdir() if item.is_dir() and ".part" not in item.name]


def leftovers(cache: Path) -> list[Path]:
    return [item for item in cache.iterdir() if ".part" in item.name]


def test_images_come_in_the_order_of_the_files(files, cache):
    found = decoded(files, 8, cache=cache)
    assert found.images.dtype == torch.uint8
    assert found.images.shape == (40, 3, 8, 8)
    assert torch.equal(found.images, expected(files))
    assert found.kept == tuple(range(40))
    assert found.bad == ()
    assert leftovers(cache) == []


def test_a_second_start_reads_nothing(files, cache, reads, hashed):
    first = decoded(files, 8, cache=cache)
    assert sorted(reads) == sorted(hashed) == sorted(files)
    reads.clear(), hashed.clear()
    calls = []
    again = decoded(files, 8, cache=cache, progress=lambda _, done, total: calls.append(done))
    assert (reads, hashed, calls) == ([], [], [])
    assert torch.equal(first.images, again.images)


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs Linux's list of memory maps")
def test_images_are_mapped_not_copied(files, cache):
    images = decoded(files, 8, cache=cache).images
    maps = [line for line in Path("/proc/self/maps").read_text().splitlines() if entries(cache)[0].name in line]
    spans = [[int(end, 16) for end in line.split()[0].split("-")] for line in maps]
    assert any(low <= images.data_ptr() < high for low, high in spans)


def test_writing_to_the_images_leaves_the_file(files, cache, recwarn):
    images = decoded(files, 8, cache=cache).images
    before = images.clone()
    images.zero_()
    assert torch.equal(decoded(files, 8, cache=cache).images, before)
    assert not [warning for warning in recwarn if "writ" in str(warning.message)]


def test_progress_counts_every_picture(files, cache):
    calls = []
    decoded(files, 8, cache=cache, progress=lambda _, done, total: calls.append((done, total)))
    assert calls == [(k, 40) for k in range(1, 41)]


def test_touching_hashes_again_but_decodes_nothing(files, cache, reads, hashed):
    decoded(files, 8, cache=cache)
    reads.clear(), hashed.clear()
    os.utime(files[3], (1, 1))
    found = decoded(files, 8, cache=cache)
    assert (reads, hashed) == ([], [files[3]])
    assert len(entries(cache)) == 1
    hashed.clear()
    decoded(files, 8, cache=cache)
    assert hashed == []
    assert torch.equal(found.images, expected(files))


def test_parts_of_a_folder_are_hashed_once_and_files_that_are_gone_forgotten(files, cache, hashed):
    for part in (files[:20], files[20:], files[:20]):
        decoded(part, 8, cache=cache)
    assert sorted(hashed) == sorted(files)
    files[3].unlink()
    os.utime(files[20], (1, 1))
    decoded(files[20:], 8, cache=cache)
    (index,) = cache.glob("index-*.json")
    assert json.loads(index.read_text()).keys() == {str(file) for file in files if file != files[3]}


def test_moving_the_folder_decodes_nothing(files, cache, reads):
    decoded(files, 8, cache=cache)
    reads.clear()
    moved = files[0].parent.rename(files[0].parent.with_name("moved"))
    assert torch.equal(
        decoded(sorted(moved.iterdir(), key=lambda p: int(p.stem)), 8, cache=cache).images[5], _row(moved, 5)
    )
    assert reads == []


def _row(folder: Path, k: int) -> torch.Tensor:
    return torch.from_numpy(read_image(folder / f"{k}.png", 8))


def test_changed_content_is_decoded_anew(files, cache):
    old = decoded(files, 8, cache=cache).images.clone()
    picture(files[3], 1000)
    new = decoded(files, 8, cache=cache).images
    assert len(entries(cache)) == 2
    assert torch.equal(new, expected(files))
    assert not torch.equal(new[3], old[3])


def test_changed_content_with_the_old_size_and_time_is_seen(files, cache):
    bmp = files[0].with_suffix(".bmp")
    picture(bmp, 1)
    facts = bmp.stat()
    decoded([bmp], 8, cache=cache)
    time.sleep(0.05)  # file systems count time in ticks of some milliseconds
    picture(bmp, 2)
    os.utime(bmp, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    assert bmp.stat().st_size == facts.st_size
    assert torch.equal(decoded([bmp], 8, cache=cache).images, expected([bmp]))


def test_order_and_size_are_part_of_the_key(files, cache):
    decoded(files, 8, cache=cache)
    assert torch.equal(decoded(files[::-1], 8, cache=cache).images, expected(files[::-1]))
    assert torch.equal(decoded(files, 9, cache=cache).images, expected(files, 9))
    assert len(entries(cache)) == 3


def test_bad_files_are_all_collected(files, cache):
    files[3].write_text("not a picture")
    files[20].write_bytes(files[20].read_bytes()[:200])
    files[30].unlink()
    good = [k for k in range(40) if k not in (3, 20, 30)]
    for _ in range(2):
        found = decoded(files, 8, cache=cache)
        assert [bad.name for bad in found.bad] == [str(files[k]) for k in (3, 20, 30)]
        reasons = [bad.reason for bad in found.bad]
        assert reasons == ["its content is not a picture of a known kind", "it is truncated", "it does not exist"]
        assert found.kept == tuple(good)
        assert torch.equal(found.images, expected([files[k] for k in good]))


def test_bad_files_cost_a_second_start_only_themselves(files, cache, reads):
    files[3].write_text("not a picture")
    decoded(files, 8, cache=cache)
    reads.clear()
    decoded(files, 8, cache=cache)
    assert reads == [files[3]]


def test_a_reason_that_has_passed_is_forgotten(files, cache, monkeypatch):
    def short_of_memory(path, size):
        if path == files[3]:
            raise BadImage(str(path), "there is not enough memory to decode it")
        return read_image(path, size)

    monkeypatch.setattr(decoder, "read_image", short_of_memory)
    assert len(decoded(files, 8, cache=cache).bad) == 1
    monkeypatch.undo()
    found = decoded(files, 8, cache=cache)
    assert found.bad == ()
    assert torch.equal(found.images, expected(files))


@pytest.mark.parametrize("content", ["text", ""])
def test_nothing_readable_at_all(files, cache, content):
    for file in files:
        file.write_text(content)
    for _ in range(2):
        found = decoded(files, 8, cache=cache)
        assert found.images.shape == (0, 3, 8, 8)
        assert (found.kept, len(found.bad)) == ((), 40)


def test_no_files_at_all(cache):
    assert decoded([], 8, cache=cache).images.shape == (0, 3, 8, 8)


def test_a_file_that_changes_while_it_is_read_is_bad(files, cache, monkeypatch):
    os.utime(files[3], (1, 1))

    def swap(path, size):
        image = read_image(path, size)
        if path == files[3]:
            picture(path, 99)
        return image

    monkeypatch.setattr(decoder, "read_image", swap)
    found = decoded(files, 8, cache=cache)
    assert [bad.reason for bad in found.bad] == ["it changed while it was being read"]
    monkeypatch.undo()
    assert torch.equal(decoded(files, 8, cache=cache).images, expected(files))


def short(array: Path) -> None:
    os.truncate(array, array.stat().st_size - 1)


def zipped(array: Path) -> None:
    with array.open("wb") as out:
        np.savez(out, a=np.zeros(3))


def piped(array: Path) -> None:
    array.unlink()
    os.mkfifo(array)


def one_fewer(array: Path, positions: str) -> None:
    np.save(array, np.load(array)[:-1])
    bad(array, positions)


def bad(array: Path, text: str) -> None:
    (array.parent / "bad.json").write_text(text)


def index(array: Path, change: Callable[[str], str]) -> None:
    (file,) = array.parent.parent.glob("index-*.json")
    file.write_text(change(file.read_text()))


DAMAGES = {
    "short": short,
    "empty": lambda array: array.write_bytes(b""),
    "garbage": lambda array: array.write_bytes(b"garbage" * 1000),
    "absent": Path.unlink,
    "zip": zipped,
    "pipe": piped,
    "pickle": lambda array: np.save(array, np.array([{}], dtype=object)),
    "floats": lambda array: np.save(array, np.load(array).astype(np.float32)),
    "other layout": lambda array: np.save(array, np.asfortranarray(np.load(array))),
    "bad.json": lambda array: bad(array, "[1, 2"),
    "bad.json a number": lambda array: bad(array, "5"),
    "bad.json null": lambda array: bad(array, "null"),
    "bad.json a mapping": lambda array: bad(array, "{}"),
    "bad.json nested": lambda array: bad(array, "[" * 200_000),
    "no such position": lambda array: one_fewer(array, "[9999]"),
    "a text for a position": lambda array: one_fewer(array, '["a"]'),
    "a list for a position": lambda array: one_fewer(array, "[[1]]"),
    "index": lambda array: index(array, lambda text: text[:-9]),
    "index nested": lambda array: index(array, lambda text: "[" * 200_000),
    "index of numbers": lambda array: index(array, lambda text: re.sub(r'"[0-9a-f]{64}"', "5", text)),
    "index of words": lambda array: index(array, lambda text: re.sub(r'"[0-9a-f]{64}"', '"a"', text)),
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_cache_is_made_again(files, cache, damage):
    decoded(files, 8, cache=cache)
    damage(entries(cache)[0] / "images.npy")
    for _ in range(2):
        found = decoded(files, 8, cache=cache)
        assert found.images.dtype == torch.uint8
        assert torch.equal(found.images, expected(files))
        assert found.bad == ()
        assert len(entries(cache)) == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs Linux's device that is always full")
def test_a_full_disk_is_one_sentence_and_leaves_nothing(files, cache, monkeypatch):
    original = Path.open

    def on_full_disk(self, *args, **kwargs):
        return original(Path("/dev/full") if self.name == "images.npy" else self, *args, **kwargs)

    monkeypatch.setattr(Path, "open", on_full_disk)
    with pytest.raises(
        InputError, match=r"cannot write decoded pictures to .*cache: the disk is full; free some"
    ) as caught:
        decoded(files, 64, cache=cache)
    assert caught.value.__cause__.errno == errno.ENOSPC
    assert "\n" not in str(caught.value)
    assert entries(cache) == leftovers(cache) == []
    monkeypatch.undo()
    assert torch.equal(decoded(files, 64, cache=cache).images, expected(files, 64))


def test_a_disk_without_room_for_all_pictures_is_refused_before_any_is_decoded(files, cache, reads, monkeypatch):
    free = 40 * 3 * 64 * 64
    monkeypatch.setattr("shutil.disk_usage", lambda folder: SimpleNamespace(free=free))
    with pytest.raises(InputError) as caught:
        decoded(files, 128, cache=cache)
    assert str(caught.value) == (
        f"40 pictures of 128 px take 2.0 MB in {cache}, and 0.5 MB are free there: free some space, choose a smaller "
        "size, or set MADOD_CACHE to a folder on another disk"
    )
    assert reads == entries(cache) == leftovers(cache) == []
    assert len(decoded(files, 64, cache=cache).images) == 40
    free = 0
    assert len(decoded(files, 64, cache=cache).images) == 40  # what is decoded needs no more room


def test_a_cache_that_cannot_be_written_is_one_sentence(files, tmp_path, caplog):
    (tmp_path / "cache").write_text("a file, not a folder")
    for cache in (tmp_path / "cache", tmp_path / "cache" / "images"):
        with pytest.raises(InputError, match=r"cannot write decoded pictures to .*; move the file away .*MADOD_CACHE"):
            decoded(files, 8, cache=cache)
    assert "damaged" not in caplog.text


def test_a_cache_that_takes_no_large_files_says_so(files, cache, monkeypatch):
    def refused(*args, **kwargs):
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))

    monkeypatch.setattr("madod.data.cache._to_disk", refused)
    with pytest.raises(InputError, match=r"file too large; allow larger files \(ulimit -f\), or set MADOD_CACHE"):
        decoded(files, 8, cache=cache)


def test_a_broken_progress_display_is_not_blamed_on_the_disk(files, cache):
    def broken(stage, done, total):
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        decoded(files, 8, cache=cache, progress=broken)
    assert entries(cache) == leftovers(cache) == []


def test_few_pictures_are_in_flight(cache, monkeypatch):
    taken = []
    workers = min(8, os.cpu_count() or 1)
    for k, _ in enumerate(ordered(lambda item: item, (taken.append(i) or i for i in range(500)))):
        assert len(taken) <= k + 2 * workers
    assert len(taken) == 500


def test_where_the_cache_is(monkeypatch, tmp_path):
    monkeypatch.setenv("MADOD_CACHE", str(tmp_path / "own"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_dir() == tmp_path / "own"
    monkeypatch.delenv("MADOD_CACHE")
    assert cache_dir() == tmp_path / "xdg" / "madod"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_dir() == tmp_path / ".cache" / "madod"


SLOW_READER = """
import sys, time
from pathlib import Path
from madod.data import cache, decoder
from madod.data.images import read_image

photos, where, log, go = map(Path, sys.argv[1:])

def slow(path, size):
    time.sleep(0.02)
    with log.open("a") as out:
        out.write(f"{path.name}\\n")
    return read_image(path, size)

decoder.read_image = slow
print("ready", flush=True)
while not go.exists():
    time.sleep(0.001)
files = sorted(photos.iterdir(), key=lambda path: int(path.stem))
print(int(cache.decoded(files, 8, cache=where).images.sum()))
"""


@pytest.fixture
def start(files, cache, tmp_path):
    """Start processes that decode the files together, once all are ready."""

    def launch(count: int) -> list[subprocess.Popen]:
        command = [sys.executable, "-c", SLOW_READER, files[0].parent, cache, tmp_path / "log", tmp_path / "go"]
        processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(count)]
        assert [process.stdout.readline() for process in processes] == ["ready\n"] * count
        (tmp_path / "go").touch()
        return processes

    return launch


def test_two_processes_decode_once(files, start, tmp_path):
    sums = {int(process.communicate(timeout=60)[0]) for process in start(2)}
    assert sorted((tmp_path / "log").read_text().split()) == sorted(file.name for file in files)
    assert sums == {int(expected(files).sum())}


def test_a_kill_in_the_middle_leaves_nothing_trusted(files, cache, start, tmp_path):
    log = tmp_path / "log"
    (process,) = start(1)
    while not log.exists() or len(log.read_text().split()) < 15:
        assert process.poll() is None
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert len(log.read_text().split()) < 40
    assert entries(cache) == []
    assert len(leftovers(cache)) == 1
    assert torch.equal(decoded(files, 8, cache=cache).images, expected(files))
    assert leftovers(cache) == []
