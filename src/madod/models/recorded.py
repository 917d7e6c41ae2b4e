"""Work on a GPU that is recorded once and then started as a whole."""

import warnings
from collections.abc import Callable

import torch
from torch import Tensor

Work = Callable[..., dict[str, Tensor]]

WARM = 3
"""Turns before the recording, in which compilers and libraries settle."""


class Recorded:
    """A step of training whose hundreds of small kernels no longer wait for Python to start them one by one.

    The work is the same every turn. It takes tensors of the same shapes, draws nothing at random, never waits for the
    GPU, changes weights and their optimiser's state in place, and returns named scalars.
    """

    def __init__(self) -> None:
        self.turns = 0
        self.graph = torch.cuda.CUDAGraph()
        self.given: list[Tensor] = []
        self.outcome: dict[str, Tensor] = {}

    def __call__(self, work: Work, *given: Tensor) -> dict[str, Tensor]:
        """Do the work once."""
        with torch.cuda.device(given[0].device):
            self.turns += 1
            if self.turns <= WARM:
                return aside(work, *given)
            if not self.given:
                self._record(work, *given)
            if (now := [part.shape for part in given]) != (then := [part.shape for part in self.given]):
                raise ValueError(f"recorded for shapes {then}, given {now}")
            for mine, part in zip(self.given, given, strict=True):
                mine.copy_(part)
            self.graph.replay()
            return {name: value.clone() for name, value in self.outcome.items()}

    def _record(self, work: Work, *given: Tensor) -> None:
        """Note every kernel of the work, without doing it."""
        mine = [part.clone() for part in given]
        with torch.cuda.graph(self.graph):
            self.outcome = work(*mine)
        self.given = mine


def aside(work: Work, *given: Tensor) -> dict[str, Tensor]:
    """Do the work on a stream beside the usual one, as a recording does."""
    usual, other = torch.cuda.current_stream(), torch.cuda.Stream()
    other.wait_stream(usual)
    with torch.cuda.stream(other), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*capturable=True.*")  # an optimiser to be recorded later
        outcome = work(*given)
    usual.wait_stream(other)
    return outcome
