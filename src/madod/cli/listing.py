"""The names in a list on standard input: one a line, or with NULs between them as `find -print0` writes them."""

import os
import re
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
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
            _refuse_no_list(rest, mark)
        if mark:
            *whole, rest = rest.split(mark)
            yield from filter(None, (_name(each, mark) for each in whole))
    if name := _name(rest, mark):
        yield name


def _name(entry: bytes, mark: bytes) -> str:
    """Return the name in an entry; none in a line of blanks alone, which hardly names a file."""
    if mark == b"\0":
        return os.fsdecode(entry)
    return os.fsdecode(entry.rstrip(b"\r")) if entry.strip() else ""


def _refuse_no_list(start: bytes, mark: bytes) -> None:
    """Refuse a list that starts like a picture, or with the mark of letters of two bytes, of which every other is NUL.

    A name may hold any character where there is a file of that name.
    """
    first = start.partition(mark)[0] if mark else start
    if os.path.lexists(first):
        return
    if start.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
        raise InputError("standard input lists files in UTF-16: write the list in UTF-8")
    if BINARY.search(start):
        raise InputError(
            "standard input is no list of files but looks like a picture: name the picture's file itself, as in "
            "madod predict MODEL photo.png"
        )
