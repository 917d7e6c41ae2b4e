"""Free energy of the logits."""

from torch import Tensor

from madod.detectors.base import DETECTORS, Detector
from madod.equations import energy
from madod.models.classifier import Outputs


@DETECTORS.register("energy")
class Energy(Detector):
    """E = -T log sum_k exp(l_k / T), the free energy of the logits [Liu et al. 2020, eq. 4]."""

    def __init__(self, *, temperature: float = 1.0) -> None:
        self.temperature = temperature

    def score(self, outputs: Outputs) -> Tensor:
        """Return E(x)."""
        return energy(outputs.logits.double(), self.temperature)
