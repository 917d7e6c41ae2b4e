"""What a run said of every target image, small enough to keep, and the pictures that it was most wrong about."""

import json
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F

from madod.data.base import Pool
from madod.evaluation.evaluate import Evaluation
from madod.storage import read_tensors, write_tensors

SHOWN = 12
"""Pictures of either kind of mistake: known ones with a wrong label, and unknown ones."""
SIDE = 64
"""The longest side that a kept picture has."""


def save_verdicts(file: Path, target: Pool, result: Evaluation) -> None:
    """Write labels, predictions, confidences and scores of the target images, and the most confident mistakes.

    A known image with a wrong label is a mistake, and so is an unknown one that gets any label; the most confident of
    both are kept as pictures. Nothing is written where there are no target images.
    """
    if not len(target):
        return
    y = result.stored.y["target"]
    confidence, predicted = result.stored.outputs["target"].logits.double().softmax(1).max(1)
    chosen = torch.cat([_surest(confidence, (y >= 0) & (predicted != y)), _surest(confidence, y < 0)])
    tensors = {"y": y, "predicted": predicted, "confidence": confidence.float()}
    tensors |= _named(result.scores)
    tensors |= {"shown": chosen, "pictures": thumbnails(target.stored(chosen.to(target.device)).cpu())}
    units = target.u.cpu()[chosen].tolist()
    truth = [target.classes[k] if k >= 0 else target.units[u] for k, u in zip(y[chosen].tolist(), units, strict=True)]
    write_tensors(file, tensors, {"classes": json.dumps(target.classes), "truth": json.dumps(truth)})


def add_scores(file: Path, scores: Mapping[str, Tensor]) -> None:
    """Put more detectors' scores beside those that are there; a run without target images has no such file."""
    if scores and file.exists():
        tensors, facts = read_tensors(file, remedy="delete it or run it again")
        write_tensors(file, tensors | _named(scores), facts)


def _named(scores: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {f"score.{name}": score.float() for name, score in scores.items()}


def _surest(confidence: Tensor, which: Tensor) -> Tensor:
    """Return the indices of the most confident among those marked."""
    marked = which.nonzero()[:, 0]
    return marked[confidence[marked].argsort(descending=True, stable=True)[:SHOWN]]


def shrunk(images: Tensor) -> Tensor:
    """Return uint8 images (n, c, h, w) with no side longer than `SIDE`."""
    height, width = images.shape[2:]
    shrink = SIDE / max(height, width)
    if shrink >= 1 or not len(images):
        return images
    size = max(1, round(height * shrink)), max(1, round(width * shrink))
    return F.interpolate(images.float(), size, mode="area").round().byte()


def thumbnails(images: Tensor) -> Tensor:
    """Return uint8 images (n, c, h, w) as small pictures in colour, uint8 (n, h, w, 3)."""
    images = shrunk(images)
    if images.shape[1] != 3:
        images = images[:, :1].expand(-1, 3, -1, -1)
    return images.permute(0, 2, 3, 1).contiguous()
