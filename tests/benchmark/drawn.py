"""Records of three draws, made up for tests of selection."""

import json
from pathlib import Path

from madod.benchmark.agenda import Agenda, Cell, Entry

CELL = Cell("digits", "neon", ("4",))
DETECTORS = ("msp", "energy")
SPEC = {"dataset": "digits", "test_domain": "neon", "ood_classes": ["4"], "algorithm": "erm", "seed": 0}
FACTS = {"spec": SPEC, "metrics": {"val_accuracy": 0.5}, "thresholds": dict.fromkeys(DETECTORS, 0.0), "seconds": {}}
"""The least that is a record."""


def record(runs: Path, folder: str, *, val: float, accuracy: float, aurocs: tuple[float, ...], seconds: float) -> None:
    measures = {name: {"auroc": value} for name, value in zip(DETECTORS, aurocs, strict=True)}
    metrics = {"val_accuracy": val, "accuracy": accuracy, **measures}
    facts = FACTS | {"metrics": metrics, "seconds": {"all": seconds}}
    (runs / folder).mkdir(parents=True)
    (runs / folder / "record.json").write_text(json.dumps(facts), encoding="utf-8")


def agenda_of_three(runs: Path) -> Agenda:
    """Three draws: the first looks best on held-out images, the second inside the sources, the third in the test."""
    entries = []
    for draw, (val, inner, outer) in enumerate([(0.9, 0.5, 0.4), (0.8, 0.8, 0.7), (0.7, 0.6, 0.8)]):
        for seed in (0, 1):
            entries.append(Entry("madod", CELL, draw, seed, f"outer-{draw}-{seed}"))
            record(runs, entries[-1].folder, val=val, accuracy=outer, aurocs=(outer, outer - 0.1), seconds=10)
        for fold in ("ink", "chalk"):
            entries.append(Entry("madod", CELL, draw, 0, f"inner/{draw}-{fold}", fold))
            record(runs, entries[-1].folder, val=0, accuracy=inner, aurocs=(inner - 0.1, inner), seconds=5)
    return Agenda("plan", "", "leave_one_domain_out", DETECTORS, tuple(entries))
