"""What the datasets hold: the paper's Table I beside the sets as they are, and what these runs used of them."""

import pandas as pd

from madod.report import words
from madod.report.frame import CELL
from madod.report.paper import PRINTED, Statistics
from madod.report.table import MISSING, Row, Table

OFFICIAL = {
    "colored_mnist": Statistics(3, 70_000, 2),
    "pacs": Statistics(4, 9_991, 7),
    "vlcs": Statistics(4, 10_729, 5),
    "terra_incognita": Statistics(4, 24_788, 10),
    "office_home": Statistics(4, 15_588, 65),
    "rotated_mnist": Statistics(6, 70_000, 10),
    "digits": Statistics(4, 1_797, 10),
}
"""By the official counts that `madod data` checks; of TerraIncognita the version that is downloaded today."""
COLUMNS = (
    *(("the set", head) for head in ("domains", "images", "classes")),
    *(("the paper's Table I", head) for head in ("domains", "images", "classes")),
    *(("these runs", head) for head in ("unseen domains", "unknown classes", "seeds", "runs", "base rate")),
)


def statistics(frame: pd.DataFrame) -> Table:
    """Return one row per dataset: the paper's four, and any other that was run."""
    ran = sorted(set(frame["dataset"]) - set(PRINTED))
    rows = [Row((words.dataset(name),), (*_set(OFFICIAL.get(name)), *_set(PRINTED.get(name)), *_runs(frame, name)))
            for name in (*PRINTED, *ran)]  # fmt: skip
    notes = (
        "the paper counts 16,110 images of TerraIncognita; it has 24,788 as downloaded today and 24,330 in an older "
        "version; the cause is unknown",
        "on ColoredMNIST the labels are two and the unknown classes are digits",
        "base rate: share of unknown images in a cell, in percent, smallest to largest",
    )
    return Table("Datasets", ("dataset",), COLUMNS, tuple(rows), notes)


def _set(numbers: Statistics | None) -> tuple[str, str, str]:
    return (MISSING,) * 3 if numbers is None else (str(numbers.domains), f"{numbers.images:,}", str(numbers.classes))


def _runs(frame: pd.DataFrame, name: str) -> tuple[str, ...]:
    mine = frame[(frame["dataset"] == name) & frame["detector"].notna()]
    if mine.empty:
        return (MISSING,) * 5
    classes = sorted({label for labels in mine["ood_classes"] for label in labels.split("+") if label})
    rates = 100 * mine.drop_duplicates(CELL)["base_rate"]
    domains = ", ".join(sorted(set(mine["test_domain"])))
    counts = str(mine["seed"].nunique()), str(mine["folder"].nunique())
    return domains, ", ".join(classes), *counts, span(rates.min(), rates.max())


def span(low: float, high: float) -> str:
    """Return a number of percent, or two where they are written differently."""
    ends = dict.fromkeys((f"{low:.1f}", f"{high:.1f}"))
    return " to ".join(ends)
