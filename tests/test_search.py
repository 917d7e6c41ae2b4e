import math
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import pytest

from madod.algorithms.base import ALGORITHMS
from madod.search import Above, AtLeast, Between, Choice, LogUniform, Uniform, bounds, draw, ranges


@dataclass(frozen=True)
class Config:
    rate: Annotated[float, LogUniform(1e-5, 1e-3)] = 5e-5
    margin: Annotated[float, Uniform(-11, -9)] = -10.0
    batch: Annotated[int, LogUniform(8, 45)] = 32
    growth: Annotated[float, Choice((1.1, 1.5))] = 1.5
    noted: Annotated[float, "not a range"] = 0.9
    fixed: int = 3


def drawn(n, config=Config):
    rng = np.random.default_rng(0)
    return [draw(config, rng) for _ in range(n)]


def test_ranges_are_those_of_the_fields_that_have_one():
    assert ranges(Config) == {
        "rate": LogUniform(1e-5, 1e-3),
        "margin": Uniform(-11, -9),
        "batch": LogUniform(8, 45),
        "growth": Choice((1.1, 1.5)),
    }


def test_ranges_are_inherited_and_may_be_replaced():
    @dataclass(frozen=True)
    class Child(Config):
        margin: Annotated[float, Uniform(0, 1)] = 0.5

    assert ranges(Child) == ranges(Config) | {"margin": Uniform(0, 1)}


def test_a_bound_outlives_a_new_default_unless_another_is_stated():
    @dataclass(frozen=True)
    class Parent:
        rate: Annotated[float, LogUniform(1e-5, 1e-3), Above(0)] = 5e-5
        batch: Annotated[int, AtLeast(1)] = 32

    @dataclass(frozen=True)
    class Child(Parent):
        rate: Annotated[float, LogUniform(1e-3, 1e-1)] = 1e-2
        batch: Annotated[int, AtLeast(2)] = 8

    assert bounds(Parent) == {"rate": Above(0), "batch": AtLeast(1)}
    assert bounds(Child) == {"rate": Above(0), "batch": AtLeast(2)}


def test_bounds_admit_what_they_say():
    for bound, said, inside, outside in (
        (Above(0), "above 0", (1e-9, 5), (0, -1)),
        (AtLeast(2), "2 or more", (2, 3), (1, 1.9)),
        (Between(0, 1), "from 0 to 1", (0, 0.5, 1), (-0.1, 1.1)),
    ):
        assert str(bound) == said
        assert all(map(bound.admits, inside))
        assert not any(map(bound.admits, (*outside, math.nan, math.inf, -math.inf)))


def test_draws_stay_in_range_and_fill_it():
    configs = drawn(400)
    assert all(1e-5 <= c.rate <= 1e-3 and -11 <= c.margin <= -9 and 8 <= c.batch <= 45 for c in configs)
    assert {c.growth for c in configs} == {1.1, 1.5}
    assert {(c.fixed, c.noted) for c in configs} == {(3, 0.9)}
    assert min(c.margin for c in configs) < -10.9
    assert max(c.margin for c in configs) > -9.1


def test_log_uniform_is_even_in_the_exponent():
    exponents = [math.log10(c.rate) for c in drawn(2000)]
    counts, _ = np.histogram(exponents, bins=4, range=(-5, -3))
    assert counts.min() > 430
    assert counts.max() < 570


def test_whole_numbers_stay_whole():
    batches = {c.batch for c in drawn(200)}
    assert all(type(batch) is int for batch in batches)
    assert len(batches) > 20


def test_same_generator_same_draws():
    assert drawn(5) == drawn(5)
    assert len(set(drawn(5))) == 5


@pytest.mark.parametrize("name", ALGORITHMS)
def test_draws_of_every_method_stay_in_its_ranges(name):
    config = ALGORITHMS[name].Config
    for one in drawn(20, config):
        for field, span in ranges(config).items():
            value = getattr(one, field)
            if isinstance(span, Choice):
                assert value in span.options
            else:
                slack = 0.5 if isinstance(value, int) else 0
                assert span.low - slack <= value <= span.high + slack
