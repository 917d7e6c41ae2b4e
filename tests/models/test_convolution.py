"""Passes that are differentiated twice: the same numbers as PyTorch's, by smaller and fewer kernels."""

import os
import subprocess
import sys
from contextlib import nullcontext

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from madod.models.backbones import build
from madod.models.convolution import differentiated_twice
from madod.models.layers import _folding

KINDS = {
    "plain": ((4, 3, 3, 3), {}),
    "strided": ((4, 3, 3, 3), {"stride": 2, "padding": 1}),
    "strided, rows left over": ((4, 3, 1, 1), {"stride": (3, 2)}),
    "dilated": ((4, 3, 3, 2), {"dilation": (2, 1), "padding": (1, 0)}),
    "a kernel a channel": ((3, 1, 3, 3), {"groups": 3, "padding": 1}),
    "padding by name": ((4, 3, 3, 3), {"padding": "same"}),
}
close = torch.testing.assert_close


def twice(x, weight, bias, **how):
    """Return outputs, derivatives, and the derivatives of a function of these."""
    given = [tensor for tensor in (x, weight, bias) if tensor is not None and tensor.requires_grad]
    out = F.conv2d(x, weight, bias, **how)
    first = torch.autograd.grad(out.sin().sum(), given, create_graph=True)
    return (
        out,
        *first,
        *torch.autograd.grad(sum(slope.square().sum() for slope in first), given, materialize_grads=True),
    )


@pytest.mark.parametrize(
    ("constant", "bias"),
    [
        ("none", True), ("images", True), ("weight", True), ("images and weight", True),
        ("none", False), ("images", False), ("weight", False),
    ],
)  # fmt: skip
@pytest.mark.parametrize("kind", KINDS)
def test_both_derivatives_are_pytorchs(kind, bias, constant):
    shape, how = KINDS[kind]
    torch.manual_seed(0)
    x = torch.randn(2, 3, 7, 8).double().requires_grad_("images" not in constant)
    weight = torch.randn(shape).double().requires_grad_("weight" not in constant)
    shift = torch.randn(shape[0]).double().requires_grad_() if bias else None
    with differentiated_twice():
        ours = twice(x, weight, shift, **how)
    for one, other in zip(ours, twice(x, weight, shift, **how), strict=True):
        close(one, other)


def test_both_derivatives_agree_with_finite_differences():
    torch.manual_seed(0)
    given = [torch.randn(*shape).double().requires_grad_() for shape in ((2, 2, 5, 5), (3, 2, 3, 3), (3,))]

    def layer(x, weight, bias):
        with differentiated_twice():
            return F.conv2d(x, weight, bias, stride=2, padding=1)

    assert torch.autograd.gradcheck(layer, given)
    assert torch.autograd.gradgradcheck(layer, given)


class Kernels(TorchDispatchMode):
    """Notes what is computed, and the sides of all kernels that something is convolved with."""

    def __init__(self):
        super().__init__()
        self.names, self.sides = set(), set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.add(str(func))
        if func is torch.ops.aten.convolution.default:
            self.sides.add(tuple(args[1].shape[2:]))
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("within", [True, False])
def test_kernels_are_never_larger_than_the_layers(within):
    layers = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 2, 3, padding=1))
    with Kernels() as kernels:
        with differentiated_twice() if within else nullcontext():
            out = layers(torch.rand(2, 3, 12, 12)).square().sum()
        first = torch.autograd.grad(out, list(layers.parameters()), create_graph=True)
        sum(slope.square().sum() for slope in first).backward()
    assert (kernels.sides == {(3, 3)}) == within


@pytest.mark.parametrize("within", [True, False])
def test_frozen_norms_are_folded_within(within):
    net = build("resnet18", channels=3, classes=4, seed=0, norm="frozen")
    with Kernels() as kernels, differentiated_twice() if within else nullcontext():
        net(torch.rand(2, 3, 32, 32))
    assert any("batch_norm" in name for name in kernels.names) != within
    assert not _folding.get()


def test_a_third_derivative_is_refused():
    x = torch.rand(1, 1, 3, 3, requires_grad=True)
    with differentiated_twice():
        (first,) = torch.autograd.grad(F.conv2d(x, x).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        second.sum().backward()


BFLOAT16 = """
import torch
from contextlib import nullcontext
from madod.models.backbones import build
from madod.models.compute import Compute
from madod.models.convolution import differentiated_twice

def flat(slopes):
    return torch.cat([slope.flatten() for slope in slopes])

def curvature(precision, norm, where):
    net = build("small_cnn", channels=3, classes=4, seed=0, norm=norm, compute=Compute(precision, channels_last=True))
    images = torch.rand(4, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    weights = list(net.parameters())
    with where:
        loss = net(images).logits.logsumexp(1).mean()
    first = flat(torch.autograd.grad(loss, weights, create_graph=True))
    return flat(torch.autograd.grad(first.square().sum(), weights))

for norm in ("group", "frozen"):
    ours, exact = (curvature(precision, norm, differentiated_twice()) for precision in ("bfloat16", "float32"))
    plain = curvature("bfloat16", norm, nullcontext())
    assert not torch.equal(ours, exact)
    assert torch.cosine_similarity(ours, exact, 0) > 0.98
    assert torch.cosine_similarity(ours, plain, 0) > 0.9999
"""


def test_in_bfloat16_too():
    """In a process of its own, kept to kernels that all CPUs with bfloat16 have."""
    env = {**os.environ, "ONEDNN_MAX_CPU_ISA": "AVX512_CORE_FP16"}
    subprocess.run([sys.executable, "-c", BFLOAT16], env=env, check=True)
