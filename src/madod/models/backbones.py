"""Featurizers by name: images (n, c, h, w) in [0, 1] to features (n, f).

No image sees another: networks without pretrained weights use GroupNorm, those with them a BatchNorm whose statistics
are frozen. So one joint pass over all images of a meta-step equals separate passes.
"""

from collections.abc import Callable
from functools import partial

import torch
from torch import nn

from madod.errors import InputError, nearest
from madod.models.classifier import Classifier
from madod.models.compute import PLAIN, Compute
from madod.models.efficientnet import efficientnet_lite0
from madod.models.from_timm import PREFIX, check_timm, timm_backbone
from madod.models.layers import NORMS, Featurizer, Norm, Normalize, NormName, usual_norm
from madod.models.pretrained import fill
from madod.models.resnet import resnet18, resnet50, resnet50_v1
from madod.models.weights import Weights
from madod.models.wide_resnet import wrn_16_2


def small_cnn(channels: int, norm: Norm) -> Featurizer:
    """Return three strided 3x3 convolutions and a linear layer to 128 features; for 32 px on a CPU."""
    layers: list[nn.Module] = [Normalize((0.5,) * channels, (0.25,) * channels)]
    for inside, outside in ((channels, 32), (32, 64), (64, 128)):
        layers += [nn.Conv2d(inside, outside, 3, 2, padding=1, bias=False), norm(outside), nn.ReLU()]
    layers += [nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(128 * 16, 128), nn.ReLU()]
    return Featurizer(nn.Sequential(*layers), 128)


BACKBONES: dict[str, Callable[[int, Norm], Featurizer]] = {
    "small_cnn": small_cnn,
    "resnet18": resnet18,
    "resnet50": resnet50,
    "resnet50_v1": resnet50_v1,
    "efficientnet_lite0": efficientnet_lite0,
    "wrn_16_2": wrn_16_2,
}


def check_backbone(name: str) -> str:
    """Return the name, or say which there are."""
    if name.startswith(PREFIX):
        return check_timm(name)
    if name not in BACKBONES:
        allowed = ", ".join(BACKBONES)
        raise InputError(
            f"no backbone {name!r}{nearest(name, tuple(BACKBONES))}; there are: {allowed}, {PREFIX}NAME, and what "
            "the file of an outside method puts into BACKBONES (docs/extending.md)"
        )
    return name


def maker(name: str) -> Callable[[int, Norm], Featurizer]:
    """Return what makes the network of a name."""
    check_backbone(name)
    return partial(timm_backbone, name.removeprefix(PREFIX)) if name.startswith(PREFIX) else BACKBONES[name]


def build(
    name: str,
    *,
    channels: int,
    classes: int,
    seed: int,
    weights: Weights | None = None,
    norm: NormName | None = None,
    compute: Compute = PLAIN,
) -> Classifier:
    """Return a classifier that depends on the name, the sizes, the seed and pretrained weights alone.

    The norm is the usual one for a network with or without pretrained weights, unless it is named.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        featurizer = maker(name)(channels, NORMS[norm or usual_norm(pretrained=weights is not None)])
        if weights is not None:
            fill(featurizer, weights, name)
        return Classifier(featurizer.net, featurizer.features, classes, compute)
