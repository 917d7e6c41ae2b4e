"""How strongly an image relates to the training images."""

from typing import Self

import torch
from torch import Tensor

from madod.detectors.base import DETECTORS, Detector, Fit
from madod.detectors.neighbours import COLUMNS, ROWS, unit
from madod.models.classifier import Outputs


@DETECTORS.register("relation")
class Relation(Detector):
    """-sum over training images t with r_t > 0.03 of r_t^power, r_t = relu(cos(z, z_t)) <p, p_t> [Kim et al. 2023]."""

    heavy = True
    bank_: Tensor
    probability_: Tensor

    def __init__(self, *, power: float = 1.0, least: float = 0.03) -> None:
        self.power = power
        self.least = least

    def fit(self, fit: Fit) -> Self:
        """Keep the unit features and the softmax of all training images."""
        self.bank_ = unit(fit.train.features).to(fit.train.features.dtype)
        self.probability_ = fit.train.logits.double().softmax(1)
        return self

    def score(self, outputs: Outputs) -> Tensor:
        """Return the negative sum of edges."""
        blocks = zip(outputs.features.split(ROWS), outputs.logits.split(ROWS), strict=True)
        return -torch.cat([self._edges(unit(features), logits.double().softmax(1)) for features, logits in blocks])

    def _edges(self, features: Tensor, p: Tensor) -> Tensor:
        total = p.new_zeros(p.shape[0])
        for bank, probability in zip(self.bank_.split(COLUMNS), self.probability_.split(COLUMNS), strict=True):
            edges = (features @ bank.double().mT).relu_() * (p @ probability.mT)
            total += torch.where(edges > self.least, edges**self.power, 0).sum(1)
        return total
