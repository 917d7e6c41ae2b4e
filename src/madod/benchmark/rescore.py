"""More detectors for a finished run, from its stored outputs: no training, no GPU."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from madod.benchmark.record import OUTPUTS, VERDICTS, RunRecord, load_record
from madod.evaluation.evaluate import evaluate_stored
from madod.evaluation.outputs import load_outputs
from madod.evaluation.verdicts import add_scores
from madod.predict import Card, Model, load


def rescore(folder: Path, detectors: Sequence[str]) -> RunRecord:
    """Measure detectors, put them into the run's record, and return it; one that needs the network refuses.

    Their scores come beside the others first: until the record has it, a detector counts as missing and is measured.
    """
    record = load_record(folder)
    result = evaluate_stored(load_outputs(folder / OUTPUTS), detectors)
    added = {name: result.metrics.get(name, {}) for name in detectors}
    record = replace(record, metrics=record.metrics | added, thresholds=record.thresholds | result.thresholds)
    add_scores(folder / VERDICTS, result.scores)
    record.save(folder)
    return record


def ship(folder: Path, name: str) -> Model:
    """Put a detector, fitted on what the run stored, into the run's saved model in place of its own, and return it."""
    model, result = load(folder), evaluate_stored(load_outputs(folder / OUTPUTS), [name])
    card = replace(unchecked(model.card, name), detector=name, threshold=result.thresholds[name])
    model = Model(model.net, result.detectors[name], card, result.held[name], model.gallery)
    model.save(folder)
    return model


def unchecked(card: Card, name: str) -> Card:
    """Return a card whose check no longer speaks of unknowns: what it said was of the detector that ships no more."""
    if card.check is None or name == card.detector:
        return card
    said = (
        f"its check does not say how {name} finds unknowns in held-out domains: train with the detector {name} for it"
    )
    return replace(card, check=replace(card.check, auroc=None, of_unknowns=(said,)))
