"""`madod rescore`: more detectors for a finished run, without its model or a GPU."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from madod.cli.arguments import Switch, parse
from madod.errors import InputError

ABOUT = """Add detectors to a finished run.

Works from the features and logits that the run stored (outputs.safetensors), so that nothing is trained and no GPU is
needed, and writes what it measures into the run's record.json, and the scores that curves are drawn from into its
verdicts.safetensors. ODIN, which needs the network itself, refuses. With --ship the detector also takes the place of
the one in the saved model, threshold included."""


@dataclass(frozen=True)
class Rescore:
    """Which run, and which detectors."""

    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Folder of a finished run, as `madod train --out` makes it."""
    detectors: Annotated[
        tuple[str, ...],
        tyro.conf.Positional,
        tyro.conf.arg(metavar="DETECTOR", help_behavior_hint="(one or more)"),
    ]
    """Detectors to add; `madod list detectors` lists them."""
    ship: Switch = False
    """Put the detector, one alone, into the saved model: predict, serve and export then use it."""


def main(arguments: Sequence[str]) -> int:
    """Measure, write the record, and print one line per detector."""
    how = parse(Rescore, arguments, "rescore", ABOUT)
    if not how.detectors:
        raise InputError("no detector named: give one or more after the run; `madod list detectors` lists them")
    if how.ship and len(how.detectors) > 1:
        raise InputError(f"a model has one detector, and {len(how.detectors)} are named: give --ship one alone")
    from madod.benchmark.claim import alone
    from madod.benchmark.record import RECORD, read_record

    if not (how.run / RECORD).exists() and next(how.run.glob(f"*/{RECORD}"), None):
        raise InputError(
            f"{how.run} is a folder of runs: name one of them, or write the detectors into the plan and start bench "
            "run again, which adds them to all"
        )
    read_record(how.run)  # before anything is written: a folder that is no run's stays as it is
    with alone(how.run):
        measure(how)
    return 0


def measure(how: Rescore) -> None:
    """Add the detectors to a run that is in our hands."""
    from madod.benchmark.rescore import rescore, ship
    from madod.fitting.check import CHECKED, offered
    from madod.fitting.prepare import REPORT

    record = rescore(how.run, how.detectors)
    for name in how.detectors:
        found = record.metrics[name]
        numbers = ", ".join(f"{key} {value:.3f}" for key, value in found.items())
        numbers = numbers or "nothing measured, as no test domain has both known and unknown images"
        sys.stdout.write(f"{name}: threshold {record.thresholds[name]:.4g}, {numbers}\n")
    if how.ship:
        ship(how.run, how.detectors[0])
        sys.stdout.write(f"{how.run / 'model'} now tells unknowns by {how.detectors[0]}\n")
        if (page := how.run / REPORT).exists():
            measured = how.detectors[0] in offered(record.spec) or not (how.run / CHECKED).exists()
            again = "nothing" if measured else "only the models of its check again"
            sys.stdout.write(
                f"{page} still shows the model as it was trained: the same madod train with --detector "
                f"{how.detectors[0]} writes it anew and trains {again}\n"
            )
