"""From a trained network and a split to every number that is reported."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn

from madod.data.base import Pool
from madod.data.split import Split
from madod.detectors.base import DETECTORS, Detector, Fit
from madod.evaluation.metrics import classification, detection
from madod.evaluation.outputs import extract
from madod.evaluation.threshold import threshold
from madod.models.classifier import Outputs


@dataclass(frozen=True)
class Evaluation:
    """What came out: the numbers, and what they were computed from."""

    metrics: dict[str, Any]
    """Accuracy and ECE on the target's known images, measures by detector, accuracy on held-out source images."""
    detectors: dict[str, Detector]
    thresholds: dict[str, float]
    """By detector: the score that 95 % of the held-out source images do not exceed."""
    scores: dict[str, Tensor]
    """By detector: the target images' scores (n,)."""
    outputs: dict[str, Outputs]
    """Of the parts source, val and target."""


def evaluate(net: nn.Module, split: Split, detectors: Sequence[str], *, keep: float = 0.95) -> Evaluation:
    """Fit every detector on source outputs, set its threshold on held-out source images, and measure on the target.

    A method's own score, where it has one, is measured beside the detectors as "own".
    """
    outputs = {name: extract(net, pool) for name, pool in split._asdict().items() if len(pool)}
    wanted = (*detectors, "own") if outputs["val"].own is not None else detectors
    head = cast(nn.Linear, net.head)
    known = Fit(
        outputs["source"],
        split.source.y.cpu(),
        outputs["val"],
        split.val.y.cpu(),
        head.weight.detach().cpu(),
        head.bias.detach().cpu(),
    )
    fitted = {name: DETECTORS[name]().fit(known) for name in dict.fromkeys(wanted)}
    thresholds = {
        name: threshold(detector_scores(detector, net, split.val, outputs["val"]), keep)
        for name, detector in fitted.items()
    }
    metrics: dict[str, Any] = {"val_accuracy": _classified(outputs["val"], split.val)["accuracy"]}
    scores = {}
    if len(split.target):
        target, y = outputs["target"], split.target.y.cpu()
        metrics |= _classified(target, split.target)
        for name, detector in fitted.items():
            scores[name] = detector_scores(detector, net, split.target, target)
            metrics[name] = detection(scores[name], y, target.logits.argmax(1))
    return Evaluation(metrics, fitted, thresholds, scores, outputs)


def _classified(outputs: Outputs, pool: Pool) -> dict[str, float]:
    return classification(outputs.logits.double().softmax(1), pool.y.cpu())


def detector_scores(detector: Detector, net: nn.Module, pool: Pool, outputs: Outputs) -> Tensor:
    """Return the scores of a pool's images (n,), from stored outputs where the detector can work from them."""
    if not detector.needs_model:
        return detector.score(outputs)
    rows = torch.arange(len(pool), device=pool.device).split(256)
    return torch.cat([detector.score_images(net, pool.take(chunk)).cpu() for chunk in rows])
