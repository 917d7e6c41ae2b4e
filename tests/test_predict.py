"""A saved model: the same answers after loading, and no answer at all from one that was changed."""

import contextlib
import itertools
import json
import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from madod.benchmark.record import RunSpec
from madod.benchmark.rescore import ship
from madod.benchmark.resources import Resources
from madod.benchmark.run import run
from madod.benchmark.settings import hparams
from madod.data.base import Domain, DomainDataset
from madod.data.images import BadImage
from madod.errors import InputError
from madod.predict import Checked, Prediction, load
from madod.predict.card import note, read_card, write_card
from madod.storage import read_tensors, write_tensors
from tests.test_storage import ENDLESS, endless


class Squares(DomainDataset):
    """A bright quarter a class, on a ground of each domain's own brightness."""

    name = "squares"
    domains = ("day", "night")
    classes = ("circle", "cross", "étoile")
    shape = (3, 16, 16)

    def read(self, domain: str) -> Domain:
        place = self.domains.index(domain)
        y = torch.arange(3).repeat_interleave(10)
        images = torch.randint(0, 60, (30, *self.shape), generator=torch.Generator().manual_seed(place)) + 40 * place
        for image, label in zip(images, y.tolist(), strict=True):
            row, column = divmod(label, 2)
            image[:, 8 * row : 8 * row + 8, 8 * column : 8 * column + 8] += 90
        return Domain(domain, images.to(torch.uint8), y, y)


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    """A run of each kind of network and detector: one with a state, one without, one that needs the model."""
    made = {}
    for algorithm, detector in (("erm", "ddu"), ("erm", "odin"), ("madod", "energy"), ("daml", "knn")):
        out = tmp_path_factory.mktemp("runs") / f"{algorithm} {detector}"
        given = hparams(algorithm, {"batch": 4} | ({"shots": 1} if algorithm == "madod" else {}))
        spec = RunSpec("squares", None, (), algorithm, 0, 0, 12, "small_cnn", "augment", 1, given)
        resources = Resources(out, torch.device("cpu"))
        made[algorithm, detector] = (
            out, run(spec, Squares(), out=out, resources=resources, detectors=(detector,), ship=detector)
        )  # fmt: skip
    return made


@pytest.fixture(scope="module")
def pictures(tmp_path_factory) -> list[Path]:
    folder = tmp_path_factory.mktemp("pictures")
    images = torch.cat([Squares().read(domain).images for domain in Squares.domains])
    rows = [*images.permute(0, 2, 3, 1).numpy(), *np.random.default_rng(0).integers(0, 256, (20, 16, 16, 3))]
    for k, pixels in enumerate(rows):
        Image.fromarray(pixels.astype(np.uint8)).save(folder / f"{k:03}.png")
    return sorted(folder.iterdir())


@pytest.fixture
def copy(outcomes, tmp_path) -> Path:
    """A saved model to be spoilt."""
    return Path(shutil.copytree(outcomes["erm", "ddu"][0] / "model", tmp_path / "model"))


KINDS = [("erm", "ddu"), ("erm", "odin"), ("madod", "energy"), ("daml", "knn")]


def close(row: Prediction) -> bool:
    """Tell whether a score is the threshold's own, but for the rounding of batches of another size."""
    return row.score == pytest.approx(row.threshold, rel=1e-4, abs=1e-4)


@pytest.mark.parametrize("kind", KINDS, ids=" ".join)
def test_a_loaded_model_says_what_the_run_measured(kind, outcomes, pictures):
    out, outcome = outcomes[kind]
    found = list(load(out).predict(pictures[:60]))
    assert all(isinstance(row, Prediction) for row in found)
    true = [Squares.classes[label] for _ in Squares.domains for label in Squares().read("day").labels.tolist()]
    parts = outcome.split
    right = sum(row.label == label for row, label in zip(found, true, strict=True))
    outputs = outcome.evaluation.stored.outputs
    expected = sum(int((outputs[part].logits.argmax(1) == getattr(parts, part).y).sum()) for part in ("source", "val"))
    assert right == expected
    assert {row.threshold for row in found} == {outcome.record.thresholds[kind[1]]}
    held = parts.val.stored(torch.arange(len(parts.val)))
    files = {Image.open(path).convert("RGB").tobytes(): row for path, row in zip(pictures, found, strict=False)}
    rows = [files[image.permute(1, 2, 0).contiguous().numpy().tobytes()] for image in held]
    assert sum(row.unknown and not close(row) for row in rows) <= 0.05 * len(rows)  # what the threshold was set for


@pytest.mark.parametrize("kind", KINDS, ids=" ".join)
def test_saved_and_loaded_again_it_gives_the_same_answers(kind, outcomes, pictures, tmp_path):
    first = load(outcomes[kind][0])
    first.save(tmp_path / "again")
    answers = list(first.predict(pictures))
    assert list(load(tmp_path / "again").predict(pictures)) == answers
    assert len({row.score for row in answers}) > 40
    for name in ("model.json", "model.safetensors", "gallery.safetensors"):
        assert (tmp_path / "again" / name).read_bytes() == (outcomes[kind][0] / "model" / name).read_bytes()


class KilledError(BaseException):
    """Nothing is done any more."""


def test_a_model_that_is_written_over_is_the_old_or_the_new_one_at_any_moment(outcomes, copy, tmp_path, monkeypatch):
    old, other = load(copy), load(outcomes["madod", "energy"][0])
    other.gallery = None
    seen = []
    for moment in itertools.count():
        home = Path(shutil.copytree(copy, tmp_path / str(moment)))
        left = itertools.count(moment, -1)
        with monkeypatch.context() as patched:
            for act in ("replace", "unlink"):
                patched.setattr(Path, act, dying(getattr(Path, act), left))
            with contextlib.suppress(KilledError):
                other.save(home)
        there = load(home)
        seen.append(there.card.algorithm)
        assert there.threshold == (old if seen[-1] == "erm" else other).threshold
        note(home, Checked(0, None, None))  # whichever it is, it can be written to
        other.save(home)
        assert load(home).card.algorithm == "madod"
        assert sorted(file.name for file in home.iterdir()) == ["model.json", "model.safetensors"]
        if next(left) > 0:
            break
    assert seen == sorted(seen)  # first the old one, then the new one
    assert {"erm", "madod"} == set(seen)


def test_saved_back_into_a_run_s_folder_it_is_the_run_s_model(outcomes, tmp_path):
    home = Path(shutil.copytree(outcomes["erm", "ddu"][0], tmp_path / "run"))
    names = sorted(file.relative_to(home) for file in home.rglob("*"))
    model = load(home)
    moved = model.set_threshold(keep=0.5)
    model.save(home)
    assert load(home).threshold == load(home / "model").threshold == moved
    ship(home, "energy")
    assert load(home).card.detector == "energy"
    assert sorted(file.relative_to(home) for file in home.rglob("*")) == names


@pytest.mark.parametrize("inner", ["", "model"])
def test_a_model_is_not_saved_where_a_file_is(inner, copy):
    with pytest.raises(InputError, match=r"model\.json is a file: name a folder"):
        load(copy).save(str(copy / "model.json" / inner))


def dying(act, left):
    def acts(*args, **kwargs):
        if next(left) <= 0:
            raise KilledError
        return act(*args, **kwargs)

    return acts


def test_the_run_s_folder_and_the_model_s_own_will_do(outcomes, pictures):
    out, _ = outcomes["erm", "ddu"]
    named = [out, str(out), out / "model", str(out / "model")]
    first, *others = [list(load(folder).predict(pictures[:3])) for folder in named]
    assert others == [first] * 3


def test_answers_do_not_depend_on_company(outcomes, pictures):
    """More pictures than a batch holds, unreadable ones between them, come in order and as if alone."""
    model = load(outcomes["erm", "ddu"][0])
    alone = [next(iter(model.predict([path]))) for path in pictures]
    mixed = [pictures[0].with_name("gone.png"), *pictures, pictures[0].parent]
    first, *found, last = model.predict_iter(mixed)
    assert isinstance(first, BadImage)
    assert isinstance(last, BadImage)
    assert [row.path for row in found] == [str(path) for path in pictures]
    for row, single in zip(found, alone, strict=True):
        assert row.label == single.label
        assert row.unknown == single.unknown or close(row)
        assert row.score == pytest.approx(single.score, rel=1e-3, abs=1e-3)
    assert list(model.predict([])) == []


def refused(folder: Path, *words: str) -> None:
    with pytest.raises(InputError) as refusal:
        load(folder)
    assert "\n" not in str(refusal.value)
    for word in (str(folder), *words):
        assert word in str(refusal.value)


@pytest.mark.parametrize("place", [3, 40, -1, -5000])
def test_a_flipped_bit_is_noticed(copy, place):
    content = bytearray((copy / "model.safetensors").read_bytes())
    content[place] ^= 1
    (copy / "model.safetensors").write_bytes(content)
    refused(copy, "damaged or was changed by hand")


@pytest.mark.parametrize(
    ("field", "value"), [("threshold", 1e9), ("classes", ["a", "b", "c"]), ("detector", "energy"), ("extra", 1)]
)
def test_an_edited_card_is_noticed(copy, field, value):
    card = json.loads((copy / "model.json").read_text(encoding="utf-8"))
    card[field] = value
    (copy / "model.json").write_text(json.dumps(card), encoding="utf-8")
    refused(copy)


def test_an_untouched_card_in_another_layout_is_accepted(copy, pictures):
    card = json.loads((copy / "model.json").read_text(encoding="utf-8"))
    (copy / "model.json").write_text(json.dumps(card), encoding="utf-8")
    assert len(list(load(copy).predict(pictures[:2]))) == 2


class Trap:
    """Runs code when it is unpickled."""

    def __reduce__(self):
        return pytest.fail, ("a pickle was opened",)


def test_a_pickle_in_the_weights_place_is_never_opened(copy):
    (copy / "model.safetensors").write_bytes(pickle.dumps(Trap()))
    refused(copy, "damaged or was changed by hand")


def test_what_is_missing_or_no_model(copy, tmp_path):
    (tmp_path / "empty").mkdir()
    refused(tmp_path / "empty", "there is no model")
    refused(tmp_path / "nowhere", "there is no model")
    refused(copy / "model.json", "is a file", "give the folder")
    (copy / "model.safetensors").unlink()
    refused(copy, "model.safetensors", "train the model again in a fresh folder")


def test_a_model_without_the_scores_of_held_out_pictures_is_refused(copy):
    card = read_card(copy, copy)
    tensors, _ = read_tensors(copy / "model.safetensors")
    del tensors["held.scores"]
    write_tensors(copy / "model.safetensors", tensors, {})
    write_card(copy, card)
    refused(copy, "scores of held-out pictures", "train the model again in a fresh folder")


@ENDLESS
@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", ["model.json", "model.safetensors", "gallery.safetensors"])
def test_a_file_that_never_ends_is_refused_at_once(copy, name, kind):
    endless(copy / name, kind)
    refused(copy, f"{name} cannot be read (it is not an ordinary file): train the model again in a fresh folder")


@pytest.mark.parametrize(
    "content", ["", "{", "[]", "null", "3", "{}", '{"sha256": "0"}', '{"format": 99}', "[" * 10**5]
)
def test_a_card_that_is_none_is_refused(copy, content):
    (copy / "model.json").write_text(content, encoding="utf-8")
    refused(copy, "model.json")


def test_a_model_of_a_later_format_is_named(copy):
    card = json.loads((copy / "model.json").read_text(encoding="utf-8"))
    (copy / "model.json").write_text(json.dumps(card | {"format": 99, "more": 1}), encoding="utf-8")
    refused(copy, "format 99", "update madod")


@pytest.mark.parametrize("lost", ["model", "model/model.safetensors", "outputs.safetensors"])
def test_a_finished_run_that_lost_a_file_says_how_to_get_it_back(lost, outcomes, tmp_path):
    out, outcome = outcomes["erm", "ddu"]
    home, spec = Path(shutil.copytree(out, tmp_path / "run")), outcome.record.spec
    if (home / lost).is_dir():
        shutil.rmtree(home / lost)
    else:
        (home / lost).write_bytes((home / lost).read_bytes()[:-9])
    how = {"resources": Resources(tmp_path, torch.device("cpu")), "detectors": ("ddu",), "ship": "ddu"}
    with pytest.raises(InputError, match=r"run.*: .*( in a fresh folder|run away and do the run once more)$"):
        run(spec, Squares(), out=home, **how)
    run(spec, Squares(), out=tmp_path / "fresh", **how)
    assert (tmp_path / "fresh" / lost).exists()


def test_a_run_is_recorded_with_the_code_it_began_with_and_measures_what_it_ships(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr("madod.benchmark.run.versions", lambda device: asked.append("versions") or {"commit": "first"})
    spec = RunSpec("squares", None, (), "erm", 0, 0, 2, "small_cnn", "augment", 1, hparams("erm", {"batch": 4}))
    resources = Resources(tmp_path, torch.device("cpu"), progress=lambda stage, done, total: asked.append(stage))
    made = run(spec, Squares(), out=tmp_path, resources=resources, detectors=("msp",), ship="knn")
    assert asked[0] == "versions"
    assert made.record.versions["commit"] == "first"
    assert (set(made.record.thresholds), load(tmp_path).card.detector) == ({"msp", "knn"}, "knn")
