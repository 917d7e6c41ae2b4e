"""What is asked of other packages: the versions that the tests pass with are the ones that are let in."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
USED = ("pretrained", "ray", "serve", "export")


def test_the_oldest_versions_that_are_tested_are_the_oldest_that_are_let_in():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    asked = [*project["dependencies"], *(each for extra in USED for each in project["optional-dependencies"][extra])]
    least = dict(re.fullmatch(r"([\w-]+)>=([\d.]+)", each).groups() for each in asked)
    lines = (ROOT / "constraints-oldest.txt").read_text(encoding="utf-8").splitlines()
    tested = dict(line.split("==") for line in lines if not line.startswith("#"))
    assert tested.keys() == least.keys()
    for name, version in tested.items():
        assert re.fullmatch(re.escape(least[name]) + r"(\.0)*", version), name
