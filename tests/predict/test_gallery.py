"""The training pictures that go with a model: few, small, spread evenly, and found again by their likeness."""

import json
import pickle

import numpy as np
import pytest
import torch
from PIL import Image

from madod.data.images import BadImage
from madod.errors import InputError
from madod.predict import BATCH, load
from madod.predict.card import sealed
from madod.predict.gallery import MOST, Gallery, spread
from madod.storage import read_tensors, write_tensors
from tests.predict.toy import CLASSES, DOMAINS, files, images, toy_model


def test_a_training_picture_is_most_like_itself():
    model = toy_model()
    pictures = images(20, seed=1).transpose(0, 3, 1, 2)
    found = model.nearest(model.examine(pictures).features, k=4)
    for k, (picture, neighbours) in enumerate(zip(pictures, found, strict=True)):
        assert len(neighbours) == 4
        assert neighbours[0].similarity == pytest.approx(1, abs=1e-5)
        assert (neighbours[0].thumbnail == picture).all()
        assert (neighbours[0].label, neighbours[0].domain) == (CLASSES[k % 3], DOMAINS[0])
        cosines = [each.similarity for each in neighbours]
        assert cosines == sorted(cosines, reverse=True)
    assert len(model.nearest(torch.rand(1, 128), k=1000)[0]) == 40
    assert model.nearest(torch.rand(2, 128), k=0) == [[], []]
    with pytest.raises(InputError, match="128"):
        model.nearest(torch.rand(1, 7))


def test_no_picture_is_more_like_another_than_like_itself():
    features = torch.rand(400, 1280, generator=torch.Generator().manual_seed(0))
    gallery = Gallery(torch.zeros(400, 3, 1, 1), features, *torch.zeros(2, 400))
    assert float(gallery.nearest(features, k=1)[1].max()) == 1


def test_pictures_in_any_form_find_what_they_resemble(tmp_path):
    model = toy_model()
    paths = files(tmp_path, BATCH + 6)  # more than go through the network at once
    arrays = images(BATCH + 6)
    found = model.similar(paths, k=2)
    assert shown(found) == [shown(model.nearest(features_of(model, picture), k=2))[0] for picture in arrays]
    for one in (paths[0], str(paths[0]), paths[0].read_bytes(), arrays[0], Image.fromarray(arrays[0])):
        assert shown(model.similar(one, k=2)) == shown(found[:1])
    assert len(model.similar(arrays[:3])) == 3
    assert len(model.similar(arrays[0])[0]) == 5
    assert model.similar([]) == []
    assert len(model.similar(arrays[0], k=np.int64(2))[0]) == 2
    for k in (1.5, "two", None, True):
        with pytest.raises(InputError, match=r"^k cannot be .*: it has to be a whole number$"):
            model.similar(arrays[0], k=k)
    with pytest.raises(BadImage, match=r"gone\.png"):
        model.similar([paths[0], tmp_path / "gone.png"])


def features_of(model, picture):
    return model.examine([picture.transpose(2, 0, 1)]).features


def shown(found):
    return [[near.thumbnail.tobytes() for near in neighbours] for neighbours in found]


def test_a_gallery_takes_turns_among_domains_and_classes():
    domains, labels = np.zeros(3000, dtype=np.int64), np.zeros(3000, dtype=np.int64)
    labels[:40], domains[40:60] = 1, 1
    rows = spread(domains, labels).numpy()
    assert len(rows) == MOST == len(set(rows.tolist()))
    assert set(range(60)) <= set(rows.tolist())  # the small ones are whole
    assert len(spread(domains[:5], labels[:5])) == 5


def test_thumbnails_of_large_pictures_are_small():
    from madod.data.base import Domain, pool
    from madod.predict.gallery import gathered

    y = torch.zeros(2, dtype=torch.int64)
    source = pool([Domain("a", torch.full((2, 3, 96, 96), 77, dtype=torch.uint8), y, y)], ("x",), ("x",))
    gallery = gathered(source, torch.rand(2, 5))
    assert gallery.thumbnails.shape == (2, 3, 64, 64)
    assert (gallery.thumbnails == 77).all()


@pytest.fixture
def home(tmp_path):
    toy_model().save(tmp_path / "model")
    return tmp_path / "model"


def test_a_saved_gallery_comes_back_and_may_be_deleted(home):
    pixels = images(2).transpose(0, 3, 1, 2)
    model = load(home)
    found = model.nearest(model.examine(pixels).features)
    assert [[each.label for each in row] for row in found] == [
        [each.label for each in row] for row in toy_model().nearest(model.examine(pixels).features)
    ]
    assert torch.equal(model.held_scores, toy_model().held_scores)
    (home / "gallery.safetensors").unlink()
    without = load(home)
    assert without.nearest(without.examine(pixels).features) == [[], []]
    assert without.similar(list(images(2))) == [[], []]
    assert without.predict(list(images(2))) == model.predict(list(images(2)))


@pytest.mark.parametrize(
    "change", [lambda content: content[:-1], lambda content: pickle.dumps([1]), lambda content: b""]
)
def test_a_changed_gallery_is_refused(home, change):
    file = home / "gallery.safetensors"
    file.write_bytes(change(file.read_bytes()))
    with pytest.raises(InputError, match=r"gallery .* delete gallery\.safetensors") as refusal:
        load(home)
    assert "\n" not in str(refusal.value)


def test_a_pickle_in_the_card_s_place_is_refused(home):
    (home / "model.json").write_bytes(pickle.dumps({"format": 1}))
    with pytest.raises(InputError, match=r"model\.json is damaged"):
        load(home)


def test_a_card_that_was_edited_and_sealed_again_still_has_to_fit(home):
    facts = json.loads((home / "model.json").read_text(encoding="utf-8"))
    del facts["sha256"]
    facts["classes"] = ["cat", "dog"]
    (home / "model.json").write_text(json.dumps({**facts, "sha256": sealed(home, facts)}), encoding="utf-8")
    with pytest.raises(InputError, match="changed by hand"):
        load(home)


@pytest.mark.parametrize(
    "edit",
    [
        {"threshold": "x"},
        {"threshold": float("nan")},
        {"threshold": float("inf")},
        {"shape": [3]},
        {"detector": "ddu"},
        {"classes": []},
        {"classes": "abc"},
        {"classes": [1, 2, 3]},
        {"classes": ["a", "a", "b"]},
        {"domains": []},
        {"provenance": 5},
        {"settings": {"heat": 2}},
        {"check": 7},
        {"check": {"domains": 1, "accuracy": None, "auroc": None, "of_labels": "abc"}},
    ],
    ids=str,
)
def test_a_card_that_makes_no_model_is_refused_whatever_its_seal(home, edit):
    facts = json.loads((home / "model.json").read_text(encoding="utf-8"))
    facts.pop("sha256")
    facts |= edit
    (home / "model.json").write_text(json.dumps({**facts, "sha256": sealed(home, facts)}), encoding="utf-8")
    with pytest.raises(InputError, match="damaged or was changed by hand"):
        load(home)


@pytest.mark.parametrize(
    "edit",
    [
        {"labels": None},
        {"labels": lambda labels: labels + 3},
        {"labels": lambda labels: labels.float()},
        {"domains": lambda domains: domains - 1},
        {"thumbnails": lambda pictures: pictures[1:]},
        {"features": lambda features: features[:, :, None]},
        {"more": lambda _: torch.zeros(2)},
    ],
    ids=lambda edit: next(iter(edit)),
)
def test_a_gallery_that_is_none_of_the_model_is_refused_whatever_its_seal(home, edit):
    file = home / "gallery.safetensors"
    tensors, _ = read_tensors(file)
    for name, change in edit.items():
        old = tensors.pop(name, None)
        tensors |= {} if change is None else {name: change(old)}
    write_tensors(file, tensors, {})
    facts = json.loads((home / "model.json").read_text(encoding="utf-8"))
    facts |= {"gallery": sealed(home, {}, file.name)}
    facts.pop("sha256")
    (home / "model.json").write_text(json.dumps({**facts, "sha256": sealed(home, facts)}), encoding="utf-8")
    with pytest.raises(InputError, match=r"gallery\.safetensors is no gallery of this model: delete it"):
        load(home)
