"""docs/benchmark.md says what is true."""

import re
from dataclasses import fields
from pathlib import Path

import pytest

from madod.benchmark import stage
from madod.benchmark.jobs import expand
from madod.benchmark.plan import DatasetPlan, Exceptions, Plan, Variant
from madod.cli import bench, looking
from madod.cli.arguments import parse
from madod.cli.main import main
from tests.benchmark.plans import written

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs" / "benchmark.md").read_text(encoding="utf-8")
TOML = re.search(r"```toml\n(.*?)```", PAGE, re.DOTALL)[1]


def test_the_plan_on_the_page_is_a_plan_and_its_mistake_is_refused_as_shown(tmp_path, capsys):
    assert len(expand(written(tmp_path, TOML), None)[1]) == 3 * 2 * 2
    wrong = written(tmp_path, TOML.replace('["neon", "outline"]', '["noen", "outline"]'), "mine")
    assert main(["bench", "run", str(wrong), "--runs", str(tmp_path / "runs"), "--device", "cpu"]) == 2
    shown = re.search(r"madod: plans/(mine.toml, line .*)", PAGE)[1]
    assert capsys.readouterr().err == f"madod: {tmp_path}/{shown}\n"


def test_every_key_has_its_place_on_the_page():
    for form in (Plan, DatasetPlan, Exceptions, Variant):
        for field in fields(form):
            written = rf"`(\[\[)?{field.name}[].`]|^(\[\[)?{field.name}(\]\]| = )"
            assert re.search(written, PAGE, re.MULTILINE), field.name


def test_the_numbers_of_runs_are_right(monkeypatch):
    monkeypatch.setattr(stage, "pretrained", lambda source, cache: None)
    count = {name: len(expand(ROOT / "plans" / f"{name}.toml", None)[1]) for name in ("smoke", "paper")}
    assert count == {"smoke": 8, "paper": 1152}
    assert "does eight runs" in PAGE
    assert "1,152 runs" in PAGE


@pytest.mark.parametrize("line", re.findall(r"^madod bench (.+)$", PAGE, re.MULTILINE))
def test_every_command_on_the_page_is_understood(line):
    verb, plan, *rest = line.split()
    forms = {"run": bench.Run, "status": looking.Look, "select": looking.Select, "table": looking.Table}
    how = parse(forms[verb], [plan, *rest], f"bench {verb}", "")
    assert (ROOT / how.plan).exists()
