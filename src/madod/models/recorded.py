"""Work on a GPU that is recorded once and then started as a whole."""

from collections.abc import Callable

import torch
from torch import Tensor

WARM = 3
"""Turns before the recording, in which compilers and libraries settle."""


class Recorded:
    """A step of training whose hundreds of small kernels no longer wait for Python to start them one by one.

    The work takes tensors of the same shapes every turn, draws nothing at random, never waits for the GPU, changes
    weights in place, and returns named scalars.
    """

    def __init__(self, work: Callable[..., dict[str, Tensor]]) -> None:
        self.work = work
        self.turns = 0
        self.graph = torch.cuda.CUDAGraph()
        self.given: list[Tensor] = []
        self.outcome: dict[str, Tensor] = {}

    def __call__(self, *given: Tensor) -> dict[str, Tensor]:
        """Do the work once."""
        self.turns += 1
        if self.turns <= WARM:
            return self._aside(*given)
        if not self.given:
            self.given = [part.clone() for part in given]
            with torch.cuda.graph(self.graph):
                self.outcome = self.work(*self.given)
        for mine, part in zip(self.given, given, strict=True):
            mine.copy_(part)
        self.graph.replay()
        return {name: value.clone() for name, value in self.outcome.items()}

    def _aside(self, *given: Tensor) -> dict[str, Tensor]:
        """Do the work on a stream beside the usual one, as a recording does."""
        usual, aside = torch.cuda.current_stream(), torch.cuda.Stream()
        aside.wait_stream(usual)
        with torch.cuda.stream(aside):
            outcome = self.work(*given)
        usual.wait_stream(aside)
        return outcome
