"""Damage to what runs and sweeps leave is said by the file's name, and alike by all who read it."""

import json
from dataclasses import replace
from typing import Any

import pytest

from madod.benchmark.agenda import agendas, checksum, load_agenda
from madod.benchmark.record import read_history, read_record
from madod.cli.main import main
from madod.errors import InputError
from tests.benchmark.drawn import FACTS, agenda_of_three
from tests.benchmark.plans import written

NAN = float("nan")
DAMAGED: dict[str, dict[str, Any]] = {
    "no 'val_accuracy'": {"metrics": {"accuracy": 0.5}},
    "val_accuracy is None, no fraction": {"metrics": {"val_accuracy": None}},
    "val_accuracy is '0.5', no fraction": {"metrics": {"val_accuracy": "0.5"}},
    "accuracy is 'high', no fraction": {"metrics": {"accuracy": "high"}},
    "accuracy is nan, no fraction": {"metrics": {"accuracy": NAN}},
    "msp has no 'auroc'": {"metrics": {"msp": {"aupr": 0.5}}},
    "msp.auroc is 'high', no fraction": {"metrics": {"msp": {"auroc": "high"}}},
    "msp.auroc is True, no fraction": {"metrics": {"msp": {"auroc": True}}},
    "msp is [1], no fraction": {"metrics": {"msp": [1]}},
    "thresholds.msp cannot be 'low'": {"thresholds": {"msp": "low"}},
    "seconds.training is nan, no time": {"seconds": {"training": NAN}},
    "seconds.training cannot be True": {"seconds": {"training": True}},
    "no 'dataset'": {"spec": {}},
    "seed cannot be 'first'": {"spec": FACTS["spec"] | {"seed": "first"}},
    "hparams cannot be [1]": {"spec": FACTS["spec"] | {"hparams": [1]}},
    "ood_classes cannot be 'dog'": {"spec": FACTS["spec"] | {"ood_classes": "dog"}},
    "versions cannot be [1]": {"versions": [1]},
    "memory cannot be 'much'": {"memory": "much"},
}


@pytest.mark.parametrize("said", DAMAGED)
def test_a_damaged_record_is_refused_by_its_name_whoever_reads_it(tmp_path, capsys, said):
    plan = written(tmp_path)
    agenda = replace(agenda_of_three(tmp_path), plan=plan.stem, sha256=checksum(plan))
    agenda.save(tmp_path)
    file = tmp_path / agenda.entries[0].folder / "record.json"
    read_record(file.parent)
    file.write_text(json.dumps(FACTS | DAMAGED[said]), encoding="utf-8")
    for verb, code in (("status", 0), ("select", 2), ("table", 2)):
        assert main(["bench", verb, str(plan), "--runs", str(tmp_path)]) == code
        told = "".join(capsys.readouterr())
        assert f"{file} is not a run's record (" in told
        assert said in told
        assert "): delete it and run it again" in told
    assert main(["report", str(tmp_path), "--out", str(tmp_path / "page")]) == 2
    assert f"{file} is not a run's record (" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"step": 1}\n[1]\n', "line 2 is no object of numbers"),
        ('{"step": 1, "loss": "low"}\n', "line 1: loss cannot be 'low'"),
        ('{"step": 1}\n\n', "Expecting value"),
    ],
)
def test_a_history_of_anything_but_numbers_is_refused(tmp_path, text, said):
    (tmp_path / "history.jsonl").write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as caught:
        read_history(tmp_path)
    assert f"{tmp_path / 'history.jsonl'} is not a run's history ({said}" in str(caught.value)
    assert str(caught.value).endswith("): delete it or run it again")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"folder": 5}, "folder cannot be 5"),
        ({"draw": "first"}, "draw cannot be 'first'"),
        ({"cell": ["digits", "neon", [4]]}, "unknown cannot be [4]"),
        ({"cell": 5}, "iterable"),
        ({"cell": ["digits"]}, "missing"),
        ({"more": 5}, "more"),
    ],
)
def test_a_damaged_list_of_runs_is_refused_by_its_name(tmp_path, change, said):
    plan = written(tmp_path)
    replace(agenda_of_three(tmp_path), plan=plan.stem, sha256=checksum(plan)).save(tmp_path)
    assert load_agenda(plan, tmp_path)
    file = tmp_path / "sweeps" / "mini.json"
    facts = json.loads(file.read_text())
    facts["entries"][0] |= change
    file.write_text(json.dumps(facts))
    with pytest.raises(InputError) as caught:
        load_agenda(plan, tmp_path)
    assert str(caught.value).startswith(f"{file} is not what a sweep left (")
    assert said in str(caught.value)
    assert str(caught.value).endswith("): delete it and start the sweep again")
    assert agendas(tmp_path) == []
