"""Residual networks [He et al. 2016] with torchvision's parameter names, so that its weights load."""

from typing import Literal, cast

import torch.nn.functional as F
from torch import Tensor, nn

from madod.models.layers import Featurizer, Norm, imagenet, normed

Strides = Literal["v1", "v1.5"]
"""Which convolution of a strided bottleneck carries the stride: the first 1x1 (v1), or the 3x3 (v1.5, torchvision)."""


class BasicBlock(nn.Module):
    """Two 3x3 convolutions beside a shortcut."""

    expansion = 1

    def __init__(self, inside: int, width: int, stride: int, norm: Norm, strides: Strides) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inside, width, 3, stride, padding=1, bias=False)
        self.bn1 = norm(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.bn2 = norm(width)
        self.downsample = shortcut(inside, width, stride, norm)

    def forward(self, x: Tensor) -> Tensor:
        """Return relu(shortcut + residual)."""
        out = F.relu(normed(self.conv1, self.bn1, x))
        return F.relu(normed(self.conv2, self.bn2, out) + self.downsample(x))


class Bottleneck(nn.Module):
    """1x1, 3x3 and 1x1 convolutions beside a shortcut."""

    expansion = 4

    def __init__(self, inside: int, width: int, stride: int, norm: Norm, strides: Strides) -> None:
        super().__init__()
        first, second = (stride, 1) if strides == "v1" else (1, stride)
        self.conv1 = nn.Conv2d(inside, width, 1, first, bias=False)
        self.bn1 = norm(width)
        self.conv2 = nn.Conv2d(width, width, 3, second, padding=1, bias=False)
        self.bn2 = norm(width)
        self.conv3 = nn.Conv2d(width, width * 4, 1, bias=False)
        self.bn3 = norm(width * 4)
        self.downsample = shortcut(inside, width * 4, stride, norm)

    def forward(self, x: Tensor) -> Tensor:
        """Return relu(shortcut + residual)."""
        out = F.relu(normed(self.conv1, self.bn1, x))
        out = F.relu(normed(self.conv2, self.bn2, out))
        return F.relu(normed(self.conv3, self.bn3, out) + self.downsample(x))


class Projection(nn.Sequential):
    """A convolution and its norm, numbered as torchvision numbers them."""

    def forward(self, x: Tensor) -> Tensor:
        """Return the normed convolution."""
        conv, norm = self
        return normed(cast(nn.Conv2d, conv), norm, x)


def shortcut(inside: int, outside: int, stride: int, norm: Norm) -> nn.Module:
    """Return the identity, or a strided projection where shapes differ."""
    if inside == outside and stride == 1:
        return nn.Identity()
    return Projection(nn.Conv2d(inside, outside, 1, stride, bias=False), norm(outside))


class ResNet(nn.Module):
    """A residual network without its head."""

    def __init__(
        self,
        block: type[BasicBlock] | type[Bottleneck],
        depths: tuple[int, ...],
        channels: int,
        norm: Norm,
        strides: Strides = "v1.5",
    ) -> None:
        super().__init__()
        self.normalize = imagenet(channels)
        self.conv1 = nn.Conv2d(channels, 64, 7, 2, padding=3, bias=False)
        self.bn1 = norm(64)
        inside = 64
        for number, depth in enumerate(depths):
            width, blocks = 64 * 2**number, []
            for stride in [1 if number == 0 else 2] + [1] * (depth - 1):
                blocks.append(block(inside, width, stride, norm, strides))
                inside = width * block.expansion
            self.add_module(f"layer{number + 1}", nn.Sequential(*blocks))
        self.stages = len(depths)

    def forward(self, images: Tensor) -> Tensor:
        """Return pooled features of images in [0, 1]."""
        x = F.relu(normed(self.conv1, self.bn1, self.normalize(images)))
        x = F.max_pool2d(x, 3, 2, padding=1)
        for number in range(self.stages):
            x = self.get_submodule(f"layer{number + 1}")(x)
        return x.mean((2, 3))


def resnet18(channels: int, norm: Norm) -> Featurizer:
    """Return ResNet-18."""
    return Featurizer(ResNet(BasicBlock, (2, 2, 2, 2), channels, norm), 512)


def resnet50(channels: int, norm: Norm) -> Featurizer:
    """Return ResNet-50 v1.5, whose 3x3 convolutions carry the strides, as torchvision's."""
    return Featurizer(ResNet(Bottleneck, (3, 4, 6, 3), channels, norm), 2048, strides="v1.5")


def resnet50_v1(channels: int, norm: Norm) -> Featurizer:
    """Return ResNet-50 v1, whose first 1x1 convolutions carry the strides, as in the paper."""
    return Featurizer(ResNet(Bottleneck, (3, 4, 6, 3), channels, norm, "v1"), 2048, strides="v1")
