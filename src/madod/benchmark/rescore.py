"""More detectors for a finished run, from its stored outputs: no training, no model, no GPU."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from madod.benchmark.record import RunRecord, load_record
from madod.evaluation.evaluate import evaluate_stored
from madod.evaluation.outputs import load_outputs


def rescore(folder: Path, detectors: Sequence[str]) -> RunRecord:
    """Measure detectors, put them into the run's record, and return it; one that needs the network refuses."""
    record = load_record(folder)
    result = evaluate_stored(load_outputs(folder / "outputs.safetensors"), detectors)
    added = {name: result.metrics.get(name, {}) for name in detectors}
    record = replace(record, metrics=record.metrics | added, thresholds=record.thresholds | result.thresholds)
    record.save(folder)
    return record
