"""Softmax probability after temperature scaling."""

from typing import Self

import torch
from torch import Tensor

from madod.detectors.base import DETECTORS, Detector, Fit
from madod.equations import surprisal
from madod.models.classifier import Outputs

LOWEST, HIGHEST = 0.1, 10.0
"""Bounds of the temperature."""


def calibrated_temperature(logits: Tensor, y: Tensor) -> Tensor:
    """argmin_T mean -log softmax(l / T)_y [Guo et al. 2017], exact within bounds.

    The loss is convex in b = 1 / T with slope mean(sum_k p_k l_k - l_y), so its zero is found by bisection; the bounds
    matter where every image is right or the logits say nothing, as T then runs to 0 or to infinity.
    """
    logits, low, high = logits.double(), 1 / HIGHEST, 1 / LOWEST
    target = logits.gather(1, y[:, None]).mean()
    for _ in range(60):
        middle = (low + high) / 2
        expected = ((logits * middle).softmax(1) * logits).sum(1).mean()
        low, high = (low, middle) if expected > target else (middle, high)
    return torch.tensor(2 / (low + high), dtype=torch.float64)


@DETECTORS.register("temp_scale")
class TempScale(Detector):
    """-log max_k softmax(l / T)_k with T of the least negative log-likelihood on held-out images [Guo et al. 2017]."""

    temperature_: Tensor

    def fit(self, fit: Fit) -> Self:
        """Learn T from held-out source images."""
        self.temperature_ = calibrated_temperature(fit.val.logits, fit.y_val)
        return self

    def score(self, outputs: Outputs) -> Tensor:
        """Return -log max_k softmax(l / T)_k."""
        return surprisal(outputs.logits.double() / self.temperature_)
