"""Which files and folders a pattern such as 'shots/**/*.png' names: each once, however links lead in circles."""

import glob
from collections.abc import Iterator, Sequence
from fnmatch import fnmatch
from itertools import chain
from pathlib import Path

from madod.errors import InputError

DEEP = "**"
"""Stands for any folders, or none, between two parts of a pattern."""


def matches(pattern: str, bad: list[InputError]) -> Iterator[Path]:
    """Yield what a pattern names, in order; folders on the way that cannot be listed are noted in `bad`."""
    parts = Path(pattern).parts
    if DEEP not in parts:
        return iter(_shallow(Path(pattern)))
    cut = parts.index(DEEP)
    head, rest = Path(*parts[:cut]), parts[cut:]
    while rest and rest[-1] == DEEP:  # a folder with all that is in it is the folder
        rest = rest[:-1]
    folders = [place for place in _shallow(head) if place.is_dir()]
    return _deep(folders, rest, bad) if rest else iter(folders)


def _shallow(pattern: Path) -> list[Path]:
    """Return what a pattern without ** names, sorted; as far as something is called just so, it is no pattern."""
    there = next((place for place in (pattern, *pattern.parents) if place.exists()), Path())
    if there == pattern:
        return [pattern]
    within = str(Path(glob.escape(str(there)), pattern.relative_to(there)))
    return sorted(map(Path, glob.glob(within)))  # noqa: PTH207  # takes absolute patterns too


def _deep(folders: Sequence[Path], rest: Sequence[str], bad: list[InputError]) -> Iterator[Path]:
    """Yield the files below folders that fit the rest of a pattern, and the pictures of the folders that do.

    `glob` follows every link, and so one that leads back a thousand times over.
    """
    from madod.data.finding import files_below
    from madod.data.images import is_picture

    seen: set[tuple[int, int]] = set()
    for folder, file in chain.from_iterable(
        ((each, file) for file in files_below(each, seen, bad)) for each in folders
    ):
        below = file.relative_to(folder).parts
        if fits(below, rest) or (is_picture(file) and any(fits(below[:end], rest) for end in range(1, len(below)))):
            yield file


def fits(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    """Tell whether the parts of a path are those of a pattern, where ** is any number of them."""
    if not pattern:
        return not parts
    if pattern[0] == DEEP:
        return any(fits(parts[start:], pattern[1:]) for start in range(len(parts) + 1))
    return bool(parts) and fnmatch(parts[0], pattern[0]) and fits(parts[1:], pattern[1:])
