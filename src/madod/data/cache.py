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
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np
import torch
from filelock import FileLock, Timeout
from torch import Tensor

from madod.data.crew import HANDFUL, Crew, worthwhile
from madod.data.decoder import Array, Entry, Refusal, decode, read_unchanged
from madod.data.images import BadImage, Pixels
from madod.data.stamps import Stamp, stamps
from madod.data.threads import ordered
from madod.errors import InputError, NoSpaceError
from madod.progress import Progress, silent
from madod.storage import amount, ordinary

log = logging.getLogger(__name__)

REMEDIES = {
    errno.ENOSPC: "free some space",
    errno.EDQUOT: "free some space",
    errno.EFBIG: "allow larger files (ulimit -f)",
    errno.ENOTDIR: "move the file away that lies there",
    errno.EEXIST: "move the file away that lies there",
}
"""What to do where the system does not let a cache be written, by its number for it."""
VERSION = 1
"""Counts the changes to what `read_image` makes of the same file."""


class Decoded(NamedTuple):
    """Images uint8 (n, 3, size, size), the position among the files of each, and the files that cannot be read."""

    images: Tensor
    kept: tuple[int, ...]
    bad: tuple[BadImage, ...]
    key: str = ""
    """A hash of what the files hold, in order, and of the size."""


def cache_dir() -> Path:
    """Return the folder for caches: MADOD_CACHE, or madod in XDG_CACHE_HOME or ~/.cache."""
    if own := os.environ.get("MADOD_CACHE"):
        return Path(own)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "madod"


def decoded(files: Sequence[Path], size: int, *, cache: Path | None = None, progress: Progress = silent) -> Decoded:
    """Return all pictures at one size, in order, from the cache where the same contents have been decoded before."""
    cache = cache or cache_dir()
    found = stamps(files, cache)
    sound = [(k, stamp) for k, stamp in enumerate(found) if isinstance(stamp, Stamp)]
    unreadable = {k: stamp for k, stamp in enumerate(found) if isinstance(stamp, BadImage)}
    if not sound:
        return Decoded(torch.empty((0, 3, size, size), dtype=torch.uint8), (), tuple(unreadable.values()))
    cached = _Cached(cache, size, [files[k] for k, _ in sound], [stamp for _, stamp in sound])
    images, broken = cached.load() or cached.build(progress)
    bad = unreadable | {sound[row][0]: why for row, why in broken.items()}
    kept = tuple(k for k in range(len(files)) if k not in bad)
    return Decoded(images, kept, tuple(bad[k] for k in sorted(bad)), cached.key)


class _Cached:
    """The cached pictures of these contents at this size: whole or absent."""

    def __init__(self, cache: Path, size: int, files: list[Path], stamps: list[Stamp]) -> None:
        self.cache, self.size = cache, size
        self.entries = [
            Entry(row, str(file), stamp.identity) for row, (file, stamp) in enumerate(zip(files, stamps, strict=True))
        ]
        contents = "\n".join([f"{VERSION} {size}", *(stamp.digest for stamp in stamps)])
        self.key = hashlib.sha256(contents.encode()).hexdigest()[:32]
        self.folder = cache / self.key

    def load(self) -> tuple[Tensor, dict[int, BadImage]] | None:
        """Return the images and the bad files by position, or None where they must be decoded (again)."""
        try:
            positions = self._positions()
            images = self._mapped()
        except (FileNotFoundError, NotADirectoryError):  # the second is said where it is to be written
            return None
        except (OSError, ValueError, RecursionError) as error:
            log.warning("decoding again, since the cache %s is damaged: %s", self.folder, error)
            return None
        as_written = images.dtype == np.uint8 and images.flags.c_contiguous
        if not as_written or images.shape != (len(self.entries) - len(positions), 3, self.size, self.size):
            log.warning("decoding again, since the cache %s does not hold what it should", self.folder)
            return None
        bad = {k: why for k in positions if (why := self._trouble(k))}
        return (torch.from_numpy(images), bad) if len(bad) == len(positions) else None

    def _positions(self) -> list[int]:
        """Return the positions of the files that could not be read."""
        found = json.loads(ordinary(self.folder / "bad.json").read_text(encoding="utf-8"))
        if not isinstance(found, list) or any(type(k) is not int or not 0 <= k < len(self.entries) for k in found):
            raise ValueError("bad.json holds other things than positions of files")
        return found

    def _mapped(self) -> Pixels:
        """Return the images, copied when written to: torch wants writable memory, and the file stays as it is."""
        return np.lib.format.open_memmap(ordinary(self.folder / "images.npy"), mode="c")

    def _trouble(self, row: int) -> BadImage | None:
        """Return why a picture cannot be read now: the reason may have passed, little memory or an older Pillow."""
        try:
            read_unchanged(self.entries[row], self.size)
        except BadImage as bad:
            return bad
        return None

    def build(self, progress: Progress) -> tuple[Tensor, dict[int, BadImage]]:
        """Decode, or wait for the process that is decoding the same, and return what `load` then finds."""
        with _writing(self.cache):
            self.cache.mkdir(parents=True, exist_ok=True)
            with _locked(self.folder.with_suffix(".lock")):
                if found := self.load():
                    return found
                bad = self._publish(progress)
        return torch.from_numpy(self._mapped()), bad

    def _publish(self, progress: Progress) -> dict[int, BadImage]:
        log.info("decoding %d pictures to %d px into %s", len(self.entries), self.size, self.folder)
        for leftover in self.cache.glob(f"{self.key}.part-*"):  # of killed processes: the lock is ours
            shutil.rmtree(leftover, ignore_errors=True)
        self._refuse_scarce()
        part = self.cache / f"{self.key}.part-{os.getpid()}"
        part.mkdir()
        try:
            bad = self._write(part, progress)
            shutil.rmtree(self.folder, ignore_errors=True)
            part.rename(self.folder)
        finally:
            shutil.rmtree(part, ignore_errors=True)
        return bad

    def _refuse_scarce(self) -> None:
        """Refuse a disk that has no room for all of the pictures, before hours go into some of them."""
        needed, free = len(self.entries) * 3 * self.size**2, shutil.disk_usage(self.cache).free
        if needed > free:
            raise NoSpaceError(
                f"{len(self.entries):,} pictures of {self.size} px take {amount(needed)} in {self.cache}, and "
                f"{amount(free)} are free there: free some space, choose a smaller size, or set MADOD_CACHE to a "
                "folder on another disk"
            )

    def _write(self, part: Path, progress: Progress) -> dict[int, BadImage]:
        """Decode every picture into its row, then close the gaps that those left which cannot be read."""
        file = part / "images.npy"
        with file.open("wb") as out:
            self._write_header(out, len(self.entries))
            array = Array(str(file), out.tell(), self.size)
        bad = {row: BadImage(self.entries[row].file, reason) for row, reason in self._decode(array, progress)}
        with file.open("r+b") as out:
            _close_gaps(out, array, len(self.entries), bad)
            out.seek(0)
            self._write_header(out, len(self.entries) - len(bad))
            _to_disk(out)
        with (part / "bad.json").open("w", encoding="utf-8") as out_bad:
            json.dump(sorted(bad), out_bad)
            _to_disk(out_bad)
        return bad

    def _decode(self, array: Array, progress: Progress) -> Iterator[Refusal]:
        """Yield what cannot be read; in several processes where there is enough to do."""
        crew = Crew(array) if worthwhile(self.entries) else None
        handful, work = (HANDFUL, crew.decode) if crew else (1, partial(decode, array))
        done, handfuls = 0, [self.entries[k : k + handful] for k in range(0, len(self.entries), handful)]
        with crew or nullcontext():
            for entries, refused in zip(handfuls, ordered(work, handfuls), strict=True):
                yield from refused
                done += len(entries)
                progress("decoding", done, len(self.entries))

    def _write_header(self, out: IO[bytes], rows: int) -> None:
        """Write the array header; NumPy pads it, so that its length is the same for any number of rows."""
        facts = {"descr": "|u1", "fortran_order": False, "shape": (rows, 3, self.size, self.size)}
        np.lib.format.write_array_header_1_0(out, facts)


def _close_gaps(out: IO[bytes], array: Array, rows: int, gaps: Iterable[int]) -> None:
    """Move the rows behind each gap forward, in order, and cut the file to the rows that are left."""
    length, left = 3 * array.size**2, sorted(set(range(rows)) - set(gaps))
    for target, row in enumerate(left):
        if target != row:
            out.seek(array.start + row * length)
            content = out.read(length)
            out.seek(array.start + target * length)
            out.write(content)
    out.truncate(array.start + len(left) * length)


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
        remedy = REMEDIES.get(error.errno or 0, "make it writable")
        raise (NoSpaceError if full else InputError)(
            f"cannot write decoded pictures to {cache}: {why}; {remedy}, or set MADOD_CACHE to another folder"
        ) from error


def _to_disk(out: IO[bytes] | IO[str]) -> None:
    out.flush()
    os.fsync(out.fileno())
