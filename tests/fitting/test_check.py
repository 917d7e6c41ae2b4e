"""A check keeps what came out of these very pictures, not what went wrong."""

from dataclasses import replace

import pytest

from madod.benchmark.record import RunSpec
from madod.benchmark.run import fingerprints
from madod.data.base import Domain
from madod.data.digits import Digits
from madod.data.split import split
from madod.detectors import THREE
from madod.errors import InputError, NoSpaceError
from madod.fitting import check
from madod.fitting.check import CHECKED, Fold, awaited, checked

SPEC = RunSpec("digits", None, (), "erm", steps=4)
IMAGES = fingerprints(split(Digits(), test_domain=None))


def asked(out, error):
    """Check with runs that all fail so; return how many were begun, and the folds."""
    begun = []

    def run(spec, folder, stage):
        begun.append(spec.test_domain)
        raise error

    return begun, lambda: checked(SPEC, Digits(), "full", out, run, detectors=THREE, images=IMAGES)


@pytest.fixture
def working(tmp_path, monkeypatch):
    """Check with runs of which those of some domains fail; return the folds, and the domains of the runs begun."""
    flagged = {name: [] for name in THREE}
    monkeypatch.setattr(check, "fold_of", lambda spec, _: Fold(spec.test_domain, None, 9, 0, 0.5, 0.1, {}, flagged, []))

    def begun(failing=(), dataset=None, detectors=THREE):
        domains = []

        def run(spec, folder, stage):
            domains.append(spec.test_domain)
            if spec.test_domain in failing:
                raise InputError("G is no good: give --waive-gate")

        dataset = dataset or Digits()
        how = {"detectors": detectors, "images": fingerprints(split(dataset, test_domain=None))}
        return checked(SPEC, dataset, "full", tmp_path, run, **how), domains

    return begun


def test_folds_that_did_not_measure_a_detector_are_done_again(working):
    working()
    assert working(detectors=THREE[:1])[1] == []
    assert working(detectors=(*THREE, "knn"))[1] == list(Digits.domains)


def test_folds_that_failed_are_tried_again_and_finished_ones_are_not(working):
    assert working(failing=Digits.domains)[1] == working(failing=("chalk", "neon"))[1] == list(Digits.domains)
    folds, begun = working(failing=("neon",))
    assert begun == ["chalk", "neon"]
    assert {fold.domain: fold.failure for fold in folds if fold.failure} == {"neon": "G is no good: give --waive-gate"}
    folds, begun = working()
    assert ([fold.domain for fold in folds], begun) == (list(Digits.domains), ["neon"])
    assert working() == (folds, [])


def test_what_is_done_of_a_check_is_not_awaited(working, tmp_path):
    def left(spec=SPEC, how="full", detectors=THREE):
        return [plan.test_domain for plan in awaited(spec, Digits(), how, tmp_path, detectors=detectors, images=IMAGES)]

    assert left(how="none") == []
    assert left() == list(Digits.domains)
    begun = []

    def killed(spec, folder, stage):
        """Finish the first fold, and be killed in the second."""
        begun.append(folder)
        if len(begun) == 2:
            raise KeyboardInterrupt
        folder.mkdir(parents=True)
        (folder / "record.json").touch()

    with pytest.raises(KeyboardInterrupt):
        checked(SPEC, Digits(), "full", tmp_path, killed, detectors=THREE, images=IMAGES)
    assert left() == list(Digits.domains[1:])
    assert left(replace(SPEC, steps=8)) == list(Digits.domains)
    working(failing=("neon",))
    assert left() == ["neon"]
    assert left(detectors=(*THREE, "knn")) == list(Digits.domains)
    working()
    assert left() == []
    assert left(replace(SPEC, steps=8)) == list(Digits.domains)


def test_a_check_that_is_killed_while_it_tries_a_fold_again_keeps_the_others(working, tmp_path):
    working(failing=("chalk",))
    with pytest.raises(KeyboardInterrupt):
        checked(SPEC, Digits(), "full", tmp_path, interrupted, detectors=THREE, images=IMAGES)
    left = awaited(SPEC, Digits(), "full", tmp_path, detectors=THREE, images=IMAGES)
    assert [spec.test_domain for spec in left] == ["chalk"]


def interrupted(*_):
    raise KeyboardInterrupt


class Repainted(Digits):
    """Digits with one picture inverted, which is held out of training on all domains."""

    def read(self, domain):
        whole = super().read(domain)
        if domain != "ink":
            return whole
        images, held = whole.images.clone(), split(Digits(), test_domain=None).val
        row = held.row[held.d == 0][0]
        images[row] = 255 - images[row]
        return replace(whole, images=images)


def test_a_held_out_picture_that_changed_is_another_check(working):
    assert fingerprint(Repainted()) == fingerprint(Digits())
    working()
    assert working(dataset=Repainted())[1] == list(Digits.domains)


def fingerprint(dataset):
    return split(dataset, test_domain=None).source.fingerprint


def test_a_full_disk_is_no_verdict(tmp_path):
    begun, again = asked(tmp_path, NoSpaceError("the disk is full"))
    for _ in range(2):
        with pytest.raises(NoSpaceError):
            again()
    assert begun == ["ink", "ink"]
    assert not (tmp_path / CHECKED).exists()


@pytest.mark.parametrize("content", ["", "[]", '{"runs": []}', '{"folds": ["mine"]}'])
def test_a_damaged_file_is_made_again(tmp_path, content):
    begun, again = asked(tmp_path, InputError("no"))
    (tmp_path / CHECKED).write_text(content)
    assert len(again()) == len(begun) == 4


def test_a_domain_of_one_class_is_asked_for_its_label():
    """Hidden, it would leave nothing to measure."""

    class Lonely(Digits):
        def read(self, domain):
            whole = super().read(domain)
            kept = (whole.labels == 3).nonzero()[:, 0] if domain == "neon" else slice(None)
            return Domain(domain, whole.images[kept], whole.labels[kept], whole.units[kept])

    hidden = {plan.test_domain: len(plan.ood_classes) for plan in check.fold_specs(SPEC, Lonely(), "full")}
    assert hidden == {"ink": 1, "chalk": 1, "neon": 0, "outline": 1}
