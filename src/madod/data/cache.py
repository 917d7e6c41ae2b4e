"""Pictures decoded once: a memory-mapped uint8 array on disk, found again by the content of the files it came from.

A cache folder holds `<key>/images.npy` with the pictures that could be read, `<key>/bad.json` with the positions of
those that could not, and an index of content hashes, so that only files that changed are hashed again.
"""

import errno
import hashlib
import json
import logging
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np
import torch
from filelock import FileLock, Timeout
from torch import Tensor

from madod.data.images import BadImage, Pixels, blaming, opened, read_image
from madod.data.threads import ordered
from madod.errors import InputError

log = logging.getLogger(__name__)

Progress = Callable[[int, int], None]
"""Called with the number of pictures decoded so far and the number of all."""

VERSION = 1
"""Counts the changes to what `read_image` makes of the same file."""


class Decoded(NamedTuple):
    """Images uint8 (n, 3, size, size), the position among the files of each, and the files that cannot be read."""

    images: Tensor
    kept: tuple[int, ...]
    bad: tuple[BadImage, ...]


class Stamp(NamedTuple):
    """What tells that a file is as it was (bytes, modification and change time), and the hash of its content."""

    identity: tuple[int, ...]
    digest: str


def cache_dir() -> Path:
    """Return the folder for caches: MADOD_CACHE, or madod in XDG_CACHE_HOME or ~/.cache."""
    if own := os.environ.get("MADOD_CACHE"):
        return Path(own)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "madod"


def decoded(
    files: Sequence[Path], size: int, *, cache: Path | None = None, progress: Progress | None = None
) -> Decoded:
    """Return all pictures at one size, in order, from the cache where the same contents have been decoded before."""
    cache = cache or cache_dir()
    stamps = _stamps(files, cache)
    sound = [(k, stamp) for k, stamp in enumerate(stamps) if isinstance(stamp, Stamp)]
    unreadable = {k: stamp for k, stamp in enumerate(stamps) if isinstance(stamp, BadImage)}
    if not sound:
        return Decoded(torch.empty((0, 3, size, size), dtype=torch.uint8), (), tuple(unreadable.values()))
    entry = _Entry(cache, size, [files[k] for k, _ in sound], [stamp for _, stamp in sound])
    images, broken = entry.load() or entry.build(progress)
    bad = unreadable | {sound[row][0]: why for row, why in broken.items()}
    kept = tuple(k for k in range(len(files)) if k not in bad)
    return Decoded(images, kept, tuple(bad[k] for k in sorted(bad)))


class _Entry:
    """The cached pictures of these contents at this size: whole or absent."""

    def __init__(self, cache: Path, size: int, files: list[Path], stamps: list[Stamp]) -> None:
        self.cache, self.size, self.files, self.stamps = cache, size, files, stamps
        contents = "\n".join([f"{VERSION} {size}", *(stamp.digest for stamp in stamps)])
        self.key = hashlib.sha256(contents.encode()).hexdigest()[:32]
        self.folder = cache / self.key

    def load(self) -> tuple[Tensor, dict[int, BadImage]] | None:
        """Return the images and the bad files by position, or None where they must be decoded (again)."""
        try:
            positions: list[int] = json.loads((self.folder / "bad.json").read_text(encoding="utf-8"))
            # Copy-on-write: torch wants writable memory, and the file stays as it is.
            images = np.load(self.folder / "images.npy", mmap_mode="c", allow_pickle=False)
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            log.warning("decoding again, since the cache %s is damaged: %s", self.folder, error)
            return None
        if images.shape != (len(self.files) - len(positions), 3, self.size, self.size):
            log.warning("decoding again, since the cache %s does not hold what it should", self.folder)
            return None
        bad = {k: self._try(k) for k in positions}  # the reason may have passed: little memory, an older Pillow
        still_bad = {k: why for k, why in bad.items() if isinstance(why, BadImage)}
        return (torch.from_numpy(images), still_bad) if len(still_bad) == len(positions) else None

    def build(self, progress: Progress | None) -> tuple[Tensor, dict[int, BadImage]]:
        """Decode, or wait for the process that is decoding the same, and return what `load` then finds."""
        with _writing(self.cache):
            self.cache.mkdir(parents=True, exist_ok=True)
            with _locked(self.folder.with_suffix(".lock")):
                if found := self.load():
                    return found
                bad = self._publish(progress)
        images = np.load(self.folder / "images.npy", mmap_mode="c", allow_pickle=False)
        return torch.from_numpy(images), bad

    def _publish(self, progress: Progress | None) -> dict[int, BadImage]:
        log.info("decoding %d pictures to %d px into %s", len(self.files), self.size, self.folder)
        for leftover in self.cache.glob(f"{self.key}.part-*"):  # of killed processes: the lock is ours
            shutil.rmtree(leftover, ignore_errors=True)
        part = self.cache / f"{self.key}.part-{os.getpid()}"
        part.mkdir()
        try:
            bad = self._write(part, progress)
            shutil.rmtree(self.folder, ignore_errors=True)
            part.rename(self.folder)
        finally:
            shutil.rmtree(part, ignore_errors=True)
        return bad

    def _write(self, part: Path, progress: Progress | None) -> dict[int, BadImage]:
        """Write row by row, not through a memory map: there a full disk would kill the process."""
        bad: dict[int, BadImage] = {}
        with (part / "images.npy").open("wb") as out:
            self._write_header(out, len(self.files))
            for k, result in enumerate(ordered(self._try, range(len(self.files)))):
                if isinstance(result, BadImage):
                    bad[k] = result
                else:
                    out.write(result.data)
                if progress:
                    progress(k + 1, len(self.files))
            out.seek(0)
            self._write_header(out, len(self.files) - len(bad))
            _to_disk(out)
        with (part / "bad.json").open("w", encoding="utf-8") as out_bad:
            json.dump(sorted(bad), out_bad)
            _to_disk(out_bad)
        return bad

    def _write_header(self, out: IO[bytes], rows: int) -> None:
        """Write the array header; NumPy pads it, so that its length is the same for any number of rows."""
        facts = {"descr": "|u1", "fortran_order": False, "shape": (rows, 3, self.size, self.size)}
        np.lib.format.write_array_header_1_0(out, facts)

    def _try(self, k: int) -> Pixels | BadImage:
        file, was = self.files[k], self.stamps[k].identity
        try:
            image = read_image(file, self.size)
            if _identity(file)[:2] != was[:2]:
                raise BadImage(str(file), "it changed while it was being read")
            return image
        except BadImage as bad:
            return bad


def _stamps(files: Sequence[Path], cache: Path) -> list[Stamp | BadImage]:
    """Return every file's stamp, hashing only those that the index does not know as they are."""
    if not files:
        return []
    paths = [str(file.absolute()) for file in files]
    where = hashlib.sha256(os.fsencode(os.path.commonpath(paths))).hexdigest()[:16]
    index = _read_index(cache / f"index-{where}.json")

    known = {k: index[path] for k, path in enumerate(paths) if path in index and _unchanged(files[k], index[path])}
    new = [k for k in range(len(files)) if k not in known]
    stamps: dict[int, Stamp | BadImage] = {**known}
    stamps.update(zip(new, ordered(_hashed, [files[k] for k in new]), strict=True))
    fresh = {paths[k]: stamp for k, stamp in stamps.items() if isinstance(stamp, Stamp)}
    if fresh != index:
        _write_index(cache / f"index-{where}.json", fresh)
    return [stamps[k] for k in range(len(files))]


def _identity(file: Path) -> tuple[int, ...]:
    with blaming(str(file)):
        facts = file.stat()
    return facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns


def _unchanged(file: Path, stamp: Stamp) -> bool:
    try:
        return _identity(file) == stamp.identity
    except BadImage:
        return False


def _hashed(file: Path) -> Stamp | BadImage:
    try:
        identity = _identity(file)  # before reading: a change from here on is seen as one
        with opened(file) as content:
            return Stamp(identity, hashlib.file_digest(content, "sha256").hexdigest())
    except BadImage as bad:
        return bad


def _read_index(file: Path) -> dict[str, Stamp]:
    try:
        entries = json.loads(file.read_text(encoding="utf-8"))
        return {path: Stamp(tuple(identity), digest) for path, (identity, digest) in entries.items()}
    except (OSError, ValueError, TypeError, AttributeError):  # absent or damaged: it only saves time
        return {}


def _write_index(file: Path, stamps: dict[str, Stamp]) -> None:
    part = file.with_name(f"{file.name}.part-{os.getpid()}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(json.dumps(stamps), encoding="utf-8")
        part.replace(file)
    except OSError as error:
        log.debug("the index of hashes is not kept: %s", error)
        with suppress(OSError):
            part.unlink(missing_ok=True)


@contextmanager
def _locked(file: Path) -> Iterator[None]:
    """Hold a lock that the kernel releases when the process dies."""
    lock = FileLock(file)
    try:
        lock.acquire(blocking=False)
    except Timeout:
        log.info("waiting for another process that is decoding the same pictures")
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


@contextmanager
def _writing(cache: Path) -> Iterator[None]:
    """Say in one sentence why the cache cannot be written."""
    try:
        yield
    except BrokenPipeError:  # a progress display's, not the disk's
        raise
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        why = "the disk is full" if full else (error.strerror or str(error)).lower()
        remedy = "free some space" if full else "make it writable"
        raise InputError(
            f"cannot write decoded pictures to {cache}: {why}; {remedy}, or set MADOD_CACHE to another folder"
        ) from error


def _to_disk(out: IO[bytes] | IO[str]) -> None:
    out.flush()
    os.fsync(out.fileno())
