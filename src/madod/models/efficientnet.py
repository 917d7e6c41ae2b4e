"""EfficientNet-Lite0 [Tan & Le 2019; its Lite variant, Liu 2020]: inverted residuals without attention, ReLU6."""

from functools import partial

import torch.nn.functional as F
from torch import Tensor, nn

from madod.models.layers import Featurizer, Norm, Normalize

STAGES = (
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (2, 5, 2, 6, 40),
    (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112),
    (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)
"""Blocks, kernel, stride of the first block, expansion and output channels of every stage."""
EPS = 1e-3


class SameConv(nn.Conv2d):
    """A convolution padded as in TensorFlow: ceil(size / stride) outputs, the odd pixel of padding at the far end."""

    def forward(self, x: Tensor) -> Tensor:
        """Return the convolved images."""
        kernel, stride = self.kernel_size[0], self.stride[0]
        high, wide = (max((-(-size // stride) - 1) * stride + kernel - size, 0) for size in x.shape[2:])
        if high % 2 or wide % 2:
            x = F.pad(x, (wide // 2, wide - wide // 2, high // 2, high - high // 2))
            high = wide = 0
        return F.conv2d(x, self.weight, self.bias, self.stride, (high // 2, wide // 2), groups=self.groups)


def conv(inside: int, outside: int, kernel: int = 1, stride: int = 1, groups: int = 1) -> nn.Conv2d:
    """Return a convolution without bias."""
    return SameConv(inside, outside, kernel, stride, groups=groups, bias=False)


class InvertedResidual(nn.Module):
    """Expand by a 1x1, filter every channel by itself, project by a 1x1, beside a shortcut where shapes allow."""

    def __init__(self, inside: int, outside: int, kernel: int, stride: int, expansion: int, norm: Norm) -> None:
        super().__init__()
        width = inside * expansion
        if expansion > 1:
            self.expand_conv, self.bn0 = conv(inside, width), norm(width)
        self.depthwise_conv, self.bn1 = conv(width, width, kernel, stride, groups=width), norm(width)
        self.project_conv, self.bn2 = conv(width, outside), norm(outside)
        self.expands, self.residual = expansion > 1, stride == 1 and inside == outside

    def forward(self, x: Tensor) -> Tensor:
        """Return the projection, with x added where shapes allow."""
        out = F.relu6(self.bn0(self.expand_conv(x))) if self.expands else x
        out = F.relu6(self.bn1(self.depthwise_conv(out)))
        out = self.bn2(self.project_conv(out))
        return out + x if self.residual else out


class EfficientNetLite0(nn.Module):
    """EfficientNet-Lite0 without its head; names are those of the package's weights, less their underscores."""

    def __init__(self, channels: int, norm: Norm) -> None:
        super().__init__()
        self.normalize = Normalize((127 / 255,) * channels, (128 / 255,) * channels)
        self.conv_stem, self.bn0 = conv(channels, 32, 3, 2), norm(32)
        inside, blocks = 32, []
        for depth, kernel, first, expansion, outside in STAGES:
            for stride in [first] + [1] * (depth - 1):
                blocks.append(InvertedResidual(inside, outside, kernel, stride, expansion, norm))
                inside = outside
        self.blocks = nn.Sequential(*blocks)
        self.conv_head, self.bn1 = conv(inside, 1280), norm(1280)

    def forward(self, images: Tensor) -> Tensor:
        """Return pooled features of images in [0, 1]."""
        x = self.blocks(F.relu6(self.bn0(self.conv_stem(self.normalize(images)))))
        return F.relu6(self.bn1(self.conv_head(x))).mean((2, 3))


def without_underscores(name: str) -> str:
    """Return `blocks.0.bn1.weight` for `_blocks.0._bn1.weight`."""
    return ".".join(part.removeprefix("_") for part in name.split("."))


def efficientnet_lite0(channels: int, norm: Norm) -> Featurizer:
    """Return EfficientNet-Lite0."""
    return Featurizer(EfficientNetLite0(channels, partial(norm, eps=EPS)), 1280, without_underscores)
