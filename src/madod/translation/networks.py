"""Content encoder, style encoder, decoder and discriminator: the four networks behind G, for any image size."""

from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from madod.models.compute import Compute
from madod.translation.blocks import InstanceNorm, InstanceResidual, StyledResidual, outer_conv, padded_conv, upsample


@dataclass(frozen=True)
class Architecture:
    """Sizes of G's networks; the defaults are for 224 px."""

    channels: int = 3
    width: int = 64
    """Channels of the first convolution; each of two downsamplings doubles them."""
    residuals: int = 4
    """Residual blocks in content encoder and in decoder."""
    outer_kernel: int = 7
    """Side of the first and the last convolution's kernel."""
    up_kernel: int = 5
    """Side of the kernels behind the decoder's upsamplings."""
    style: int = 8
    """Numbers in a style."""
    style_downs: int = 4
    """Stride-2 convolutions of the style encoder."""
    mlp: int = 256
    """Width of the map from a style to scales and shifts."""
    scales: int = 3
    """Scales at which the discriminator looks."""
    discriminator_downs: int = 4
    """Stride-2 convolutions of the discriminator at each scale."""


def architecture(shape: tuple[int, int, int]) -> Architecture:
    """Return sizes fit for images of a shape: the full ones from 128 px, smaller ones below."""
    channels, height, width = shape
    side = min(height, width)
    if side >= 128:
        return Architecture(channels)
    if side >= 64:
        return Architecture(channels, width=32, residuals=2, mlp=128, scales=2, discriminator_downs=3)
    return Architecture(
        channels,
        width=16,
        residuals=1,
        outer_kernel=5,
        up_kernel=3,
        style_downs=3,
        mlp=64,
        scales=2,
        discriminator_downs=2,
    )


def for_g(compute: Compute) -> Compute:
    """Return how G computes: channels last in compiled code alone, since plain instance norm would copy such maps."""
    return compute if compute.compiled else replace(compute, channels_last=False)


class ContentEncoder(nn.Module):
    """E_s: what an image shows, as maps at a quarter of its size."""

    def __init__(self, a: Architecture) -> None:
        super().__init__()
        w = a.width
        layers: list[nn.Module] = [outer_conv(a.channels, w, a.outer_kernel), InstanceNorm(), nn.ReLU()]
        for inside in (w, 2 * w):
            layers += [padded_conv(inside, 2 * inside, 4, stride=2), InstanceNorm(), nn.ReLU()]
        self.body = nn.Sequential(*layers, *(InstanceResidual(4 * w) for _ in range(a.residuals)))

    def forward(self, x: Tensor) -> Tensor:
        """Return content maps of images in [-1, 1]."""
        return self.body(x)


class StyleEncoder(nn.Module):
    """E_v: how an image looks, as a few numbers; no normalisation, which would wash the style out."""

    def __init__(self, a: Architecture) -> None:
        super().__init__()
        layers: list[nn.Module] = [outer_conv(a.channels, a.width, a.outer_kernel), nn.ReLU()]
        inside = a.width
        for _ in range(a.style_downs):
            outside = min(2 * inside, 4 * a.width)
            layers += [padded_conv(inside, outside, 4, stride=2), nn.ReLU()]
            inside = outside
        self.body = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inside, a.style))

    def forward(self, x: Tensor) -> Tensor:
        """Return styles (n, style) of images in [-1, 1]."""
        return self.body(x)


class Decoder(nn.Module):
    """D: content and style back to an image; the style enters as scales and shifts of AdaIN."""

    def __init__(self, a: Architecture) -> None:
        super().__init__()
        inside = 4 * a.width
        self.blocks = nn.ModuleList(StyledResidual(inside) for _ in range(a.residuals))
        self.mlp = nn.Sequential(
            nn.Linear(a.style, a.mlp),
            nn.ReLU(),
            nn.Linear(a.mlp, a.mlp),
            nn.ReLU(),
            nn.Linear(a.mlp, a.residuals * 4 * inside),
        )
        self.up = nn.Sequential(
            upsample(inside, inside // 2, a.up_kernel),
            upsample(inside // 2, inside // 4, a.up_kernel),
            outer_conv(inside // 4, a.channels, a.outer_kernel),
            nn.Tanh(),
        )

    def forward(self, content: Tensor, style: Tensor) -> Tensor:
        """Return images in [-1, 1]."""
        for block, part in zip(self.blocks, self.mlp(style).chunk(len(self.blocks), dim=1), strict=True):
            content = block(content, part)
        return self.up(content)


class Discriminator(nn.Module):
    """Tells real images from restyled ones, patch by patch, at several scales."""

    def __init__(self, a: Architecture) -> None:
        super().__init__()
        self.scales = nn.ModuleList(self.one_scale(a) for _ in range(a.scales))

    @staticmethod
    def one_scale(a: Architecture) -> nn.Sequential:
        """Return stride-2 convolutions and a 1x1 to one number per patch."""
        layers: list[nn.Module] = []
        inside, outside = a.channels, a.width
        for _ in range(a.discriminator_downs):
            layers += [padded_conv(inside, outside, 4, stride=2), nn.LeakyReLU(0.2)]
            inside, outside = outside, min(2 * outside, 8 * a.width)
        return nn.Sequential(*layers, nn.Conv2d(inside, 1, 1))

    def forward(self, x: Tensor) -> list[Tensor]:
        """Return one map of judgements a scale; 1 means real."""
        judgements = []
        for scale in self.scales:
            judgements.append(scale(x))
            x = F.avg_pool2d(x, 3, 2, padding=1, count_include_pad=False)
        return judgements


def initialise(net: nn.Module, rng: torch.Generator) -> None:
    """Draw every convolution and linear map anew from N(0, 2 / fan_in), biases zero [He et al. 2015]."""
    for layer in net.modules():
        if isinstance(layer, nn.Conv2d | nn.Linear):
            nn.init.kaiming_normal_(layer.weight, generator=rng)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
