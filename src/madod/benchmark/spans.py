"""Ranges that a plan writes in place of a number, where its search is not the one that the method declares."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from madod.errors import InputError
from madod.kinds import hints
from madod.search import LogUniform, Uniform

SPANS: dict[str, type[Uniform] | type[LogUniform]] = {"uniform": Uniform, "log_uniform": LogUniform}


def span(config: type[Any], name: str, value: Any) -> Uniform | LogUniform | None:
    """Return the range in place of a field's number, nothing where a value stands there; refuse one that is none."""
    if not isinstance(value, Mapping):
        return None
    kind, edges = next(iter(value.items()), ("", ()))
    if len(value) != 1 or kind not in SPANS or not isinstance(edges, list | tuple) or len(edges) != 2:
        written = " or ".join(f"{{ {word} = [low, high] }}" for word in SPANS)
        raise InputError(f"{name} cannot be {value!r}: write a value, or the range to draw it from as {written}")
    for edge in edges:
        config.admit(name, edge)
    low, high = edges
    if hints(config)[name] not in (int, float) or not low < high or (kind == "log_uniform" and low <= 0):
        above = " above 0" * (kind == "log_uniform")
        raise InputError(f"{name} cannot be drawn from {low!r} to {high!r}: give a lower and a higher number{above}")
    return SPANS[kind](low, high)


def resolved(algorithm: str, config: type[Any], name: str, value: Any, index: int) -> Any:
    """Return what a plan fixes a field to in draw `index`: of a range its middle in draw 0, else the value itself.

    What is drawn depends on the method, the field and the draw alone, not on what else a plan searches.
    """
    found = span(config, name, value)
    if found is None:
        return value
    rng = np.random.default_rng([index, *f"{algorithm} {name}".encode()])
    number = found.sample(rng) if index else found.middle
    return round(number) if hints(config)[name] is int else number
