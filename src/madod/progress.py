"""How something long tells whoever waits for it how far it is."""

from collections.abc import Callable

Progress = Callable[[str, int, int], None]
"""Told the stage, or the file, how much of it is done, and how much there is."""


def silent(stage: str, done: int, total: int) -> None:
    """Report to nobody."""
