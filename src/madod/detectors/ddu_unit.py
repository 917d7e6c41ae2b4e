"""DDU of features of length 1."""

from typing import Self

from torch import Tensor

from madod.detectors.base import DETECTORS, Fit
from madod.detectors.ddu import DDU
from madod.detectors.sphere import fit_on_sphere, on_sphere
from madod.models.classifier import Outputs


@DETECTORS.register("ddu_unit")
class UnitDDU(DDU):
    """-log sum_k N(z / ||z||; mu_k, S_k): DDU by the direction of features alone [ours, after Mueller & Hein 2025].

    Unknown images have short features, which are not far from anything, however strange their direction. An unseen
    domain also moves features along directions in which those hardly vary, so that the shrinkage has an intensity of
    at least 0.1, chosen on folds of PACS (results/pacs/ddu).
    """

    def __init__(self, *, least: float = 0.1) -> None:
        super().__init__(least=least)

    def fit(self, fit: Fit) -> Self:
        """Learn mu_k and S_k on the sphere."""
        return super().fit(fit_on_sphere(fit))

    def score(self, outputs: Outputs) -> Tensor:
        """Return -lse_k log N(z / ||z||; mu_k, S_k)."""
        return super().score(on_sphere(outputs))
