"""timm is an extra that these tests do without: a stand-in has what is used of it."""

import sys
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from madod.errors import InputError
from madod.models.backbones import build
from madod.models.pretrained import pretrained


class Net(nn.Module):
    def __init__(self, channels, norm):
        super().__init__()
        self.stem, self.norm = nn.Conv2d(channels, 6, 3), norm
        self.num_features = 6
        self.pretrained_cfg = {"mean": (0.5, 0.5, 0.5), "std": (0.5, 0.5, 0.5)}

    def forward(self, x):
        return self.norm(self.stem(x)).mean((2, 3))


NETS = {"with_batch_norm": lambda: nn.BatchNorm2d(6), "without": lambda: nn.GroupNorm(2, 6)}


def create_model(name, *, pretrained, num_classes, in_chans):
    assert not pretrained
    assert num_classes == 0
    return Net(in_chans, NETS[name]())


@pytest.fixture
def timm(monkeypatch):
    stand_in = SimpleNamespace(create_model=create_model, is_model=NETS.__contains__, list_models=lambda: list(NETS))
    monkeypatch.setitem(sys.modules, "timm", stand_in)


def test_where_timm_is_missing_a_sentence_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(InputError, match="pip install timm"):
        build("timm:resnet26", channels=3, classes=4, seed=0)


@pytest.mark.usefixtures("timm")
def test_an_unknown_network_is_refused_by_name():
    with pytest.raises(InputError, match=r"timm has no network 'withou' \(did you mean 'without'\?\)"):
        build("timm:withou", channels=3, classes=4, seed=0)


@pytest.mark.usefixtures("timm")
def test_a_network_without_batch_norm_starts_from_scratch():
    net = build("timm:without", channels=1, classes=4, seed=0)
    assert net(torch.rand(2, 1, 8, 8)).features.shape == (2, 6)


@pytest.mark.usefixtures("timm")
def test_batch_norm_wants_pretrained_weights_and_stays_frozen(tmp_path):
    with pytest.raises(InputError, match=r"has BatchNorm.*give a file of them"):
        build("timm:with_batch_norm", channels=3, classes=4, seed=0)
    state = {name: value + 1 for name, value in Net(3, nn.BatchNorm2d(6)).state_dict().items()}
    save_file({**state, "head.weight": torch.zeros(5, 6)}, tmp_path / "weights.safetensors")
    weights = pretrained(str(tmp_path / "weights.safetensors"))
    net = build("timm:with_batch_norm", channels=3, classes=4, seed=0, weights=weights).train()
    with torch.no_grad():
        net(torch.rand(4, 3, 8, 8))
    assert torch.equal(net.featurizer.model.norm.running_mean, state["norm.running_mean"])
    empty = build("timm:with_batch_norm", channels=3, classes=4, seed=1, norm="frozen")
    empty.load_state_dict(net.state_dict())
