"""The detector that was declared beforehand for each method: `detector.json` among the runs."""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from madod.errors import InputError
from madod.storage import read_json

log = logging.getLogger(__name__)

DECLARED = "detector.json"
AS_IN = 'write an object such as {"madod": "ddu"}'
Declared = dict[str, dict[str, str]]
"""Detectors by method or algorithm, "" for all others; then by DATASET, DATASET/DOMAIN or DATASET/DOMAIN/UNKNOWN,
"" for everywhere else."""


def declared(runs: Path) -> Declared:
    """Return the declared detectors; nothing without any.

    The file is an object: `{"madod": "ddu", "erm": "energy"}`, or `{"detector": "ddu"}` for all. In the place of a name
    may stand an object of names by place, and in the place of both an object with this as its `detector` and whatever
    else is worth keeping.
    """
    file = runs / DECLARED
    if not file.exists():
        return {}
    facts = read_json(file, "a whole JSON file", AS_IN)
    if not isinstance(facts, Mapping):
        raise InputError(f"{file} names no detectors by method: {AS_IN}")
    found = {method: _by_place(value) for method, value in facts.items()}
    for method, names in found.items():
        for place, name in names.items():
            if not isinstance(name, str):
                where = f"{method!r} in {place!r}" if place else repr(method)
                raise InputError(f"{file} names no detector for {where}: {AS_IN}")
    return {"" if method == "detector" else method: names for method, names in found.items()}


def _by_place(value: Any) -> dict[str, Any]:
    value = value.get("detector", value) if isinstance(value, Mapping) else value
    return dict(value) if isinstance(value, Mapping) else {"": value}


def detector_of(found: Declared, methods: Sequence[str], place: Sequence[str]) -> str:
    """Return what is declared under the first of a method's names that has a word for the place; "" where none has."""
    nearest = ["/".join(place[:depth]) for depth in range(len(place), -1, -1)]
    declared = (found[name] for name in (*methods, "") if name in found)
    return next((names[where] for names in declared for where in nearest if where in names), "")


def warn_of_unmeasured(frame: pd.DataFrame) -> None:
    """Say which detectors are declared for runs that were not measured with them: tables show nothing for those."""
    tested = frame[frame["detector"].notna() & (frame["declared"] != "")]
    found = tested["detector"] == tested["declared"]
    lacking = tested[~found.groupby([tested["folder"], tested["method"]]).transform("any")].drop_duplicates("folder")
    for name, count in lacking["declared"].value_counts().items():
        log.warning(
            "%s declares %r for %d runs that were not measured with it, so that no declared row speaks of them: mend "
            "the name, or measure it (madod rescore; detectors in a plan)",
            DECLARED, name, count,
        )  # fmt: skip


def declared_rows(tested: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of each method's declared detector once more, under the name "declared"."""
    return tested[tested["detector"] == tested["declared"]].assign(detector="declared")
