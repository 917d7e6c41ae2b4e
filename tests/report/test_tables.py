import csv
import io
import shutil
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from madod.data.colored_mnist import ColoredMnist
from madod.data.digits import Digits
from madod.data.office_home import OfficeHome
from madod.data.pacs import Pacs
from madod.data.rotated_mnist import RotatedMnist
from madod.data.terra_incognita import TerraIncognita
from madod.data.vlcs import Vlcs
from madod.errors import InputError
from madod.report.bench_page import report_page
from madod.report.forms import FORMS
from madod.report.frame import load_records
from madod.report.planned import of_dataset
from madod.report.statistics import OFFICIAL, statistics
from madod.report.table import MISSING, Entry, Row, Table, marked, signed
from madod.report.tables import per_domain, render, summary, tables_of

from .records import CELLS, measures, planned, record, write, write_records


@pytest.fixture(scope="module")
def frame(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    root = tmp_path_factory.mktemp("runs")
    write_records(root, datasets=("pacs", "digits"), algorithms=("erm", "mbdg", "madod"))
    return load_records(root)


def entry(table: Table, method: str, detector: str, group: str, head: str) -> Entry:
    row = next(row for row in table.rows if row.names == (method, detector))
    item = row.items[table.columns.index((group, head))]
    assert isinstance(item, Entry)
    return item


def test_an_entry_is_the_mean_and_standard_error_over_runs(frame):
    mine = frame.query("dataset == 'pacs' and method == 'madod' and detector == 'ddu'")["auroc"]
    found = entry(summary(frame), "MADOD", "DDU", "PACS", "AUROC")
    assert found.value == pytest.approx(100 * mine.mean())
    assert found.error == pytest.approx(100 * mine.std(ddof=1) / len(mine) ** 0.5)
    assert found.runs == found.of == 24
    photo = mine[frame.loc[mine.index, "test_domain"] == "photo"]
    (pacs, _) = per_domain(frame)
    assert entry(pacs, "MADOD", "DDU", "photo", "AUROC").value == pytest.approx(100 * photo.mean())


def test_the_paper_stands_beside_ours_where_the_row_is_the_papers(frame):
    table = summary(frame)
    ddu = entry(table, "MADOD", "DDU", "PACS", "AUROC")
    assert ddu.paper == 88.68
    assert ddu.difference == pytest.approx((ddu.value or 0) - 88.68)
    assert entry(table, "ERM", "best of 3 *", "PACS", "AUPR").paper == 38.96
    assert entry(table, "ERM", "DDU", "PACS", "AUPR").paper is None
    assert entry(table, "MADOD", "DDU", "digits", "AUROC").paper is None
    assert entry(summary(frame, paper=False), "MADOD", "DDU", "PACS", "AUROC").paper is None


def test_starred_rows_take_the_best_of_three_and_are_not_ranked(frame):
    table = summary(frame)
    three = [entry(table, "ERM", name, "PACS", "AUROC").value or 0 for name in ("DDU", "MSP", "Energy")]
    best, mean = (entry(table, "ERM", name, "PACS", "AUROC") for name in ("best of 3 *", "mean of 3"))
    assert best.value == max(three)
    assert mean.value == pytest.approx(np.mean(three))
    assert not best.mark
    assert not mean.mark
    marks = [entry(table, *row.names, "PACS", "AUROC").mark for row in table.rows]
    assert (marks.count("best"), marks.count("second")) == (1, 1)


def test_numbers_that_are_not_like_for_like_carry_a_note(tmp_path, rng):
    for dataset, domain in (("vlcs", "SUN09"), ("colored_mnist", "+90%"), ("terra_incognita", "L38")):
        found = measures(rng, 0.7, ("msp", "energy", "ddu"))
        write(tmp_path / dataset, record(dataset, "madod", domain, "2", 0, found))
    runs = load_records(tmp_path)
    table = summary(runs)
    signs = {
        (group, head, row.names[1]): item.sign
        for row in table.rows
        for (group, head), item in zip(table.columns, row.items, strict=True)
        if isinstance(item, Entry) and item.sign
    }
    assert signs["VLCS", "AUROC", "MSP"] == "§"
    assert ("VLCS", "AUROC", "DDU") not in signs
    assert signs["ColoredMNIST", "AUPR", "Energy"] == "†"
    assert signs["TerraIncognita", "accuracy", "DDU"] == "¶"
    assert sum(note[0] in "†‡§¶" for note in table.notes) == 4
    (_, vlcs, _) = per_domain(runs)
    assert not any("5.00" in note for note in vlcs.notes)


def test_missing_runs_are_shown_and_keep_a_row_out_of_the_ranking(tmp_path, rng):
    write_records(tmp_path, algorithms=("erm", "madod"))
    best = measures(rng, 0.99, ("msp",))
    write(tmp_path / "one", record("pacs", "coral", "photo", "person", 0, best))
    write(tmp_path / "two", record("vlcs", "madod", "SUN09", "dog", 0, measures(rng, 0.7, ("msp",))))
    table = summary(load_records(tmp_path))
    row = next(row for row in table.rows if row.names == ("CORAL", "MSP"))
    assert row.items[table.columns.index(("PACS", "runs"))] == "1 of 24"
    assert entry(table, "CORAL", "MSP", "PACS", "AUROC").mark == ""
    assert entry(table, "CORAL", "MSP", "PACS", "AUROC").error is None
    absent = entry(table, "CORAL", "MSP", "VLCS", "AUROC")
    assert absent.value is None
    assert absent.printed == MISSING


def test_a_part_of_the_runs_is_not_compared_with_the_papers_mean(tmp_path, rng):
    write_records(tmp_path, algorithms=("madod",))
    for number, name in enumerate(("photo", "sketch")):
        found = measures(rng, 0.9, ("msp", "energy", "ddu"))
        write(tmp_path / name, record("pacs", "mbdg", name, "person", number, found))
    part = entry(summary(load_records(tmp_path)), "MBDG", "best of 3 *", "PACS", "AUROC")
    assert (part.runs, part.of) == (2, 24)
    assert part.paper is not None
    assert part.difference is None
    assert f"± {part.error:.1f} [{part.paper:.2f}] |" in render(load_records(tmp_path), form="markdown")


def test_what_a_plan_asked_for_and_nobody_ran_is_shown(tmp_path):
    write_records(tmp_path, algorithms=("erm",))
    done = [(folder.name, "erm") for folder in tmp_path.iterdir()]
    missing = [(f"pacs-madod-{domain}-dog-{seed}", "madod") for domain in ("photo", "sketch") for seed in range(6)]
    missing += [(f"pacs-erm-erewhon-dog-{seed}", "erm") for seed in range(6)]
    missing += [(f"vlcs-erm-SUN09-dog-{seed}", "erm") for seed in range(4)]
    runs = load_records(tmp_path, planned([*done, *missing]))
    table = summary(runs)
    (row,) = (row for row in table.rows if row.names[0] == "MADOD")
    assert row.names == ("MADOD", "")
    assert row.items[0] == "0 of 30"
    assert entry(table, "MADOD", "", "PACS", "AUROC").printed == MISSING
    assert row.items[table.columns.index(("VLCS", "runs"))] == MISSING  # nobody asked for it
    assert next(row for row in table.rows if row.names[0] == "ERM").items[4] == "0 of 4"
    pacs, vlcs = per_domain(runs)
    assert list(pacs.groups)[-1] == "erewhon"
    assert list(vlcs.groups) == ["SUN09"]
    assert "VLCS" not in render(runs, dataset="pacs")


def test_a_detector_that_a_plan_asks_for_and_no_run_has_is_shown_as_missing(tmp_path):
    write_records(tmp_path, algorithms=("erm",), detectors=("msp",))
    done = [(folder.name, "erm") for folder in tmp_path.iterdir()]
    missing = [(folder.replace("erm", "madod"), "madod") for folder, _ in done]
    runs = load_records(tmp_path, planned([*done, *missing], ("msp", "knn")))
    (sketch,) = per_domain(runs)
    for table, said in ((summary(runs), "0 of 24"), (sketch, "0 of 6")):
        assert [row.names for row in table.rows[:3]] == [("ERM", "MSP"), ("ERM", "knn"), ("MADOD", "")]
        assert [row.items[0] for row in table.rows[1:3]] == [said, said]
    (table,) = tables_of(of_dataset(runs, "pacs"), "summary", detectors=["knn"])
    assert [(*row.names, row.items[0]) for row in table.rows[:2]] == [
        ("ERM", "knn", "0 of 24"),
        ("MADOD", "", "0 of 24"),
    ]
    assert "ERM,knn," in render(runs, detectors=["knn"], form="csv")
    said = "asked for, and no run was measured with it yet: knn"
    assert said in render(runs, "significance")
    assert said in render(runs, "significance", detectors=["knn"])
    with pytest.raises(InputError, match="no run was measured with 'vim'"):
        render(runs, detectors=["vim"])


def test_ties_as_printed_share_their_mark():
    rows = [
        Row((name,), (Entry(value, runs=1, of=1),)) for name, value in zip("abcd", (7.04, 7.01, 6.0, 5.0), strict=True)
    ]
    assert [row.items[0].mark for row in marked(rows) if isinstance(row.items[0], Entry)] == [
        "best",
        "best",
        "second",
        "",
    ]


def test_base_rates_stand_in_the_row_of_guessing(frame):
    found = entry(summary(frame), "guessing", "", "PACS", "AUPR")
    assert found.value == pytest.approx(12.5)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("shape", ["summary", "per-domain", "statistics", "significance"])
def test_every_shape_takes_every_form(frame, shape, form):
    text = render(frame, shape, form)
    assert "PACS" in text
    assert "nan" not in text.lower()
    assert "None" not in text


def test_csv_reads_back_and_latex_is_balanced(frame):
    rows = list(csv.DictReader(io.StringIO(render(frame, "summary", "csv"))))
    mine = next(
        r for r in rows if (r["method"], r["detector"], r["group"], r["metric"]) == ("MADOD", "DDU", "PACS", "AUROC")
    )
    assert float(mine["difference"]) == pytest.approx(float(mine["value"]) - 88.68, abs=1e-3)
    text = render(frame, "per-domain", "latex")
    assert text.count("{") == text.count("}")
    assert r"art\_painting" in text
    width = {line.count("&") for line in text.partition(r"\end{table*}")[0].splitlines() if "&" in line}
    assert len(width - {5}) == 1  # the line of groups has fewer
    lines = [line for line in render(frame, "summary", "markdown").splitlines() if line.startswith("|")]
    assert len({line.count("|") for line in lines}) == 1


@pytest.mark.parametrize(("name", "fewer"), [("写真の猫", 4), ("cafe\N{COMBINING ACUTE ACCENT}", -1)])
def test_columns_of_a_text_stay_in_line_where_letters_are_two_wide_or_none(name, fewer):
    table = Table("t", ("method", "cell"), (("", name), ("", "AUROC")), (Row((name, "here"), ("1.0", name)),))
    _, _, rule, head, _, row, *_ = FORMS["text"](table).splitlines()
    assert len(rule) - len(head) == fewer
    assert len(rule) - len(row) == 2 * fewer
    assert head.index("cell") - row.index("here") == fewer


def test_latex_escapes_what_it_would_misread():
    table = Table("50 % <of> A_B & C", ("name",), (("", "p"),), (Row(("~^\\{}",), ("< 0.001",)),))
    text = FORMS["latex"](table)
    assert r"\caption{50 \% $<$of$>$ A\_B \& C}" in text
    assert r"\textasciitilde{}\textasciicircum{}\textbackslash{}\{\} & $<$ 0.001 \\" in text


def test_the_order_is_the_papers(frame):
    table = summary(frame)
    assert list(table.groups) == ["PACS", "digits"]
    assert list(dict.fromkeys(row.names[0] for row in table.rows)) == ["ERM", "MBDG", "MADOD", "guessing"]
    (pacs, _) = per_domain(frame)
    assert list(pacs.groups) == list(CELLS["pacs"][0])


def test_a_wrong_word_is_refused(frame):
    with pytest.raises(InputError, match=r"no run on 'pcas' \(did you mean 'pacs'\?\)"):
        render(frame, dataset="pcas")
    with pytest.raises(
        InputError,
        match=r"no run was measured with 'knn'; there are: ddu, .*; detectors in the plan, then bench run, or madod",
    ):
        render(frame, detectors=["knn"])
    with pytest.raises(InputError, match=r"no run was measured with 'enrgy' \(did you mean 'energy'\?\)"):
        render(frame, detectors=["msp", "enrgy"])
    with pytest.raises(InputError, match=r"no run is of 'emr' \(did you mean 'erm'\?\); there are: .*erm; .*madod"):
        render(frame, "significance", reference="emr")
    assert "DDU" not in render(frame, detectors=["msp"])


def test_a_note_speaks_of_rows_beside_the_detectors_only_where_they_are(frame):
    assert "'mean of 3' and" in " ".join(summary(frame).notes)
    assert "mean of 3" not in " ".join(summary(frame[frame["detector"] == "msp"].assign(declared="")).notes)


def test_statistics_are_those_of_the_datasets(frame):
    for name, kind in (
        ("pacs", Pacs),
        ("vlcs", Vlcs),
        ("terra_incognita", TerraIncognita),
        ("office_home", OfficeHome),
    ):
        images = sum(kind.census[0].totals.values())
        assert OFFICIAL[name] == (len(kind.domains), images, len(kind.classes))
    for name, made in (("colored_mnist", ColoredMnist), ("rotated_mnist", RotatedMnist)):
        assert OFFICIAL[name] == (len(made.domains), made.census[0].totals["MNIST"], len(made.classes))
    digits = Digits()
    images = sum(len(digits.read(domain).labels) for domain in digits.domains)
    assert OFFICIAL["digits"] == (len(digits.domains), images, len(digits.classes))
    pacs = next(row for row in statistics(frame).rows if row.names == ("PACS",))
    assert pacs.items[-3:] == ("2", "72", "12.5")


def test_signs_are_printed():
    assert [signed(x) for x in (1.26, -0.34, 0.04, -0.04)] == ["+1.3", "\N{MINUS SIGN}0.3", "0.0", "0.0"]


def test_two_thousand_records_make_tables_in_three_seconds(tmp_path: Path):
    algorithms = ("erm", "irm", "mixup", "mbdg", "medic", "madod")
    count = write_records(tmp_path, datasets=("pacs", "vlcs", "digits"), algorithms=algorithms, seeds=14)
    assert count >= 2000
    start = time.process_time()
    frame = load_records(tmp_path)
    for shape in ("summary", "per-domain", "statistics", "significance"):
        assert render(frame, shape)
    assert time.process_time() - start < 3


def test_runs_without_unknowns_show_their_accuracy(tmp_path):
    for domain, accuracy in (("photo", 0.9), ("sketch", 0.7)):
        found = record("pacs", "erm", domain, "", 0, {"accuracy": accuracy, "val_accuracy": 0.97, "energy": {}})
        found["spec"]["ood_classes"] = []
        write(tmp_path / domain, found)
    frame = load_records(tmp_path)
    last = render(frame, form="csv", paper=False).splitlines()[-1]
    assert last.startswith("All unseen domains together,ERM,accuracy alone,PACS,accuracy,80.0,10.0,2,2,")
    assert '["PACS","sketch","",0,"ERM","accuracy alone",0.7,0.97,null' in report_page(frame)


def test_runs_with_and_without_unknowns_are_counted_apart(tmp_path, rng):
    """As of a plan that asks for both on one dataset (unknown = [[], "dog"]) and for unknowns alone on another."""
    folders = {}
    for dataset, domain, unknown in (("pacs", "photo", ()), ("pacs", "photo", ("dog",)), ("vlcs", "SUN09", ("dog",))):
        for method in ("erm", "madod"):
            found = measures(rng, 0.7, ("msp", "energy") if unknown else ())
            facts = record(dataset, method, domain, "", 0, found)
            facts["spec"]["ood_classes"] = [*unknown]
            name = f"{dataset}-{method}-{domain}-{'+'.join(unknown)}-0"
            write(tmp_path / name, facts)
            folders[name] = method
    both = load_records(tmp_path, planned(folders.items(), ("msp", "energy")))
    table = summary(both)
    counts = {row.names: row.items[:: len(table.columns) // 2] for row in table.rows}
    assert counts["ERM", "MSP"] == counts["MADOD", "Energy"] == ("1", "1")
    assert counts["ERM", "accuracy alone"] == ("1", MISSING)
    assert not any(not detector for method, detector in counts if method != "guessing")
    marks = {row.names: row.items[3].mark for row in table.rows if isinstance(row.items[3], Entry)}
    assert "best" in {marks["ERM", "MSP"], marks["MADOD", "MSP"]}
    assert not marks["ERM", "accuracy alone"]
    assert render(both).split("VLCS")[1].count("accuracy alone") == 0

    shutil.rmtree(tmp_path / "pacs-erm-photo-dog-0")
    shutil.rmtree(tmp_path / "vlcs-erm-SUN09-dog-0")
    for name in ("pacs-madod-photo-dog-0", "pacs-madod-photo--0", "vlcs-madod-SUN09-dog-0"):
        shutil.rmtree(tmp_path / name)
    table = summary(load_records(tmp_path, planned(folders.items(), ("msp", "energy"))))
    counts = {row.names: row.items[0] for row in table.rows}
    assert counts == {
        ("ERM", "MSP"): "0 of 1",
        ("ERM", "Energy"): "0 of 1",
        ("ERM", "accuracy alone"): "1",
        ("MADOD", ""): "0 of 1",
        ("MADOD", "accuracy alone"): "0 of 1",
    }
