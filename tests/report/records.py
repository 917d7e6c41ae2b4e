"""Records as runs leave them, made up: a thousand in a second, each cell with its own difficulty."""

import json
from collections.abc import Iterable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from madod.benchmark.agenda import Agenda, Cell, Entry

CELLS = {
    "pacs": (("photo", "art_painting", "cartoon", "sketch"), ("guitar", "person", "house")),
    "vlcs": (("Caltech101", "LabelMe", "SUN09", "VOC2007"), ("dog", "person")),
    "digits": (("ink", "chalk"), ("2", "4")),
}
SKILL = {"erm": 0.0, "irm": 0.01, "mixup": -0.02, "mbdg": 0.01, "medic": 0.02, "madod": 0.06}
HPARAMS: dict[str, Any] = {"lr": 5e-5, "invariance": 0.1, "margin": 0.1}


def record(
    dataset: str, algorithm: str, domain: str | None, unknown: str, seed: int, metrics: dict[str, Any], **spec: Any
) -> dict[str, Any]:
    """Return one record, as JSON holds it."""
    whole = {"dataset": dataset, "test_domain": domain, "ood_classes": [unknown], "algorithm": algorithm, "seed": seed}
    whole |= {"split_seed": 0, "steps": 500, "backbone": "resnet50", "hparams": dict(HPARAMS)} | spec
    return {
        "spec": whole,
        "metrics": metrics,
        "thresholds": {name: 0.5 for name, value in metrics.items() if isinstance(value, dict)},
        "memory": {"process": 812},
        "seconds": {"data": 0.5, "training": 20.0, "evaluation": 1.5},
        "versions": {"madod": "0.1.0", "python": "3.12.3", "device": "cpu", "torch": "2.11.0"},
    }


def measures(rng: np.random.Generator, level: float, detectors: tuple[str, ...]) -> dict[str, Any]:
    """Return made-up metrics around a level of AUROC."""
    found: dict[str, Any] = {"val_accuracy": 0.97, "ece": 0.05, "accuracy": float(np.clip(level + 0.05, 0, 1))}
    for name in detectors:
        auroc = float(np.clip(level + rng.normal(0, 0.02), 0.05, 0.99))
        found[name] = {"auroc": auroc, "aupr": auroc / 2, "base_rate": 0.125, "fpr95": 1 - auroc, "oscr": 0.9 * auroc}
    return found


def write_records(
    root: Path,
    *,
    datasets: tuple[str, ...] = ("pacs",),
    algorithms: tuple[str, ...] = ("erm", "madod"),
    seeds: int = 2,
    detectors: tuple[str, ...] = ("msp", "energy", "ddu"),
) -> int:
    """Write a run's record for every cell, method and seed; return how many."""
    rng = np.random.default_rng(0)
    count = 0
    for dataset in datasets:
        for domain, unknown in product(*CELLS[dataset]):
            level = rng.uniform(0.6, 0.85)
            for algorithm, seed in product(algorithms, range(seeds)):
                found = measures(rng, level + SKILL[algorithm], detectors)
                write(root / f"{dataset}-{algorithm}-{domain}-{unknown}-{seed}", record(
                    dataset, algorithm, domain, unknown, seed, found
                ))  # fmt: skip
                count += 1
    return count


def planned(named: Iterable[tuple[str, str]], detectors: tuple[str, ...] = ()) -> Agenda:
    """Return a plan of these runs, by folder as `write_records` names it, and variant; done or not."""
    entries = []
    for folder, variant in named:
        dataset, _, domain, unknown, seed = folder.split("-")
        entries.append(Entry(variant, Cell(dataset, domain, (unknown,) if unknown else ()), 0, int(seed), folder))
    return Agenda("planned", "", "training_domain", detectors, tuple(entries))


def write(folder: Path, facts: dict[str, Any]) -> None:
    """Put one record into a folder of its own."""
    folder.mkdir(parents=True)
    folder.joinpath("record.json").write_text(json.dumps(facts), encoding="utf-8")
