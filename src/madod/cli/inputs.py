"""Which pictures a command means: files, folders, patterns, or a list on standard input."""

import glob
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path

from madod.cli.patterns import matches
from madod.errors import InputError

LIST = "-"
"""Stands for a list of files on standard input, one a line."""


def pictures(words: Sequence[str], bad: list[InputError]) -> Iterator[Path]:
    """Yield the pictures that the words name, one by one; refuse at once a pattern that fits nothing.

    Folders without pictures, and those that cannot be listed, are noted in `bad` on the way.
    """
    if words.count(LIST) > 1:
        raise InputError("standard input can be read once: give - once")
    found = [_named(word, bad) for word in words]
    return chain.from_iterable(found)


def _named(word: str, bad: list[InputError]) -> Iterable[Path]:
    if word == LIST:
        return listed()
    if os.path.exists(word) or not glob.has_magic(word):  # noqa: PTH110  # a Path raises where it may not look
        return _meant(Path(word), bad)
    found = matches(word, bad)
    first = next(found, None)
    if first is None:
        raise InputError(f"nothing is called {word}: check the pattern")
    return (file for match in chain([first], found) for file in _meant(match, bad))


def _meant(path: Path, bad: list[InputError]) -> Iterator[Path]:
    """Yield a file, or the pictures of a folder and then those of its folders, in order of their names."""
    if not os.path.isdir(path):  # noqa: PTH112  # a Path raises where it may not look
        yield path
        return
    from madod.data.folder import pictures_below

    before, found = len(bad), pictures_below(path, warn=True, bad=bad)
    first = next(found, None)
    if first is not None:
        yield from chain([first], found)
    elif len(bad) == before:
        bad.append(InputError(f"the folder {path} has no pictures in it: give a file, or a folder with pictures"))


def listed() -> Iterator[Path]:
    """Yield the files that standard input lists, as they come."""
    for line in sys.stdin.buffer:
        if name := os.fsdecode(line.rstrip(b"\r\n")):
            yield Path(name)
