"""The detector that was declared beforehand for each method: `detector.json` among the runs."""

import json
from pathlib import Path

import pandas as pd

from madod.errors import InputError

FILE = "detector.json"


def declared(runs: Path) -> dict[str, str]:
    """Return the declared detector by method or algorithm, under "" the one for all others; nothing without any.

    The file is an object: `{"madod": "ddu", "erm": "energy"}`, or `{"detector": "ddu"}` for all; an algorithm's entry
    may be an object too, with its `detector` and whatever else is worth keeping.
    """
    file = runs / FILE
    if not file.exists():
        return {}
    try:
        facts = json.loads(file.read_text(encoding="utf-8"))
        named = {key: value.get("detector") if isinstance(value, dict) else value for key, value in facts.items()}
    except (ValueError, AttributeError) as error:
        raise InputError(f"{file} names no detectors ({error}): write an object such as {{'madod': 'ddu'}}") from error
    known = {key: name for key, name in named.items() if isinstance(name, str)}
    return {"" if key == "detector" else key: name for key, name in known.items()}


def declared_rows(tested: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of each method's declared detector once more, under the name "declared"."""
    return tested[tested["detector"] == tested["declared"]].assign(detector="declared")
