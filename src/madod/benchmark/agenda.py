"""A plan written out: every run it asks for, by folder, kept beside the runs so that anybody can ask how they stand."""

import hashlib
import json
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

from filelock import FileLock

from madod.errors import InputError
from madod.kinds import filled
from madod.storage import ordinary, write_json

SWEEPS = "sweeps"
"""Folder among the runs for what belongs to no single one."""
INNER = "inner"
"""Folder among the runs for those that only selection looks at."""
FOLDS = "check"
"""Folder in that of a training for the runs of its check, while they are at work."""


class Cell(NamedTuple):
    """What methods are compared on: a dataset, the domain it is tested in, the classes that are unknown."""

    dataset: str
    test_domain: str
    unknown: tuple[str, ...]

    @property
    def place(self) -> str:
        """How tables name it: DATASET/DOMAIN/UNKNOWN."""
        return f"{Path(self.dataset).name}/{self.test_domain}/{'+'.join(self.unknown)}"


@dataclass(frozen=True)
class Entry:
    """One run as the plan means it; variants that come to the same run have entries with the same folder."""

    variant: str
    cell: Cell
    draw: int
    seed: int
    folder: str
    """Where among the runs it lies."""
    fold: str | None = None
    """The source domain that an inner run of selection is tested in; None for a run of the comparison itself."""

    @property
    def told(self) -> tuple[object, ...]:
        """What tells a number in a table from all others, whatever the settings of its run."""
        return self.variant, *self.cell[:2], frozenset(self.cell.unknown), self.seed, self.draw, self.fold


@dataclass(frozen=True)
class Agenda:
    """All entries of a plan."""

    plan: str
    sha256: str
    selection: str
    detectors: tuple[str, ...]
    entries: tuple[Entry, ...]

    @property
    def folders(self) -> tuple[str, ...]:
        """The runs, each once, in the order of the plan."""
        return tuple(dict.fromkeys(entry.folder for entry in self.entries))

    def save(self, runs: Path) -> None:
        """Write it beside the runs; sweeps that start together do so one after the other."""
        file = _file(runs, self.plan)
        file.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(file.with_suffix(".lock")):
            write_json(file, asdict(self))


def load_agenda(plan: Path, runs: Path) -> Agenda | None:
    """Return what the last sweep of this very plan wrote beside the runs, or nothing."""
    found = _read(_file(runs, plan.stem))
    return found if found and found.sha256 == checksum(plan) else None


def agendas(runs: Path) -> list[Agenda]:
    """Return what sweeps wrote beside the runs, whatever has become of their plans; what is broken is passed over."""
    found = []
    for file in sorted((runs / SWEEPS).glob("*.json")):
        with suppress(InputError):
            found.append(_read(file))
    return [agenda for agenda in found if agenda]


def _read(file: Path) -> Agenda | None:
    try:
        facts = json.loads(ordinary(file).read_text(encoding="utf-8"))
        entries = [filled(Entry, **entry | {"cell": _cell(*entry["cell"])}) for entry in facts.pop("entries")]
        return filled(Agenda, **facts, entries=entries)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{file} is not what a sweep left ({error}): delete it and start the sweep again") from error


def checksum(plan: Path) -> str:
    """Return the hash of a plan's file."""
    try:
        return hashlib.sha256(ordinary(plan).read_bytes()).hexdigest()
    except OSError as error:
        raise InputError(f"the plan {plan} cannot be read ({error.strerror}): check the path") from error


def _file(runs: Path, plan: str) -> Path:
    return runs / SWEEPS / f"{plan}.json"


def _cell(dataset: object, test_domain: object, unknown: object) -> Cell:
    return filled(Cell, dataset=dataset, test_domain=test_domain, unknown=unknown)
