"""The rules that choose for a person: every one by the numbers that they state."""

import dataclasses
import itertools
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch

from madod.algorithms.base import ALGORITHMS
from madod.benchmark.record import RunSpec
from madod.benchmark.settings import hparams
from madod.data.augment import NONE
from madod.data.digits import Digits
from madod.detectors.base import DETECTORS
from madod.errors import InputError
from madod.fitting import choose as room
from madod.fitting.check import Fold, best_detector, fold_spec, offered
from madod.fitting.choose import Wishes, choose
from madod.fitting.estimate import Pace, _seconds_a_step, estimate, told

CONFIG = ALGORITHMS["madod"].Config


@pytest.fixture(params=[True, False], ids=["package", "no package"])
def packaged(request, monkeypatch) -> bool:
    monkeypatch.setattr(room, "installed", lambda: request.param)
    return request.param


@pytest.mark.parametrize("gpu", [True, False], ids=["GPU", "CPU"])
@pytest.mark.parametrize("side", [8, 48, 49, 96, 130, 4000])
def test_a_folder_is_chosen_for_by_its_pictures_and_the_machine(packaged, gpu, side):
    found = choose(Wishes(), side, own=True, gpu=gpu, config=CONFIG)
    if side <= 48:
        assert (found.size, found.backbone, found.pretrained) == (32, "small_cnn", "none")
    elif not packaged:
        assert (found.size, found.backbone, found.pretrained) == (64, "resnet18", "none")
    else:
        assert found.size == (96 if not gpu else {49: 96, 96: 96, 130: 160, 4000: 224}[side])
        assert (found.backbone, found.pretrained) == ("efficientnet_lite0",) * 2
    slow = not gpu and found.pretrained != "none"
    small = {"tasks": 2, "shots": 2, "lr": 3e-4} if slow else {}
    assert found.preset == ({} if found.pretrained == "none" else CONFIG.advised | small)
    assert found.steps == (500 if found.backbone == "small_cnn" else 300 if slow else 1200 if found.preset else 1000)
    assert found.translate == ("augment" if not gpu and found.size > 64 else "munit")
    assert found.check == "short"
    assert any(f"size {found.size} px" in reason for reason in found.reasons)
    assert any(found.backbone in reason for reason in found.reasons)
    if found.preset:
        assert any("--average 0.5, --own-outputs, --outer-invariance 1," in reason for reason in found.reasons)
        assert any("--shots 2" in reason for reason in found.reasons) == slow


def test_what_is_named_is_taken_and_needs_no_reason(packaged):
    wishes = Wishes(40, "resnet18", "none", 7, "munit", 3, "none")
    found = choose(wishes, 500, own=True, gpu=False)
    assert dataclasses.astuple(found)[:7] == (40, "resnet18", "none", 7, "munit", 3, "none")
    assert found.reasons == ()
    assert choose(Wishes(translate_steps=3), 500, own=True, gpu=False).translate == "munit"
    assert choose(Wishes(pretrained="none"), 500, own=True, gpu=False).backbone == "resnet18"


def test_a_published_dataset_is_not_changed_to_suit_a_cpu(packaged):
    found = choose(Wishes(size=224), 224, own=False, gpu=False, config=CONFIG)
    assert (found.translate, found.check, found.preset, found.steps) == ("munit", "none", {}, 1000)


def test_a_check_and_a_test_kept_apart_exclude_each_other(packaged):
    assert choose(Wishes(test_domain="a"), 32, own=True, gpu=False).check == "none"
    with pytest.raises(InputError, match="a short check"):
        choose(Wishes(check="short", ood_classes=("z",)), 32, own=True, gpu=False)


def test_a_fold_is_shorter_without_g_and_without_a_class():
    spec = RunSpec("d", None, (), "erm", steps=100, translate="munit")
    digits = Digits()
    hidden = set()
    for domain in digits.domains:
        short, full = (fold_spec(spec, digits, domain, how) for how in ("short", "full"))
        assert (short.test_domain, short.steps, short.translate) == (domain, 25, "augment")
        assert (full.test_domain, full.steps, full.translate) == (domain, 100, "munit")
        assert short.ood_classes == full.ood_classes
        hidden |= set(short.ood_classes)
    assert len(hidden) == len(digits.domains)


class Untouchable(Digits):
    """Digits whose classes no augmentation leaves intact."""

    augmentation = NONE


def test_a_fold_keeps_g_where_plain_augmentation_varies_nothing():
    spec = RunSpec("d", None, (), "madod", steps=100, translate="munit")
    assert fold_spec(spec, Untouchable(), "ink", "short").translate == "munit"


@pytest.mark.parametrize("algorithm", ["erm", "mbdg"])
def test_a_control_that_varies_nothing_is_refused_where_a_method_asks_for_it(algorithm):
    spec = RunSpec("d", "neon", ("4",), algorithm, translate="augment", hparams=hparams(algorithm, {"batch": 2}))
    with pytest.raises(InputError, match="munit") if algorithm == "mbdg" else nullcontext():
        estimate(spec, Untouchable(), None, torch.device("cpu"))


def test_the_detector_is_the_best_over_the_folds():
    def fold(**auroc: float) -> Fold:
        return Fold("d", "c", 1, 0, 0.5, None, auroc, {}, [])

    scratch = RunSpec("d", None, (), "erm")
    fine = dataclasses.replace(scratch, pretrained="file sha256:12")
    assert best_detector([fold(msp=0.9, ddu=0.6), fold(msp=0.5, ddu=0.9), fold()], scratch) == "ddu"
    assert best_detector([fold()], scratch) == best_detector([], scratch) == "energy"
    assert best_detector([fold(msp=0.9, knn=0.95)], scratch) == "msp"  # one that was asked for, and not on offer
    assert best_detector([fold(msp=0.9, knn=0.95)], fine) == "knn"
    assert best_detector([], fine) == "knn"
    assert set(offered(scratch)) < set(offered(fine)) <= set(DETECTORS)


def test_lengths_of_time_are_told_in_words():
    spec = RunSpec("d", None, (), "erm", steps=100, translate_steps=10)
    assert Pace(0.5, 0.0).seconds(spec) == 50
    assert Pace(0.5, 2.0).seconds(spec) == 50 + 20 + 150 * 0.5
    assert Pace(0.5, 2.0).seconds(dataclasses.replace(spec, translate="augment")) == 50
    assert [told(n) for n in (0.2, 7.6, 44, 89, 600, 9000)] == [
        "about a second", "about 8 seconds", "about 40 seconds", "about 90 seconds", "about 10 minutes",
        "about 2.5 hours",
    ]  # fmt: skip


def test_a_step_is_timed_by_the_middle_one_of_three_behind_the_first(monkeypatch):
    """The quickest promises what a busy machine does not hold."""
    clock = [0.0]
    lengths = iter([9.0, 1.0, 3.0, 2.0])

    def update(batch):
        clock[0] += next(lengths)

    learner = SimpleNamespace(batches=lambda source, rng: itertools.repeat(None), update=update)
    monkeypatch.setattr("madod.fitting.estimate.time.perf_counter", lambda: clock[0])
    assert _seconds_a_step(learner, None, torch.device("cpu")) == 2.0
    assert next(lengths, None) is None


def test_g_is_trained_until_it_settles_from_full_size_on():
    assert choose(Wishes(128), 128, own=False, gpu=False).translate_steps == 0
    assert choose(Wishes(127), 127, own=False, gpu=False).translate_steps == 200
    assert choose(Wishes(224, translate_steps=5), 224, own=False, gpu=False).translate_steps == 5


def test_a_cpu_computes_in_float32_unless_told_otherwise():
    assert choose(Wishes(224), 224, own=False, gpu=False).precision == "float32"
    assert choose(Wishes(224, precision="bfloat16"), 224, own=False, gpu=False).precision == "bfloat16"


@pytest.mark.parametrize(("gpu", "size"), [(True, 224), (False, 96)])
def test_weights_of_ones_own_get_the_size_of_a_pretrained_network(packaged, gpu, size):
    assert choose(Wishes(backbone="resnet50", pretrained="resnet50"), 300, own=True, gpu=gpu).size == size
