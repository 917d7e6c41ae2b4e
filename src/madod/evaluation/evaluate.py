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
from madod.evaluation.outputs import Stored, extract
from madod.evaluation.threshold import threshold


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
    held: dict[str, Tensor]
    """By detector: the held-out source images' scores (n,), where thresholds come from."""
    stored: Stored


def evaluate(net: nn.Module, split: Split, detectors: Sequence[str]) -> Evaluation:
    """Fit every detector on source outputs, set its threshold on held-out source images, and measure on the target.

    A method's own score, where it has one, is measured beside the detectors as "own".
    """
    pools = {name: pool for name, pool in split._asdict().items() if len(pool)}
    head = cast(nn.Linear, net.head)
    stored = Stored(
        {name: extract(net, pool) for name, pool in pools.items()},
        {name: pool.y.cpu() for name, pool in pools.items()},
        head.weight.detach().cpu(),
        head.bias.detach().cpu(),
    )
    own = ("own",) if stored.outputs["val"].own is not None else ()
    plain = [name for name in dict.fromkeys((*detectors, *own)) if not DETECTORS[name].needs_model]
    result = evaluate_stored(stored, plain)
    for name in (name for name in detectors if DETECTORS[name].needs_model):
        detector = DETECTORS[name]().fit(known(stored))
        scored = {part: pool for part, pool in pools.items() if part != "source"}
        _measure(result, name, detector, {part: image_scores(detector, net, pool) for part, pool in scored.items()})
    return result


def evaluate_stored(stored: Stored, detectors: Sequence[str]) -> Evaluation:
    """Do the same from stored outputs, without the model; a detector that needs the model refuses."""
    outputs, y = stored.outputs, stored.y
    metrics: dict[str, Any] = {"val_accuracy": _classified(stored, "val")["accuracy"]}
    if "target" in outputs:
        metrics |= _classified(stored, "target")
    result = Evaluation(metrics, {}, {}, {}, {}, stored)
    for name in detectors:
        detector = DETECTORS[name]().fit(known(stored))
        _measure(result, name, detector, {part: detector.score(outputs[part]) for part in y if part != "source"})
    return result


def known(stored: Stored) -> Fit:
    """Return what a detector may look at: source images and the head, nothing of the target."""
    outputs, y = stored.outputs, stored.y
    return Fit(outputs["source"], y["source"], outputs["val"], y["val"], stored.weight, stored.bias)


def _measure(result: Evaluation, name: str, detector: Detector, scores: dict[str, Tensor]) -> None:
    """Put a fitted detector, its threshold and its measures into the result."""
    result.detectors[name] = detector
    result.held[name] = scores["val"]
    result.thresholds[name] = threshold(scores["val"])
    if "target" in scores:
        predicted = result.stored.outputs["target"].logits.argmax(1)
        result.scores[name] = scores["target"]
        result.metrics[name] = detection(scores["target"], result.stored.y["target"], predicted)


def _classified(stored: Stored, part: str) -> dict[str, float]:
    return classification(stored.outputs[part].logits.double().softmax(1), stored.y[part])


def image_scores(detector: Detector, net: nn.Module, pool: Pool) -> Tensor:
    """Return the scores of a pool's images (n,) by a detector that needs the network itself."""
    rows = torch.arange(len(pool), device=pool.device).split(256)
    return torch.cat([detector.score_images(net, pool.take(chunk)).cpu() for chunk in rows])
