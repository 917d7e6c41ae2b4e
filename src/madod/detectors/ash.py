"""Energy after keeping only the largest activations, all at one height."""

from typing import Self

import torch
from torch import Tensor

from madod.detectors.activations import head_energy, largest
from madod.detectors.base import DETECTORS, Detector, Fit
from madod.models.classifier import Outputs


def binarise(features: Tensor, percentile: float) -> Tensor:
    """ASH-B: the k largest activations become sum(z) / k, the others 0 [Djurisic et al. 2023].

    Negative activations count as 0; zeros are never kept, and equal activations are kept or dropped together.
    """
    positive = features.relu()
    kept = (positive >= largest(positive, percentile)[:, -1:]) & (positive > 0)
    height = positive.sum(1, keepdim=True, dtype=torch.float64)
    return kept * height / kept.sum(1, keepdim=True).clamp_min(1)


@DETECTORS.register("ash")
class ASH(Detector):
    """E(W z' + b), z' the top 10 % of activations, each set to sum(z) / k: variant B [Djurisic et al. 2023]."""

    weight_: Tensor
    bias_: Tensor

    def __init__(self, *, percentile: float = 90.0) -> None:
        self.percentile = percentile

    def fit(self, fit: Fit) -> Self:
        """Keep the head."""
        self.weight_, self.bias_ = fit.head()
        return self

    def score(self, outputs: Outputs) -> Tensor:
        """Return the energy of binarised features."""
        return head_energy(binarise(outputs.features, self.percentile), self.weight_, self.bias_)
