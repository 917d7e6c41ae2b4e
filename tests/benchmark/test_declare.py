"""Detectors declared beforehand from runs inside the sources, on records made up for the purpose."""

import json
from dataclasses import replace

from madod.benchmark.agenda import Agenda, Cell, Entry, checksum
from madod.benchmark.rules import RULES
from madod.benchmark.select import declaration, picks
from madod.cli.main import main
from madod.report.declared import declared
from tests.benchmark.drawn import CELL, DETECTORS, agenda_of_three, record
from tests.benchmark.plans import written


def test_a_detector_is_declared_by_the_inner_runs_of_the_draw_that_was_picked(tmp_path, capsys):
    plan = written(tmp_path)
    replace(agenda_of_three(tmp_path), plan=plan.stem, sha256=checksum(plan)).save(tmp_path)
    assert main(["bench", "select", str(plan), "--runs", str(tmp_path), "--json", "--declare"]) == 0
    assert declared(tmp_path) == {"madod": {"digits/neon/4": "energy"}}
    assert len(json.loads(capsys.readouterr().out)["picks"]) == len(RULES)


def test_no_cell_looks_at_the_inner_runs_of_another(tmp_path):
    """Inner runs of another cell may be tested in this cell's unseen domain, and hold its unknown class."""
    other = Cell("digits", "ink", ("7",))
    mine = agenda_of_three(tmp_path)
    theirs = []
    for fold in ("neon", "chalk"):  # msp would be the best of all inner runs together
        theirs.append(Entry("madod", other, 1, 0, f"inner/other-{fold}", fold))
        record(tmp_path, theirs[-1].folder, val=0, accuracy=0.8, aurocs=(0.99, 0.1), seconds=1)
    found = declaration(picks(replace(mine, entries=(*mine.entries, *theirs)), tmp_path))
    assert found == {"madod": {"detector": {"digits/neon/4": "energy", "digits/ink/7": "msp"}}}


def test_without_inner_runs_no_detector_is_declared(tmp_path, capsys):
    plan = written(tmp_path)
    entry = Entry("erm", CELL, 0, 0, "run")
    record(tmp_path, "run", val=0.5, accuracy=0.5, aurocs=(0.5, 0.5), seconds=1)
    Agenda(plan.stem, checksum(plan), "oracle", DETECTORS, (entry,)).save(tmp_path)
    assert main(["bench", "select", str(plan), "--runs", str(tmp_path), "--declare"]) == 2
    assert "no inner runs to declare a detector from" in capsys.readouterr().err
    assert not (tmp_path / "detector.json").exists()
