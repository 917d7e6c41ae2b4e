"""`madod bench status | select | table`: what a sweep has come to, without torch once it was started."""

import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from madod.cli.arguments import Switch, left_open, parse
from madod.errors import InputError
from madod.report.columns import aligned
from madod.storage import refuse_file, write_json

if TYPE_CHECKING:
    from madod.benchmark.agenda import Agenda, Cell
    from madod.benchmark.select import Pick

ABOUT_STATUS = """How the runs of a plan stand, at any time, from any terminal.

A run is running only while a living process holds it and shows signs of life."""

ABOUT_SELECT = """What each selection rule picks among the draws of the hyper-parameters, what it costs, what it misses.

training_domain: accuracy on held-out images of the source domains.

leave_one_domain_out: accuracy and AUROC with every source domain tested in turn and a known class hidden; its runs are
made where the plan says selection = "leave_one_domain_out"; it picks the detector too.

oracle: the test itself, a leak, shown to see what the others miss."""

ABOUT_TABLE = """The tables of a plan: only what its selection rule picked, each variant under its name."""
TEST_NOTE = (
    "test: mean of accuracy and AUROC (over detectors) in the cell, percent; missed: the oracle's less this one's"
)


@dataclass(frozen=True)
class Place:
    """Which plan, and where its runs are."""

    plan: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="PLAN")]
    """A plan (TOML)."""
    runs: Annotated[Path, tyro.conf.arg(metavar="RUNS")]
    """Folder of the runs."""
    root: Annotated[Path | None, left_open("DATA")] = None
    """Folder of datasets and weights; needed only where no sweep of this plan has been started yet."""


@dataclass(frozen=True)
class Look(Place):
    """A plan with its folder of runs, and how to print what is found there."""

    json: Switch = False
    """Print JSON."""


@dataclass(frozen=True)
class Select(Look):
    """What to select from, how to print it, and whether to keep what was found."""

    declare: Switch = False
    """Write RUNS/detector.json, which tables take the declared detector from: for every method and cell the best by
    AUROC in the inner runs of that cell."""


@dataclass(frozen=True)
class Table(Place):
    """Which table, of which plan."""

    shape: Literal["summary", "per-domain", "statistics", "significance"] = "summary"
    """All unseen domains together, each by itself, the datasets' own numbers, or paired differences."""
    form: Literal["text", "markdown", "latex", "csv"] = "text"
    """How it is written."""
    dataset: Annotated[str | None, left_open("NAME")] = None
    """One dataset only."""
    detector: Annotated[tuple[str, ...], left_open("NAME ...")] = ()
    """Some detectors only."""
    reference: str = "madod"
    """The method that the others are compared with in --shape significance."""
    without_paper: Switch = False
    """Leave the paper's numbers out."""


def agenda_of(how: Place) -> "Agenda":
    """Return the runs of the plan: as its sweep wrote them down, or from the plan itself."""
    from madod.benchmark.agenda import load_agenda

    refuse_file(how.runs, "name the folder of the runs")
    known = load_agenda(how.plan, how.runs)
    if known is not None:
        return known
    from madod.benchmark.jobs import expand

    return expand(how.plan, how.root)[0]


def status(arguments: Sequence[str]) -> int:
    """Say how every run stands."""
    from madod.benchmark.state import KINDS, overview
    from madod.cli.sweeping import duration

    how = parse(Look, arguments, "bench status", ABOUT_STATUS)
    agenda = agenda_of(how)
    seen = overview(how.runs, agenda.folders, agenda.detectors)
    if how.json:
        states = {
            folder: {"state": state.kind, "reason": state.reason, "lacks": state.lacks}
            for folder, state in seen.states.items()
        }
        sys.stdout.write(
            json.dumps({"counts": {kind: seen.counts[kind] for kind in KINDS}, "runs": states}, indent=2) + "\n"
        )
        return 0
    sys.stdout.write(f"{seen.in_words()}\n")
    if not how.runs.exists():
        sys.stdout.write(f"nothing is there yet: there is no folder {how.runs}, which madod bench run makes\n")
    for folder in seen.of("running"):
        beat = seen.states[folder].beat
        if beat is not None:
            far = f"{beat.stage} {beat.done} of {beat.total}" if beat.total else beat.stage
            sys.stdout.write(f"running: {folder}: {far}, for {duration(time.time() - beat.since)}\n")
    for kind in ("failed", "left"):
        for folder in (folder for folder in seen.of(kind) if seen.states[folder].reason):
            sys.stdout.write(f"{kind}: {folder}: {seen.states[folder].reason}\n")
    return 0


def select(arguments: Sequence[str]) -> int:
    """Print what every rule picked for every method and cell."""
    from madod.benchmark.select import declaration, picks

    how = parse(Select, arguments, "bench select", ABOUT_SELECT)
    agenda = agenda_of(how)
    found = picks(agenda, how.runs)
    if not found:
        raise InputError(f"no run of {how.plan} is done in {how.runs}: start with madod bench run")
    if how.declare:
        from madod.report.declared import DECLARED

        chosen = declaration(found)
        if not chosen:
            raise InputError(
                'there are no inner runs to declare a detector from: selection = "leave_one_domain_out" makes them'
            )
        write_json(how.runs / DECLARED, chosen)
    if how.json:
        rows = [pick._asdict() | {"cell": pick.cell._asdict()} for pick in found]
        sys.stdout.write(json.dumps({"selection": agenda.selection, "picks": rows}, indent=2) + "\n")
    else:
        sys.stdout.write(picks_table(found, agenda.selection))
    return 0


def picks_table(found: "Sequence[Pick]", own: str) -> str:
    """Return the picks as text, a line each, then one line per rule."""
    from madod.cli.sweeping import duration

    head = ("method", "cell", "rule", "draw", "detector", "runs", "time", "test", "missed")
    rows = [
        (
            pick.variant,
            f"{pick.cell.dataset} {pick.cell.test_domain}, {unknown_in(pick.cell)}",
            pick.rule + (" (leak)" if pick.leak else " (plan's)" if pick.rule == own else ""),
            f"{pick.draw} of {pick.of}",
            pick.detector or "-",
            str(pick.runs),
            duration(pick.seconds),
            points(pick.test),
            points(pick.missed),
        )
        for pick in found
    ]
    lines = aligned([head, *rows], len(head))
    for rule in dict.fromkeys(pick.rule for pick in found):
        mine = [pick for pick in found if pick.rule == rule]
        missed = [pick.missed for pick in mine if pick.missed is not None]
        gap = f"misses the oracle by {points(sum(missed) / len(missed))} points on average" if missed else "not tested"
        count = sum(p.runs for p in mine)
        cost = f"{count} {'run' if count == 1 else 'runs'}, {duration(sum(p.seconds for p in mine))}"
        lines.append(f"{rule}: looked at {cost}; {gap}")
    return "\n".join([*lines, TEST_NOTE]) + "\n"


def unknown_in(cell: "Cell") -> str:
    """Say which classes are unknown in a cell."""
    return f"unknown {'+'.join(cell.unknown)}" if cell.unknown else "none unknown"


def points(value: float | None) -> str:
    """Return a fraction in percent."""
    return "-" if value is None else f"{100 * value:.1f}"


def table(arguments: Sequence[str]) -> int:
    """Print a table of the runs that the plan's rule picked, missing ones shown as missing."""
    from madod.report.frame import load_records
    from madod.report.tables import render

    how = parse(Table, arguments, "bench table", ABOUT_TABLE)
    text = render(
        load_records(how.runs, agenda_of(how)), how.shape, how.form,
        dataset=how.dataset, detectors=how.detector, paper=not how.without_paper, reference=how.reference,
    )  # fmt: skip
    sys.stdout.write(text if text.endswith("\n") else f"{text}\n")
    return 0
