import json
import time
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch
from filelock import FileLock

from madod.benchmark import examiner
from madod.benchmark import generator as module
from madod.benchmark.examiner import Examiner
from madod.benchmark.generator import generator, settled
from madod.benchmark.resources import Resources
from madod.data.augment import Augmentation
from madod.data.base import DATASETS, Domain, pool
from madod.data.split import Split, split
from madod.models.compute import Compute
from madod.models.weights import Weights
from madod.progress import silent
from madod.storage import write_tensors

SMALL = {"LEG": 2, "MOST": 12}
WEIGHTS = Weights("w.pth", "ab" * 32, {})


def made(cache, steps, progress=silent):
    dataset = DATASETS["digits"]()
    parts = split(dataset, test_domain="neon", ood_classes=("4",), split_seed=0)
    few = parts._replace(source=parts.source.subset(torch.arange(0, len(parts.source), 40)),
                         val=parts.val.subset(torch.arange(0, len(parts.val), 10)))  # fmt: skip
    resources = Resources(cache, torch.device("cpu"), waive_gate=True, progress=progress)
    return generator(few, Examiner("small_cnn", dataset.augmentation), resources, steps=steps)


@pytest.fixture
def small(monkeypatch):
    for name, value in SMALL.items():
        monkeypatch.setattr(module, name, value)
    monkeypatch.setattr(examiner, "JUDGE_STEPS", 1)


class Stop(Exception):  # noqa: N818
    """Raised in place of a training."""


@pytest.mark.parametrize(
    ("size", "weights", "precision", "key"),
    [
        (32, None, "float32", "0bccb84b8e64b04d4e9d"),
        (32, WEIGHTS, "float32", "0323bfe55ddf46d6044d"),
        (128, None, "float32", "8e86d0b134f933519bb1"),
        (128, WEIGHTS, "bfloat16", "5c88622ce4fab100f95c"),
    ],
)
def test_keys_last(tmp_path, monkeypatch, size, weights, precision, key):
    """A key that changes has everybody train every G again."""
    y, pixels = torch.arange(4) % 2, torch.arange(4 * 3 * size * size) % 251
    images = pixels.byte().view(4, 3, size, size)
    both = pool([Domain(name, images, y, y) for name in ("a", "b")], ["k", "l"], ["k", "l"])
    parts = Split(both, both.subset(torch.arange(4)), both.subset(torch.arange(0)))
    monkeypatch.setattr(module, "Munit", Mock(side_effect=Stop))
    judge, resources = Examiner("resnet18", Augmentation(), weights), Resources(tmp_path, torch.device("cpu"))
    with pytest.raises(Stop):
        generator(parts, judge, resources, steps=200, compute=Compute(precision))
    assert [folder.name for folder in (tmp_path / "generators").iterdir()] == [key]


def test_training_ends_when_held_out_images_are_rebuilt_no_better():
    falling = [1.0, 0.9, 0.8, 0.7, 0.6, 0.5]
    assert not settled(falling)
    assert settled([*falling, 0.5, 0.495, 0.51])
    assert not settled([*falling, 0.5, 0.48, 0.51])
    assert not settled([1.0, 1.0])


def test_training_ends_at_the_most_steps(monkeypatch):
    monkeypatch.setattr(module, "MOST", 600)
    assert settled([1.0, 0.9, 0.8, 0.7, 0.6, 0.5])


def test_a_given_number_of_steps_is_kept(tmp_path, small):
    judged = made(tmp_path, 3).judgement
    assert judged["steps"] == 3
    assert 0 < judged["reconstruction"] < 2


def test_a_criterion_ends_training_and_a_kill_changes_nothing(tmp_path, small):
    whole = made(tmp_path / "whole", 0)
    taken = whole.judgement["steps"]
    assert module.PATIENCE * SMALL["LEG"] < taken <= SMALL["MOST"]
    (curve,) = tmp_path.glob("whole/generators/*/reconstruction.json")
    assert len(json.loads(curve.read_text())) == taken // SMALL["LEG"]

    def killed(stage, done, total):
        if done == 5 or (stage == "generator" and done == 4):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        made(tmp_path / "killed", 0, killed)
    again = made(tmp_path / "killed", 0)
    assert again.judgement == whole.judgement
    assert again.earlier > 0
    assert whole.earlier == made(tmp_path / "killed", 0).earlier == 0
    for (name, one), other in zip(
        whole.translate.state_dict().items(), again.translate.state_dict().values(), strict=True
    ):
        assert torch.equal(one, other), name


def other(file: Path, **facts: object) -> None:
    """Let a judgement of before there were checksums say something other."""
    held = {name: value for name, value in json.loads(file.read_text()).items() if name != module.CHECKSUM}
    file.write_text(json.dumps(held | facts))


def another_digit(file: Path) -> None:
    file.write_text(file.read_text().replace('"steps": 2', '"steps": 3'))


def flipped(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[-1001] ^= 0x40
    file.write_bytes(content)


def cut(file: Path, length: int) -> None:
    file.write_bytes(file.read_bytes()[:length])


DAMAGES = {
    "no judgement": ("judgement.json", lambda file: cut(file, 0)),
    "a list": ("judgement.json", lambda file: file.write_text("[]")),
    "a number": ("judgement.json", lambda file: file.write_text("5")),
    "too much": ("judgement.json", lambda file: other(file, taste=1.0)),
    "a text": ("judgement.json", lambda file: other(file, retention="x")),
    "null": ("judgement.json", lambda file: other(file, reconstruction=None)),
    "another digit": ("judgement.json", another_digit),
    "a bit of G": ("generator.safetensors", flipped),
    "half of G": ("generator.safetensors", lambda file: cut(file, 30_000)),
    "none of G": ("generator.safetensors", lambda file: cut(file, 0)),
    "another G": ("generator.safetensors", lambda file: write_tensors(file, {"x": torch.ones(1)}, {})),
    "no picture": ("grid.png", lambda file: cut(file, 0)),
}  # fmt: skip


@pytest.mark.parametrize(("name", "damage"), DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_generator_is_made_again(tmp_path, small, caplog, name, damage):
    whole = made(tmp_path, 2)
    (file,) = tmp_path.glob(f"generators/*/{name}")
    damage(file)
    for _ in range(2):
        again = made(tmp_path, 2)
        assert again.judgement == whole.judgement
        assert again.grid == whole.grid
        for one, two in zip(whole.translate.parameters(), again.translate.parameters(), strict=True):
            assert torch.equal(one, two)
    assert caplog.text.count("making G again, since it is damaged: ") == 1
    assert str(file.parent) in caplog.text


@pytest.mark.parametrize("damage", [lambda file: cut(file, 30_000), lambda file: write_tensors(file, {}, {})])
def test_one_without_a_checksum_is_taken_unless_it_cannot_be(tmp_path, small, caplog, damage):
    whole = made(tmp_path, 2).judgement
    (file,) = tmp_path.glob("generators/*/judgement.json")
    other(file)
    assert made(tmp_path, 2).judgement == whole
    assert not caplog.text
    damage(file.with_name("generator.safetensors"))
    assert made(tmp_path, 2).judgement == whole
    assert "making G again, since it is damaged: " in caplog.text


def test_a_damaged_curve_has_training_start_again(tmp_path, small, caplog):
    whole = made(tmp_path / "whole", 0).judgement

    def killed(stage, done, total):
        if stage == "judge of G":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        made(tmp_path / "killed", 0, killed)
    (file,) = tmp_path.glob("killed/generators/*/reconstruction.json")
    file.write_text("", encoding="utf-8")
    assert made(tmp_path / "killed", 0).judgement == whole
    assert f"training G again, since {file} is damaged" in caplog.text


def test_a_generator_goes_on_with_its_own_threads_and_leaves_the_run_its_own(tmp_path, small, monkeypatch):
    """A run of a sweep may go on with a G that a process with other threads began."""
    seen, before = [], torch.get_num_threads()

    def killed(stage, done, total):
        if stage == "judge of G":
            raise KeyboardInterrupt

    def noting(stage, done, total):
        seen.append((stage, torch.get_num_threads()))

    monkeypatch.setattr("madod.training.cores", lambda: 3)
    try:
        torch.set_num_threads(3)
        with pytest.raises(KeyboardInterrupt):
            made(tmp_path, 3, killed)
        torch.set_num_threads(2)
        made(tmp_path, 3, noting)
        assert set(seen) == {("judge of G", 3)}
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_a_small_judge_looks_at_large_pictures():
    net = examiner.small_judge(channels=3, classes=4, seed=0)
    images = torch.rand(2, 3, 130, 150)
    assert torch.equal(net(images).logits, net(torch.nn.functional.adaptive_avg_pool2d(images, 32)).logits)


def test_the_time_that_another_process_takes_is_told_apart(tmp_path, small, monkeypatch):
    assert made(tmp_path, 1).waited < 0.5

    @contextmanager
    def held_elsewhere(file):
        time.sleep(0.5)
        with FileLock(file):
            yield

    monkeypatch.setattr(module, "FileLock", held_elsewhere)
    assert made(tmp_path, 1).waited >= 0.5
