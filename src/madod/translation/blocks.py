"""The pieces that G's networks are made of."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from madod.translation.convolutions import DoublingConv, TiledConv


def instance_norm(x: Tensor, eps: float = 1e-5) -> Tensor:
    """IN(x) = (x - mean) / sqrt(var + eps) over the pixels of each image and channel [Ulyanov et al. 2016, eq. 2]."""
    if not torch.compiler.is_compiling():
        return F.instance_norm(x, eps=eps)
    # The library's own reshapes channels-last maps, and that copies them; a compiler fuses this form.
    variance, mean = torch.var_mean(x.float(), (2, 3), correction=0, keepdim=True)
    return ((x - mean) * torch.rsqrt(variance + eps)).to(x.dtype)


class InstanceNorm(nn.Module):
    """Instance norm as a layer, without weights."""

    def forward(self, x: Tensor) -> Tensor:
        """Return maps of mean 0 and variance 1."""
        return instance_norm(x)


def padded_conv(inside: int, outside: int, size: int, stride: int = 1) -> nn.Sequential:
    """Return a convolution behind reflection padding, so that borders look like the rest of the picture."""
    pad = (size - stride + 1) // 2
    return nn.Sequential(nn.ReflectionPad2d(pad), nn.Conv2d(inside, outside, size, stride))


def outer_conv(inside: int, outside: int, size: int) -> nn.Sequential:
    """Return the convolution from a picture, or to one, behind reflection padding."""
    return nn.Sequential(nn.ReflectionPad2d(size // 2), TiledConv(inside, outside, size))


def whole_quarters(images: Tensor) -> Tensor:
    """Return images grown at the right and bottom, by reflection, until two halvings leave whole numbers of pixels."""
    height, width = images.shape[2:]
    return F.pad(images, (0, -width % 4, 0, -height % 4), mode="reflect")


AT_ONCE = 200_000
"""Pixels that go through G at a time on a CPU: three images of 224 px, which take 4 GiB in training."""


def at_once(images: Tensor) -> int:
    """Return how many images go through G in one pass: all on a GPU, on a CPU what fits into its memory."""
    return len(images) if images.is_cuda else max(1, AT_ONCE // images.shape[2:].numel())


class InstanceResidual(nn.Module):
    """x + IN(conv(relu(IN(conv(x)))))."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            padded_conv(channels, channels, 3),
            InstanceNorm(),
            nn.ReLU(),
            padded_conv(channels, channels, 3),
            InstanceNorm(),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return the sum of input and residual."""
        return x + self.body(x)


def adain(x: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    """AdaIN(x) = (1 + scale) IN(x) + shift, one scale and shift an image and channel [Huang & Belongie 2017, eq. 8]."""
    return instance_norm(x) * (1 + scale[..., None, None]) + shift[..., None, None]


class StyledResidual(nn.Module):
    """x + AdaIN(conv(relu(AdaIN(conv(x))))), scales and shifts given from outside."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = padded_conv(channels, channels, 3)
        self.second = padded_conv(channels, channels, 3)

    def forward(self, x: Tensor, style: Tensor) -> Tensor:
        """Return the sum of input and residual; style (n, 4 * channels)."""
        scale1, shift1, scale2, shift2 = style.chunk(4, dim=1)
        inner = torch.relu(adain(self.first(x), scale1, shift1))
        return x + adain(self.second(inner), scale2, shift2)


class LayerNorm(nn.GroupNorm):
    """LN(x) = w (x - mean) / sqrt(var + eps) + b over all of an image's maps, w and b a channel [Ba et al. 2016]."""

    def __init__(self, channels: int) -> None:
        super().__init__(1, channels)

    def forward(self, x: Tensor) -> Tensor:
        """Return maps of mean 0 and variance 1, scaled and shifted."""
        if not torch.compiler.is_compiling():
            return super().forward(x)
        # One sum over a whole image keeps one unit of a GPU busy; sums over channels, put together, keep all.
        variance, mean = torch.var_mean(x.float(), (2, 3), correction=0, keepdim=True)
        middle = mean.mean(1, keepdim=True)
        spread = (variance + (mean - middle).square()).mean(1, keepdim=True)
        scale, shift = self.weight[:, None, None], self.bias[:, None, None]
        return ((x - middle) * torch.rsqrt(spread + self.eps) * scale + shift).to(x.dtype)


def upsample(inside: int, outside: int, kernel: int) -> nn.Sequential:
    """Return nearest-neighbour doubling with a convolution, and layer norm."""
    return nn.Sequential(DoublingConv(inside, outside, kernel), LayerNorm(outside), nn.ReLU())
