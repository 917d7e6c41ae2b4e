"""Inner product with the stored pattern of the predicted class."""

from typing import Self

import torch
from torch import Tensor

from madod.detectors.base import DETECTORS, Detector, Fit
from madod.models.classifier import Outputs


@DETECTORS.register("she")
class SHE(Detector):
    """-<z, S_c>, S_c the mean feature of rightly classified images of the predicted class [Zhang et al. 2023].

    A class without any is represented by the mean of its images, and one without images by the mean of all.
    """

    pattern_: Tensor

    def fit(self, fit: Fit) -> Self:
        """Learn S_k (k, f)."""
        features, right = fit.train.features, fit.train.logits.argmax(1) == fit.y
        patterns = []
        for label in range(fit.train.logits.shape[1]):
            own = fit.y == label
            choices = (own & right, own, torch.ones_like(own))
            chosen = next(choice for choice in choices if choice.any())
            patterns.append(features[chosen].mean(0, dtype=torch.float64))
        self.pattern_ = torch.stack(patterns)
        return self

    def score(self, outputs: Outputs) -> Tensor:
        """Return the negative inner product with the predicted class's pattern."""
        products = outputs.features.double() @ self.pattern_.mT
        return -products.gather(1, outputs.logits.argmax(1, keepdim=True))[:, 0]
