"""Energy after clipping large activations."""

from typing import Self

import numpy as np
import torch
from torch import Tensor

from madod.detectors.activations import head_energy
from madod.detectors.base import DETECTORS, Detector, Fit
from madod.models.classifier import Outputs


@DETECTORS.register("react")
class ReAct(Detector):
    """E(W min(z, c) + b), c the 90th percentile of all held-out activations [Sun et al. 2021]."""

    weight_: Tensor
    bias_: Tensor
    clip_: Tensor

    def __init__(self, *, percentile: float = 90.0) -> None:
        self.percentile = percentile

    def fit(self, fit: Fit) -> Self:
        """Learn c from held-out source images."""
        self.weight_, self.bias_ = fit.head()
        clip = np.percentile(fit.val.features.cpu().numpy(), self.percentile)
        self.clip_ = torch.tensor(clip, dtype=torch.float64)
        return self

    def score(self, outputs: Outputs) -> Tensor:
        """Return the energy of clipped features."""
        return head_energy(outputs.features.double().clamp_max(self.clip_), self.weight_, self.bias_)
