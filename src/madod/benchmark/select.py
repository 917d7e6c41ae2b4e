"""Model selection: rules that pick one draw of the hyper-parameters for a method and a cell; needs no torch."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, ClassVar, NamedTuple

from madod.benchmark.agenda import Agenda, Cell, Entry
from madod.benchmark.state import facts_of

Metrics = Mapping[str, Any]


class Run(NamedTuple):
    """A finished run as selection sees it."""

    entry: Entry
    metrics: Metrics
    seconds: float


@dataclass(frozen=True)
class Trial:
    """One draw for one method and cell: its runs in the cell itself, and those inside the sources."""

    draw: int
    outer: tuple[Run, ...]
    inner: tuple[Run, ...]


class Rule(ABC):
    """How to pick a draw."""

    name: ClassVar[str]
    leak: ClassVar[bool] = False
    """Whether it looks at what no rule may look at."""

    @abstractmethod
    def runs(self, trial: Trial) -> tuple[Run, ...]:
        """Return the runs that the rule looks at."""

    @abstractmethod
    def worth(self, runs: tuple[Run, ...], detectors: tuple[str, ...]) -> float:
        """Return how good a draw looks; the highest is picked."""

    def detector(self, runs: tuple[Run, ...], detectors: tuple[str, ...]) -> str | None:
        """Return the detector with the best mean AUROC over the runs; None for a rule that sees no unknowns."""
        means = {name: mean_auroc(runs, (name,)) for name in detectors}
        known = {name: value for name, value in means.items() if value is not None}
        return max(known, key=lambda name: known[name]) if known else None


class TrainingDomain(Rule):
    """Accuracy on the held-out images of the source domains: cheap, and blind to domains and classes never seen."""

    name = "training_domain"

    def runs(self, trial: Trial) -> tuple[Run, ...]:
        """Return the runs of the cell itself; only their held-out source images are looked at."""
        return trial.outer

    def worth(self, runs: tuple[Run, ...], detectors: tuple[str, ...]) -> float:
        """Return the mean accuracy."""
        return fmean(run.metrics["val_accuracy"] for run in runs)

    def detector(self, runs: tuple[Run, ...], detectors: tuple[str, ...]) -> str | None:
        """Return none: source images hold no unknowns."""
        return None


class LeaveOneDomainOut(Rule):
    """Every source domain tested in turn with a known class hidden; the cell's own domain and classes are gone."""

    name = "leave_one_domain_out"

    def runs(self, trial: Trial) -> tuple[Run, ...]:
        """Return the inner runs."""
        return trial.inner

    def worth(self, runs: tuple[Run, ...], detectors: tuple[str, ...]) -> float:
        """Return the mean of accuracy and AUROC."""
        return score(runs, detectors)


class Oracle(LeaveOneDomainOut):
    """The test itself: what the best possible rule would pick. A leak, never a result."""

    name = "oracle"
    leak = True

    def runs(self, trial: Trial) -> tuple[Run, ...]:
        """Return the runs of the cell itself."""
        return trial.outer


RULES: dict[str, Rule] = {rule.name: rule for rule in (TrainingDomain(), LeaveOneDomainOut(), Oracle())}


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


def picks(agenda: Agenda, runs: Path) -> list[Pick]:
    """Return what every rule picks for every method and cell that has finished runs for it."""
    found = []
    for (variant, cell), trials in trials_of(agenda, runs).items():
        tests = {trial.draw: score(trial.outer, agenda.detectors) for trial in trials if trial.outer}
        best = max(tests.values(), default=None)
        for rule in RULES.values():
            most = max(len(rule.runs(trial)) for trial in trials)
            ready = [trial for trial in trials if len(rule.runs(trial)) == most]  # what is half done is not compared
            if most:
                found.append(_pick(rule, variant, cell, ready, agenda.detectors, tests, best))
    return found


def _pick(
    rule: Rule,
    variant: str,
    cell: Cell,
    trials: list[Trial],
    detectors: tuple[str, ...],
    tests: Mapping[int, float],
    best: float | None,
) -> Pick:
    chosen = max(trials, key=lambda trial: (rule.worth(rule.runs(trial), detectors), -trial.draw))
    seen = [run for trial in trials for run in rule.runs(trial)]
    test = tests.get(chosen.draw)
    return Pick(
        rule.name,
        rule.leak,
        variant,
        cell,
        chosen.draw,
        len(trials),
        rule.detector(rule.runs(chosen), detectors),
        len(seen),
        sum(run.seconds for run in seen),
        test,
        None if test is None or best is None else best - test,
    )


def picked(agenda: Agenda, runs: Path) -> list[tuple[str, str]]:
    """Return the folder and the variant's name of every run that the plan's own rule picked."""
    chosen = {(pick.variant, pick.cell): pick.draw for pick in picks(agenda, runs) if pick.rule == agenda.selection}
    return [
        (entry.folder, entry.variant)
        for entry in agenda.entries
        if entry.fold is None and chosen.get((entry.variant, entry.cell)) == entry.draw
    ]


def asked(agenda: Agenda) -> Counter[tuple[str, str, str]]:
    """Return how many runs of one draw the plan compares, by dataset, unseen domain and variant."""
    return Counter(
        (Path(entry.cell.dataset).name, entry.cell.test_domain, entry.variant)
        for entry in agenda.entries
        if entry.fold is None and entry.draw == 0
    )


def declaration(agenda: Agenda, runs: Path) -> dict[str, dict[str, Any]]:
    """Return the detector to declare for every method, from inner runs of the picked draws alone, over all cells."""
    rule = RULES["leave_one_domain_out"]
    chosen = {(pick.variant, pick.cell): pick.draw for pick in picks(agenda, runs) if pick.rule == rule.name}
    seen: dict[str, tuple[Run, ...]] = {}
    for (variant, cell), trials in trials_of(agenda, runs).items():
        inner = [run for trial in trials if trial.draw == chosen.get((variant, cell)) for run in rule.runs(trial)]
        seen[variant] = (*seen.get(variant, ()), *inner)
    return {
        variant: {
            "detector": rule.detector(inner, agenda.detectors),
            "rule": rule.name,
            "auroc": {name: mean_auroc(inner, (name,)) for name in agenda.detectors},
            "runs": len(inner),
        }
        for variant, inner in seen.items()
        if mean_auroc(inner, agenda.detectors) is not None
    }


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


def score(runs: Iterable[Run], detectors: tuple[str, ...]) -> float:
    """Return the mean of accuracy and of AUROC, the latter over detectors; of accuracy alone without unknowns."""
    runs = tuple(runs)
    right = fmean(run.metrics["accuracy"] for run in runs)
    found = mean_auroc(runs, detectors)
    return right if found is None else (right + found) / 2


def mean_auroc(runs: Iterable[Run], detectors: Iterable[str]) -> float | None:
    """Return the mean AUROC over runs and detectors, or nothing where no run had unknowns."""
    names = tuple(detectors)
    values = [run.metrics[name]["auroc"] for run in runs for name in names if run.metrics.get(name)]
    return fmean(values) if values else None
