"""`madod list`: what there is to choose from."""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import tyro

from madod.cli.arguments import Switch, parse
from madod.registry import PACKAGES, Registry
from madod.report.columns import padded, widest


@dataclass(frozen=True)
class List:
    """What to list, and how."""

    kind: Annotated[Literal["all", "algorithms", "detectors", "datasets"], tyro.conf.Positional] = "all"
    """What to list."""
    json: Switch = False
    """Print a JSON object of names and descriptions instead of a table."""


def main(arguments: Sequence[str]) -> int:
    """Print names with one line of description each; reads source text only, so that it answers at once."""
    how = parse(List, arguments, "list", "List algorithms, detectors, datasets, or all three.")
    if how.kind != "all":
        rows = summaries(how.kind.removesuffix("s"))
        sys.stdout.write(as_json(rows) if how.json else table(rows))
        return 0
    every = {f"{kind}s": summaries(kind) for kind in PACKAGES}
    sys.stdout.write(
        as_json(every) if how.json else "\n".join(f"{kind}\n{table(rows, '  ')}" for kind, rows in every.items())
    )
    return 0


def summaries(kind: str) -> dict[str, str]:
    """Return the names of a kind with a line of description each."""
    registry: Registry[object] = Registry(kind)
    return {name: registry.summary(name) for name in registry}


def as_json(facts: object) -> str:
    """Return facts as JSON to read."""
    return json.dumps(facts, ensure_ascii=False, indent=2) + "\n"


def table(rows: dict[str, str], indent: str = "") -> str:
    """Return one line per name, descriptions one below the other."""
    width = widest(rows)
    return "".join(f"{indent}{padded(name, width)}  {summary}\n" for name, summary in rows.items())
