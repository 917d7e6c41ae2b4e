"""Tiles of pixels as channels, and channels as tiles of pixels: convolutions in the shapes that a GPU is good at."""

import torch
import torch.nn.functional as F
from torch import Tensor

FEW = 4
"""Channels up to which a convolution goes by tiles: those of pictures."""


def laid_like(x: Tensor, other: Tensor) -> Tensor:
    """Return x with channels last in memory where another tensor has them last, so that no convolution copies it."""
    last = torch.channels_last
    return x.contiguous(memory_format=last) if other.is_contiguous(memory_format=last) else x


def tiled(x: Tensor, side: int) -> Tensor:
    """Make channels of the pixels of every tile, (n, c, s h, s w) to (n, s s c, h, w); channels last stay last."""
    if x.is_contiguous(memory_format=torch.channels_last):
        tiles = x.permute(0, 2, 3, 1).unflatten(2, (-1, side)).unflatten(1, (-1, side))
        return tiles.transpose(2, 3).flatten(3, 5).permute(0, 3, 1, 2)
    tiles = x.unflatten(3, (-1, side)).unflatten(2, (-1, side))
    return tiles.permute(0, 3, 5, 1, 2, 4).flatten(1, 3)


def untiled(x: Tensor, side: int) -> Tensor:
    """Make tiles of pixels of the channels, (n, s s c, h, w) to (n, c, s h, s w); channels last stay last."""
    if x.is_contiguous(memory_format=torch.channels_last):
        tiles = x.permute(0, 2, 3, 1).unflatten(3, (side, side, -1))
        return tiles.transpose(2, 3).flatten(3, 4).flatten(1, 2).permute(0, 3, 1, 2)
    return x.unflatten(1, (side, side, -1)).permute(0, 3, 4, 1, 5, 2).flatten(4, 5).flatten(2, 3)


def conv_by_tiles(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Convolve pictures (n, c, 2h, 2w) with stride 2, pixels of tiles made channels first.

    Exact, and kind to a GPU, whose matrix units take channels by eights and are idle over a picture's three.
    """
    odd, spare = weight.shape[-1] % 2, -4 * x.shape[1] % 8
    around = F.pad(weight, (0, odd, 0, odd))
    pictures, kernel = (laid_like(F.pad(tiled(part, 2), (0, 0, 0, 0, 0, spare)), weight) for part in (x, around))
    return F.conv2d(pictures, kernel, bias)
