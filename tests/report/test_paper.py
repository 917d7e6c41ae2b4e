import csv
from pathlib import Path

import pytest

from madod.detectors import THREE
from madod.report import words
from madod.report.order import detectors_in_order, in_order
from madod.report.paper import CAVEATS, METRICS, PRINTED, caveat, lookup, printed
from madod.report.table import Entry, Row, marked
from madod.report.tables import TITLES

from .paper_source import DATASETS, source_rows

SHARED = Path(__file__).parents[3] / "shared" / "paper"
FILE = Path(__file__).parents[2] / "src" / "madod" / "report" / "paper.csv"
WRONG = {
    ("colored_mnist", "+90%", "auroc", "mbdg", "best", "best", ""),
    ("colored_mnist", "+90%", "auroc", "madod", "ddu", "second", "best"),
    ("colored_mnist", "+90%", "auroc", "madod", "msp", "", "second"),
    ("colored_mnist", "+90%", "accuracy", "daml", "own", "second", ""),
    ("colored_mnist", "-90%", "aupr", "edir_mmd", "own", "second", ""),
    ("colored_mnist", "-90%", "aupr", "madod", "msp", "", "second"),
    ("pacs", "art_painting", "auroc", "medic", "own", "second", ""),
    ("pacs", "art_painting", "auroc", "madod", "msp", "", "second"),
    ("vlcs", "VOC2007", "aupr", "medic", "own", "second", ""),
    ("vlcs", "VOC2007", "aupr", "scone", "energy", "", "second"),
}
"""Dataset, domain, metric, method, detector; what its numbers call for; how the paper marks it."""


def test_the_papers_numbers_get_the_papers_marks_except_where_those_are_wrong():
    different = set()
    for column, lines in printed().groupby(["dataset", "domain", "metric"]):
        values = [Entry(10 * value) for value in lines["value"]]  # ours are told apart by one decimal, its own by two
        rows = marked([Row((), (value,)) for value in values])
        for line, row in zip(lines.itertuples(), rows, strict=True):
            (item,) = row.items
            assert isinstance(item, Entry)
            if item.mark != line.mark:
                different.add((*column, line.algorithm, line.detector, item.mark, line.mark))
    assert different == WRONG
    assert len(printed()) == 684


def test_the_wrong_marks_are_listed_in_the_docs():
    text = (Path(__file__).parents[2] / "docs" / "fidelity.md").read_text(encoding="utf-8")
    section = text.partition("## Marks in the paper's tables")[2].partition("\n## ")[0]
    for dataset, domain, metric, *_ in WRONG:
        assert f"{words.dataset(dataset)}, {domain}, {TITLES[metric]}" in section


@pytest.mark.skipif(not SHARED.exists(), reason="the paper's source is not here")
def test_the_data_file_is_what_the_papers_source_says():
    with FILE.open(encoding="utf-8", newline="") as file:
        assert list(csv.DictReader(file)) == list(source_rows((SHARED / "madod.tex").read_text(encoding="utf-8")))
    names = {"EDir-MMD": "edir_mmd", "EDst-MMD": "edst_mmd"}
    for name in ("summary.csv", "per_domain.csv"):
        with (SHARED / name).open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                method = names.get(row["method"], row["method"].partition("-")[0].lower())
                domain = row.get("test_domain", "").replace("location_", "L")
                found = [
                    value
                    for key, value in lookup().items()
                    if key[:3] == (DATASETS[row["dataset"]], domain, method)
                    and key[4] == row["metric"]
                    and (method != "madod" or key[3] == row["method"].rpartition("-")[2].lower())
                ]
                assert found == [(float(row["mean"]), float(row["plus_minus"]))]


def test_notes_on_the_paper_agree_with_its_numbers():
    table = printed()
    summed = table[table["domain"] == ""].set_index(["dataset", "algorithm", "detector", "metric"])["value"]
    means = table[table["domain"] != ""].groupby(["dataset", "algorithm", "detector", "metric"])["value"].mean()
    gap = (summed - means).round(2)
    told = {
        key
        for key in gap.index
        for note in CAVEATS
        if note.summary_only and note == caveat(key[0], "", key[1], key[2], key[3])
    }
    assert {key for key in gap.index if abs(gap[key]) >= 0.05} == told
    assert {gap["vlcs", "madod", name, "auroc"] for name in ("msp", "energy")} == {5.0}
    assert in_order(PRINTED) == list(PRINTED)
    assert set(METRICS) == set(TITLES)


def test_runs_have_the_papers_detectors_and_tables_its_order():
    assert detectors_in_order((*THREE, "knn", "mean")) == ["ddu", "msp", "energy", "knn", "mean"]
    assert {detector for _, _, method, detector, _ in lookup() if method == "madod"} == set(THREE)
