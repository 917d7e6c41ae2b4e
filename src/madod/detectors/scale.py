"""Energy after scaling features by how peaked they are."""

from typing import Self

import torch
from torch import Tensor

from madod.detectors.activations import head_energy, largest
from madod.detectors.base import DETECTORS, Detector, Fit
from madod.models.classifier import Outputs


def peakedness(features: Tensor, percentile: float) -> Tensor:
    """r = sum(z) / sum of the largest z (n, 1) [Xu et al. 2024]; negative activations count as 0, and 0 / 0 is 0."""
    positive = features.double().relu()
    top = largest(positive, percentile).sum(1, keepdim=True)
    return positive.sum(1, keepdim=True) / top.clamp_min(torch.finfo(top.dtype).tiny)


@DETECTORS.register("scale")
class Scale(Detector):
    """E(W z exp(r) + b), r = sum(z) / sum of the top 15 % of z [Xu et al. 2024]."""

    weight_: Tensor
    bias_: Tensor

    def __init__(self, *, percentile: float = 85.0) -> None:
        self.percentile = percentile

    def fit(self, fit: Fit) -> Self:
        """Keep the head."""
        self.weight_, self.bias_ = fit.head()
        return self

    def score(self, outputs: Outputs) -> Tensor:
        """Return the energy of scaled features."""
        scaled = outputs.features.double() * peakedness(outputs.features, self.percentile).exp()
        return head_energy(scaled, self.weight_, self.bias_)
