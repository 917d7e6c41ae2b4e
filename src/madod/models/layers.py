"""What every backbone is made of: normalised inputs, and norms in which no image sees another."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from madod.models.tiles import FEW, conv_by_tiles

Norm = Callable[..., nn.Module]
"""Makes a norm of so many channels; takes `eps` too."""
NormName = Literal["group", "frozen", "batch"]


class Featurizer(NamedTuple):
    """A network without its head, and the width of what it returns."""

    net: nn.Module
    features: int
    rename: Callable[[str], str] = str
    """What a tensor of a file of weights is called in `net`."""
    strides: str = ""
    """Where bottlenecks carry their strides, "v1" or "v1.5"; empty where there are none."""


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


def imagenet(channels: int) -> Normalize:
    """Return the normalisation by ImageNet's mean and standard deviation."""
    return Normalize((0.485, 0.456, 0.406)[:channels], (0.229, 0.224, 0.225)[:channels])


def group_norm(channels: int, eps: float = 1e-5) -> nn.Module:
    """Return GroupNorm with groups of eight or more channels."""
    return nn.GroupNorm(max(1, min(32, channels // 8)), channels, eps)


class FrozenBatchNorm(nn.Module):
    """weight (x - mean) / sqrt(var + eps) + bias, with mean and var as they were loaded, in training too.

    The map's weight and bias are trained, as in DomainBed; the statistics never move.
    """

    running_mean: Tensor
    running_var: Tensor

    def __init__(self, channels: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(channels)), nn.Parameter(torch.zeros(channels))
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """Return x normalised by the stored statistics."""
        return F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, False, 0.0, self.eps)


def folded(conv: nn.Conv2d, norm: FrozenBatchNorm, x: Tensor) -> Tensor:
    """s (W * x - mean) + bias = (s W) * x + (bias - s mean), s = weight / sqrt(var + eps): a pass over memory less."""
    scale = norm.weight * (norm.running_var + norm.eps).rsqrt()
    weight, bias = conv.weight * scale.view(-1, 1, 1, 1), norm.bias - norm.running_mean * scale
    even = not any(pixels % 2 for pixels in x.shape[2:])
    if conv.in_channels <= FEW and even and (conv.stride, conv.dilation, conv.groups) == ((2, 2), (1, 1), 1):
        around = [int(pad) for pad in (conv.padding[1], conv.padding[1], conv.padding[0], conv.padding[0])]
        return conv_by_tiles(F.pad(x, around), weight, bias)
    return F.conv2d(x, weight, bias, conv.stride, conv.padding, conv.dilation, conv.groups)


_folding = ContextVar("_folding", default=False)


@contextmanager
def folding() -> Iterator[None]:
    """Fold frozen statistics into convolutions, within it, whether or not code is compiled."""
    before = _folding.set(True)
    try:
        yield
    finally:
        _folding.reset(before)


def normed(conv: nn.Conv2d, norm: nn.Module, x: Tensor) -> Tensor:
    """Return norm(conv(x)); frozen statistics are folded in compiled code, where it costs little, and in `folding`."""
    if isinstance(norm, FrozenBatchNorm) and (torch.compiler.is_compiling() or _folding.get()):
        return folded(conv, norm, x)
    return norm(conv(x))


NORMS: dict[NormName, Norm] = {"group": group_norm, "frozen": FrozenBatchNorm, "batch": nn.BatchNorm2d}
"""For training from scratch; for pretrained weights; and the usual one, in which images of a batch see each other."""


def usual_norm(*, pretrained: bool) -> NormName:
    """Return the norm of a network that starts with pretrained weights, or without."""
    return "frozen" if pretrained else "group"
