"""Energy through the weights that matter."""

from typing import Self

import numpy as np
from torch import Tensor

from madod.detectors.activations import head_energy
from madod.detectors.base import DETECTORS, Detector, Fit
from madod.models.classifier import Outputs


@DETECTORS.register("dice")
class DICE(Detector):
    """E((M * W) z + b), M the 10 % of weights with the largest mean contribution w_kj mean(z_j) [Sun & Li 2022]."""

    weight_: Tensor
    bias_: Tensor

    def __init__(self, *, percentile: float = 90.0) -> None:
        self.percentile = percentile

    def fit(self, fit: Fit) -> Self:
        """Learn the mask from training images and keep the masked head."""
        weight, self.bias_ = fit.head()
        contribution = weight * fit.train.features.double().mean(0)
        self.weight_ = weight * (contribution > float(np.percentile(contribution.cpu().numpy(), self.percentile)))
        return self

    def score(self, outputs: Outputs) -> Tensor:
        """Return the energy of the sparse head."""
        return head_energy(outputs.features, self.weight_, self.bias_)
