"""The published ratios, measured again."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
import torch

FOLDER = Path(__file__).parent.parent / "benchmarks"


def program(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.long
def test_a_meta_step_costs_little_more_than_a_plain_pass():
    assert program("meta_step").measure(torch.device("cpu"))["ratio"] < 1.25


def test_the_digits_table_is_made_from_its_records():
    digits, results = program("digits"), FOLDER.parent / "results" / "digits"
    records = [digits.load_record(file.parent) for file in sorted(results.glob("*/record.json"))]
    assert len({(r.spec.algorithm, r.spec.test_domain, r.spec.ood_classes, r.spec.seed) for r in records}) == 96
    assert digits.table(records) == (results / "table.md").read_text(encoding="utf-8")
    for record in records:
        assert (results / record.spec.id).is_dir(), "a record's id no longer fits its spec"
