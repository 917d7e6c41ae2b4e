"""Distance to the K-th nearest training image."""

from typing import Self

from torch import Tensor

from madod.detectors.base import DETECTORS, Detector, Fit
from madod.detectors.neighbours import top_similarities, unit
from madod.models.classifier import Outputs


@DETECTORS.register("knn")
class KNN(Detector):
    """||z - z_(K)||^2 = 2 - 2 cos(z, z_(K)) to the K-th nearest training image on the unit sphere [Sun et al. 2022].

    K is at most the size of the smallest class, since beyond it a known image's K-th neighbour is of another class.
    """

    heavy = True
    bank_: Tensor
    neighbours_: Tensor

    def __init__(self, *, neighbours: int = 50) -> None:
        self.neighbours = neighbours

    def fit(self, fit: Fit) -> Self:
        """Keep the unit features of all training images, and the K that their classes allow."""
        smallest = fit.y.unique(return_counts=True)[1].min()
        self.neighbours_ = smallest.clamp_max(self.neighbours)
        self.bank_ = unit(fit.train.features).to(fit.train.features.dtype)
        return self

    def score(self, outputs: Outputs) -> Tensor:
        """Return the squared distance to the K-th neighbour."""
        return 2 - 2 * top_similarities(outputs.features, self.bank_, int(self.neighbours_))[:, -1]
