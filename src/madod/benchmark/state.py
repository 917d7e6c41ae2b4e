"""How a run stands, told from its folder alone; needs no torch."""

import time
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from madod.benchmark.claim import Beat, heartbeat, held
from madod.benchmark.record import RECORD, read_record
from madod.errors import InputError
from madod.storage import read_json, write_json

FAILURE = "failure.json"
Kind = Literal["done", "running", "failed", "left"]
KINDS: tuple[Kind, ...] = get_args(Kind)


class State(NamedTuple):
    """How a run stands, and why or how far."""

    kind: Kind
    reason: str = ""
    beat: Beat | None = None
    lacks: tuple[str, ...] = ()
    """Detectors that a run which is trained, and left for their sake alone, does not have yet."""


class Overview(NamedTuple):
    """How all runs of a sweep stand, by folder."""

    states: dict[str, State]

    def of(self, kind: Kind) -> list[str]:
        """Return the folders of the runs that stand so."""
        return [folder for folder, state in self.states.items() if state.kind == kind]

    @property
    def counts(self) -> Counter[str]:
        """How many runs stand how."""
        return Counter(state.kind for state in self.states.values())

    def in_words(self) -> str:
        """Say the counts in one line, and how many runs are left that need no training."""
        lacking = sum(bool(state.lacks) for state in self.states.values())
        said = f" ({lacking} of them lack{'s' * (lacking == 1)} detectors only)" if lacking else ""
        return ", ".join(f"{self.counts[kind]} {kind}" for kind in KINDS) + said


def overview(runs: Path, folders: Iterable[str], detectors: Iterable[str]) -> Overview:
    """Return how runs stand; reads files and locks, and disturbs nobody."""
    wanted = tuple(detectors)
    return Overview({folder: state(runs / folder, wanted) for folder in folders})


def state(folder: Path, detectors: Iterable[str]) -> State:
    """Tell how a run stands: done with all detectors, in the hands of a living process, failed, or left to do."""
    try:
        lacks = _lacking(folder, detectors)
        if lacks == ():
            return State("done")
    except InputError as error:
        return State("failed", str(error))
    if held(folder):
        beat = heartbeat(folder)
        return State("running", beat=beat) if beat else State("left", "held by a process that gives no sign of life")
    if (folder / FAILURE).exists():
        return State("failed", failure(folder))
    return State("left", lacks=lacks or ())


def finished(folder: Path, detectors: Iterable[str]) -> bool:
    """Tell whether a run has its record, and every detector in it; a broken one is none."""
    with suppress(InputError):
        return _lacking(folder, detectors) == ()
    return False


def _lacking(folder: Path, detectors: Iterable[str]) -> tuple[str, ...] | None:
    """Return the detectors that a finished run does not have; None where it is not finished."""
    facts = facts_of(folder)
    return None if facts is None else tuple(name for name in detectors if name not in facts["thresholds"])


def facts_of(folder: Path) -> dict[str, Any] | None:
    """Return what a finished run recorded, or nothing where there is no record; refuse a broken one."""
    return read_record(folder) if (folder / RECORD).exists() else None


def fail(folder: Path, reason: str) -> None:
    """Leave the reason why a run failed."""
    write_json(folder / FAILURE, {"reason": reason, "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())})


def failure(folder: Path) -> str:
    """Return the reason why a run failed."""
    try:
        return str(read_json(folder / FAILURE)["reason"])
    except (InputError, KeyError, TypeError):
        return "the reason was lost"
