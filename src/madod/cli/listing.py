"""The names in a list on standard input: one a line, or with NULs between them as `find -print0` writes them."""

import os
import re
from codecs import BOM_UTF8
from collections.abc import Iterator
from io import BufferedIOBase

from madod.errors import InputError

PIECE = 2**16
BINARY = re.compile(rb"[\x01-\x08\x0e-\x1f]")
"""What stands in every picture's file, and hardly in the name of one."""


def names(stream: BufferedIOBase) -> Iterator[str]:
    """Yield the names in a list as they come; refuse what is no list."""
    mark, rest = b"", b""
    while piece := stream.read1(PIECE):
        rest += piece
        if not mark:
            rest = rest.removeprefix(BOM_UTF8)
            mark = next((each for each in (b"\0", b"\n") if each in rest), b"")
            _refuse_binary(rest, mark)
        if mark:
            *whole, rest = rest.split(mark)
            yield from filter(None, (_name(each, mark) for each in whole))
    if name := _name(rest, mark):
        yield name


def _name(entry: bytes, mark: bytes) -> str:
    return os.fsdecode(entry if mark == b"\0" else entry.rstrip(b"\r"))


def _refuse_binary(start: bytes, mark: bytes) -> None:
    """Refuse a list that starts like a picture; a name may hold any character where there is a file of that name."""
    first = start.partition(mark)[0] if mark else start
    if BINARY.search(start) and not os.path.lexists(first):
        raise InputError(
            "standard input is no list of files but looks like a picture: name the picture's file itself, as in "
            "madod predict MODEL photo.png"
        )
