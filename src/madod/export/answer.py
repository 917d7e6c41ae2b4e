"""A whole model as one function of pixels."""

from typing import NamedTuple

from torch import Tensor, nn

from madod.detectors.base import Detector


class Answer(NamedTuple):
    """What an exported model returns for n pictures, in this order and under these names."""

    label: Tensor
    """Position of the nearest known class among the classes (n,), int64."""
    confidence: Tensor
    """Probability of that class (n,), float32."""
    probabilities: Tensor
    """Probabilities of all classes (n, k), float32."""
    score: Tensor
    """How unknown the picture is (n,), float64."""
    unknown: Tensor
    """Whether the score is above the threshold (n,), bool; a score that is no number counts as above."""


class Answering(nn.Module):
    """Preprocessing, network, score and threshold in one."""

    def __init__(self, net: nn.Module, detector: Detector, threshold: float) -> None:
        super().__init__()
        self.net = net
        self.detector = detector
        self.threshold = threshold

    def forward(self, pixels: Tensor) -> Answer:
        """Return the answer to uint8 pixels (n, c, h, w) at the model's size."""
        outputs = self.net(pixels.float() / 255)
        probabilities = outputs.logits.double().softmax(1)
        confidence, label = probabilities.max(1)
        score = self.detector.score(outputs)
        return Answer(label, confidence.float(), probabilities.float(), score, ~(score <= self.threshold))
