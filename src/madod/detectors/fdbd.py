"""Distance to the decision boundaries."""

from typing import Self

import torch
from torch import Tensor

from madod.detectors.base import DETECTORS, Detector, Fit
from madod.models.classifier import Outputs

SMALLEST = 1e-12
"""Stands in for a distance of 0."""


@DETECTORS.register("fdbd")
class FDBD(Detector):
    """-sum_k (l_c - l_k) / ||w_c - w_k|| / ||z - mu||, distance to the decision boundaries [Liu & Qin 2024].

    c is the predicted class and mu the mean training feature; with `centred=False` the divisor is ||z||.
    """

    distance_: Tensor
    mean_: Tensor

    def __init__(self, *, centred: bool = True) -> None:
        self.centred = centred

    def fit(self, fit: Fit) -> Self:
        """Learn mu (f,) and the distances ||w_j - w_k|| (k, k)."""
        weight = fit.weight.double()
        self.distance_ = torch.cdist(weight, weight, compute_mode="donot_use_mm_for_euclid_dist")
        self.mean_ = fit.train.features.mean(0, dtype=torch.float64) * self.centred
        return self

    def score(self, outputs: Outputs) -> Tensor:
        """Return the negative sum of distances to the other classes' boundaries, regularised."""
        largest, predicted = outputs.logits.double().max(dim=1, keepdim=True)
        gaps = (largest - outputs.logits.double()) / self.distance_[predicted[:, 0]].clamp_min(SMALLEST)
        return -gaps.sum(1) / (outputs.features.double() - self.mean_).norm(dim=1).clamp_min(SMALLEST)
