"""Maximum softmax probability."""

from torch import Tensor

from madod.detectors.base import DETECTORS, Detector
from madod.equations import surprisal
from madod.models.classifier import Outputs


@DETECTORS.register("msp")
class MSP(Detector):
    """-log max_k p_k, the maximum softmax probability [Hendrycks & Gimpel 2017].

    The log ranks exactly as 1 - max p does, without the ties that set in where p rounds to 1.
    """

    def score(self, outputs: Outputs) -> Tensor:
        """Return -log max_k p_k."""
        return surprisal(outputs.logits.double())
