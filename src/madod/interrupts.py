"""Ctrl-C and SIGTERM, held back until what is under way is safe."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def held_back() -> Iterator[list[int]]:
    """Hold back the signals that ask the process to end, give those that came, and let them through in the end.

    A second one comes through at once. Signals that somebody else answers, or that another thread gets, are left alone.
    """
    usual: dict[int, Any] = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
    here = threading.current_thread() is threading.main_thread()
    ours = [number for number, answer in usual.items() if here and signal.getsignal(number) == answer]
    came: list[int] = []

    def let_through() -> None:
        for number in ours:
            signal.signal(number, usual[number])

    def note(number: int, _: object) -> None:
        came.append(number)
        let_through()

    for number in ours:
        signal.signal(number, note)
    try:
        yield came
    finally:
        let_through()
    if came:
        signal.raise_signal(came[0])
