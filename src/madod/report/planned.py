"""What a plan asks for, kept with its records, so that tables show what is missing."""

from collections import Counter
from collections.abc import Sequence

import pandas as pd

from madod.benchmark.select import Asked

KEY, DETECTORS = "asked", "detectors"


def with_asked(frame: pd.DataFrame, asked: Asked) -> pd.DataFrame:
    """Return the records together with what was asked for."""
    frame.attrs |= {KEY: dict(asked.runs), DETECTORS: asked.detectors}
    return frame


def of_dataset(frame: pd.DataFrame, dataset: str) -> pd.DataFrame:
    """Return what was recorded of one dataset, and asked for of it."""
    mine = {key: runs for key, runs in frame.attrs.get(KEY, {}).items() if key[0] == dataset}
    return with_asked(frame[frame["dataset"] == dataset], Asked(mine, detectors_asked(frame)))


def asked_in(frame: pd.DataFrame, *, by_domain: bool = False) -> Counter[tuple[str, str, str, bool]]:
    """Return what was asked for, domains taken together or not; nothing where the records came without a plan."""
    found: Counter[tuple[str, str, str, bool]] = Counter()
    for (dataset, domain, method, hides), runs in frame.attrs.get(KEY, {}).items():
        found[dataset, domain if by_domain else "", method, hides] += runs
    return found


def detectors_asked(frame: pd.DataFrame) -> tuple[str, ...]:
    """Return the detectors that were asked for; none where the records came without a plan."""
    return frame.attrs.get(DETECTORS, ())


def detectors_due(frame: pd.DataFrame, named: Sequence[str] = ()) -> dict[str, list[str]]:
    """Return what was asked for, of those that are named if any are, for every method with runs that has unknowns."""
    names = [name for name in detectors_asked(frame) if not named or name in named]
    there = set(frame["dataset"])
    tested = {method for dataset, _, method, hides in asked_in(frame) if hides and dataset in there}
    return {method: names for method in dict.fromkeys(frame["method"]) if method in tested}
