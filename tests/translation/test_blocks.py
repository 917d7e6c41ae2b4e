"""Each faster form of G's layers computes what the plain one does."""

import pytest
import torch
import torch.nn.functional as F

from madod.translation.blocks import LayerNorm, instance_norm
from madod.translation.convolutions import DoublingConv, TiledConv
from madod.translation.networks import Architecture, ContentEncoder, Decoder


@pytest.fixture
def compiling(monkeypatch):
    """Take the forms that are meant for a compiler, without one."""
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)


def drawn(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


@pytest.mark.parametrize("kernel", [3, 5, 7])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_a_doubling_convolution_is_doubling_and_convolution(kernel, layout):
    conv = DoublingConv(4, 6, kernel).double()
    x = drawn(2, 4, 9, 8).contiguous(memory_format=layout).requires_grad_()
    twice = F.interpolate(x, scale_factor=2, mode="nearest")
    plain = F.conv2d(twice, conv.weight, conv.bias, padding=kernel // 2)
    assert torch.allclose(conv(x), plain)
    weight = drawn(*plain.shape)
    ours, theirs = (torch.autograd.grad((y * weight).sum(), (x, conv.weight, conv.bias)) for y in (conv(x), plain))
    assert all(torch.allclose(a, b) for a, b in zip(ours, theirs, strict=True))


@pytest.mark.parametrize(("inside", "outside", "size"), [(3, 8, 7), (8, 3, 7), (3, 8, 5), (1, 2, 3), (6, 1, 5)])
@pytest.mark.parametrize("learning", [False, True])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_a_tiled_convolution_is_a_convolution(compiling, inside, outside, size, learning, layout):
    conv = TiledConv(inside, outside, size).double()
    x = drawn(2, inside, 16 + size - 1, 12 + size - 1).contiguous(memory_format=layout).requires_grad_(learning)
    plain = F.conv2d(x, conv.weight, conv.bias)
    assert torch.allclose(conv(x), plain)
    weight, wanted = drawn(*plain.shape), (*((x,) if learning else ()), conv.weight, conv.bias)
    ours, theirs = (torch.autograd.grad((y * weight).sum(), wanted) for y in (conv(x), plain))
    assert all(torch.allclose(a, b) for a, b in zip(ours, theirs, strict=True))


@pytest.mark.parametrize("inside", [3, 8])
def test_a_map_that_tiles_do_not_fill_is_convolved_plainly(compiling, inside):
    conv = TiledConv(inside, 8, 5).double()
    x = drawn(2, inside, 17, 19)
    assert torch.allclose(conv(x), F.conv2d(x, conv.weight, conv.bias))


def test_layer_norm_in_parts_is_group_norm_of_one_group(compiling):
    norm = LayerNorm(5).double()
    torch.nn.init.normal_(norm.weight)
    torch.nn.init.normal_(norm.bias)
    x = 3 * drawn(3, 5, 6, 7) + 2 + 4 * drawn(1, 5, 1, 1)
    assert torch.allclose(norm(x).double(), F.group_norm(x, 1, norm.weight, norm.bias), atol=1e-5)


def test_instance_norm_for_a_compiler_is_the_librarys(compiling):
    x = 3 * drawn(3, 5, 6, 7) + 2
    assert torch.allclose(instance_norm(x).double(), F.instance_norm(x), atol=1e-5)


def test_traced_networks_say_the_same_as_plain_ones():
    sizes = Architecture(width=4, residuals=1, mlp=8)
    encoder, decoder = ContentEncoder(sizes).double(), Decoder(sizes).double()
    x, v = drawn(2, 3, 16, 16), drawn(2, sizes.style)
    traced = [torch.compile(net, backend="eager", fullgraph=True) for net in (encoder, decoder)]
    content = encoder(x)
    torch.testing.assert_close(traced[0](x), content, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(traced[1](content, v), decoder(content, v), atol=1e-4, rtol=1e-4)
