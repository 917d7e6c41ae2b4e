"""Generalised entropy."""

from torch import Tensor

from madod.detectors.base import DETECTORS, Detector
from madod.models.classifier import Outputs


def generalised_entropy(logits: Tensor, gamma: float, top: int) -> Tensor:
    """G = sum over the M largest p of p^g (1 - p)^g [Liu et al. 2023]; M is at most the number of classes."""
    p = logits.double().softmax(1).sort(dim=1, descending=True).values
    rest = 1 - p
    rest[:, 0] = p[:, 1:].sum(1)  # exact where the largest p rounds to 1
    return (p * rest)[:, :top].pow(gamma).sum(1)


@DETECTORS.register("gen")
class GEN(Detector):
    """sum over the M largest p of p^g (1 - p)^g, a generalised entropy [Liu et al. 2023]."""

    def __init__(self, *, gamma: float = 0.1, top: int = 100) -> None:
        self.gamma = gamma
        self.top = top

    def score(self, outputs: Outputs) -> Tensor:
        """Return the generalised entropy of the softmax."""
        return generalised_entropy(outputs.logits, self.gamma, self.top)
