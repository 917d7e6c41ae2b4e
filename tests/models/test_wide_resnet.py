import torch
from torch import nn

from madod.models.backbones import build
from madod.models.layers import group_norm
from madod.models.wide_resnet import wrn_16_2


def test_it_has_the_published_depth_and_size():
    net, features, *_ = wrn_16_2(3, group_norm)
    convolutions = [layer for layer in net.modules() if isinstance(layer, nn.Conv2d) and layer.kernel_size == (3, 3)]
    assert len(convolutions) + 3 == 16  # depth counts the projections of the three shortcuts
    assert features == 128
    head = (features + 1) * 10
    assert sum(weight.numel() for weight in net.parameters()) + head == 691_674


def test_live_batch_norm_is_a_choice():
    net = build("wrn_16_2", channels=3, classes=4, seed=0, norm="batch").train()
    before = net.featurizer.bn.running_mean.clone()
    with torch.no_grad():
        net(torch.rand(4, 3, 32, 32))
    assert not torch.equal(net.featurizer.bn.running_mean, before)
