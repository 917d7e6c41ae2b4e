"""In which order datasets, domains, methods and detectors stand in a table: the paper's, then the alphabet's."""

from collections.abc import Collection, Iterable

from madod.detectors import THREE
from madod.report.paper import printed

BESIDE = ("declared", "mean", "best")
"""Rows that stand beside the detectors and are not ranked among them."""
ALONE = "alone"
"""The row of runs without unknowns, of which accuracy alone is measured."""


def standing_beside(detectors: Collection[str]) -> tuple[str, ...]:
    """Return which of them stand beside some detectors: the mean and best of the paper's three where all these are."""
    return BESIDE if set(THREE) <= set(detectors) else BESIDE[:1]


def in_order(names: Iterable[str], dataset: str | None = None) -> list[str]:
    """Return each dataset, or each domain of a dataset, once: those of the paper first, in its order."""
    table = printed()
    known = table["dataset"] if dataset is None else table.loc[table["dataset"] == dataset, "domain"]
    there = set(names)
    return [name for name in dict.fromkeys(known) if name in there] + sorted(there - set(known))


def methods_in_order(names: Iterable[str]) -> list[str]:
    """Return each method once: the paper's order, unknown ones after it, MADOD last; variants behind their own."""
    order = [*dict.fromkeys(name for name in printed()["algorithm"] if name != "madod")]
    there = dict.fromkeys(names)

    def place(name: str) -> tuple[int, str, str]:
        head, _, rest = name.partition(",")
        known = order.index(head) if head in order else len(order) + (head == "madod")
        return known, head, rest

    return sorted(there, key=place)


def detectors_in_order(names: Iterable[str]) -> list[str]:
    """Return the paper's three, the others by name, then the method's own score and the rows beside them."""
    table, last = printed(), ("own", *BESIDE, ALONE)
    first = tuple(dict.fromkeys(table.loc[table["algorithm"] == "madod", "detector"]))
    there = set(names)
    others = sorted(there - {*first, *last})
    return [name for name in (*first, *others, *last) if name in there]
