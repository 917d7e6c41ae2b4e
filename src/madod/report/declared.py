"""The detector that was declared beforehand for each method: `detector.json` among the runs."""

import json
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from madod.errors import InputError

log = logging.getLogger(__name__)

DECLARED = "detector.json"
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
    try:
        facts = json.loads(file.read_text(encoding="utf-8"))
        return {"" if method == "detector" else method: _by_place(value) for method, value in facts.items()}
    except (ValueError, AttributeError) as error:
        raise InputError(f"{file} names no detectors ({error}): write an object such as {{'madod': 'ddu'}}") from error


def _by_place(value: Any) -> dict[str, str]:
    value = value.get("detector", value) if isinstance(value, Mapping) else value
    places = value if isinstance(value, Mapping) else {"": value}
    return {place: name for place, name in places.items() if isinstance(name, str)}


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
