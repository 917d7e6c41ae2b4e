"""Work on a GPU that is recorded once and then started as a whole."""

import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import Any, Protocol

import torch
from torch import Tensor

from madod.errors import InputError, is_out_of_memory

Work = Callable[..., dict[str, Tensor]]

Shapes = tuple[tuple[torch.Size, torch.dtype], ...]

WARM = 3
"""Turns with the same shapes before the recording, in which compilers and libraries settle."""


class Recorded:
    """A step of training whose hundreds of small kernels no longer wait for Python to start them one by one.

    The work is the same every turn. It takes tensors, alone or in tuples and lists, draws at random from `rng` alone,
    never waits for the GPU, changes weights and their optimiser's state in place, and returns named scalars. It is
    recorded for the shapes that first come often enough; kernels for others are started one by one.
    """

    def __init__(self, rng: torch.Generator | None = None) -> None:
        self.turns: Counter[Shapes] = Counter()
        self.graph = torch.cuda.CUDAGraph()
        if rng is not None:
            with torch.cuda.device(rng.device):  # where a recording keeps how far the generator is
                self.graph.register_generator_state(rng)
        self.given: list[Tensor] = []
        self.outcome: dict[str, Tensor] = {}

    def __call__(self, work: Work, *given: Any) -> dict[str, Tensor]:
        """Do the work once."""
        parts = list(tensors(given))
        with torch.cuda.device(parts[0].device):
            if not self.given and self._warm(shapes(parts)):
                self._record(work, given)
            if shapes(parts) != shapes(self.given):
                return self._aside(work, given)
            for mine, part in zip(self.given, parts, strict=True):
                mine.copy_(part)
            self.graph.replay()
            return {name: value.clone() for name, value in self.outcome.items()}

    def _warm(self, now: Shapes) -> bool:
        """Count a turn with these shapes, and tell whether they had enough before it."""
        self.turns[now] += 1
        return self.turns[now] > WARM

    def _record(self, work: Work, given: tuple[Any, ...]) -> None:
        """Note every kernel of the work, without doing it."""
        mine = [part.clone() for part in tensors(given)]
        try:
            with torch.cuda.graph(self.graph):
                self.outcome = work(*filled(given, iter(mine)))
        except RuntimeError as error:  # torch's generators cannot be used after it, so there is no going on
            if is_out_of_memory(error):
                raise
            why = str(error).partition("\n")[0]
            raise InputError(
                f"a step could not be recorded on this GPU ({why}): train with another backbone, or on the CPU"
            ) from error
        self.given = mine

    def _aside(self, work: Work, given: tuple[Any, ...]) -> dict[str, Tensor]:
        """Do the work on a stream beside the usual one, as a recording does."""
        usual = torch.cuda.current_stream()
        self._stream.wait_stream(usual)
        with torch.cuda.stream(self._stream), warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*capturable=True.*")  # an optimiser to be recorded later
            outcome = work(*given)
        usual.wait_stream(self._stream)
        return outcome

    @cached_property
    def _stream(self) -> torch.cuda.Stream:
        """One for all turns: memory that was used on a stream is kept for that stream."""
        return torch.cuda.Stream()


class Recording(Protocol):
    """What may have a recorded step."""

    recorded: Recorded | None

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients."""


def forget(learner: Recording) -> None:
    """Give back the memory that a learner's recorded step keeps to itself: it takes no more steps, or other ones."""
    learner.recorded = None
    learner.zero_grad(set_to_none=True)  # gradients lie in that memory


def shapes(parts: Iterable[Tensor]) -> Shapes:
    """Return what a recording is made for."""
    return tuple((part.shape, part.dtype) for part in parts)


def tensors(nest: Any) -> Iterator[Tensor]:
    """Yield the tensors of tuples and lists within each other, in order."""
    if isinstance(nest, Tensor):
        yield nest
    elif isinstance(nest, tuple | list):
        for part in nest:
            yield from tensors(part)
    else:
        raise TypeError(f"a recorded step takes tensors, in tuples and lists, and not {type(nest).__name__}")


def filled(nest: Any, others: Iterator[Tensor]) -> Any:
    """Return tuples and lists as they are within each other, with other tensors in place."""
    if isinstance(nest, Tensor):
        return next(others)
    parts = [filled(part, others) for part in nest]
    return type(nest)(*parts) if hasattr(nest, "_fields") else type(nest)(parts)
