import pytest
import torch
from torch import nn

from madod.models.backbones import BACKBONES, build
from madod.models.layers import FrozenBatchNorm

everyone = pytest.mark.parametrize("name", BACKBONES)


def scrambled(name):
    """Return a network with frozen BatchNorm whose statistics are like those of a trained one."""
    net = build(name, channels=3, classes=4, seed=0, norm="frozen")
    rng = torch.Generator().manual_seed(1)
    for layer in net.modules():
        if isinstance(layer, FrozenBatchNorm):
            layer.running_mean.normal_(generator=rng).mul_(0.1)
            layer.running_var.uniform_(0.5, 2.0, generator=rng)
    return net


def images(n, seed=0):
    return torch.rand(n, 3, 32, 32, generator=torch.Generator().manual_seed(seed))


def test_it_is_batch_norm_as_it_evaluates():
    frozen, usual = FrozenBatchNorm(5, eps=1e-3), nn.BatchNorm2d(5, eps=1e-3).eval()
    for norm in (frozen, usual):
        rng = torch.Generator().manual_seed(0)
        for tensor in (norm.weight.data, norm.bias.data, norm.running_mean, norm.running_var):
            tensor.uniform_(0.5, 2.0, generator=rng)
    x = torch.randn(3, 5, 4, 4)
    torch.testing.assert_close(frozen.train()(x), usual(x))


@everyone
@pytest.mark.parametrize("training", [True, False])
def test_a_joint_pass_equals_single_passes(name, training):
    net, batch = scrambled(name).train(training), torch.cat([images(2), 5 * images(1, seed=1)])
    with torch.no_grad():
        together, alone = net(batch).features, torch.cat([net(image[None]).features for image in batch])
    torch.testing.assert_close(alone, together, rtol=1e-4, atol=1e-4 * float(together.abs().max()))


@everyone
def test_statistics_stay_and_the_affine_map_learns(name):
    net = scrambled(name).train()
    before = {key: value.clone() for key, value in net.state_dict().items()}
    optimizer = torch.optim.SGD(net.parameters(), 1e-2)
    net(images(2)).logits.square().sum().backward()
    optimizer.step()
    for key, value in net.state_dict().items():
        if "running" in key:
            assert torch.equal(value, before[key]), key
    norms = [key.removesuffix("running_mean") for key in before if key.endswith("running_mean")]
    assert norms
    moved = [not torch.equal(net.state_dict()[f"{key}bias"], before[f"{key}bias"]) for key in norms]
    assert sum(moved) >= 0.9 * len(moved)


def test_gradients_of_gradients_are_exact():
    norm = FrozenBatchNorm(3).double()
    norm.running_var.uniform_(0.5, 2.0, generator=torch.Generator().manual_seed(0))
    x = torch.randn(2, 3, 2, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(lambda x: norm(x).square(), (x,))
