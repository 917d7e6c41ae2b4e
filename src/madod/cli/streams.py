"""The standard streams: what becomes of the work where one is closed, or where whoever listens has left."""

import os
import sys
from io import TextIOWrapper
from pathlib import Path
from typing import TextIO


class Aside(TextIOWrapper):
    """Standard error as something that takes long writes to it: it does not end where nobody listens any more."""

    def write(self, text: str) -> int:
        """Write to whoever listens."""
        try:
            return super().write(text)
        except BlockingIOError:  # whoever listens is slow
            return len(text)
        except OSError:
            silence(self)
            return len(text)

    def flush(self) -> None:
        """Have it read now by whoever listens."""
        try:
            super().flush()
        except BlockingIOError:
            pass
        except OSError:
            silence(self)


def silence(stream: TextIO) -> None:
    """Have all that a stream still holds, and all that is written to it from now on, read by nobody."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def open_streams() -> None:
    """Put what swallows everything in the place of standard streams that are closed, and `Aside` for standard error.

    A file that is opened takes the lowest number that is free: without it, a model could be written where some library
    takes standard output to be.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            stream = Path(os.devnull).open(mode, encoding="utf-8")  # noqa: SIM115  # it stays open to the end
            os.set_inheritable(stream.fileno(), True)
            setattr(sys, name, stream)
    if sys.stderr is sys.__stderr__ and isinstance(sys.stderr, TextIOWrapper):
        plain = sys.stderr
        buffer = os.fdopen(plain.fileno(), "wb", closefd=False)  # which plain keeps open
        sys.stderr = Aside(buffer, plain.encoding, plain.errors, line_buffering=True, write_through=plain.write_through)
