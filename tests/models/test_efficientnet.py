import pytest
import torch

from madod.errors import InputError
from madod.models.backbones import build
from madod.models.efficientnet import SameConv, efficientnet_lite0, without_underscores
from madod.models.layers import group_norm
from madod.models.pretrained import PACKAGED, pretrained
from tests.models.real import needs_photos, share_right

WANTED = PACKAGED["efficientnet_lite0"]


def test_it_has_the_published_size():
    parameters = sum(weight.numel() for weight in efficientnet_lite0(3, group_norm).net.parameters())
    assert parameters == 4_652_008 - 1281 * 1000


@pytest.mark.parametrize(
    ("size", "kernel", "stride"), [(8, 3, 1), (8, 3, 2), (7, 3, 2), (8, 5, 2), (9, 5, 2), (5, 1, 1)]
)
def test_padding_is_tensorflows(size, kernel, stride):
    conv = SameConv(1, 1, kernel, stride, bias=False)
    x, outside = torch.randn(1, 1, size, size), -(-size // stride)
    total = max((outside - 1) * stride + kernel - size, 0)
    padded = torch.zeros(1, 1, size + total, size + total)
    padded[..., total // 2 : total // 2 + size, total // 2 : total // 2 + size] = x
    out = conv(x)
    assert out.shape[2:] == (outside, outside)
    for row in range(outside):
        patch = padded[0, 0, row * stride : row * stride + kernel, :kernel]
        torch.testing.assert_close(out[0, 0, row, 0], (patch * conv.weight[0, 0]).sum())


def test_pixels_arrive_as_the_weights_want_them():
    net = efficientnet_lite0(3, group_norm).net
    levels = torch.tensor([0.0, 127.0, 255.0]).view(3, 1, 1, 1).expand(3, 3, 1, 1)
    torch.testing.assert_close(net.normalize(levels / 255), (levels - 127) / 128)


def test_names_of_the_package_lose_their_underscores():
    assert without_underscores("_blocks.3._bn1.running_mean") == "blocks.3.bn1.running_mean"


def test_the_package_fills_the_network():
    weights = pretrained("efficientnet_lite0")
    net = build("efficientnet_lite0", channels=3, classes=4, seed=0, weights=weights)
    assert weights.sha256.startswith("57934424")
    assert torch.equal(net.featurizer.blocks[3].bn1.running_mean, weights.tensors["_blocks.3._bn1.running_mean"])
    assert net.featurizer.bn0.eps == 1e-3


def test_another_file_than_expected_is_refused(monkeypatch):
    monkeypatch.setitem(PACKAGED, "efficientnet_lite0", WANTED._replace(sha256="0000"))
    with pytest.raises(InputError, match="holds another file than expected"):
        pretrained("efficientnet_lite0")


@needs_photos
def test_real_weights_classify_real_photographs():
    weights = pretrained("efficientnet_lite0")
    net = build("efficientnet_lite0", channels=3, classes=4, seed=0, weights=weights).featurizer
    right = share_right(net, weights.tensors["_fc.weight"], weights.tensors["_fc.bias"])
    assert sum(right.values()) / len(right) > 0.7, right
