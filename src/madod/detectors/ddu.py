"""Deep deterministic uncertainty: one Gaussian a class."""

import math
from typing import Self

import torch
from torch import Tensor

from madod.detectors.base import DETECTORS, Detector, Fit
from madod.detectors.gaussian import class_means, scatter, squared_distances, vanishes, within_scatter
from madod.detectors.shrinkage import add_ridge, oas
from madod.errors import InputError
from madod.models.classifier import Outputs


@DETECTORS.register("ddu")
class DDU(Detector):
    """-log sum_k N(z; mu_k, S_k), one Gaussian with full covariance a class [Mukhoti et al. 2023].

    S_k is the class's own unbiased covariance, shrunk to a scaled identity with the oracle-approximating intensity
    [Chen et al. 2010, eq. 23; n = images of the class - 1], so that it is definite with fewer images than features and
    depends on source features alone. A class without two different images borrows the pooled within-class covariance.
    `least` is the least intensity. A `ridge` replaces it all by S_k + ridge I; 0.1 is the authors' released value.
    """

    heavy = True
    mean_: Tensor
    factor_: Tensor

    def __init__(self, *, ridge: float | None = None, least: float = 0.0) -> None:
        self.ridge = ridge
        self.least = least

    def fit(self, fit: Fit) -> Self:
        """Learn mu_k (k, f) and the Cholesky factor of S_k (k, f, f) of every class that has images."""
        features, labels, pooled = fit.train.features, fit.y.unique(), None
        self.mean_ = class_means(features, fit.y)
        self.factor_ = self.mean_.new_empty(*self.mean_.shape, self.mean_.shape[1])
        for label, mean, factor in zip(labels, self.mean_, self.factor_, strict=True):
            images = features[fit.y == label]
            total, degrees = scatter(images, mean), len(images) - 1
            if vanishes(total, mean):
                pooled = pooled or within_scatter(features, fit.y)  # once, and only where it is needed
                total, degrees = pooled
            factor.copy_(self._cholesky(total / degrees, degrees))
        return self

    def score(self, outputs: Outputs) -> Tensor:
        """Return -lse_k log N(z; mu_k, S_k)."""
        scale = outputs.features.shape[1] * math.log(2 * math.pi)
        densities = [
            -0.5 * (squared_distances(outputs.features, mean, factor) + scale) - factor.diagonal().log().sum()
            for mean, factor in zip(self.mean_, self.factor_, strict=True)
        ]
        return -torch.stack(densities).logsumexp(0)

    def _cholesky(self, covariance: Tensor, degrees: int) -> Tensor:
        definite = oas(covariance, degrees, self.least) if self.ridge is None else add_ridge(covariance, self.ridge)
        factor, failed = torch.linalg.cholesky_ex(definite)
        if failed:
            raise InputError(
                f"ddu: a class covariance stays singular with ridge {self.ridge}; give a larger one, or none"
            )
        return factor
