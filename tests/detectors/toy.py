"""Rectified features in which every class lights up its own block and the unknown lights up a block of its own."""

import torch
from torch import Tensor

from madod.detectors.base import Detector, Fit
from madod.models.classifier import Outputs

BLOCK = 4


def head(classes: int) -> tuple[Tensor, Tensor]:
    weight = torch.eye(classes, classes + 1).repeat_interleave(BLOCK, dim=1)
    generator = torch.Generator().manual_seed(7)
    noise = torch.randn(weight.shape, generator=generator)
    return weight + 0.05 * noise, torch.linspace(-0.1, 0.1, classes)


def see(features: Tensor, classes: int) -> Outputs:
    weight, bias = (parameter.double() for parameter in head(classes))
    return Outputs(features, features.double() @ weight.T + bias, own=features[:, -BLOCK:].sum(1))


def images(y: Tensor, classes: int, seed: int) -> Tensor:
    """Features of images of the classes y; class number `classes` is the unknown."""
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(len(y), (classes + 1) * BLOCK, generator=generator)
    return torch.relu(2 * torch.nn.functional.one_hot(y, classes + 1).repeat_interleave(BLOCK, dim=1) + 0.3 * noise)


def fit_on(train: Tensor, y: Tensor, val: Tensor, y_val: Tensor, classes: int) -> Fit:
    return Fit(see(train, classes), y, see(val, classes), y_val, *head(classes))


def toy_fit(y: Tensor | None = None, classes: int = 3) -> Fit:
    y = torch.arange(120) % classes if y is None else y
    y_val = torch.arange(60) % classes
    return fit_on(images(y, classes, 0), y, images(y_val, classes, 1), y_val, classes)


def score(detector: Detector, outputs: Outputs, classes: int = 3) -> Tensor:
    """Score stored outputs, or the images behind them where the detector needs the network."""
    if detector.needs_model:
        return detector.score_images(lambda pixels: see(pixels, classes), outputs.features)
    return detector.score(outputs)
