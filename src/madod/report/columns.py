"""Columns that stay in line in a terminal, where some letters are two wide and some none."""

from collections.abc import Iterable, Sequence


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


def widths(rows: Sequence[Sequence[str]]) -> list[int]:
    """Return how many places every column of a table takes."""
    return [widest(column) for column in zip(*rows, strict=True)]


def aligned(rows: Sequence[Sequence[str]], left: int) -> list[str]:
    """Return the rows of a table as lines, so many columns on the left and the others on the right of their places."""
    wide = widths(rows)
    filled = ([padded(text, wide[place], right=place >= left) for place, text in enumerate(row)] for row in rows)
    return ["  ".join(row).rstrip() for row in filled]
