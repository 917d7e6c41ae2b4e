"""Model selection: what every rule picks for every method and cell of a plan; needs no torch."""

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from madod.benchmark.agenda import Agenda, Cell
from madod.benchmark.rules import RULES, LeaveOneDomainOut, Rule, Run, Trial, score
from madod.benchmark.state import facts_of


class Pick(NamedTuple):
    """What a rule picked for a method and a cell."""

    rule: str
    leak: bool
    variant: str
    cell: Cell
    draw: int
    of: int
    """Draws that it picked among."""
    detector: str | None
    runs: int
    """Runs that it had to look at."""
    seconds: float
    """What these runs took."""
    test: float | None
    """Mean of accuracy and AUROC in the cell, which no honest rule saw."""
    missed: float | None
    """How far below the oracle's pick that is."""


class Asked(NamedTuple):
    """What a plan compares."""

    runs: Mapping[tuple[str, str, str, bool], int]
    """How many runs of one draw, by dataset, unseen domain, variant, and whether any class is unknown in them."""
    detectors: tuple[str, ...] = ()
    places: frozenset[str] = frozenset()
    """Its cells (`Cell.place`)."""


def picks(agenda: Agenda, runs: Path) -> list[Pick]:
    """Return what every rule picks for every method and cell that has finished runs for it."""
    found = []
    for (variant, cell), trials in trials_of(agenda, runs).items():
        scores = {trial.draw: score(trial.outer, agenda.detectors) for trial in trials}
        tests = {draw: value for draw, value in scores.items() if value is not None}
        for rule in RULES.values():
            most = max(len(rule.runs(trial)) for trial in trials)
            ready = [trial for trial in trials if len(rule.runs(trial)) == most]  # what is half done is not compared
            if most:
                found.append(_pick(rule, variant, cell, ready, agenda.detectors, tests))
    return found


def _pick(
    rule: Rule,
    variant: str,
    cell: Cell,
    trials: list[Trial],
    detectors: tuple[str, ...],
    tests: Mapping[int, float],
) -> Pick:
    """Return the rule's pick among trials; `tests` are the scores in the cell by draw, where there are any."""
    chosen = max(trials, key=lambda trial: (rule.worth(rule.runs(trial), detectors), -trial.draw))
    seen = [run for trial in trials for run in rule.runs(trial)]
    test = tests.get(chosen.draw)
    return Pick(
        rule=rule.name,
        leak=rule.leak,
        variant=variant,
        cell=cell,
        draw=chosen.draw,
        of=len(trials),
        detector=rule.detector(rule.runs(chosen), detectors),
        runs=len(seen),
        seconds=sum(run.seconds for run in seen),
        test=test,
        missed=None if test is None else max(tests.values()) - test,
    )


def declaration(found: Iterable[Pick]) -> dict[str, dict[str, dict[str, str]]]:
    """Return the detector to declare for every method and cell: what the inner runs of this very cell speak for."""
    declared: dict[str, dict[str, dict[str, str]]] = {}
    for pick in found:
        if pick.rule == LeaveOneDomainOut.name and pick.detector is not None:
            declared.setdefault(pick.variant, {"detector": {}})["detector"][pick.cell.place] = pick.detector
    return declared


def picked(agenda: Agenda, runs: Path) -> list[tuple[str, str]]:
    """Return the folder and the variant's name of every run that the plan's own rule picked."""
    chosen = {(pick.variant, pick.cell): pick.draw for pick in picks(agenda, runs) if pick.rule == agenda.selection}
    return [
        (entry.folder, entry.variant)
        for entry in agenda.entries
        if entry.fold is None and chosen.get((entry.variant, entry.cell)) == entry.draw
    ]


def asked(agenda: Agenda) -> Asked:
    """Return what the plan compares."""
    runs = Counter(
        (Path(entry.cell.dataset).name, entry.cell.test_domain, entry.variant, bool(entry.cell.unknown))
        for entry in agenda.entries
        if entry.fold is None and entry.draw == 0
    )
    return Asked(runs, agenda.detectors, frozenset(entry.cell.place for entry in agenda.entries))


def trials_of(agenda: Agenda, runs: Path) -> dict[tuple[str, Cell], list[Trial]]:
    """Return the draws of every method and cell, with the runs that are finished."""
    facts = {folder: facts_of(runs / folder) for folder in agenda.folders}
    grouped: dict[tuple[str, Cell], dict[int, list[Run]]] = {}
    for entry in agenda.entries:
        known = facts[entry.folder]
        if known is not None:
            run = Run(entry, known["metrics"], sum(known["seconds"].values()))
            grouped.setdefault((entry.variant, entry.cell), {}).setdefault(entry.draw, []).append(run)
    return {
        key: [
            Trial(draw, tuple(r for r in found if r.entry.fold is None), tuple(r for r in found if r.entry.fold))
            for draw, found in sorted(draws.items())
        ]
        for key, draws in grouped.items()
    }
