"""Pretrained weights through a whole run: what they decide, and that the saved model does without their file."""

import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

from madod.algorithms.base import ALGORITHMS
from madod.algorithms.madod import MadodConfig
from madod.benchmark.record import RunSpec, load_record
from madod.benchmark.resources import Resources
from madod.benchmark.run import run
from madod.benchmark.settings import hparams
from madod.cli.main import main
from madod.cli.train import arguments_of
from madod.data.digits import Digits
from madod.errors import InputError
from madod.fitting.choose import Choice
from madod.models.layers import FrozenBatchNorm
from madod.models.pretrained import pretrained
from madod.predict import load
from madod.training import train
from tests.models.test_pretrained import resnet18_tensors

RECORDS = sorted((Path(__file__).parents[2] / "results" / "digits").glob("digits-*"))
TINY = ["--algorithm", "erm", "--steps", "2", "--batch", "2", "--device", "cpu", "--quiet"]


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    file = tmp_path_factory.mktemp("weights") / "resnet18.safetensors"
    save_file(resnet18_tensors(), file)
    return file


def test_runs_without_pretrained_weights_keep_their_ids():
    assert len(RECORDS) > 90
    for folder in RECORDS:
        assert load_record(folder).spec.id == folder.name


def test_the_checksum_decides_the_id_and_the_name_does_not():
    plain = RunSpec("digits", "neon", ("4",), "erm")
    one, renamed, other = (
        replace(plain, pretrained=label) for label in ("a sha256:12", "b c sha256:12", "a sha256:34")
    )
    assert one.id == renamed.id
    assert len({plain.id, one.id, other.id}) == 3


@pytest.mark.parametrize("name", ALGORITHMS)
def test_presets_for_training_from_scratch_stay_out_of_pretrained_runs(name):
    config = ALGORITHMS[name].Config
    scratch, fine = hparams(name), hparams(name, pretrained=True)
    assert config(**fine) == config()
    assert config(**scratch) == config(**config.scratch)
    assert hparams(name, {"batch": 7}, pretrained=True) == {**fine, "batch": 7}


@pytest.mark.parametrize(
    ("flags", "lr"),
    [([], 1e-3), (["--pretrained", "none"], 1e-3), (["--pretrained", "w.pth"], 5e-5), (["--pretrained=w.pth"], 5e-5)],
)
def test_the_defaults_of_flags_follow_the_start(flags, lr):
    _, given = arguments_of(["digits", "--out", "out", "--algorithm", "erm", *flags])
    assert given["lr"] == lr


def test_flags_contradict_each_other_by_the_presets_that_are_chosen_and_by_no_others():
    words = ["pictures", "--out", "out", "--margin-in", "-4"]  # above the paper's margin_out
    arguments_of(words)
    chosen = Choice(224, "resnet50", "resnet50", 10, "augment", 0, "none", MadodConfig.advised)
    assert arguments_of(words, chosen)[1]["margin_out"] == -3
    with pytest.raises(InputError, match=r"margin_in -4 is not below margin_out -8"):
        arguments_of(words, replace(chosen, preset={}))


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    """Return a folder of two domains, two classes and six pictures of each."""
    root, rng = tmp_path_factory.mktemp("pictures"), np.random.default_rng(0)
    for place in itertools.product(("day", "night"), ("cat", "dog"), range(6)):
        target = root.joinpath(*map(str, place)).with_suffix(".png")
        target.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (32, 32, 3), np.uint8)).save(target)
    return root


def words(pictures, weights, out):
    start = ["train", str(pictures), "--out", str(out), "--cache", str(out / "cache"), "--backbone", "resnet18"]
    return [*start, "--pretrained", str(weights), *TINY]


def test_train_saves_a_model_that_needs_no_pretrained_file(file, pictures, tmp_path):
    borrowed = tmp_path / "borrowed.safetensors"
    borrowed.write_bytes(file.read_bytes())
    assert main(words(pictures, borrowed, tmp_path / "out")) == 0
    borrowed.unlink()
    model, record = load(tmp_path / "out"), load_record(tmp_path / "out")
    assert record.spec.pretrained.startswith("borrowed.safetensors sha256:")
    assert model.card.norm == "frozen"
    assert [layer for layer in model.net.modules() if isinstance(layer, FrozenBatchNorm)]
    assert torch.equal(model.net.featurizer.bn1.running_var, resnet18_tensors()["bn1.running_var"])
    files = sorted(pictures.rglob("*.png"))
    predicted = list(model.predict(files))
    assert predicted == list(load(tmp_path / "out").predict(files))
    assert len(predicted) == len(files)


def test_a_killed_run_goes_on_to_the_same_weights(file, pictures, tmp_path, monkeypatch):
    def killed(*args, steps, **how):
        train(*args, steps=1, **how)
        raise KeyboardInterrupt

    assert main(words(pictures, file, tmp_path / "whole")) == 0
    with monkeypatch.context() as patched:
        patched.setattr("madod.benchmark.run.train", killed)
        assert main(words(pictures, file, tmp_path / "torn")) == 130
    assert main(words(pictures, file, tmp_path / "torn")) == 0
    whole, torn = (load(tmp_path / name).net.state_dict() for name in ("whole", "torn"))
    assert all(torch.equal(value, torn[name]) for name, value in whole.items())


def test_a_run_refuses_other_weights_than_it_names(file, tmp_path):
    spec = RunSpec("digits", "neon", (), "erm", backbone="resnet18", hparams=hparams("erm"), pretrained="x sha256:1")
    for weights in (None, pretrained(str(file))):
        with pytest.raises(InputError, match="the run starts with x sha256:1: pass those weights"):
            run(spec, Digits(), out=tmp_path, resources=Resources(tmp_path, torch.device("cpu")), weights=weights)


def test_a_misfit_is_refused_before_g_is_trained(file, tmp_path, monkeypatch):
    monkeypatch.setattr("madod.benchmark.run.generator", lambda *args, **how: pytest.fail("G came first"))
    weights = pretrained(str(file))
    spec = RunSpec("digits", "neon", (), "madod", backbone="resnet50", hparams={}, pretrained=weights.label)
    with pytest.raises(InputError, match="does not fit resnet50"):
        run(spec, Digits(), out=tmp_path, resources=Resources(tmp_path, torch.device("cpu")), weights=weights)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (["--pretrained", "nowhere.pth"], "there is no file of weights 'nowhere.pth'"),
        (["--pretrained", "FILE"], "name the backbone too"),
        (["--pretrained", "FILE", "--backbone", "resnet50"], "resnet18.safetensors does not fit resnet50 (missing"),
    ],
)
def test_wrong_words_are_refused_in_a_sentence(file, tmp_path, capsys, wrong, said):
    wrong = [str(file) if word == "FILE" else word for word in wrong]
    assert main(["train", "digits", "--out", str(tmp_path / "out"), *TINY, *wrong]) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "out" / "record.json").exists()
