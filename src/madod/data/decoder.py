"""Pictures decoded into their rows of an array file, here or in a process that runs this file.

Such a process reads lines of JSON, each a list of pictures, until there are no more, which is also how it notices that
whoever started it is gone. It answers each with a line: what cannot be read, or the number of the error that kept
pixels from being written. It imports no torch, so that it starts in a moment.
"""

import json
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, NamedTuple

from madod.data.images import BadImage, Pixels, read_image
from madod.data.stamps import identity


class Array(NamedTuple):
    """A file of squares uint8 (n, 3, size, size), and the byte at which the first of them starts."""

    file: str
    start: int
    size: int


class Entry(NamedTuple):
    """A picture, the row that it goes to, and what the file's identity was when it was hashed."""

    row: int
    file: str
    identity: Sequence[int]


class Refusal(NamedTuple):
    """The row of a picture that cannot be read, and why."""

    row: int
    reason: str


def read_unchanged(entry: Entry, size: int) -> Pixels:
    """Return a picture that is still what was hashed, or raise `BadImage`."""
    image = read_image(Path(entry.file), size)
    if identity(Path(entry.file))[:2] != tuple(entry.identity[:2]):
        raise BadImage(entry.file, "it changed while it was being read")
    return image


def decode(array: Array, entries: Sequence[Entry]) -> list[Refusal]:
    """Put pictures into their rows, and return those that cannot be read.

    Rows are written, not mapped into memory: there a full disk would kill the process.
    """
    refused = []
    with Path(array.file).open("r+b") as out:
        for entry in entries:
            try:
                image = read_unchanged(entry, array.size)
            except BadImage as bad:
                refused.append(Refusal(entry.row, bad.reason))
                continue
            out.seek(array.start + entry.row * image.nbytes)
            out.write(image.data)
    return refused


def serve(source: IO[str], sink: IO[str], array: Array) -> None:
    """Answer lines until there are no more."""
    for line in source:
        try:
            answer: object = decode(array, [Entry(*entry) for entry in json.loads(line)])
        except OSError as error:
            answer = error.errno
        sink.write(json.dumps(answer) + "\n")
        sink.flush()


if __name__ == "__main__":
    with suppress(BrokenPipeError, KeyboardInterrupt):
        serve(sys.stdin, sys.stdout, Array(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
