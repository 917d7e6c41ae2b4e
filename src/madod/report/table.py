"""A table before it has a form: rows of names and measured entries, and what the reader must know."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

Mark = Literal["best", "second", ""]
MISSING = "\N{EN DASH}"


@dataclass(frozen=True)
class Entry:
    """One measured number in percent, how sure it is, and what the paper has in its place."""

    value: float | None = None
    """None where nothing was measured."""
    error: float | None = None
    """Standard error; None for a single run."""
    runs: int = 0
    of: int = 0
    """How many runs there could be: those of the method with most in this column."""
    mark: Mark = ""
    paper: float | None = None
    paper_error: float | None = None
    sign: str = ""
    """Points to the note that says why the paper's number is not like for like."""

    @property
    def whole(self) -> bool:
        """Whether no run is missing."""
        return self.value is not None and self.runs >= self.of

    @property
    def printed(self) -> str:
        """The value as it is printed; a dash where it is missing."""
        return MISSING if self.value is None else f"{self.value:.1f}"

    @property
    def difference(self) -> float | None:
        """Ours less the paper's; None while runs are missing: the paper's mean is over all cells."""
        return None if self.value is None or self.paper is None or not self.whole else self.value - self.paper


Item = Entry | str


@dataclass(frozen=True)
class Row:
    """Names first, then one item per column."""

    names: tuple[str, ...]
    items: tuple[Item, ...]
    ranked: bool = True
    """Whether it takes part in best and second best; a row that was picked after the fact does not."""


@dataclass(frozen=True)
class Table:
    """Rows under columns that stand in groups."""

    title: str
    names: tuple[str, ...]
    """What the names of a row are."""
    columns: tuple[tuple[str, str], ...]
    """Group and head of every column; the columns of a group stand together."""
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()

    @property
    def groups(self) -> dict[str, list[int]]:
        """The places of every group's columns."""
        found: dict[str, list[int]] = {}
        for place, (group, _) in enumerate(self.columns):
            found.setdefault(group, []).append(place)
        return found

    def only(self, group: str) -> "Table":
        """Return the table with one group's columns alone, without the rows that have nothing there."""
        places = self.groups[group]
        rows = (replace(row, items=tuple(row.items[place] for place in places)) for row in self.rows)
        kept = tuple(row for row in rows if any(_says(item) for item in row.items))
        return replace(self, columns=tuple(self.columns[place] for place in places), rows=kept)


def _says(item: Item) -> bool:
    return item not in ("", MISSING) if isinstance(item, str) else item.value is not None


def marked(rows: Sequence[Row]) -> tuple[Row, ...]:
    """Return the rows with best and second best marked in every column.

    Numbers that print alike are alike, so several can be best. Rows that are not ranked, and entries with runs missing,
    keep out of it.
    """
    width = len(rows[0].items) if rows else 0
    marks = [_marks([row.items[place] if row.ranked else "" for row in rows]) for place in range(width)]
    return tuple(
        replace(row, items=tuple(_with(item, marks[place][line]) for place, item in enumerate(row.items)))
        for line, row in enumerate(rows)
    )


def _marks(items: Sequence[Item]) -> list[Mark]:
    return marks([item.printed if isinstance(item, Entry) and item.whole else MISSING for item in items])


def marks(printed: Sequence[str], *, higher: bool = True) -> list[Mark]:
    """Return which of several numbers are best and second best; those that print alike are alike."""
    order = sorted({text for text in printed if text != MISSING}, key=float, reverse=higher)
    if sum(text != MISSING for text in printed) < 2:
        return [""] * len(printed)
    places: dict[str, Mark] = dict(zip(order[:2], ("best", "second"), strict=False))
    return [places.get(text, "") for text in printed]


def _with(item: Item, mark: Mark) -> Item:
    return replace(item, mark=mark) if isinstance(item, Entry) else item


def signed(value: float) -> str:
    """Return a number with its sign, which zero has none of."""
    shown = f"{abs(value):.1f}"
    return shown if float(shown) == 0 else f"{'+' if value > 0 else chr(0x2212)}{shown}"
