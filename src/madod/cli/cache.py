"""`madod cache`: what the cache folder holds, and how to empty it."""

import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from filelock import FileLock, Timeout

from madod.cli.arguments import cache_folder, left_open, parse
from madod.errors import InputError
from madod.storage import amount

ABOUT = """Show what the cache holds, or empty it.

Everything in it is made again, or fetched again, when it is next needed. What another process is writing is left. Only
what madod itself put there is ever deleted."""


class Kind(NamedTuple):
    """One kind of thing that is kept: the folder in the cache, what names in it look like, and what it is."""

    folder: str
    name: str
    what: str


KINDS = {
    "pictures": Kind("images", r"[0-9a-f]{32}(\.part-\d+)?|index-[0-9a-f]{16}\.json", "decoded once, for every size"),
    "archives": Kind("images", r"unpacked-[0-9a-f]{16}(\.part)?", "datasets that came packed, unpacked"),
    "generators": Kind("generators", r"[0-9a-f]{20}", "trained G's with their judges"),
    "weights": Kind("weights", r"[\w-]+-[0-9a-f]{8}\.pth(\..*part)?", "pretrained networks that were fetched"),
}
LOCK = "lock"
"""In a folder that is made by one process at a time; elsewhere locks lie beside what they protect, as `*.lock`."""


@dataclass(frozen=True)
class Cache:
    """Which cache, and what of it to delete."""

    clear: Annotated[
        Literal["pictures", "archives", "generators", "weights", "all"] | None,
        left_open("pictures|archives|generators|weights|all"),
    ] = None
    """Delete what is in it of a kind, or all of it."""
    cache: Annotated[Path | None, left_open("DIR")] = None
    """The cache folder; by default your own."""


def main(arguments: Sequence[str]) -> int:
    """Print one line per kind, or what was deleted."""
    how = parse(Cache, arguments, "cache", ABOUT)
    cache = cache_folder(how.cache)
    if cache.exists() and not cache.is_dir():
        raise InputError(f"{cache} is a file: name a folder for the cache (--cache, or MADOD_CACHE)")
    if how.cache is not None and not cache.is_dir():
        raise InputError(f"there is no folder {cache}: name the cache folder that other verbs were given")
    sys.stdout.write(f"{cache}\n" if how.clear is None else "")
    for name, kind in KINDS.items():
        there = {entry: size(entry) for entry in entries(cache, kind)}
        if how.clear is None:
            sys.stdout.write(f"  {name:10}  {len(there):5,}  {amount(sum(there.values())):>10}  {kind.what}\n")
        elif how.clear in (name, "all"):
            gone = [entry for entry in there if deleted(entry)]
            left = f"; {len(there) - len(gone)} in use were left" if len(gone) < len(there) else ""
            sys.stdout.write(f"{name}: {amount(sum(there[entry] for entry in gone))} deleted{left}\n")
    return 0


def entries(cache: Path, kind: Kind) -> Iterator[Path]:
    """Yield what a cache holds of a kind; a lock alone is nothing."""
    folder = cache / kind.folder
    for entry in sorted(folder.iterdir()) if folder.is_dir() else ():
        if re.fullmatch(kind.name, entry.name) and (entry.is_file() or content(entry)):
            yield entry


def content(folder: Path) -> list[Path]:
    """Return what is in a folder beside its lock."""
    return [entry for entry in folder.iterdir() if entry.name != LOCK]


def size(entry: Path) -> int:
    """Return the bytes of a file, or of all files below a folder."""
    files = entry.rglob("*") if entry.is_dir() else (entry,)
    return sum(file.stat().st_size for file in files if file.is_file())


def deleted(entry: Path) -> bool:
    """Delete an entry, unless a process is writing it or what is beside it; locks stay, for others may wait at them."""
    inside = entry / LOCK
    locks, parts = ([inside], content(entry)) if inside.exists() else (entry.parent.glob("*.lock"), [entry])
    with ExitStack() as held:
        try:
            for lock in locks:
                held.enter_context(FileLock(lock, blocking=False))
        except Timeout:
            return False
        for part in parts:
            if part.is_dir():
                shutil.rmtree(part)
            else:
                part.unlink()
    return True
