"""All records below a folder as one table of numbers: one row per record and detector, read without torch."""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from madod.benchmark.agenda import FOLDS, INNER, Agenda
from madod.benchmark.claim import LOCK
from madod.benchmark.record import RECORD, RunSpec, lasting, read_record
from madod.benchmark.select import Asked, asked, picked
from madod.errors import InputError
from madod.report.declared import declared, detector_of, warn_of_unmeasured
from madod.report.known import refuse_unknown
from madod.report.order import ALONE
from madod.report.planned import with_asked
from madod.report.variants import named

Record = dict[str, Any]
"""What tables need of one run."""
PLACE = ["dataset", "test_domain", "ood_classes"]
"""A cell: what methods are compared on."""
CELL = [*PLACE, "seed"]
"""What two methods must share to be compared: a cell and its seed."""
SPEC = ["dataset", "algorithm", "test_domain", "ood_classes", "seed"]
MEASURES = ["auroc", "aupr", "base_rate", "fpr95", "oscr"]
OVERALL = ["accuracy", "val_accuracy", "ece"]
COLUMNS = [*SPEC, "method", "detector", *OVERALL, *MEASURES, "threshold", "seconds", "hparams", "settings", "versions",
           "translation", "memory", "id", "folder"]  # fmt: skip


def load_records(runs: Path, agenda: Agenda | None = None) -> pd.DataFrame:
    """Return one row per record and detector below `runs`, in the order of cells; one found twice counts once.

    `method` is the algorithm, and what sets it apart where one algorithm ran with several settings. Of a plan only the
    runs are read that its own rule picked, under its names; tables then show as missing what it asks for and is not
    there. A run that was tested on nothing has one row without a detector. `declared` is the detector that was chosen
    beforehand.
    """
    records, names = _all_below(runs) if agenda is None else _picked(runs, agenda)
    rows = [row | {"method": name} for record, name in zip(records, names, strict=True) for row in _rows(record)]
    frame = pd.DataFrame(rows, columns=COLUMNS)
    plan = Asked({}) if agenda is None else asked(agenda)
    found = declared(runs)
    refuse_unknown(found, frame, runs, plan)
    named_so = frame[["method", "algorithm", *PLACE]].fillna("")
    frame["declared"] = [detector_of(found, row[:2], row[2:]) for row in named_so.itertuples(index=False, name=None)]
    warn_of_unmeasured(frame)
    return with_asked(frame.sort_values([*CELL, "method"], kind="stable", ignore_index=True), plan)


def _all_below(runs: Path) -> tuple[list[Record], list[str]]:
    """Return every run below a folder once, and how its method is called beside the others."""
    records = list(_unique(_same_weights(_read(file) for file in record_files(runs))))
    if not records:
        raise InputError(f"there is no finished run below {runs}: a run has a {RECORD}; name the folder of runs")
    return records, named([(record["dataset"], record["algorithm"], record["settings"]) for record in records])


def _picked(runs: Path, agenda: Agenda) -> tuple[list[Record], list[str]]:
    """Return the finished runs that a plan's own rule picked, and its names for their methods."""
    done = [(file, name) for folder, name in picked(agenda, runs) if (file := runs / folder / RECORD).exists()]
    if not done:
        raise InputError(
            f"none of the plan's runs in {runs} is finished: madod bench status says how they stand, madod bench run "
            "carries them through"
        )
    return list(_same_weights(_read(file) for file, _ in done)), [name for _, name in done]


def accuracy_alone(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of runs that were tested in an unseen domain without any unknown class, under `ALONE`."""
    return frame[frame["detector"].isna() & frame["test_domain"].notna()].assign(detector=ALONE)


def record_files(runs: Path) -> Iterator[Path]:
    """Yield every record below a folder, in order, those nearer to the top first.

    Those of selection's own runs are left out, and those of a training's check, which lie there while it is at work.
    """
    for folder, names, files in os.walk(runs):
        aside = {"model", INNER, *([FOLDS] if LOCK in files else [])}
        names[:] = sorted(set(names) - aside)
        if RECORD in files:
            yield Path(folder, RECORD)


def _read(file: Path) -> Record:
    """Return what tables need of one record; a detector without measures, as in a run without unknowns, is left out."""
    facts = read_record(file.parent)
    spec = {"precision": RunSpec.precision} | facts["spec"]  # which the first records do not name
    metrics = facts["metrics"]
    settings = {key: value for key, value in spec.items() if key not in SPEC and value is not None}
    settings["hparams"] = lasting(settings.get("hparams", {}))
    tested = {name: found for name, found in metrics.items() if isinstance(found, dict) and found}
    return {
        "dataset": Path(spec["dataset"]).name,
        "algorithm": spec["algorithm"],
        "test_domain": spec["test_domain"],
        "ood_classes": "+".join(spec["ood_classes"]),
        "seed": spec["seed"],
        **_measures(metrics, OVERALL),
        "detectors": {name: _measures(found, MEASURES) for name, found in tested.items()},
        "thresholds": facts["thresholds"],
        "seconds": float(sum(facts["seconds"].values())),
        "hparams": dict(spec.get("hparams", {})),
        "settings": settings,
        "versions": facts.get("versions", {}),
        "translation": facts.get("translation"),
        "memory": facts.get("memory", {}),
        "id": file.parent.name,
        "folder": str(file.parent),
    }


def _measures(found: Mapping[str, float], keys: Sequence[str]) -> dict[str, float]:
    """Return measures, NaN where they were not measured."""
    return {key: float(found.get(key, "nan")) for key in keys}


def _same_weights(records: Iterator[Record]) -> Iterator[Record]:
    """Yield records with the same pretrained weights under the first of their names: a file's name decides nothing."""
    first: dict[str, str] = {}
    for record in records:
        if label := record["settings"].get("pretrained"):
            record["settings"]["pretrained"] = first.setdefault(str(label).rpartition("sha256:")[2], label)
        yield record


def _unique(records: Iterator[Record]) -> Iterator[Record]:
    """Yield a run that lies in several folders once, from the first."""
    seen: set[str] = set()
    for record in records:
        told = json.dumps([[record[key] for key in SPEC], record["settings"]], sort_keys=True)
        if told not in seen:
            seen.add(told)
            yield record


def _rows(record: Record) -> Iterator[dict[str, Any]]:
    """Yield one row per detector; one without a detector where nothing was detected."""
    whole = {key: value for key, value in record.items() if key not in ("detectors", "thresholds")}
    for name, measures in record["detectors"].items():
        yield whole | measures | {"detector": name, "threshold": record["thresholds"].get(name)}
    if not record["detectors"]:
        yield whole
