"""Featurizers: images (n, c, h, w) in [0, 1] to features (n, f).

Networks without pretrained weights use GroupNorm: no image sees another, so one joint pass over all images of a
meta-step equals separate passes.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from madod.errors import InputError, nearest
from madod.models.classifier import Classifier


class Featurizer(NamedTuple):
    """A network without its head, and the width of what it returns."""

    net: nn.Module
    features: int


class Normalize(nn.Module):
    """(x - mean) / std per channel: the first layer of a network that wants it."""

    mean: Tensor
    std: Tensor

    def __init__(self, mean: tuple[float, ...], std: tuple[float, ...]) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor(mean).view(1, -1, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(std).view(1, -1, 1, 1), persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        """Return normalised images."""
        return (images - self.mean) / self.std


def group_norm(channels: int) -> nn.Module:
    """Return GroupNorm with groups of eight or more channels."""
    return nn.GroupNorm(max(1, min(32, channels // 8)), channels)


def small_cnn(channels: int = 3) -> Featurizer:
    """Return three strided 3x3 convolutions with GroupNorm and a linear layer to 128 features; for 32 px on a CPU."""
    layers: list[nn.Module] = [Normalize((0.5,) * channels, (0.25,) * channels)]
    for inside, outside in ((channels, 32), (32, 64), (64, 128)):
        layers += [nn.Conv2d(inside, outside, 3, 2, padding=1, bias=False), group_norm(outside), nn.ReLU()]
    place = [nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(128 * 16, 128), nn.ReLU()]
    return Featurizer(nn.Sequential(*layers, *place), 128)


class BasicBlock(nn.Module):
    """Two 3x3 convolutions beside a shortcut [He et al. 2016]."""

    expansion = 1

    def __init__(self, inside: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inside, width, 3, stride, padding=1, bias=False)
        self.bn1 = group_norm(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.bn2 = group_norm(width)
        self.downsample = shortcut(inside, width, stride)

    def forward(self, x: Tensor) -> Tensor:
        """Return relu(shortcut + residual)."""
        out = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(out)) + self.downsample(x))


class Bottleneck(nn.Module):
    """1x1, 3x3 and 1x1 convolutions beside a shortcut; the 3x3 carries the stride [He et al. 2016, v1.5]."""

    expansion = 4

    def __init__(self, inside: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inside, width, 1, bias=False)
        self.bn1 = group_norm(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, padding=1, bias=False)
        self.bn2 = group_norm(width)
        self.conv3 = nn.Conv2d(width, width * 4, 1, bias=False)
        self.bn3 = group_norm(width * 4)
        self.downsample = shortcut(inside, width * 4, stride)

    def forward(self, x: Tensor) -> Tensor:
        """Return relu(shortcut + residual)."""
        out = F.relu(self.bn1(self.conv1(x)))
        out = F.relu(self.bn2(self.conv2(out)))
        return F.relu(self.bn3(self.conv3(out)) + self.downsample(x))


def shortcut(inside: int, outside: int, stride: int) -> nn.Module:
    """Return the identity, or a strided projection where shapes differ."""
    if inside == outside and stride == 1:
        return nn.Identity()
    return nn.Sequential(nn.Conv2d(inside, outside, 1, stride, bias=False), group_norm(outside))


class ResNet(nn.Module):
    """A residual network without its head; parameters carry torchvision's names."""

    def __init__(self, block: type[BasicBlock] | type[Bottleneck], depths: tuple[int, ...], channels: int = 3) -> None:
        super().__init__()
        self.normalize = Normalize((0.485, 0.456, 0.406)[:channels], (0.229, 0.224, 0.225)[:channels])
        self.conv1 = nn.Conv2d(channels, 64, 7, 2, padding=3, bias=False)
        self.bn1 = group_norm(64)
        inside = 64
        for number, depth in enumerate(depths):
            width = 64 * 2**number
            strides = [1 if number == 0 else 2] + [1] * (depth - 1)
            blocks = []
            for stride in strides:
                blocks.append(block(inside, width, stride))
                inside = width * block.expansion
            self.add_module(f"layer{number + 1}", nn.Sequential(*blocks))
        self.stages = len(depths)

    def forward(self, images: Tensor) -> Tensor:
        """Return pooled features of images in [0, 1]."""
        x = F.relu(self.bn1(self.conv1(self.normalize(images))))
        x = F.max_pool2d(x, 3, 2, padding=1)
        for number in range(self.stages):
            x = self.get_submodule(f"layer{number + 1}")(x)
        return x.mean((2, 3))


def resnet18(channels: int = 3) -> Featurizer:
    """Return ResNet-18 with GroupNorm."""
    return Featurizer(ResNet(BasicBlock, (2, 2, 2, 2), channels), 512)


def resnet50(channels: int = 3) -> Featurizer:
    """Return ResNet-50 with GroupNorm."""
    return Featurizer(ResNet(Bottleneck, (3, 4, 6, 3), channels), 2048)


BACKBONES: dict[str, Callable[[int], Featurizer]] = {
    "small_cnn": small_cnn,
    "resnet18": resnet18,
    "resnet50": resnet50,
}


def check_backbone(name: str) -> str:
    """Return the name, or say which there are."""
    if name not in BACKBONES:
        allowed = ", ".join(BACKBONES)
        raise InputError(f"no backbone {name!r}{nearest(name, tuple(BACKBONES))}; there are: {allowed}")
    return name


def build(name: str, *, channels: int, classes: int, seed: int) -> Classifier:
    """Return a classifier whose weights depend on the name, the sizes and the seed alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        net, features = BACKBONES[check_backbone(name)](channels)
        return Classifier(net, features, classes)
