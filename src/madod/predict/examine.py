"""What a network and its detector make of pictures."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from madod.data.images import Pixels
from madod.detectors.base import Detector
from madod.evaluation.threshold import FAR
from madod.models.classifier import Outputs


class Examined(NamedTuple):
    """What a network makes of n pictures: probabilities (n, k), unknown scores (n,) and features (n, f)."""

    probabilities: Tensor
    scores: Tensor
    features: Tensor


def examine(net: nn.Module, detector: Detector, pictures: Sequence[Pixels]) -> Examined:
    """Return all that is said of uint8 pictures (c, h, w) of one size, on the CPU.

    Where a number comes out as none, the picture is as unknown and the network as unsure as can be.
    """
    images = torch.from_numpy(np.stack(pictures)).to(next(net.parameters()).device).float().div_(255)
    if detector.needs_model:
        scores = detector.score_images(net, images).cpu()
    with torch.no_grad():
        seen: Outputs = net(images)
        outputs = Outputs(seen.features.cpu(), seen.logits.cpu(), None if seen.own is None else seen.own.cpu())
        if not detector.needs_model:
            scores = detector.score(outputs)
    sure = outputs.logits.double().softmax(1).nan_to_num(0.0)
    return Examined(sure, scores.nan_to_num(FAR, FAR, -FAR), outputs.features.nan_to_num())
