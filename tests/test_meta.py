"""The exact rehearsal of convolutional networks, against reverse over reverse and finite differences, in float64."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call

from madod.meta import rehearse, step
from madod.models.backbones import build
from madod.models.classifier import Classifier
from madod.models.convolution import differentiated_twice
from madod.models.layers import FrozenBatchNorm

LR = 0.1


def pooled_net():
    """Return a small network with max-pooling and a frozen norm whose statistics are not trivial."""
    norm = FrozenBatchNorm(6)
    norm.running_mean.uniform_(-0.5, 0.5)
    norm.running_var.uniform_(0.5, 2)
    layers = nn.Conv2d(3, 6, 3, 2), norm, nn.ReLU(), nn.MaxPool2d(3, 2), nn.Conv2d(6, 4, 2, groups=2), nn.Flatten()
    return Classifier(nn.Sequential(*layers), 4 * 6 * 6, 4)


NETS = {
    "max-pooling": pooled_net,
    "small_cnn": lambda: build("small_cnn", channels=3, classes=4, seed=0),
    "small_cnn, frozen": lambda: build("small_cnn", channels=3, classes=4, seed=0, norm="frozen"),
    "resnet18": lambda: build("resnet18", channels=3, classes=4, seed=0),
    "resnet18, frozen": lambda: build("resnet18", channels=3, classes=4, seed=0, norm="frozen"),
}


@pytest.mark.parametrize("name", NETS)
def test_an_exact_rehearsal_has_the_gradient_of_both_losses(name):
    torch.manual_seed(0)
    net = NETS[name]().double()
    theta = dict(net.named_parameters())
    seen, fresh = torch.rand(2, 3, 3, 32, 32).double()
    y = torch.arange(3)

    def loss(params, images):
        return F.cross_entropy(functional_call(net, params, (images,)).logits, y)

    def total(params):
        with differentiated_twice():
            moved, train = rehearse(params, loss(params, seen), lr=LR)
            return train + loss(moved, fresh)

    ours = torch.autograd.grad(total(theta), list(theta.values()))
    train = loss(theta, seen)
    plain = train + loss(step(theta, train, lr=LR), fresh)
    for one, other in zip(ours, torch.autograd.grad(plain, list(theta.values())), strict=True):
        torch.testing.assert_close(one, other)

    way = {key: torch.randn_like(value) for key, value in theta.items()}
    there, back = (
        total({key: (value + far * way[key]).detach().requires_grad_() for key, value in theta.items()}).item()
        for far in (1e-9, -1e-9)  # at the kinks of ReLU the total jumps: further away lies one
    )
    slope = sum((one * part).sum().item() for one, part in zip(ours, way.values(), strict=True))
    assert (there - back) / 2e-9 == pytest.approx(slope, rel=1e-5)
