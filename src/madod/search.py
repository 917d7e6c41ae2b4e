"""Search ranges, written once beside the hyper-parameter that they belong to.

>>> @dataclass(frozen=True)
... class Config:
...     penalty: Annotated[float, LogUniform(1e-1, 1e5)] = 100.0
>>> Config() == draw(Config, 0, np.random.default_rng(0))
True
"""

import math
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

import numpy as np

C = TypeVar("C")


@dataclass(frozen=True)
class Uniform:
    """U(low, high)."""

    low: float
    high: float

    def sample(self, rng: np.random.Generator) -> float:
        """Draw one value."""
        return float(rng.uniform(self.low, self.high))


@dataclass(frozen=True)
class LogUniform:
    """10^U(log10 low, log10 high)."""

    low: float
    high: float

    def sample(self, rng: np.random.Generator) -> float:
        """Draw one value."""
        return float(10 ** rng.uniform(math.log10(self.low), math.log10(self.high)))


@dataclass(frozen=True)
class Choice:
    """One of the options, each as likely as the others."""

    options: tuple[Any, ...]

    def sample(self, rng: np.random.Generator) -> Any:
        """Draw one value."""
        return self.options[int(rng.integers(len(self.options)))]


Range = Uniform | LogUniform | Choice


def ranges(config: type[Any]) -> dict[str, Range]:
    """Return the declared search range of every field that has one."""
    hints = get_type_hints(config, include_extras=True).items()
    marks = {name: get_args(hint)[1:] for name, hint in hints if get_origin(hint) is Annotated}
    return {name: mark for name, extras in marks.items() for mark in extras if isinstance(mark, Range)}


def draw(config: type[C], index: int, rng: np.random.Generator) -> C:
    """Return draw number `index` of a random search; draw 0 is the published setting."""
    if index == 0:
        return config()
    plain = get_type_hints(config)
    drawn = {name: span.sample(rng) for name, span in ranges(config).items()}
    return config(**{name: round(value) if plain[name] is int else value for name, value in drawn.items()})
