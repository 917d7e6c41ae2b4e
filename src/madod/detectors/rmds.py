"""Mahalanobis distance to the nearest class, relative to all classes together."""

from typing import Self

import torch
from torch import Tensor

from madod.detectors.base import DETECTORS, Detector, Fit
from madod.detectors.gaussian import class_distances, class_means, squared_distances, within_scatter
from madod.detectors.shrinkage import factorise
from madod.models.classifier import Outputs


def widened(factor: Tensor, between: Tensor) -> Tensor:
    """Return the lower triangular M with M M' = L L' + B' B, of L (f, f) and B (k, f).

    M = L chol(I + V V'), V = L^-1 B': definite whatever the rounding, where the sum itself need not be.
    """
    whitened = torch.linalg.solve_triangular(factor, between.mT, upper=False)
    return (factor @ torch.linalg.cholesky(torch.eye(len(factor)).to(factor) + whitened @ whitened.mT)).contiguous()


@DETECTORS.register("rmds")
class RMDS(Detector):
    """min_k M_k - M_0: Mahalanobis distance to a class less that to all images as one Gaussian [Ren et al. 2021].

    Where images are few, the covariance within classes is shrunk to a scaled identity [Chen et al. 2010]; that of all
    images is always its sum with the covariance between classes, so that M_0 knows no direction that M_k does not.
    """

    heavy = True
    mean_: Tensor
    factor_: Tensor
    overall_mean_: Tensor
    overall_factor_: Tensor

    def fit(self, fit: Fit) -> Self:
        """Learn mu_k (k, f), the shared covariance, and mean and covariance of all images."""
        features, images = fit.train.features, len(fit.y)
        within, degrees = within_scatter(features, fit.y)
        self.mean_, self.overall_mean_ = class_means(features, fit.y), features.mean(0, dtype=torch.float64)
        self.factor_ = factorise(within / images, degrees)
        shares = fit.y.unique(return_counts=True)[1].double() / images
        self.overall_factor_ = widened(self.factor_, (self.mean_ - self.overall_mean_) * shares.sqrt()[:, None])
        return self

    def score(self, outputs: Outputs) -> Tensor:
        """Return the relative squared distance to the nearest class."""
        overall = squared_distances(outputs.features, self.overall_mean_, self.overall_factor_)
        return class_distances(outputs.features, self.mean_, self.factor_).amin(1) - overall
