"""Which pictures a command means: files, folders, patterns, or a list on standard input."""

import glob
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from io import BufferedIOBase
from itertools import chain
from pathlib import Path
from typing import cast

from madod.cli.listing import names
from madod.cli.patterns import matches
from madod.errors import InputError

LIST = "-"
"""Stands for a list of files and folders on standard input."""

ADDRESS = re.compile(r"[a-z]{2,}://", re.IGNORECASE)


def pictures(words: Sequence[str], bad: list[InputError]) -> Iterator[Path]:
    """Yield the pictures that the words name, one by one; refuse at once a pattern that fits nothing.

    Folders without pictures, and those that cannot be listed, are noted in `bad` on the way.
    """
    if words.count(LIST) > 1:
        raise InputError("standard input can be read once: give - once")
    walk = Walk(bad)
    return (file for paths in [_named(word, bad) for word in words] for path in paths for file in walk.meant(path))


def _named(word: str, bad: list[InputError]) -> Iterable[Path]:
    """Return the files and folders that a word stands for."""
    if word == LIST:
        return _files(names(cast(BufferedIOBase, sys.stdin.buffer)), bad)
    if ADDRESS.match(word) or os.path.exists(word) or not glob.has_magic(word):  # noqa: PTH110  # a Path may raise
        return _files([word], bad)
    found = matches(word, bad)
    first = next(found, None)
    if first is None:
        raise InputError(f"nothing is called {word}: check the pattern")
    return chain([first], found)


def _files(names: Iterable[str], bad: list[InputError]) -> Iterator[Path]:
    """Yield names as paths; an address would be a path that nobody wrote."""
    for name in names:
        if ADDRESS.match(name):
            bad.append(
                InputError(f"{name} is an address, and pictures are read from files: fetch it, and name the file")
            )
        else:
            yield Path(name)


class Walk:
    """The way through files and folders: `find` and a shell's ** name a folder and then all that is in it again."""

    def __init__(self, bad: list[InputError]) -> None:
        self.bad = bad
        self.walked: set[Path] = set()

    def meant(self, path: Path) -> Iterator[Path]:
        """Yield a file, or the pictures of a folder; nothing of what a folder before had in it."""
        folder = os.path.isdir(path)  # noqa: PTH112  # a Path raises where it may not look
        if self.walked and self._passed(path, folder):
            return
        if folder:
            self.walked.add(path)
            yield from self._inside(path)
        else:
            yield path

    def _passed(self, path: Path, folder: bool) -> bool:
        """Tell whether a file or folder lay on the way through one before; hidden files and such did not."""
        from madod.data.finding import is_visible
        from madod.data.images import is_picture

        above = next((place for place in (path, *path.parents) if place in self.walked), None)
        there = folder or (is_picture(path) and os.path.lexists(path))  # what is missing has to be said
        if above is None or ".." in path.parts or not there:
            return False
        return all(map(is_visible, path.relative_to(above).parts))

    def _inside(self, folder: Path) -> Iterator[Path]:
        """Yield the pictures of a folder, then those of its folders, in order of their names."""
        from madod.data.finding import pictures_below

        before, found = len(self.bad), pictures_below(folder, warn=True, bad=self.bad)
        first = next(found, None)
        if first is not None:
            yield from chain([first], found)
        elif len(self.bad) == before:
            none = f"the folder {folder} has no pictures in it: give a file, or a folder with pictures"
            self.bad.append(InputError(none))
