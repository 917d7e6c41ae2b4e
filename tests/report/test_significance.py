import math

import numpy as np
import pytest
from scipy import stats

from madod.report.frame import load_records
from madod.report.significance import compare, comparisons, holm, signed_rank_p

from .records import measures, record, write


def test_the_interval_is_students_and_the_test_wilcoxons(rng):
    values = rng.normal(1, 2, 14)
    found = compare(values)
    low, high = stats.t.interval(0.95, 13, values.mean(), stats.sem(values))
    assert (found.low, found.high) == pytest.approx((low, high))
    assert found.p == pytest.approx(stats.wilcoxon(values, method="exact").pvalue)
    assert found.cells == 14


def test_ties_and_zeros_have_an_exact_p():
    signs = np.array([[1 if bits >> place & 1 else -1 for place in range(5)] for bits in range(32)])
    values = np.array([1.0, 1.0, -2.0, 3.0, 4.0])
    ranks = np.array([1.5, 1.5, 3, 4, 5])
    sums = ((signs > 0) * ranks).sum(axis=1)
    found = ranks[values > 0].sum()
    assert signed_rank_p(np.append(values, 0.0)) == pytest.approx(2 * (sums >= found).mean())
    noise = 100 * np.mean([0.1, 0.2, 0.3]) - 100 * np.mean([0.3, 0.2, 0.1])
    assert 0 < noise < 1e-9
    assert signed_rank_p(np.append(values, [noise] * 6)) == signed_rank_p(values)


def test_too_few_cells_have_no_interval():
    found = compare([1.5])
    assert (found.cells, found.mean) == (1, 1.5)
    assert math.isnan(found.low)
    assert compare([0.0, 0.0]).p == 1


def test_holm_by_hand():
    assert holm([0.01, 0.04, 0.03, float("nan")])[:3] == pytest.approx([0.03, 0.06, 0.06])
    assert math.isnan(holm([0.01, float("nan")])[1])
    assert holm([0.9, 0.8]) == [1, 1]


def test_cells_are_paired_and_seeds_averaged_first(tmp_path, rng):
    gains = {"photo": (0.02, 0.04), "sketch": (0.10, 0.12), "cartoon": (0.0, 0.0)}
    for domain, gain in gains.items():
        for seed in range(2):
            found = measures(rng, 0.7, ("msp", "energy", "ddu"))
            write(tmp_path / f"erm-{domain}-{seed}", record("pacs", "erm", domain, "dog", seed, found))
            if domain == "cartoon":  # MADOD has no run there, so the cell does not count
                continue
            better = {k: v | {"auroc": v["auroc"] + gain[seed]} if isinstance(v, dict) else v for k, v in found.items()}
            write(tmp_path / f"madod-{domain}-{seed}", record("pacs", "madod", domain, "dog", seed, better))
    table = comparisons(load_records(tmp_path))
    row = next(row for row in table.rows if row.names == ("PACS", "ERM", "AUROC", "DDU"))
    expected = compare(100 * np.array([0.03, 0.11]))
    assert row.items[:2] == ("2", "+7.0")
    assert row.items[2] == f"\N{MINUS SIGN}{abs(expected.low):.1f} to +{expected.high:.1f}"


def test_accuracy_and_detectors_beyond_the_three_are_compared_too_or_named_as_left_out(tmp_path, rng):
    for domain in ("photo", "sketch"):
        for method, high in (("madod", 0.8), ("erm", 0.7)):
            found = measures(rng, high, ("msp", "knn")) | {"accuracy": high}
            write(tmp_path / f"{method}-{domain}", record("pacs", method, domain, "dog", 0, found))
    frame = load_records(tmp_path)
    table = comparisons(frame)
    assert [row.names[2:] for row in table.rows] == [("accuracy", "any"), ("AUROC", "MSP"), ("AUPR", "MSP")]
    assert table.rows[0].items[:2] == ("2", "+10.0")
    assert table.notes[-1].startswith("not compared: knn; bench table --shape significance --detector NAME")
    table = comparisons(frame, detectors=["knn", "msp"])
    assert [row.names[3] for row in table.rows] == ["any", "MSP", "knn", "MSP", "knn"]
    table = comparisons(frame[frame["detector"] == "knn"])
    assert [row.names[3] for row in table.rows] == ["any", "knn", "knn"]
    assert not any("not compared" in note for note in table.notes)


def test_runs_without_unknowns_are_compared_by_accuracy(tmp_path):
    for method, high in (("madod", 0.8), ("erm", 0.7)):
        write(tmp_path / method, record("pacs", method, "photo", "", 0, {"accuracy": high, "val_accuracy": 0.9}))
    (row,) = comparisons(load_records(tmp_path)).rows
    assert (row.names, row.items[:2]) == (("PACS", "ERM", "accuracy", "any"), ("1", "+10.0"))


def test_without_the_reference_there_is_nothing_to_compare(tmp_path, rng):
    write(tmp_path / "a", record("pacs", "erm", "photo", "dog", 0, measures(rng, 0.7, ("msp",))))
    table = comparisons(load_records(tmp_path))
    assert not table.rows
    assert "MADOD" in table.notes[0]
    assert table.notes[0].endswith("name the method to compare with as --reference; there are: erm")
