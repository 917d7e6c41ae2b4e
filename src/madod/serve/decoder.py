"""A process that decodes pictures for the server: bytes on standard input, pixels on standard output.

A hostile picture meets nothing but this: its memory is limited, and when it takes too long or dies the server starts
another. A request is the number of pictures, their lengths, and their bytes; an answer is, for every picture in turn,
the length of the reason why it cannot be read and that reason, or zero and its pixels; `LATER` alone where its
turn was over.
"""

import struct
import sys
import time
from contextlib import suppress
from typing import BinaryIO

from madod.data.images import BadImage, from_bytes

FLUSH = 0.05
"""Seconds after which answers are handed over, so that the server sees that this process is alive."""

TURN = 0.5
"""Seconds after which no further picture is begun, so that other requests get their turn."""
LATER = 2**32 - 1
"""In the place of a length: the picture must be sent again, for another turn."""


def number(value: int) -> bytes:
    """Return a length as four bytes."""
    return struct.pack("<I", value)


def exactly(file: BinaryIO, size: int) -> bytes:
    """Return so many bytes; end the process where there are no more."""
    data = file.read(size)
    if len(data) < size:
        raise SystemExit(0)
    return data


def answer(picture: bytes, size: int, limit: int) -> bytes:
    """Return the pixels of a picture behind a zero, or the reason why there are none behind its length."""
    try:
        return number(0) + from_bytes(picture, size, limit=limit).tobytes()
    except BadImage as bad:
        reason = bad.reason[:250].encode(errors="replace")
        return number(len(reason)) + reason


def serve(source: BinaryIO, sink: BinaryIO, size: int, limit: int) -> None:
    """Answer requests until there are no more."""
    while True:
        (count,) = struct.unpack("<I", exactly(source, 4))
        lengths = struct.unpack(f"<{count}I", exactly(source, 4 * count))
        began = flushed = time.monotonic()
        for place, length in enumerate(lengths):
            picture = exactly(source, length)
            over = place > 0 and time.monotonic() - began > TURN
            sink.write(number(LATER) if over else answer(picture, size, limit))
            if time.monotonic() - flushed > FLUSH:
                sink.flush()
                flushed = time.monotonic()
        sink.flush()


def bound(memory: int) -> None:
    """Limit this process's address space, where the system can."""
    with suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))


if __name__ == "__main__":
    bound(int(sys.argv[3]))
    with suppress(BrokenPipeError, KeyboardInterrupt):
        serve(sys.stdin.buffer, sys.stdout.buffer, int(sys.argv[1]), int(sys.argv[2]))
