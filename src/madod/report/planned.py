"""What a plan asks for, kept with its records, so that tables show what is missing."""

from collections import Counter
from collections.abc import Mapping

import pandas as pd

KEY = "asked"
Asked = Mapping[tuple[str, str, str], int]
"""Runs that a plan asks for, by dataset, unseen domain and method."""


def with_asked(frame: pd.DataFrame, asked: Asked) -> pd.DataFrame:
    """Return the records together with what was asked for."""
    frame.attrs[KEY] = dict(asked)
    return frame


def of_dataset(frame: pd.DataFrame, dataset: str) -> pd.DataFrame:
    """Return what was recorded of one dataset, and asked for of it."""
    mine = {key: runs for key, runs in frame.attrs.get(KEY, {}).items() if key[0] == dataset}
    return with_asked(frame[frame["dataset"] == dataset], mine)


def asked_in(frame: pd.DataFrame, *, by_domain: bool = False) -> Counter[tuple[str, str, str]]:
    """Return what was asked for, domains taken together or not; nothing where the records came without a plan."""
    found: Counter[tuple[str, str, str]] = Counter()
    for (dataset, domain, method), runs in frame.attrs.get(KEY, {}).items():
        found[dataset, domain if by_domain else "", method] += runs
    return found
