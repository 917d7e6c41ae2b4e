"""Work on a GPU that is recorded once and then started as a whole."""

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

Work = Callable[..., dict[str, Tensor]]

WARM = 3
"""Turns before the recording, in which compilers and libraries settle."""


class Recorded:
    """A step of training whose hundreds of small kernels no longer wait for Python to start them one by one.

    The work is the same every turn. It takes tensors, alone or in tuples and lists, draws at random from `rng` alone,
    never waits for the GPU, changes weights and their optimiser's state in place, and returns named scalars. Tensors of
    other shapes than those recorded have their kernels started one by one.
    """

    def __init__(self, rng: torch.Generator | None = None) -> None:
        self.turns = 0
        self.graph = torch.cuda.CUDAGraph()
        if rng is not None:
            self.graph.register_generator_state(rng)
        self.given: list[Tensor] = []
        self.outcome: dict[str, Tensor] = {}

    def __call__(self, work: Work, *given: Any) -> dict[str, Tensor]:
        """Do the work once."""
        parts = list(tensors(given))
        with torch.cuda.device(parts[0].device):
            self.turns += 1
            if self.turns <= WARM:
                return aside(work, *given)
            if not self.given:
                self._record(work, given)
            if [part.shape for part in parts] != [part.shape for part in self.given]:
                return aside(work, *given)
            for mine, part in zip(self.given, parts, strict=True):
                mine.copy_(part)
            self.graph.replay()
            return {name: value.clone() for name, value in self.outcome.items()}

    def _record(self, work: Work, given: tuple[Any, ...]) -> None:
        """Note every kernel of the work, without doing it."""
        mine = [part.clone() for part in tensors(given)]
        with torch.cuda.graph(self.graph):
            self.outcome = work(*filled(given, iter(mine)))
        self.given = mine


def tensors(nest: Any) -> Iterator[Tensor]:
    """Yield the tensors of tuples and lists within each other, in order."""
    if isinstance(nest, Tensor):
        yield nest
    else:
        for part in nest:
            yield from tensors(part)


def filled(nest: Any, others: Iterator[Tensor]) -> Any:
    """Return tuples and lists as they are within each other, with other tensors in place."""
    if isinstance(nest, Tensor):
        return next(others)
    parts = [filled(part, others) for part in nest]
    return type(nest)(*parts) if hasattr(nest, "_fields") else type(nest)(parts)


def aside(work: Work, *given: Any) -> dict[str, Tensor]:
    """Do the work on a stream beside the usual one, as a recording does."""
    usual, other = torch.cuda.current_stream(), torch.cuda.Stream()
    other.wait_stream(usual)
    with torch.cuda.stream(other), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*capturable=True.*")  # an optimiser to be recorded later
        outcome = work(*given)
    usual.wait_stream(other)
    return outcome
