"""What declared detectors may speak of: methods, detectors and places that runs, plans or madod itself know."""

import logging
from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from madod.benchmark.agenda import agendas
from madod.benchmark.select import Asked, asked
from madod.errors import InputError, nearest
from madod.registry import Registry
from madod.report.declared import DECLARED, Declared

log = logging.getLogger(__name__)
ALGORITHMS: Registry[object] = Registry("algorithm")
DETECTORS: Registry[object] = Registry("detector")
"""Names alone, which are read without torch."""


def refuse_unknown(found: Declared, frame: pd.DataFrame, runs: Path, plan: Asked) -> None:
    """Refuse a declaration for a method, or of a detector, that nothing knows; warn of a place that nothing knows.

    What other sweeps among the runs asked for is known too, whatever the frame shows.
    """
    if not found:
        return
    plans = [plan, *map(asked, agendas(runs))]
    methods = {*frame["method"], *frame["algorithm"], *ALGORITHMS, *(key[2] for one in plans for key in one.runs)}
    detectors = {*frame["detector"].dropna(), *DETECTORS, *(name for one in plans for name in one.detectors)}
    places = _above({*_places(frame), *(place for one in plans for place in one.places)})
    for method, names in found.items():
        if method and not {method, method.partition(",")[0]} & methods:  # variants go by their algorithm's name first
            raise _refusal(runs, f"no method {method!r}", method, methods)
        for place, detector in names.items():
            if detector not in detectors:
                raise _refusal(runs, f"no detector {detector!r}", detector, detectors)
            if place and place not in places:
                log.warning(
                    "%s declares %r for %r%s, which neither a run nor a plan knows, so that nothing comes of it",
                    runs / DECLARED, detector, place, nearest(place, sorted(places)),
                )  # fmt: skip


def _refusal(runs: Path, said: str, name: str, known: Iterable[str]) -> InputError:
    there = sorted(known)
    return InputError(f"{runs / DECLARED}: {said}{nearest(name, there)}; there are: {'; '.join(there)}")


def _places(frame: pd.DataFrame) -> set[str]:
    cells = frame[["dataset", "test_domain", "ood_classes"]].fillna("").drop_duplicates()
    return {"/".join(cell) for cell in cells.itertuples(index=False, name=None)}


def _above(places: Iterable[str]) -> set[str]:
    """Return places, and the datasets and domains that they lie in."""
    parts = [place.split("/", 2) for place in places]
    return {"/".join(part[:depth]) for part in parts for depth in (1, 2, 3)}
