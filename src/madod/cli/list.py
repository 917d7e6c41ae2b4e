"""`madod list`: what there is to choose from."""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import tyro

from madod.cli.arguments import Switch, parse
from madod.registry import Registry


@dataclass(frozen=True)
class List:
    """What to list, and how."""

    kind: Annotated[Literal["algorithms", "detectors", "datasets"], tyro.conf.Positional]
    """What to list."""
    json: Switch = False
    """Print a JSON object of names and descriptions instead of a table."""


PACKAGES = {"algorithms": "madod.algorithms", "detectors": "madod.detectors", "datasets": "madod.data"}


def main(arguments: Sequence[str]) -> int:
    """Print names with one line of description each; reads source text only, so that it answers at once."""
    how = parse(List, arguments, "list", "List algorithms, detectors or datasets.")
    registry: Registry[object] = Registry(how.kind, PACKAGES[how.kind])
    rows = {name: registry.summary(name) for name in registry}
    if how.json:
        sys.stdout.write(json.dumps(rows, ensure_ascii=False, indent=2) + "\n")
        return 0
    width = max(map(len, rows))
    sys.stdout.write("".join(f"{name:{width}}  {summary}\n" for name, summary in rows.items()))
    return 0
