"""A model that was never trained, and pictures for it: enough to see what goes in and what comes out."""

from pathlib import Path

import numpy as np
import torch
from PIL import Image

from madod.data.base import Domain, pool
from madod.detectors.base import DETECTORS
from madod.models.backbones import build
from madod.predict import Card, Model
from madod.predict.gallery import gathered

CLASSES, DOMAINS, SIZE = ("cat", "dog", "fox"), ("day", "night"), 16


def images(n: int, seed: int = 0) -> np.ndarray:
    """Return random pictures (n, h, w, 3) at the model's size."""
    return np.random.default_rng(seed).integers(0, 256, (n, SIZE, SIZE, 3), dtype=np.uint8)


def toy_model(threshold: float = 0.0) -> Model:
    """Return a model with held-out scores and a gallery of its own forty pictures."""
    net = build("small_cnn", channels=3, classes=3, seed=0).eval()
    card = Card(CLASSES, (3, SIZE, SIZE), "erm", "small_cnn", DOMAINS, "energy", threshold, {})
    parts = [torch.from_numpy(images(20, seed)).permute(0, 3, 1, 2).contiguous() for seed in (1, 2)]
    y = torch.arange(20) % 3
    source = pool([Domain(name, part, y, y) for name, part in zip(DOMAINS, parts, strict=True)], CLASSES, CLASSES)
    detector = DETECTORS["energy"]()
    with torch.no_grad():
        outputs = net(source.take(torch.arange(40)))
    return Model(net, detector, card, detector.score(outputs), gathered(source, outputs.features))


def files(folder: Path, n: int) -> list[Path]:
    """Write random pictures as PNG files."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{k:03}.png" for k in range(n)]
    for path, pixels in zip(paths, images(n), strict=True):
        Image.fromarray(pixels).save(path)
    return paths
