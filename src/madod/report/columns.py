"""Columns that stay in line in a terminal, where some letters are two wide and some none."""

from collections.abc import Iterable


def places(text: str) -> int:
    """Return how many places a text takes in a terminal."""
    from rich.cells import cell_len

    return cell_len(text)


def widest(texts: Iterable[str]) -> int:
    """Return how many places the widest of some texts takes."""
    return max(map(places, texts))


def padded(text: str, width: int, *, right: bool = False) -> str:
    """Return a text with blanks up to a width: behind it, or before it where it is to stand on the right."""
    blanks = " " * (width - places(text))
    return blanks + text if right else text + blanks
