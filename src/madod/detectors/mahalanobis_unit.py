"""Mahalanobis distance of features of length 1 to the nearest class."""

from typing import Self

from torch import Tensor

from madod.detectors.base import DETECTORS, Fit
from madod.detectors.mahalanobis import Mahalanobis
from madod.detectors.sphere import fit_on_sphere, on_sphere
from madod.models.classifier import Outputs


@DETECTORS.register("mahalanobis_unit")
class UnitMahalanobis(Mahalanobis):
    """min_k (z / ||z|| - mu_k)' S^-1 (z / ||z|| - mu_k), Mahalanobis++ [Mueller & Hein 2025]."""

    def fit(self, fit: Fit) -> Self:
        """Learn mu_k and S on the sphere."""
        return super().fit(fit_on_sphere(fit))

    def score(self, outputs: Outputs) -> Tensor:
        """Return the squared distance to the nearest class."""
        return super().score(on_sphere(outputs))
