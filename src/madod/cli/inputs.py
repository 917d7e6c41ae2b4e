"""Which pictures a command means: files, folders, patterns, or a list on standard input."""

import glob
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from madod.errors import InputError

LIST = "-"
"""Stands for a list of files on standard input, one a line."""


def pictures(words: Sequence[str]) -> Iterator[Path]:
    """Yield the pictures that the words name, one by one; refuse at once a folder or pattern that names none."""
    if words.count(LIST) > 1:
        raise InputError("standard input can be read once: give - once")
    found: list[Iterable[Path]] = [_named(word) for word in words]
    return (path for each in found for path in each)


def _named(word: str) -> Iterable[Path]:
    path = Path(word)
    if word == LIST:
        return listed()
    if path.is_dir():
        return _inside(path)
    if not path.exists() and glob.has_magic(word):
        matches = sorted(map(Path, glob.glob(word, recursive=True)))  # noqa: PTH207  # takes absolute patterns too
        if not matches:
            raise InputError(f"nothing is called {word}: check the pattern")
        return (file for match in matches for file in (_inside(match) if match.is_dir() else (match,)))
    return (path,)


def _inside(folder: Path) -> Iterable[Path]:
    """Return what walks a folder: its pictures, then those of its folders, in order of their names."""
    from madod.data.finding import pictures_below

    if not any(pictures_below(folder, lenient=True)):
        raise InputError(f"the folder {folder} has no pictures in it: give a file, or a folder with pictures")
    return pictures_below(folder, warn=True, lenient=True)


def listed() -> Iterator[Path]:
    """Yield the files that standard input lists, as they come."""
    for line in sys.stdin.buffer:
        if name := os.fsdecode(line.rstrip(b"\r\n")):
            yield Path(name)
