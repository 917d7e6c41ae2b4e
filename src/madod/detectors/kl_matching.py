"""Distance to the typical softmax of a class."""

from typing import Self

import torch
from torch import Tensor

from madod.detectors.base import DETECTORS, Detector, Fit
from madod.models.classifier import Outputs


def typical_softmax(logits: Tensor) -> Tensor:
    """d_k = mean p (k, k) of the images predicted as k; one-hot where there are none."""
    p, predicted = logits.double().softmax(1), logits.argmax(1)
    typical = torch.eye(logits.shape[1]).to(p)
    for label in predicted.unique():
        typical[label] = p[predicted == label].mean(0)
    return typical


@DETECTORS.register("kl_matching")
class KLMatching(Detector):
    """min_k KL(p || d_k), d_k the mean softmax of held-out images predicted as k [Hendrycks et al. 2022]."""

    typical_: Tensor

    def fit(self, fit: Fit) -> Self:
        """Learn d_k from held-out source images."""
        self.typical_ = typical_softmax(fit.val.logits)
        return self

    def score(self, outputs: Outputs) -> Tensor:
        """Return min_k KL(p || d_k), finite also where d_k holds zeros."""
        p = outputs.logits.double().softmax(1)
        cross = p @ self.typical_.clamp_min(torch.finfo(p.dtype).tiny).log().mT
        return (torch.xlogy(p, p).sum(1, keepdim=True) - cross).amin(1)
