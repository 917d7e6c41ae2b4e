import pytest

from madod.errors import InputError
from madod.report.declared import detector_of
from madod.report.frame import load_records
from madod.report.significance import by_cell, comparisons
from madod.report.tables import render, summary, tables_of

from .records import write_records
from .test_tables import entry


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
    assert "declared" not in render(tmp_path, "summary").partition("percent, mean")[0]
    (tmp_path / "detector.json").write_text("[]")
    with pytest.raises(InputError, match=r"detector\.json names no detectors"):
        load_records(tmp_path)


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
    frame = load_records(tmp_path, named)
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
    (tmp_path / "detector.json").write_text('{"madod": "enrgy", "erm": "energy"}')
    assert set(load_records(tmp_path)["declared"]) == {"enrgy", "energy"}
    (said,) = caplog.messages
    assert said.startswith("detector.json declares 'enrgy' for 24 runs that were not measured with it")
