"""From a trained network and a split to every number that is reported."""

import logging
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn

from madod.data.base import Pool
from madod.data.split import Split
from madod.detectors.base import DETECTORS, Detector, Fit
from madod.errors import InputError
from madod.evaluation.metrics import classification, detection
from madod.evaluation.outputs import Stored, extract
from madod.evaluation.threshold import FAR, threshold
from madod.models.classifier import Outputs

log = logging.getLogger(__name__)

CPU = torch.device("cpu")
WITH_GRADIENTS = 64
"""Images that go at once through a network whose gradients are asked for: they take the memory of a training step."""


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
    result = evaluate_stored(stored, plain, split.source.device)
    for name in (name for name in detectors if DETECTORS[name].needs_model):
        detector = _fitted(name, stored)
        scored = {part: pool for part, pool in pools.items() if part != "source"}
        _measure(result, name, detector, {part: image_scores(detector, net, pool) for part, pool in scored.items()})
    return result


def evaluate_stored(stored: Stored, detectors: Sequence[str], device: torch.device = CPU) -> Evaluation:
    """Measure from stored outputs, without the model; a detector that needs the model refuses.

    Those that are worth it compute on a GPU, if that is the device; what comes out is on the CPU.
    """
    metrics: dict[str, Any] = {"val_accuracy": _classified(stored, "val")["accuracy"]}
    if "target" in stored.outputs:
        metrics |= _classified(stored, "target")
    result = Evaluation(metrics, {}, {}, {}, {}, stored)
    for name in detectors:
        _measure(result, name, *_scored_on(device, name, stored))
    return result


def _scored_on(device: torch.device, name: str, stored: Stored) -> tuple[Detector, dict[str, Tensor]]:
    """Do `_scored` on a device, where that is a GPU that can and the detector is worth it."""
    if device.type == "cuda" and DETECTORS[name].heavy:
        try:
            detector, scores = _scored(name, stored.to(device))
            home = {key: value.cpu() for key, value in detector.state().items()}
            return detector.load_state(home), {part: found.cpu() for part, found in scores.items()}
        except RuntimeError as error:  # of memory, or of its libraries; a fault of the detector's own comes again below
            log.warning("fitting %s on the CPU, since the GPU could not: %s", name, str(error).partition("\n")[0])
    return _scored(name, stored)


def _scored(name: str, stored: Stored) -> tuple[Detector, dict[str, Tensor]]:
    """Return a fitted detector, and its scores of every part but the source."""
    detector = _fitted(name, stored)
    with _untouched(name, "score", stored):
        return detector, {part: detector.score(found) for part, found in stored.outputs.items() if part != "source"}


def fit_of(stored: Stored) -> Fit:
    """Return what a detector may look at: source images and the head, nothing of the target."""
    outputs, y = stored.outputs, stored.y
    return Fit(outputs["source"], y["source"], outputs["val"], y["val"], stored.weight, stored.bias)


def _fitted(name: str, stored: Stored) -> Detector:
    """Return a detector, fitted; refuse one that is not handed back, or that a saved model would forget."""
    blank = DETECTORS[name]()
    before = set(vars(blank))
    with _untouched(name, "fit", stored):
        detector: object = blank.fit(fit_of(stored))
    if not isinstance(detector, Detector):
        raise InputError(f"fit of the detector {name!r} returns {type(detector).__name__}: let it return self")
    if lost := sorted(set(vars(detector)) - before - set(detector.state())):
        raise InputError(
            f"the detector {name!r} learns {', '.join(lost)}, which no saved model would hold: let what it learns be "
            "tensors whose names end in an underscore"
        )
    return detector


@contextmanager
def _untouched(name: str, method: str, stored: Stored) -> Iterator[None]:
    """Refuse a method of a detector that changes what it is given in place: all others are measured from the same."""
    before = _versions(stored)
    yield
    if _versions(stored) != before:
        raise InputError(
            f"{method} of the detector {name!r} changes the outputs that it is given in place, which other detectors "
            "and the record need as they are: let it work on a copy, such as outputs.logits.clone()"
        )


def _versions(stored: Stored) -> list[int]:
    """Return how often each tensor was changed in place; those of torch.inference_mode do not count it."""
    given = [value for outputs in stored.outputs.values() for value in outputs if value is not None]
    given += [*stored.y.values(), stored.weight, stored.bias]
    return [value._version for value in given if not value.is_inference()]


def _refuse_unusable(name: str, scores: object, outputs: Outputs) -> None:
    """Refuse what is not one number per image, and say whose doing it is."""
    images = len(outputs.logits)
    if not isinstance(scores, Tensor) or scores.shape != (images,):
        found = f"{type(scores).__name__} {tuple(getattr(scores, 'shape', ()))}"
        raise InputError(
            f"the detector {name!r} gives a {found} for {images} images: let it return a tensor ({images},), "
            "one number per image"
        )
    if not scores.is_floating_point():
        raise InputError(
            f"the detector {name!r} gives scores of {scores.dtype}: let it compute them in float64, where few are equal"
        )
    if scores.requires_grad:
        raise InputError(
            f"scores of the detector {name!r} carry gradients: let it detach what it learns in fit, or compute them "
            "under torch.no_grad()"
        )
    if missing := int(scores.isnan().sum()):
        finite = all(bool(values.isfinite().all()) for values in (outputs.features, outputs.logits))
        behind = "are finite, so that it is the detector's doing" if finite else "are not finite"
        raise InputError(
            f"{missing} of {images} scores of the detector {name!r} are not a number; the features and logits behind "
            f"them {behind}"
        )


def _refuse_company(name: str, detector: Detector, scores: Tensor, outputs: Outputs) -> None:
    """Refuse scores that change with the images beside: a threshold would mean nothing for pictures that come singly.

    Two images tell: alone, one would be its own mean. What rounding does is far below the bound.
    """
    own = None if outputs.own is None else outputs.own[:2]
    pair = detector.score(Outputs(outputs.features[:2], outputs.logits[:2], own))
    spread = scores[scores.isfinite()].std(correction=0)  # of one image alone 0
    bound = 1e-6 + 1e-2 * (scores[:2].abs() + spread)
    if bool(((pair - scores[:2]).abs() > bound).any()):
        raise InputError(
            f"scores of the detector {name!r} change with the images that are scored beside: let it compute each from "
            "its image alone, and learn means and the like in fit"
        )


def _measure(result: Evaluation, name: str, detector: Detector, scores: dict[str, Tensor]) -> None:
    """Put a fitted detector, its threshold and its measures into the result."""
    for part, found in scores.items():
        _refuse_unusable(name, found, result.stored.outputs[part])
    limit = threshold(scores["val"])
    if not math.isfinite(limit):
        raise InputError(
            f"the threshold of the detector {name!r} would be {limit}, as so many scores of held-out images are, "
            "and tell nothing: let its scores be finite"
        )
    if not detector.needs_model:
        _refuse_company(name, detector, scores["val"], result.stored.outputs["val"])
    scores = {part: found.double().clamp(-FAR, FAR) for part, found in scores.items()}  # as a model says them
    result.detectors[name] = detector
    result.held[name] = scores["val"]
    result.thresholds[name] = limit
    if "target" in scores:
        predicted = result.stored.outputs["target"].logits.argmax(1)
        result.scores[name] = scores["target"]
        result.metrics[name] = detection(scores["target"], result.stored.y["target"], predicted)


def _classified(stored: Stored, part: str) -> dict[str, float]:
    return classification(stored.outputs[part].logits.double().softmax(1), stored.y[part])


def image_scores(detector: Detector, net: nn.Module, pool: Pool) -> Tensor:
    """Return the scores of a pool's images (n,) by a detector that needs the network itself."""
    rows = torch.arange(len(pool), device=pool.device).split(WITH_GRADIENTS)
    with torch.compiler.set_stance("force_eager"):  # compiling for these batches would cost more than it saves
        return torch.cat([detector.score_images(net, pool.take(chunk)).cpu() for chunk in rows])
