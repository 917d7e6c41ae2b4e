"""The largest logit."""

from torch import Tensor

from madod.detectors.base import DETECTORS, Detector
from madod.models.classifier import Outputs


@DETECTORS.register("max_logit")
class MaxLogit(Detector):
    """-max_k l_k, the largest logit [Hendrycks et al. 2022]."""

    def score(self, outputs: Outputs) -> Tensor:
        """Return -max_k l_k."""
        return -outputs.logits.double().amax(1)
