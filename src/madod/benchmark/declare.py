"""The detector to declare beforehand for every method, by the runs inside the sources; needs no torch."""

from pathlib import Path
from typing import Any

from madod.benchmark.agenda import Agenda
from madod.benchmark.rules import RULES, Run, mean_auroc
from madod.benchmark.select import picks, trials_of


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
