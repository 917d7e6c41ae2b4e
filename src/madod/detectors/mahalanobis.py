"""Mahalanobis distance to the nearest class."""

from typing import Self

from torch import Tensor

from madod.detectors.base import DETECTORS, Detector, Fit
from madod.detectors.gaussian import class_distances, class_means, within_scatter
from madod.detectors.shrinkage import factorise
from madod.models.classifier import Outputs


@DETECTORS.register("mahalanobis")
class Mahalanobis(Detector):
    """min_k (z - mu_k)' S^-1 (z - mu_k) with the covariance S that all classes share [Lee et al. 2018, eq. 2].

    Where images are few, S is shrunk to a scaled identity with the oracle-approximating intensity [Chen et al. 2010].
    """

    heavy = True
    mean_: Tensor
    factor_: Tensor

    def fit(self, fit: Fit) -> Self:
        """Learn mu_k (k, f) and the Cholesky factor of S (f, f)."""
        total, degrees = within_scatter(fit.train.features, fit.y)
        self.mean_ = class_means(fit.train.features, fit.y)
        self.factor_ = factorise(total / len(fit.y), degrees)
        return self

    def score(self, outputs: Outputs) -> Tensor:
        """Return the squared distance to the nearest class."""
        return class_distances(outputs.features, self.mean_, self.factor_).amin(1)
