"""`madod cache`: what the cache folder holds, and how to empty it."""

import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from filelock import FileLock, Timeout

from madod.cli.arguments import cache_folder, left_open, parse
from madod.errors import InputError

ABOUT = """Show what the cache holds, or empty it.

Everything in it is made again, or fetched again, when it is next needed. What another process is at work on is left.
Only what madod itself put there is ever deleted."""

Kind = Literal["pictures", "archives", "generators", "weights", "all"]
HOLDS = {
    "pictures": ("images", r"[0-9a-f]{32}|index-[0-9a-f]{16}\.json", "decoded once, for every size that was asked for"),
    "archives": ("images", r"unpacked-[0-9a-f]{16}", "datasets that came packed, unpacked"),
    "generators": ("generators", r"[0-9a-f]{20}", "trained G's with their judges"),
    "weights": ("weights", r"[a-z0-9_]+-[0-9a-f]{8}\.pth", "pretrained networks that were fetched"),
}
"""By kind: the folder in the cache, what names in it look like, and what it is."""


@dataclass(frozen=True)
class Cache:
    """Which cache, and what of it to delete."""

    clear: Annotated[Kind | None, left_open("KIND")] = None
    """Delete the pictures, archives, generators or weights in it, or all of them."""
    cache: Annotated[Path | None, left_open("DIR")] = None
    """The cache folder; by default your own."""


def main(arguments: Sequence[str]) -> int:
    """Print a line a kind, or what was deleted."""
    how = parse(Cache, arguments, "cache", ABOUT)
    cache = cache_folder(how.cache)
    if how.cache is not None and not cache.is_dir():
        raise InputError(f"there is no folder {cache}: name the cache folder that other verbs were given")
    sys.stdout.write(f"{cache}\n" if how.clear is None else "")
    for kind, (_, _, what) in HOLDS.items():
        there = list(entries(cache, kind))
        if how.clear is None:
            sys.stdout.write(f"  {kind:10}  {len(there):5,}  {amount(sum(map(size, there))):>10}  {what}\n")
        elif how.clear in (kind, "all"):
            sizes = {entry: size(entry) for entry in there}
            gone = [entry for entry in there if deleted(entry)]
            left = f"; {len(there) - len(gone)} in use were left" if len(gone) < len(there) else ""
            sys.stdout.write(f"{kind}: {amount(sum(sizes[entry] for entry in gone))} deleted{left}\n")
    return 0


def entries(cache: Path, kind: str) -> Iterator[Path]:
    """Yield what a cache holds of a kind."""
    folder, pattern, _ = HOLDS[kind]
    if (cache / folder).is_dir():
        yield from sorted(entry for entry in (cache / folder).iterdir() if re.fullmatch(pattern, entry.name))


def size(entry: Path) -> int:
    """Return the bytes of a file, or of all files below a folder."""
    files = entry.rglob("*") if entry.is_dir() else (entry,)
    return sum(file.stat().st_size for file in files if file.is_file())


def amount(size: int) -> str:
    """Return a number of bytes as people read it."""
    return f"{size / 1e9:,.1f} GB" if size >= 1e9 else f"{size / 1e6:,.1f} MB"


def deleted(entry: Path) -> bool:
    """Delete an entry with its lock, unless a process holds it."""
    inside = entry / "lock"
    lock = inside if inside.exists() else entry.with_suffix(".lock")
    try:
        with FileLock(lock, blocking=False):
            if entry.is_dir():
                shutil.rmtree(entry)
            else:
                entry.unlink()
    except Timeout:
        return False
    lock.unlink(missing_ok=True)
    return True
