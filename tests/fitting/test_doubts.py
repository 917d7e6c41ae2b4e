"""A training says what not to rely on, why, and what to do; and nothing where there is nothing to say."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from madod.benchmark.record import RunSpec
from madod.fitting.check import Fold
from madod.fitting.doubts import doubts
from madod.fitting.strangers import Strangers
from madod.predict import Checked, load
from madod.predict.card import note
from tests.predict.toy import toy_model

GOOD = Fold("day", "fox", 500, 100, 0.8, 0.25, {"energy": 0.9, "msp": 0.5}, {}, [])


def outcome(
    right: float = 0.9, pictures: int = 200, pretrained: str | None = None, classes: int = 4
) -> SimpleNamespace:
    """Return what is looked at of a finished run: held-out pictures of a few classes, so many of them right."""
    y, turn = torch.arange(pictures) % classes, torch.arange(pictures) // classes % (classes - 1)
    said = torch.where(torch.arange(pictures) < right * pictures, y, (y + 1 + turn) % classes)
    logits = torch.nn.functional.one_hot(said, classes).float()
    stored = SimpleNamespace(y={"val": y}, outputs={"val": SimpleNamespace(logits=logits)})
    spec = RunSpec("mine", None, (), "erm", pretrained=pretrained)
    return SimpleNamespace(evaluation=SimpleNamespace(stored=stored), record=SimpleNamespace(spec=spec))


def found(*folds: Fold, detector: str = "energy", short: bool = False, strangers=None, **more) -> Checked:
    return doubts(folds, outcome(**more), detector, choices=1, short=short, strangers=strangers)


def test_a_good_training_is_told_without_warnings():
    assert found(GOOD, replace(GOOD, accuracy=0.7, auroc={"energy": 0.8})) == Checked(
        2, pytest.approx(0.75), pytest.approx(0.85), ()
    )


def test_an_auroc_near_a_half_is_a_warning_of_the_detector_that_ships():
    (said,) = found(GOOD, GOOD, detector="msp").warnings
    assert said.startswith("do not rely on it to find unknowns: over 2 held-out domains it tells a hidden class from ")
    assert "little or no better than a coin (AUROC 0.500, a coin has 0.5); add pictures to every class" in said
    assert "(--pretrained), or try another detector (--detector)" in said
    assert "\n" not in said


def test_what_is_far_below_guessing_is_called_worse():
    (said,) = found(replace(GOOD, auroc={"energy": 0.177})).warnings
    assert "it tells a hidden class from the known ones worse than a coin (AUROC 0.177, a coin has 0.5)" in said
    (said,) = found(replace(GOOD, auroc={"energy": 0.45})).warnings
    assert "little or no better than a coin (AUROC 0.450" in said
    (said,) = found(replace(GOOD, accuracy=0.05)).warnings
    assert "they are worse than guessing (5.0% right, guessing 25.0%)" in said


def test_too_few_pictures_are_a_warning_whatever_the_auroc():
    few = replace(GOOD, pictures=6, unknown=1, accuracy=1.0, auroc={"energy": 1.0})
    (said,) = found(few).warnings
    assert "in the held-out domain it may tell a hidden class from the known ones no better" in said
    assert "(AUROC 1.000 give or take 0.6" in said
    assert found(replace(few, pictures=60, unknown=10)).warnings == ()


def test_labels_near_guessing_elsewhere_are_a_warning_that_fits_the_run():
    weak = replace(GOOD, accuracy=0.3)
    (said,) = found(weak, weak, short=True, pretrained="net.safetensors sha256:0").warnings
    assert said == (
        "do not rely on its labels in a new domain: over 2 held-out domains they are little or no better than guessing "
        "(30.0% right, guessing 25.0%); add pictures to every class and domain, or see whether a longer training does "
        "better (--check full)"
    )
    (said,) = found(replace(GOOD, accuracy=0.25), replace(GOOD, accuracy=0.9)).warnings
    assert "they may be no better than guessing (57.5% right give or take " in said
    assert said.endswith("start from pretrained weights (--pretrained), or add another domain")


def test_labels_near_guessing_at_home_say_it_all():
    (said,) = found(replace(GOOD, accuracy=0.3), right=0.3).warnings
    assert said.startswith("do not rely on its labels: on held-out pictures of the training domains they are little or")
    assert "(30.0% right, guessing 25.0%)" in said
    assert "train longer (--steps)" in said


def test_where_nothing_was_held_out_nothing_is_claimed():
    assert found() == Checked(0, None, None, ())
    one_class = replace(GOOD, accuracy=0.1, guessing=None, auroc={})
    told = found(one_class)
    assert (told.domains, told.accuracy, told.auroc) == (1, None, None)
    labels, unknowns = told.warnings
    assert labels.startswith("how its labels do in a new domain was not measured: no held-out domain has two classes")
    assert unknowns.startswith("whether it finds unknowns was not measured: no held-out domain has pictures of both")


def test_a_check_that_failed_everywhere_measured_nothing_and_says_why():
    day, night = (Fold(name, None, 0, 0, None, None, {}, {}, [], "too few classes") for name in ("day", "night"))
    told = found(day, night)
    assert (told.domains, told.accuracy, told.auroc) == (0, None, None)
    assert told.of_labels == (
        "how its labels do in a new domain was not measured, since no domain could be held out: too few classes",
    )
    assert told.of_unknowns == (
        "whether it finds unknowns was not measured: no domain could be held out (too few classes); measure it on "
        "pictures of something else (--ood-folder DIR)",
    )
    assert found(day, replace(night, failure="G is bad")).of_labels[0].endswith("held out: too few classes; G is bad")
    strangers = Strangers("odd", [1.0] * 50, 0.9, 200, ())
    assert found(day, strangers=strangers).warnings == told.of_labels
    assert found(day, GOOD).warnings == ()


def test_a_detector_that_a_check_did_not_compare_is_told_from_a_check_that_could_not():
    (said,) = found(GOOD, detector="knn").warnings
    assert said == (
        "whether it finds unknowns was not measured: the check compared others than knn; repeat the training with "
        "--detector knn"
    )


def test_where_no_class_was_hidden_one_is_asked_for_if_there_are_enough():
    seen = replace(GOOD, hidden=None, unknown=0, auroc={})
    for classes in (3, 4):
        (said,) = found(seen, classes=classes).warnings
        assert said == (
            "whether it finds unknowns was not measured: no class was hidden; hide one (--test-domain DOMAIN "
            "--ood-class CLASS), or measure it on pictures of something else (--ood-folder DIR)"
        )
    (said,) = found(seen, classes=2).warnings
    assert said.startswith("whether it finds unknowns was not measured: of so few classes none could be hidden; meas")


def test_a_persons_own_unknowns_are_a_measure_too():
    few = replace(GOOD, accuracy=0.8, auroc={})  # nothing hidden was met
    well, badly = (Strangers("odd", [1.0] * 50, auroc, 200, ()) for auroc in (0.9, 0.52))
    assert found(few, strangers=well).warnings == ()
    assert found(few, strangers=well).auroc is None
    (said,) = found(few, strangers=badly).warnings
    assert said.startswith("do not rely on it to find unknowns: it tells yours from held-out pictures little or no bet")
    (said,) = found(GOOD, strangers=badly).warnings
    assert "yours" in said
    assert (
        found(few, strangers=Strangers("odd", [], None, 200, ("bad.png",))).warnings[0].startswith("whether it finds")
    )


def test_warnings_of_labels_and_of_unknowns_are_kept_apart():
    bad = replace(GOOD, accuracy=0.3, auroc={"energy": 0.5})
    told = found(bad, bad, right=0.3)
    assert [len(told.of_labels), len(told.of_unknowns)] == [1, 1]
    assert told.warnings == told.of_labels + told.of_unknowns
    assert told.of_labels[0].startswith("do not rely on its labels")


def test_a_model_keeps_what_was_noted(tmp_path):
    toy_model().save(tmp_path)
    assert load(tmp_path).check is None
    weights = (tmp_path / "model.safetensors").stat().st_mtime_ns
    check = Checked(2, 0.5, None, ("do not rely on it: über",), ("nor on this",))
    note(tmp_path, check)
    model = load(tmp_path)
    assert model.check == check
    assert (tmp_path / "model.safetensors").stat().st_mtime_ns == weights
    model.save(tmp_path / "again")
    assert load(tmp_path / "again").check == check
