import importlib.util
import math
import shutil
import sysconfig
from typing import Any

import pytest
import torch
from torch import nn

from madod.errors import InputError
from madod.models.backbones import build
from madod.models.compute import PLAIN, Compute, compute, limit_of_shapes, usual_precision
from madod.models.layers import FrozenBatchNorm, folded

CPU = torch.device("cpu")


def frozen_net() -> nn.Module:
    net = build("resnet18", channels=3, classes=4, seed=0, norm="frozen")
    rng = torch.Generator().manual_seed(0)
    for layer in net.modules():
        if isinstance(layer, FrozenBatchNorm):
            layer.running_mean.normal_(generator=rng).mul_(0.1)
            layer.running_var.uniform_(0.5, 1.5, generator=rng)
    return net.double()


def test_folding_frozen_statistics_is_exact_with_its_gradients():
    conv, norm = nn.Conv2d(3, 5, 3, 2, padding=1, bias=False).double(), FrozenBatchNorm(5, eps=1e-3).double()
    norm.running_mean.normal_()
    norm.running_var.uniform_(0.5, 2)
    nn.init.normal_(norm.weight)
    nn.init.normal_(norm.bias)
    x = torch.randn(2, 3, 8, 8, dtype=torch.float64)
    weights = [conv.weight, norm.weight, norm.bias]
    plain, fold = (torch.autograd.grad(out.sin().sum(), weights) for out in (norm(conv(x)), folded(conv, norm, x)))
    torch.testing.assert_close(folded(conv, norm, x), norm(conv(x)))
    torch.testing.assert_close(fold, plain)


def test_a_traced_network_says_the_same_as_a_plain_one():
    net, x = frozen_net(), torch.rand(2, 3, 32, 32, dtype=torch.float64)
    traced = torch.compile(net.features, backend="eager")
    torch.testing.assert_close(traced(x), net.features(x))


def test_small_pictures_and_processors_are_left_as_they_are():
    assert compute((3, 32, 32), CPU) == PLAIN
    assert compute((3, 224, 224), CPU) == Compute("float32", channels_last=True, compiled=False)


def test_compiling_waits_for_the_steps_that_repay_it():
    able = Compute("bfloat16", channels_last=True, compiled=True)
    assert able.over(700, least=700) == able
    assert able.over(699, least=700) == Compute("bfloat16", channels_last=True)
    assert able.over(1, least=700, insist=True).compiled
    assert not able.over(10**9, least=math.inf, insist=True).compiled
    assert not PLAIN.over(700, least=1, insist=True).compiled


def test_a_precision_that_cannot_be_is_refused():
    with pytest.raises(InputError, match="no precision 'float16'"):
        compute((3, 32, 32), CPU, "float16")
    with pytest.raises(InputError, match="cpu does not compute in bfloat16"):
        compute((3, 32, 32), CPU, "bfloat16")


@pytest.fixture
def gpu(monkeypatch, tmp_path) -> dict[str, Any]:
    """What a machine with a GPU says of itself."""
    (tmp_path / "Python.h").touch()
    said = {"capability": (8, 0), "gcc": "/usr/bin/gcc", "triton": "there", "headers": tmp_path}
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device=None: said["capability"])
    newest = lambda including_emulation=True: including_emulation or said["capability"] >= (8, 0)  # noqa: E731
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", newest)
    monkeypatch.setattr(shutil, "which", lambda name: said.get(name))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: said[name])
    monkeypatch.setattr(sysconfig, "get_default_scheme", lambda: "posix_local")
    monkeypatch.setattr(sysconfig, "get_path", lambda _, scheme: str(said["headers"] if scheme[6:] == "prefix" else ""))
    return said


def test_a_gpu_with_all_that_it_takes_compiles(gpu, monkeypatch):
    device = torch.device("cuda")
    assert compute((3, 224, 224), device, "bfloat16") == Compute("bfloat16", channels_last=True, compiled=True)
    assert usual_precision(224, gpu=True) == "bfloat16"
    gpu["gcc"] = None
    monkeypatch.setenv("CC", "/opt/cc")
    assert compute((3, 224, 224), device).compiled


@pytest.mark.parametrize(
    "lacking", [{"capability": (6, 1)}, {"gcc": None}, {"triton": None}, {"headers": "/nowhere"}], ids=str
)
def test_a_gpu_without_something_that_compiling_takes_does_without(gpu, lacking):
    gpu |= lacking
    assert compute((3, 224, 224), torch.device("cuda")) == Compute(channels_last=True)


def test_a_gpu_that_only_imitates_bfloat16_computes_in_float32(gpu):
    gpu["capability"] = (7, 5)
    assert usual_precision(224, gpu=True) == "float32"
    with pytest.raises(InputError, match="cuda does not compute in bfloat16"):
        compute((3, 224, 224), torch.device("cuda"), "bfloat16")
    assert compute((3, 224, 224), torch.device("cuda")).compiled


def test_a_process_compiles_for_batches_of_many_sizes(monkeypatch):
    made, compile_ = [], nn.Module.compile

    def backend(graph: torch.fx.GraphModule, given: object) -> object:
        made.append(graph)
        return graph.forward

    monkeypatch.setattr(nn.Module, "compile", lambda net, **how: compile_(net, backend=backend, **how))
    with torch._dynamo.config.patch(**{limit_of_shapes(): 8}):
        for n in range(2, 14):  # runs of a sweep, each with a network and a batch of its own
            net = build("small_cnn", channels=3, classes=4, seed=0, compute=Compute(compiled=True))
            net(torch.rand(n, 3, 8, 8))
    assert len(made) == 12


def test_layout_changes_neither_names_nor_numbers():
    x = torch.rand(2, 3, 64, 64)
    plain = build("resnet18", channels=3, classes=4, seed=0)
    laid = build("resnet18", channels=3, classes=4, seed=0, compute=Compute(channels_last=True))
    assert list(laid.state_dict()) == list(plain.state_dict())
    torch.testing.assert_close(laid(x).logits, plain(x).logits, atol=1e-4, rtol=1e-4)


def test_features_are_in_the_format_of_the_head():
    class Half(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.flatten(1).bfloat16()

    from madod.models.classifier import Classifier

    assert Classifier(Half(), 12, 2).features(torch.rand(1, 3, 2, 2)).dtype == torch.float32
