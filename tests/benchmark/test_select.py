"""Rules that pick a draw, on records made up for the purpose."""

import json
from dataclasses import replace

import pytest

from madod.benchmark.agenda import Agenda, Entry, checksum
from madod.benchmark.jobs import expand
from madod.benchmark.messages import Places
from madod.benchmark.rules import RULES
from madod.benchmark.select import picked, picks
from madod.benchmark.work import perform
from madod.cli.looking import picks_table
from madod.cli.main import main
from tests.benchmark.drawn import CELL, DETECTORS, agenda_of_three, record
from tests.benchmark.plans import MINI, written


def test_every_rule_picks_what_it_should_and_says_what_it_cost(tmp_path):
    by_rule = {pick.rule: pick for pick in picks(agenda_of_three(tmp_path), tmp_path)}
    assert set(by_rule) == set(RULES)
    assert {name: pick.draw for name, pick in by_rule.items()} == {
        "training_domain": 0, "leave_one_domain_out": 1, "oracle": 2,
    }  # fmt: skip
    assert {name: pick.detector for name, pick in by_rule.items()} == {
        "training_domain": None, "leave_one_domain_out": "energy", "oracle": "msp",
    }  # fmt: skip
    assert {name: (pick.runs, pick.seconds) for name, pick in by_rule.items()} == {
        "training_domain": (6, 60), "leave_one_domain_out": (6, 30), "oracle": (6, 60),
    }  # fmt: skip
    assert by_rule["oracle"].leak
    assert not by_rule["leave_one_domain_out"].leak
    assert by_rule["oracle"].missed == 0
    assert by_rule["leave_one_domain_out"].missed == pytest.approx(0.1)
    assert by_rule["training_domain"].missed == pytest.approx(0.4)
    assert by_rule["oracle"].test == pytest.approx((0.8 + 0.75) / 2)


def test_only_what_the_plans_own_rule_picked_is_in_the_tables(tmp_path):
    assert picked(agenda_of_three(tmp_path), tmp_path) == [("outer-1-0", "madod"), ("outer-1-1", "madod")]


def test_a_draw_that_is_half_done_is_not_compared(tmp_path):
    all_of_it = agenda_of_three(tmp_path)
    (tmp_path / "inner/1-ink/record.json").unlink()
    by_rule = {pick.rule: pick for pick in picks(all_of_it, tmp_path)}
    assert by_rule["leave_one_domain_out"].draw == 2
    assert by_rule["leave_one_domain_out"].of == 2


def test_equal_draws_leave_the_published_setting(tmp_path):
    entries = [Entry("erm", CELL, draw, 0, f"run-{draw}") for draw in range(3)]
    for entry in entries:
        record(tmp_path, entry.folder, val=0.5, accuracy=0.5, aurocs=(0.5, 0.5), seconds=1)
    found = picks(Agenda("plan", "", "oracle", DETECTORS, tuple(entries)), tmp_path)
    assert {pick.draw for pick in found} == {0}


def test_a_test_domain_without_known_classes_has_nothing_to_measure_and_is_in_nobodys_way(tmp_path):
    found = {}
    for known in (True, False):
        entries = [Entry("erm", CELL, draw, 0, f"{known}-{draw}") for draw in range(2)]
        entries += [Entry("erm", CELL, draw, 0, f"inner/{known}-{draw}", "ink") for draw in range(2)]
        for entry in entries:
            record(tmp_path, entry.folder, val=0.5, accuracy=0.5, aurocs=(0.5, 0.5), seconds=1)
            if not known:
                file = tmp_path / entry.folder / "record.json"
                facts = json.loads(file.read_text())
                file.write_text(json.dumps(facts | {"metrics": {"val_accuracy": 0.5, "msp": {}, "energy": {}}}))
        found[known] = picks(Agenda("plan", "", "oracle", DETECTORS, tuple(entries)), tmp_path)
    assert [(pick.rule, pick.draw) for pick in found[False]] == [(pick.rule, pick.draw) for pick in found[True]]
    assert all(pick.test is None and pick.missed is None and pick.detector is None for pick in found[False])


def test_the_command_line_shows_picks_and_marks_the_leak(tmp_path, capsys):
    plan = written(tmp_path)
    replace(agenda_of_three(tmp_path), plan=plan.stem, sha256=checksum(plan)).save(tmp_path)
    assert main(["bench", "select", str(plan), "--runs", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "oracle (leak)" in said
    assert "leave_one_domain_out (plan's)" in said
    assert not (tmp_path / "detector.json").exists()
    assert "training_domain: looked at 6 runs, 1 min 00 s; misses the oracle by 40.0 points on average" in said
    assert main(["bench", "select", str(plan), "--runs", str(tmp_path), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert [pick["draw"] for pick in facts["picks"]] == [0, 1, 2]
    assert facts["picks"][1]["cell"] == {"dataset": "digits", "test_domain": "neon", "unknown": ["4"]}


def test_the_columns_of_picks_stay_in_line_behind_names_with_wide_letters(tmp_path):
    found = picks(agenda_of_three(tmp_path), tmp_path)
    wide = [pick._replace(cell=pick.cell._replace(test_domain="昼の写真")) for pick in found[:1]]
    head, first, second, *_ = picks_table([*wide, *found[1:]], "oracle").splitlines()
    assert head.index("rule") == second.index("leave_one") == first.index("training_domain") + len("昼の写真")


def test_a_pick_where_no_class_is_unknown_says_so(tmp_path):
    found = picks(agenda_of_three(tmp_path), tmp_path)
    assert "neon, none unknown  " in picks_table([found[0]._replace(cell=CELL._replace(unknown=()))], "oracle")


def test_selection_inside_the_sources_from_plan_to_pick(tmp_path, capsys):
    text = MINI[: MINI.index("[[variants]]")].replace("steps = 60", "steps = 2").replace("[0, 1]", "[0]")
    plan = written(tmp_path, 'selection = "leave_one_domain_out"\n' + text)
    found, jobs = expand(plan, None)
    found.save(tmp_path / "runs")
    places = Places(tmp_path / "runs", tmp_path / "cache")
    assert [perform(job, places).outcome for job in jobs] == ["done"] * 4
    inner = sorted((tmp_path / "runs" / "inner").glob("*/record.json"))
    assert [file.parent.name.split("-")[0] for file in inner] == ["digits~neon~4"] * 3
    assert main(["bench", "select", str(plan), "--runs", str(places.runs), "--json"]) == 0
    by_rule = {pick["rule"]: pick for pick in json.loads(capsys.readouterr().out)["picks"]}
    assert by_rule["leave_one_domain_out"]["runs"] == 3
    assert by_rule["leave_one_domain_out"]["detector"] in DETECTORS
    assert main(["bench", "table", str(plan), "--runs", str(places.runs)]) == 0
    assert "digits~" not in capsys.readouterr().out
