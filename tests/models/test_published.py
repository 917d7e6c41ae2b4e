"""Weights by a published name, from a server on this machine that holds a made-up file."""

import hashlib
import sys

import pytest
import torch

from madod.benchmark import work
from madod.benchmark.messages import Places
from madod.cli import bench
from madod.cli.main import main
from madod.errors import InputError
from madod.models import pretrained as room
from madod.models.backbones import BACKBONES, build
from madod.models.pretrained import PUBLISHED, Release, backbone_of, pretrained
from tests.benchmark.plans import MINI, written
from tests.data.server import running


def state(name):
    net = build(name, channels=3, classes=2, seed=3, norm="batch").featurizer
    return {**net.state_dict(), "fc.weight": torch.zeros(1000, 1), "fc.bias": torch.zeros(1000)}


@pytest.fixture(scope="module")
def content(tmp_path_factory):
    """The bytes of a file as torchvision publishes it."""
    file = tmp_path_factory.mktemp("weights") / "resnet18.pth"
    torch.save(state("resnet18"), file)
    return file.read_bytes()


@pytest.fixture
def published(content, monkeypatch):
    """A server with the file of a set named "made_up"."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    name = f"resnet18-{hashlib.sha256(content).hexdigest()[:8]}.pth"
    with running({f"/models/{name}": content}) as server:
        monkeypatch.setattr(room, "MIRRORS", (server.address("models/"),))
        monkeypatch.setitem(PUBLISHED, "made_up", Release(name, "resnet18"))
        yield server


def test_a_name_is_fetched_once_and_fills_the_network(published, content, tmp_path):
    said = []
    weights = pretrained("made_up", cache=tmp_path, progress=lambda *now: said.append(now))
    name = PUBLISHED["made_up"].file
    assert said[-1] == (name, len(content), len(content))
    assert weights.label == f"{name} sha256:{hashlib.sha256(content).hexdigest()}"
    net = build("resnet18", channels=3, classes=4, seed=0, weights=weights)
    assert torch.equal(net.featurizer.conv1.weight, state("resnet18")["conv1.weight"])
    assert pretrained("made_up", cache=tmp_path).sha256 == weights.sha256
    assert len(published.asked) == 1


def test_a_broken_download_goes_on(published, content, tmp_path):
    published.most = len(content) // 3
    assert pretrained("made_up", cache=tmp_path).sha256 == hashlib.sha256(content).hexdigest()
    assert len(published.asked) == 4


def test_another_file_under_the_name_is_refused(published, tmp_path):
    published.files = {path: content[:-1] + b"x" for path, content in published.files.items()}
    with pytest.raises(InputError, match=r"its SHA-256 is .* instead of .*put it at .*weights"):
        pretrained("made_up", cache=tmp_path)
    (tmp_path / "weights" / PUBLISHED["made_up"].file).write_bytes(next(iter(published.files.values())))
    with pytest.raises(InputError, match="not the file that was published: delete it"):
        pretrained("made_up", cache=tmp_path)


def test_without_a_network_one_sentence_says_what_to_put_where(published, content, tmp_path, monkeypatch, capsys):
    published.shutdown()
    published.server_close()
    monkeypatch.setenv("MADOD_CACHE", str(tmp_path))
    name = PUBLISHED["made_up"].file
    assert main(["train", "digits", "--backbone", "resnet18", "--pretrained", "made_up", "--out", str(tmp_path)]) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert f"cannot fetch {name} from" in line
    assert line.endswith(f"put it at {tmp_path / 'weights' / name}")
    (tmp_path / "weights" / name).write_bytes(content)
    assert pretrained("made_up").name == name


def test_a_sweep_keeps_them_in_the_cache_that_it_is_given(published, tmp_path, monkeypatch):
    monkeypatch.setenv("MADOD_CACHE", str(tmp_path / "unused"))
    plan = written(tmp_path, MINI.replace("steps = 60", 'steps = 60\nbackbone = "resnet18"\npretrained = "made_up"'))
    started = []
    monkeypatch.setattr(bench, "check_data", lambda jobs, *_: started.extend(jobs) or sys.exit())
    with pytest.raises(SystemExit):
        main(["bench", "run", str(plan), "--runs", str(tmp_path / "runs"), "--cache", str(tmp_path / "mine")])
    given = []
    monkeypatch.setattr(work, "run", lambda *_, weights, **__: given.append(weights.name))
    assert work.perform(started[0], Places(tmp_path / "runs", tmp_path / "mine")).outcome == "done"
    assert given == [file.name for file in (tmp_path / "mine" / "weights").glob("*.pth")]
    assert (len(published.asked), (tmp_path / "unused").exists()) == (1, False)


def test_strides_of_published_weights_are_known(tmp_path, monkeypatch):
    torch.save(state("resnet50"), tmp_path / "made.pth")
    content = (tmp_path / "made.pth").read_bytes()
    name = f"resnet50-{hashlib.sha256(content).hexdigest()[:8]}.pth"
    (tmp_path / "weights").mkdir()
    (tmp_path / "weights" / name).write_bytes(content)
    monkeypatch.setitem(PUBLISHED, "resnet50", PUBLISHED["resnet50"]._replace(file=name))
    weights = pretrained("resnet50", cache=tmp_path)
    build("resnet50", channels=3, classes=2, seed=0, weights=weights)
    with pytest.raises(InputError, match=r"strides: v1\.5 instead of v1"):
        build("resnet50_v1", channels=3, classes=2, seed=0, weights=weights)


def test_names_know_their_networks():
    assert {backbone_of(name) for name in PUBLISHED} <= set(BACKBONES)
    assert backbone_of("efficientnet_lite0") == "efficientnet_lite0"
    assert backbone_of("some/file.pth") is backbone_of(None) is None
    assert all(len(published.file.rpartition("-")[2]) == len("0676ba61.pth") for published in PUBLISHED.values())
