import json
from pathlib import Path

import pytest

from madod.benchmark.agenda import Agenda, Cell, Entry
from madod.errors import InputError
from madod.report.declared import detector_of
from madod.report.frame import load_records
from madod.report.significance import by_cell, comparisons
from madod.report.tables import render, summary, tables_of

from .records import planned, write_records
from .test_tables import entry

RESULTS = Path(__file__).parents[2] / "results" / "pacs" / "main"


@pytest.mark.parametrize(
    "text",
    [
        '{"madod": "ddu", "erm": "msp"}',
        '{"madod": {"detector": {"pacs": "ddu"}}, "erm": {"pacs": "msp"}}',
        '{"detector": "msp", "madod": {"detector": "ddu", "why": "inner folds"}}',
    ],
)
def test_each_method_is_shown_and_compared_by_its_declared_detector(tmp_path, text):
    write_records(tmp_path)
    (tmp_path / "detector.json").write_text(text)
    frame = load_records(tmp_path)
    table = summary(frame)
    for method, detector in (("MADOD", "DDU"), ("ERM", "MSP")):
        shown = entry(table, method, "declared beforehand", "PACS", "AUROC")
        assert shown.value == entry(table, method, detector, "PACS", "AUROC").value
        assert not shown.mark
    cells = by_cell(frame)["auroc"].unstack("method")
    expected = (cells.xs("ddu", level="detector")["madod"] - cells.xs("msp", level="detector")["erm"]).mean()
    row = next(row for row in comparisons(frame).rows if row.names == ("PACS", "ERM", "AUROC", "declared beforehand"))
    assert row.items[1] == f"{expected:+.1f}"


def test_nothing_declared_is_nothing_shown_and_a_broken_file_is_named(tmp_path):
    write_records(tmp_path)
    assert "declared" not in render(load_records(tmp_path), "summary").partition("percent, mean")[0]
    said = {
        '["a"]': "names no detectors by method",
        '{"erm"': "is not a whole JSON file",
        '{"erm": ["energy"]}': "names no detector for 'erm'",
        '{"erm": {"pacs": 3}}': "names no detector for 'erm' in 'pacs'",
    }
    for text, words in said.items():
        (tmp_path / "detector.json").write_text(text)
        with pytest.raises(InputError, match=f"detector.json {words}.*: write an object such as") as refused:
            load_records(tmp_path)
        assert "attribute" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"erm": "enrgy"}', "no detector 'enrgy' (did you mean 'energy'?); there are: "),
        ('{"irm": {"vlcs": "enrgy"}}', "no detector 'enrgy' (did you mean 'energy'?); there are: "),
        ('{"ermm": "energy"}', "no method 'ermm' (did you mean 'erm'?); there are: "),
        ('{"ermm, CE only": "energy"}', "no method 'ermm, CE only'"),
    ],
)
def test_a_declaration_of_what_there_is_not_is_refused(tmp_path, text, words):
    write_records(tmp_path)
    (tmp_path / "detector.json").write_text(text)
    with pytest.raises(InputError) as refused:
        load_records(tmp_path)
    assert str(refused.value).startswith(f"{tmp_path / 'detector.json'}: {words}")


def test_a_declaration_for_a_place_that_nothing_knows_is_said(tmp_path, caplog):
    write_records(tmp_path)
    names = {
        "pacs": "msp",
        "pacs/photo": "msp",
        "pacs/photo/preson": "msp",
        "vlcs/SUN09": "msp",
        "pacs/photo/dog": "msp",
    }
    (tmp_path / "detector.json").write_text(json.dumps({"madod": names, "without R_GI": "energy"}))
    cell = Cell("data/pacs", "photo", ("dog",))
    Agenda("other", "", "oracle", ("msp",), (Entry("without R_GI", cell, 0, 0, "x"),)).save(tmp_path)
    for name, content in {"broken": "{}", "foreign": '"x"', "empty": ""}.items():
        (tmp_path / "sweeps" / f"{name}.json").write_text(content)
    load_records(tmp_path)
    first, second = caplog.messages
    assert "'pacs/photo/preson' (did you mean 'pacs/photo/person'?), which neither a run nor a plan" in first
    assert "'vlcs/SUN09', which neither" in second
    caplog.clear()
    done = [(folder.name, "ours") for folder in tmp_path.iterdir() if folder.name.startswith("pacs-madod")]
    (tmp_path / "detector.json").write_text('{"ours": {"vlcs/SUN09/dog": "msp"}}')
    load_records(tmp_path, planned([*done, ("vlcs-madod-SUN09-dog-0", "ours")]))
    assert caplog.messages == []


def test_what_was_declared_for_the_published_runs_is_known(caplog):
    load_records(RESULTS)
    assert caplog.messages == []


def test_what_was_declared_is_shown_though_other_detectors_are_asked_for(tmp_path):
    write_records(tmp_path, algorithms=("erm", "madod"))
    (tmp_path / "detector.json").write_text('{"erm": "energy", "madod": {"pacs/photo": "msp", "": "ddu"}}')
    frame = load_records(tmp_path)
    everything = summary(frame)
    (some,) = tables_of(frame, "summary", detectors=["msp"])
    for method in ("ERM", "MADOD"):
        assert [row.names[1] for row in some.rows if row.names[0] == method] == ["MSP", "declared beforehand"]
        shown, whole = (entry(table, method, "declared beforehand", "PACS", "AUPR") for table in (some, everything))
        assert (shown.value, shown.runs) == (whole.value, 24)
    (compared,) = tables_of(frame, "significance", detectors=["msp"])
    assert {row.names[3] for row in compared.rows} == {"any", "MSP", "declared beforehand"}


def test_a_variant_has_a_declaration_of_its_own_before_that_of_its_algorithm(tmp_path):
    write_records(tmp_path, algorithms=("madod",))
    (tmp_path / "detector.json").write_text('{"madod": "ddu", "madod, first order": {"detector": "energy"}}')
    runs = sorted(folder.name for folder in tmp_path.iterdir() if folder.is_dir())
    named = [(folder, name) for folder in runs for name in ("madod", "madod, first order", "madod, CE only")]
    frame = load_records(tmp_path, planned(named))
    found = frame.groupby("method")["declared"].unique()
    assert {method: list(names) for method, names in found.items()} == {
        "madod": ["ddu"], "madod, first order": ["energy"], "madod, CE only": ["ddu"],
    }  # fmt: skip


def test_a_detector_may_be_declared_for_a_place():
    found = {"madod": {"": "ddu", "pacs/photo": "msp", "pacs/photo/dog": "knn"}, "": {"pacs": "energy"}}
    places = [("pacs", "photo", "dog"), ("pacs", "photo", "cat"), ("pacs", "sketch", "dog"), ("vlcs", "x", "dog")]
    assert [detector_of(found, ("madod",), place) for place in places] == ["knn", "msp", "ddu", "ddu"]
    assert detector_of({"madod": {"pacs/photo": "msp"}, "": {"": "ddu"}}, ("madod",), places[2]) == "ddu"
    assert [detector_of(found, ("erm", "erm"), place) for place in places] == ["energy", "energy", "energy", ""]


def test_a_declared_detector_that_runs_were_not_measured_with_is_said(tmp_path, caplog):
    write_records(tmp_path, detectors=("msp", "energy"))
    (tmp_path / "detector.json").write_text('{"madod": "knn", "erm": "energy"}')
    assert set(load_records(tmp_path)["declared"]) == {"knn", "energy"}
    (said,) = caplog.messages
    assert said.startswith("detector.json declares 'knn' for 24 runs that were not measured with it")
