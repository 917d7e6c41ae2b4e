"""An exported file against the model that it was made of."""

import importlib
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from madod.data.images import Pixels
from madod.errors import InputError
from madod.export.answer import Answer
from madod.predict import Model

Array = NDArray[Any]
TOLERANCE = 1e-4
"""The most that two answers may differ: as they stand up to 1, by share above."""
PICTURES = 16


def check(file: Path, model: Model) -> bool:
    """Refuse a file that answers otherwise than its model; return False where there is no onnxruntime to ask."""
    if find_spec("onnxruntime") is None:
        return False
    runtime = importlib.import_module("onnxruntime")
    session = runtime.InferenceSession(file.read_bytes(), providers=["CPUExecutionProvider"])
    pixels = made_up(model.card.shape)
    for batch in (pixels, pixels[:1]):
        worst = difference(model, batch, *session.run(Answer._fields, {"pixels": batch}))
        if not worst <= TOLERANCE:
            raise InputError(
                f"the exported file answers otherwise than the model (by {worst:.1e}), so it was not kept: this should "
                "not happen; try other versions of onnx and onnxruntime, and please report it"
            )
    return True


def difference(
    model: Model, pixels: Pixels, label: Array, confidence: Array, probabilities: Array, score: Array, unknown: Array
) -> float:
    """Return how far an answer to pixels is at most from the model's own; infinite where it contradicts itself."""
    likely, scores = (part.numpy() for part in model.judge(list(pixels)))
    sound = np.array_equal(confidence, probabilities[np.arange(len(pixels)), label])
    sound &= np.array_equal(confidence, probabilities.max(1)) and np.array_equal(unknown, ~(score <= model.threshold))
    return float(np.max([apart(probabilities, likely), apart(score, scores)])) if sound else np.inf


def apart(theirs: Array, ours: Array) -> float:
    """Return the largest |a - b| / max(1, |b|); equal infinities are not apart."""
    theirs, ours = theirs.astype(np.float64), ours.astype(np.float64)
    with np.errstate(invalid="ignore"):
        gaps = np.where(theirs == ours, 0.0, np.abs(theirs - ours) / np.maximum(1.0, np.abs(ours)))
    return float(gaps.max())


def made_up(shape: tuple[int, int, int]) -> Pixels:
    """Return pictures (n, c, h, w) of every brightness and contrast: flat, coarse and fine noise."""
    rng, (channels, high, wide) = np.random.default_rng(0), shape
    pictures = []
    for grain in np.geomspace(1, max(high, wide), PICTURES):
        cells = (-(-high // int(grain)), -(-wide // int(grain)))
        coarse = rng.integers(0, 256, (channels, *cells), dtype=np.uint8)
        pictures.append(coarse.repeat(int(grain), 1).repeat(int(grain), 2)[:, :high, :wide])
    return np.stack(pictures)
