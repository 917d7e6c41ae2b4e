"""Size of the head's gradient towards a uniform prediction."""

from torch import Tensor

from madod.detectors.base import DETECTORS, Detector
from madod.models.classifier import Outputs


def gradient_norm(features: Tensor, logits: Tensor) -> Tensor:
    """|| d/dW sum_k -log p_k ||_1 = ||z||_1 sum_k |1 - K p_k| [Huang et al. 2021], K classes."""
    p = logits.double().softmax(1)
    return features.double().abs().sum(1) * (1 - p.shape[1] * p).abs().sum(1)


@DETECTORS.register("grad_norm")
class GradNorm(Detector):
    """-||z||_1 sum_k |1 - K p_k|, the L1 norm of the head's gradient towards a uniform target [Huang et al. 2021]."""

    def score(self, outputs: Outputs) -> Tensor:
        """Return the negative norm."""
        return -gradient_norm(outputs.features, outputs.logits)
