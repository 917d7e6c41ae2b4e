"""Rules that pick one draw of the hyper-parameters for a method and a cell, each by what it may look at."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import Any, ClassVar, NamedTuple

from madod.benchmark.agenda import Entry

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
        """Return the mean of accuracy and AUROC; 0 of every draw where no known image was tested."""
        return score(runs, detectors) or 0.0


class Oracle(LeaveOneDomainOut):
    """The test itself: what the best possible rule would pick. A leak, never a result."""

    name = "oracle"
    leak = True

    def runs(self, trial: Trial) -> tuple[Run, ...]:
        """Return the runs of the cell itself."""
        return trial.outer


RULES: dict[str, Rule] = {rule.name: rule for rule in (TrainingDomain(), LeaveOneDomainOut(), Oracle())}


def score(runs: Iterable[Run], detectors: tuple[str, ...]) -> float | None:
    """Return the mean of accuracy and of AUROC, the latter over detectors; of accuracy alone without unknowns.

    A run whose test domain has no known image measures neither; nothing where that is so of all.
    """
    runs = tuple(runs)
    right = [run.metrics["accuracy"] for run in runs if "accuracy" in run.metrics]
    if not right:
        return None
    found = mean_auroc(runs, detectors)
    return fmean(right) if found is None else (fmean(right) + found) / 2


def mean_auroc(runs: Iterable[Run], detectors: Iterable[str]) -> float | None:
    """Return the mean AUROC over runs and detectors, or nothing where no run had unknowns."""
    names = tuple(detectors)
    values = [run.metrics[name]["auroc"] for run in runs for name in names if run.metrics.get(name)]
    return fmean(values) if values else None
