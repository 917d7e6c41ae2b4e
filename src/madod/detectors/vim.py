"""Virtual-logit matching."""

from typing import Self

import torch
from torch import Tensor

from madod.detectors.base import DETECTORS, Detector, Fit
from madod.detectors.gaussian import RESOLUTION, centred, scatter
from madod.equations import energy
from madod.models.classifier import Outputs


def residual(features: Tensor, origin: Tensor, principal: Tensor) -> Tensor:
    """||(I - P P')(z - u)|| (n,): the part of z - u outside the principal space P (f, d)."""
    return torch.cat([(z - z @ principal @ principal.mT).norm(dim=1) for z in centred(features, origin)])


@DETECTORS.register("vim")
class ViM(Detector):
    """a ||(I - P P')(z - u)|| - lse(l), u = -pinv(W) b [Wang et al. 2022].

    P holds the first D eigenvectors of the second moment of z - u on training images, and a = |mean max logit| / mean
    residual there. D is at most half the rank of that moment: were it nearly the rank, training images would have next
    to no residual, a would be huge, and known and unknown images alike would stick out. The absolute value keeps
    higher = more unknown where all logits are negative.
    """

    heavy = True
    origin_: Tensor
    principal_: Tensor
    scale_: Tensor

    def __init__(self, *, dimensions: int = 256) -> None:
        self.dimensions = dimensions

    def fit(self, fit: Fit) -> Self:
        """Learn u (f,), P (f, d) and a."""
        features = fit.train.features
        self.origin_ = -torch.linalg.pinv(fit.weight.double()) @ fit.bias.double()
        values, vectors = torch.linalg.eigh(scatter(features, self.origin_))
        rank = int((values > RESOLUTION * values[-1]).sum())
        dimensions = min(self.dimensions, rank // 2)
        self.principal_ = vectors[:, len(vectors) - dimensions :].clone(memory_format=torch.contiguous_format)
        norm = residual(features, self.origin_, self.principal_).mean()
        self.scale_ = fit.train.logits.double().amax(1).mean().abs() / norm if norm > 0 else torch.ones_like(norm)
        return self

    def score(self, outputs: Outputs) -> Tensor:
        """Return the virtual logit less the log-sum-exp of the others."""
        return self.scale_ * residual(outputs.features, self.origin_, self.principal_) + energy(outputs.logits.double())
