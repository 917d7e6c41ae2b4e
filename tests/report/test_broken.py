"""Runs whose training broke are told apart in the tables."""

from pathlib import Path

import pytest

from madod.report.broken import broken
from madod.report.frame import load_records
from madod.report.tables import render

from .records import measures, record, write


def written(runs: Path, rng, accuracies: list[float], domain: str | None = "photo") -> None:
    for seed, accuracy in enumerate(accuracies):
        found = measures(rng, 0.8, ("msp",)) | {"val_accuracy": accuracy}
        write(runs / f"{domain}-{seed}", record("pacs", "medic", domain, "dog", seed, found))


@pytest.mark.parametrize("domain", ["photo", None])
def test_a_run_that_learnt_far_less_of_its_sources_is_said_to_have_broken(domain, tmp_path, rng):
    written(tmp_path, rng, [0.95, 0.46, 0.97, 0.97], domain)
    frame = load_records(tmp_path)
    said = "MEDIC on PACS: training seems to have broken in 1 of 4 runs, which count all the same"
    assert broken(frame) == [f"{said} (accuracy on held-out pictures of the sources: {domain}-1 46 %, usually 96 %)"]
    assert said in render(frame, "summary")


@pytest.mark.parametrize("accuracies", [[0.95, 0.76, 0.97], [0.4, 0.41, 0.4], [0.4]])
def test_runs_that_are_all_alike_have_not_broken(accuracies, tmp_path, rng):
    written(tmp_path, rng, accuracies)
    assert broken(load_records(tmp_path)) == []


def test_sources_that_are_harder_have_broken_nothing(tmp_path, rng):
    written(tmp_path, rng, [0.7] * 3, "photo")
    written(tmp_path, rng, [0.95] * 3, "sketch")
    assert broken(load_records(tmp_path)) == []


def test_of_many_broken_runs_some_are_named(tmp_path, rng):
    written(tmp_path, rng, [0.9] * 6 + [0.2] * 5)
    [note] = broken(load_records(tmp_path))
    assert "broken in 5 of 11 runs" in note
    assert note.endswith("photo-8 20 %, usually 90 %; and 2 more)")
