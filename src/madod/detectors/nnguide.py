"""Energy guided by nearest neighbours."""

import math
from typing import Self

import torch
from torch import Tensor

from madod.detectors.base import DETECTORS, Detector, Fit
from madod.detectors.neighbours import top_similarities, unit
from madod.equations import energy
from madod.models.classifier import Outputs


def evenly(y: Tensor, count: int) -> Tensor:
    """Return `count` indices that are spread evenly over the images in order of class."""
    return y.argsort(stable=True)[torch.linspace(0, len(y) - 1, count).round().long()]


@DETECTORS.register("nnguide")
class NNGuide(Detector):
    """-lse(l) mean of the K largest <z / ||z||, lse(l_t) z_t / ||z_t||> over a bank of images t [Park et al. 2023].

    The bank is a share of the training images, spread evenly over the classes, and at least K where there are so many.
    """

    bank_: Tensor

    def __init__(self, *, neighbours: int = 100, share: float = 0.01) -> None:
        self.neighbours = neighbours
        self.share = share

    def fit(self, fit: Fit) -> Self:
        """Keep unit features times lse(l) of the bank's images."""
        images = len(fit.y)
        chosen = evenly(fit.y, min(images, max(math.ceil(self.share * images), self.neighbours)))
        features, logits = fit.train.features[chosen], fit.train.logits[chosen].double()
        self.bank_ = (unit(features) * -energy(logits)[:, None]).to(features.dtype)
        return self

    def score(self, outputs: Outputs) -> Tensor:
        """Return the guided energy."""
        guidance = top_similarities(outputs.features, self.bank_, self.neighbours).mean(1)
        return energy(outputs.logits.double()) * guidance
