"""The hyper-parameters of a run: presets, then a draw of the random search, then what the plan says."""

from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from typing import Any

import numpy as np

from madod.algorithms.base import ALGORITHMS, BaseConfig, refuse_unknown
from madod.benchmark.record import RunSpec, lasting
from madod.benchmark.spans import resolved
from madod.errors import InputError
from madod.kinds import hints, taken
from madod.search import LogUniform, Uniform, draw, ranges


def hparams(algorithm: str, given: Mapping[str, Any] | None = None, *, pretrained: bool = False) -> dict[str, Any]:
    """Return every hyper-parameter of an algorithm that starts from scratch, or not, with those given in place."""
    for name in given or {}:
        refuse_unknown(algorithm, name)
    return settings(algorithm, 0, given or {}, pretrained=pretrained)


def config_of(spec: RunSpec) -> BaseConfig:
    """Return the configuration of a run's method; what a record has of hyper-parameters that went is left out."""
    config = ALGORITHMS[spec.algorithm].Config
    own = {field.name: spec.hparams[field.name] for field in fields(config) if field.name in spec.hparams}
    return config(**lasting(spec.hparams) | own)


def settings(algorithm: str, index: int, given: Mapping[str, Any], *, pretrained: bool) -> dict[str, Any]:
    """Return every hyper-parameter of draw `index`, the preset for 0; all cells and seeds share a draw.

    Where the network starts from scratch, a declared range moves along with its preset: published ranges belong to
    pretrained networks. One that the plan writes stays where it is.
    """
    config = ALGORITHMS[algorithm].Config
    refuse_shared(algorithm, config)
    said = {name: resolved(algorithm, config, name, value, index) for name, value in given.items()}
    fixed = {name: taken(name, hints(config)[name], value) for name, value in said.items()}
    rng = np.random.default_rng([index, *algorithm.encode()])
    drawn = asdict(draw(config, rng) if index else config.preset(pretrained=pretrained))
    if index and not pretrained:
        drawn |= {name: moved(config, name, drawn[name]) for name in config.scratch}
    return asdict(replace(config(**drawn), **fixed))


def refuse_shared(algorithm: str, config: type[BaseConfig]) -> None:
    """Refuse a hyper-parameter that is called as something that every run has: a plan could not tell them apart."""
    taken_by_runs = {field.name for field in fields(RunSpec)}
    if shared := [field.name for field in fields(config) if field.name in taken_by_runs]:
        raise InputError(
            f"{algorithm} has a hyper-parameter {shared[0]!r}, which every run has for something else: call the field "
            "of its Config by another name"
        )


def moved(config: type[Any], name: str, value: Any) -> Any:
    """Return a drawn value as far from the preset for networks from scratch as it was from the published one."""
    span, published, preset = ranges(config).get(name), getattr(config, name), config.scratch[name]
    if isinstance(span, LogUniform):
        return value * preset / published
    return value + preset - published if isinstance(span, Uniform) else preset
