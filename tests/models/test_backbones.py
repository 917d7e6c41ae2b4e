import pytest
import torch
from torch import nn

from madod.errors import InputError
from madod.models.backbones import BACKBONES, Normalize, build, resnet18, resnet50
from madod.models.layers import group_norm

WIDTHS = {"small_cnn": 128, "resnet18": 512, "resnet50": 2048, "resnet50_v1": 2048}
"""Where a width is worth fixing; any other network need only agree with its head."""
everyone = pytest.mark.parametrize("name", BACKBONES)


def images(n, channels=3, size=32, seed=0):
    return torch.rand(n, channels, size, size, generator=torch.Generator().manual_seed(seed))


@everyone
@pytest.mark.parametrize(("channels", "size"), [(3, 32), (3, 48), (1, 32)])
def test_shapes(name, channels, size):
    net = build(name, channels=channels, classes=5, seed=0).eval()
    with torch.no_grad():
        features, logits, own = net(images(2, channels, size))
    assert features.shape == (2, WIDTHS.get(name, net.head.in_features))
    assert logits.shape == (2, 5)
    assert own is None
    torch.testing.assert_close(net.head(features), logits)


@everyone
@pytest.mark.parametrize("training", [True, False])
def test_no_image_sees_another(name, training):
    net = build(name, channels=3, classes=4, seed=0).train(training).double()
    batch = torch.cat([images(3), 5 * images(1, seed=1)]).double()  # a batch norm would notice the last one
    with torch.no_grad():
        together = net(batch)
        alone = [net(image[None]) for image in batch]
    torch.testing.assert_close(torch.cat([out.features for out in alone]), together.features, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(torch.cat([out.logits for out in alone]), together.logits, rtol=1e-9, atol=1e-9)


@everyone
def test_a_step_leaves_no_trace_outside_the_weights(name):
    net = build(name, channels=3, classes=4, seed=0)
    assert not dict(net.named_buffers()).keys() & net.state_dict().keys()  # no running statistics
    assert not [layer for layer in net.modules() if isinstance(layer, nn.modules.batchnorm._BatchNorm | nn.Dropout)]


@everyone
def test_same_seed_same_weights_and_the_global_generator_is_left_alone(name):
    torch.manual_seed(5)
    before = torch.get_rng_state()
    one, same, other = (build(name, channels=3, classes=4, seed=seed).state_dict() for seed in (7, 7, 8))
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(value, same[key]) for key, value in one.items())
    assert not all(torch.equal(value, other[key]) for key, value in one.items())


@pytest.mark.parametrize(
    ("make", "blocks", "convs", "first"),
    [(resnet18, (2, 2, 2, 2), 2, 2), (resnet50, (3, 4, 6, 3), 3, 1)],
    ids=["resnet18", "resnet50"],
)
def test_resnets_carry_torchvisions_parameter_names(make, blocks, convs, first):
    expected = {"conv1.weight", "bn1.weight", "bn1.bias"}
    for stage, depth in enumerate(blocks, 1):
        for block in range(depth):
            prefix = f"layer{stage}.{block}"
            for k in range(1, convs + 1):
                expected |= {f"{prefix}.conv{k}.weight", f"{prefix}.bn{k}.weight", f"{prefix}.bn{k}.bias"}
            if block == 0 and stage >= first:
                parts = ("0.weight", "1.weight", "1.bias")
                expected |= {f"{prefix}.downsample.{part}" for part in parts}
    names = dict(make(3, group_norm).net.named_parameters())
    assert names.keys() == expected
    assert {"layer1.0.conv1.weight", "layer2.0.downsample.0.weight"} <= names.keys()


def test_resnets_have_torchvisions_sizes():
    for make, fewer_head in ((resnet18, 11_689_512 - 513 * 1000), (resnet50, 25_557_032 - 2049 * 1000)):
        assert sum(weight.numel() for weight in make(3, group_norm).net.parameters()) == fewer_head


def test_normalize_is_the_first_layer_and_no_part_of_the_weights():
    layer = Normalize((0.5, 0.2), (0.25, 0.1))
    out = layer(torch.tensor([0.75, 0.1]).view(1, 2, 1, 1))
    torch.testing.assert_close(out.flatten(), torch.tensor([1.0, -1.0]))
    assert not layer.state_dict()


def test_an_unknown_backbone_is_refused_by_name():
    with pytest.raises(InputError, match=r"no backbone 'resnet19' \(did you mean 'resnet18'\?\); there are: small_cnn"):
        build("resnet19", channels=3, classes=2, seed=0)
