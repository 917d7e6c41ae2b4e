"""Tiles as channels and back, and the convolution by way of them."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from madod.models.layers import FrozenBatchNorm, folded
from madod.models.tiles import conv_by_tiles, tiled, untiled


@pytest.mark.parametrize(("channels", "size", "padding"), [(3, 7, 3), (1, 3, 1), (4, 5, 2), (3, 4, 1)])
def test_tiles_of_pixels_as_channels_make_the_same_strided_convolution(channels, size, padding):
    conv = nn.Conv2d(channels, 5, size, 2, padding=padding).double()
    x = torch.randn(2, channels, 16, 12, dtype=torch.float64)
    torch.testing.assert_close(conv_by_tiles(F.pad(x, (padding,) * 4), conv.weight, conv.bias), conv(x))


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_tiles_come_and_go_without_a_change_of_layout(layout):
    x = torch.rand(2, 3, 8, 12).contiguous(memory_format=layout)
    tiles = tiled(x, 2)
    assert tiles.shape == (2, 12, 4, 6)
    assert torch.equal(tiles[:, 3 * 1 : 3 * 2], x[:, :, 0::2, 1::2])  # the upper right pixel of every tile
    assert torch.equal(tiles[:, 3 * 2 : 3 * 3], x[:, :, 1::2, 0::2])
    assert torch.equal(untiled(tiles, 2), x)
    assert all(part.is_contiguous(memory_format=layout) for part in (tiles, untiled(tiles, 2)))


def test_a_dilated_convolution_of_pictures_is_folded_without_tiles():
    conv, norm = nn.Conv2d(3, 5, 3, 2, padding=2, dilation=2, bias=False).double(), FrozenBatchNorm(5).double()
    x = torch.randn(2, 3, 16, 12, dtype=torch.float64)
    torch.testing.assert_close(folded(conv, norm, x), norm(conv(x)))
