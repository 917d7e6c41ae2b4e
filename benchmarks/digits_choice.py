"""Choose the presets for networks from scratch on the embedded digits, where neither test cells nor unknowns are seen.

    python benchmarks/digits_choice.py --out results/digits/choice

The digits 2, 4, 5 and 7, which `benchmarks/digits.py` hides, are out of sight altogether. A fold leaves one domain out,
tests on a second one and trains on the other two, with one of the six digits that are left unknown; a training serves
two folds. What is in OUT is not done again; `--settings` takes some by name.
"""

import argparse
import json
import multiprocessing
import os
import tempfile
from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, NamedTuple

from digits import DETECTORS, DOMAINS
from digits import UNKNOWN as HIDDEN

LEFT = ("0", "1", "3", "6", "8", "9")
Row = dict[str, Any]

ALL_OUTPUTS = {"own_outputs": False, "margin_in": -8.0, "margin_out": -5.0}
BEFORE = ALL_OUTPUTS | {"average": 0.0, "all_class": 0.0, "restyled_risk": False, "margin_warmup": 0.5}
"""MADOD's preset before this choice, where it differs from today's."""
WHOLE = ALL_OUTPUTS | {"average": 0.5, "all_class": 3.0, "restyled_risk": True, "margin_warmup": 0.5}
"""The same with what the folds of PACS chose for pretrained networks (results/pacs/choice)."""
AT_ONCE = WHOLE | {"margin_warmup": 0.0}
NEARER = AT_ONCE | {"own_outputs": True, "margin_in": -6.0, "margin_out": -3.0}
SETTINGS: dict[str, tuple[str, dict[str, Any]]] = {
    "ERM": ("erm", {"average": 0.0}),
    "ERM, mean weights": ("erm", {"average": 0.5}),
    "MADOD": ("madod", BEFORE),
    "all classes, restyled": ("madod", WHOLE),
    "all classes, restyled, weight 1": ("madod", WHOLE | {"all_class": 1.0}),
    "all classes, restyled, last weights": ("madod", WHOLE | {"average": 0.0}),
    "all classes, restyled, no warm-up": ("madod", AT_ONCE),
    "the same, own outputs": ("madod", AT_ONCE | {"own_outputs": True}),
    "the same, own outputs, margins -6 and -3": ("madod", NEARER),
    "the same, own outputs, margins -6 and -3, warm-up": ("madod", NEARER | {"margin_warmup": 0.5}),
    "the same, without R_OOD": ("madod", AT_ONCE | {"margin": 0.0}),
}
"""What is on offer: an algorithm, and what differs from its preset."""


class Fold(NamedTuple):
    """Two domains to train on, the digit that is unknown, and a seed."""

    sources: tuple[str, str]
    unknown: str
    seed: int

    @property
    def others(self) -> tuple[str, str]:
        """The two domains to test on, each while the other is out of sight."""
        first, second = (name for name in DOMAINS if name not in self.sources)
        return first, second


class Job(NamedTuple):
    """One training."""

    setting: str
    fold: Fold
    cache: Path

    @property
    def facts(self) -> Row:
        """What its rows have in common."""
        fold = self.fold
        return {"setting": self.setting, "sources": list(fold.sources), "unknown": fold.unknown, "seed": fold.seed}


def folds(seeds: Sequence[int]) -> Iterator[Fold]:
    """Yield every pair of domains with every other of the digits, by turns, for every seed."""
    for seed in seeds:
        for place, pair in enumerate(combinations(DOMAINS, 2)):
            for unknown in LEFT[(place + seed) % 2 :: 2]:
                yield Fold(pair, unknown, seed)


def trained(job: Job) -> list[Row]:
    """Return a training's rows, one for each domain that it is tested on."""
    import torch

    from madod.benchmark import run
    from madod.benchmark.clock import Clock
    from madod.benchmark.provenance import versions
    from madod.benchmark.record import RunSpec
    from madod.benchmark.resources import Resources
    from madod.benchmark.settings import hparams
    from madod.benchmark.without import Without
    from madod.data.digits import Digits
    from madod.data.split import split
    from madod.evaluation.evaluate import evaluate
    from madod.models.compute import PLAIN

    torch.set_num_threads(1)
    algorithm, given = SETTINGS[job.setting]
    resources, clock = Resources(job.cache, torch.device("cpu"), waive_gate=True), Clock({})
    rows, net = [], None
    for held, gone in (job.fold.others, job.fold.others[::-1]):
        view = Without(Digits(), (gone,), HIDDEN)
        parts = split(view, test_domain=held, ood_classes=(job.fold.unknown,))
        if net is None:
            wanted = hparams(algorithm, given)
            spec = RunSpec(view.name, held, (job.fold.unknown,), algorithm, job.fold.seed, hparams=wanted)
            seen = run.fingerprints(parts)
            learner, _, _ = run.equipped(run.Material(spec, view, parts, None), resources, PLAIN, clock)
            with tempfile.TemporaryDirectory() as scratch:
                net, _ = run.trained(learner, spec, parts, seen, resources, Path(scratch), clock)
        found = evaluate(net, parts, DETECTORS).metrics
        numbers = {name: found[name]["auroc"] for name in DETECTORS}
        numbers |= {name: found[name] for name in ("accuracy", "val_accuracy")}
        rounded = {name: round(value, 4) for name, value in numbers.items()}
        rows.append({**job.facts, "held": held, **rounded})
    cost = {"seconds": round(clock.seconds["training"], 1), "commit": versions(resources.device).get("commit")}
    return [row | cost for row in rows]


def worth(row: Row) -> float:
    """Accuracy plus the mean AUROC of the three detectors, in percent: what a setting is chosen by."""
    return 100 * (row["accuracy"] + fmean(row[name] for name in DETECTORS))


REFERENCES = ("ERM, mean weights", "the same, own outputs, margins -6 and -3")
"""What settings are compared with: ERM as it ships, and MADOD as it shipped before the last choice."""


def table(rows: Sequence[Row]) -> str:
    """Return a line a setting: means over its folds, and how far it is from the references on folds that both have."""
    names = ["setting", "folds", "accuracy", "on sources", *DETECTORS, "mean of 3", "both"]
    names += [*(f"less {reference}" for reference in REFERENCES), "seconds"]
    lines = ["| " + " | ".join(names) + " |", "| --- " * len(names) + "|"]
    at = {(row["setting"], *row["sources"], row["held"], row["unknown"], row["seed"]): row for row in rows}
    for setting in SETTINGS:
        mine = {key[1:]: row for key, row in at.items() if key[0] == setting}
        if not mine:
            continue
        means = [100 * fmean(row[key] for row in mine.values()) for key in ("accuracy", "val_accuracy", *DETECTORS)]
        told = []
        for reference in REFERENCES:
            apart = [worth(row) - worth(at[reference, *key]) for key, row in mine.items() if (reference, *key) in at]
            error = stdev(apart) / len(apart) ** 0.5 if len(apart) > 1 else 0.0
            told.append(f"{fmean(apart):+.1f} ± {error:.1f} ({len(apart)})" if apart and setting != reference else "")
        cells = [f"{x:.1f}" for x in (*means, fmean(means[2:]), fmean(map(worth, mine.values())))]
        seconds = f"{fmean(row['seconds'] for row in mine.values()):.0f}"
        lines.append("| " + " | ".join([setting, str(len(mine)), *cells, *told, seconds]) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--settings", nargs="*", default=list(SETTINGS), choices=list(SETTINGS), metavar="NAME")
    parser.add_argument("--seeds", nargs="*", type=int, default=[0])
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "madod-digits-choice")
    how = parser.parse_args()
    from madod.storage import write_json

    os.environ["OMP_NUM_THREADS"] = "1"
    how.out.mkdir(parents=True, exist_ok=True)
    file = how.out / "folds.json"
    rows: list[Row] = json.loads(file.read_text(encoding="utf-8")) if file.exists() else []
    wanted = [Job(setting, fold, how.cache) for fold in folds(how.seeds) for setting in how.settings]
    jobs = [job for job in wanted if not any(job.facts.items() <= row.items() for row in rows)]
    with multiprocessing.get_context("spawn").Pool(how.workers) as pool:
        for number, more in enumerate(pool.imap_unordered(trained, jobs), 1):
            rows += more
            write_json(file, rows)
            print(f"{number} of {len(jobs)}: {more[0]}", flush=True)
    text = table(rows)
    (how.out / "table.md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
