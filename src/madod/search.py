"""Search ranges and bounds, written once beside the hyper-parameter that they belong to.

>>> @dataclass(frozen=True)
... class Config:
...     penalty: Annotated[float, LogUniform(1e-1, 1e5), AtLeast(0)] = 100.0
>>> 0.1 <= draw(Config, np.random.default_rng(0)).penalty <= 1e5
True
>>> bounds(Config)["penalty"].admits(-1.0)
False
"""

import math
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

import numpy as np

from madod.kinds import hints

C = TypeVar("C")


@dataclass(frozen=True)
class Uniform:
    """U(low, high)."""

    low: float
    high: float

    @property
    def middle(self) -> float:
        """The mean of its ends."""
        return (self.low + self.high) / 2

    def sample(self, rng: np.random.Generator) -> float:
        """Draw one value."""
        return float(rng.uniform(self.low, self.high))


@dataclass(frozen=True)
class LogUniform:
    """10^U(log10 low, log10 high)."""

    low: float
    high: float

    @property
    def middle(self) -> float:
        """The geometric mean of its ends."""
        return math.sqrt(self.low * self.high)

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


@dataclass(frozen=True)
class Above:
    """Larger than a number."""

    low: float

    def admits(self, value: float) -> bool:
        """Tell whether a value lies within; infinity and NaN never do."""
        return self.low < value < math.inf

    def __str__(self) -> str:
        return f"above {self.low:g}"


@dataclass(frozen=True)
class AtLeast:
    """A number or larger."""

    low: float

    def admits(self, value: float) -> bool:
        """Tell whether a value lies within; infinity and NaN never do."""
        return self.low <= value < math.inf

    def __str__(self) -> str:
        return f"{self.low:g} or more"


@dataclass(frozen=True)
class Between:
    """From a number to another, both included."""

    low: float
    high: float

    def admits(self, value: float) -> bool:
        """Tell whether a value lies within."""
        return self.low <= value <= self.high

    def __str__(self) -> str:
        return f"from {self.low:g} to {self.high:g}"


Range = Uniform | LogUniform | Choice
Bound = Above | AtLeast | Between


def ranges(config: type[Any]) -> dict[str, Range]:
    """Return the declared search range of every field that has one."""
    return _marks(config, Range)


@cache
def bounds(config: type[Any]) -> dict[str, Bound]:
    """Return the bound of every field that has one; a field declared anew keeps its own unless it states another."""
    return {name: bound for cls in reversed(config.__mro__) for name, bound in _marks(cls, Bound).items()}


def _marks(config: type[Any], kind: Any) -> dict[str, Any]:
    whole = get_type_hints(config, include_extras=True).items()
    marks = {name: get_args(hint)[1:] for name, hint in whole if get_origin(hint) is Annotated}
    return {name: mark for name, extras in marks.items() for mark in extras if isinstance(mark, kind)}


def draw(config: type[C], rng: np.random.Generator) -> C:
    """Return a draw of a random search: every field that has a range drawn from it, the others as published."""
    drawn = {name: span.sample(rng) for name, span in ranges(config).items()}
    return config(**{name: round(value) if hints(config)[name] is int else value for name, value in drawn.items()})
