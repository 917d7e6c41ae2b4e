"""Whatever a person holds as a picture gets the same answer, and what is none is refused by name."""

import io
import itertools
import threading
import zipfile
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from madod.data.images import BadImage
from madod.detectors.base import Fit
from madod.detectors.energy import Energy
from madod.detectors.gen import GEN
from madod.detectors.scale import Scale
from madod.errors import InputError
from madod.evaluation.threshold import FAR
from madod.predict import BATCH, Model, Prediction, load
from tests.predict.toy import CLASSES, files, images, toy_model


@pytest.fixture(scope="module")
def model():
    return toy_model()


def said(answers):
    return [answer[1:] for answer in answers]


def test_a_model_goes_where_it_can_compute_and_nowhere_else():
    model = toy_model()
    assert model.to("auto").to("cpu").predict(images(1))
    with pytest.raises(InputError, match=r"^there is no device 'abacus' here: use cpu"):
        model.to("abacus")
    with pytest.raises(InputError, match=r"^there is no device 'meta' here: use cpu"):
        model.to("meta")  # where its weights would be lost
    assert model.predict(images(1))


def test_what_no_file_of_facts_can_hold_is_no_setting():
    class Measured(Energy):
        def __init__(self, temperature=2.0, distance=torch.cdist) -> None:
            super().__init__(temperature=temperature)
            self.distance = distance

    assert Measured().settings() == {"temperature": 2.0}


def test_a_picture_is_the_same_in_every_form(model, tmp_path):
    paths, arrays = files(tmp_path, 5), images(5)
    expected = model.predict(paths)
    assert [answer.path for answer in expected] == [str(path) for path in paths]
    assert {answer.label for answer in expected} <= set(CLASSES)
    tensors = torch.from_numpy(arrays).permute(0, 3, 1, 2)
    forms = {
        "names": [str(path) for path in paths],
        "contents": [path.read_bytes() for path in paths],
        "open files": [io.BytesIO(path.read_bytes()) for path in paths],
        "Pillow": [Image.open(path) for path in paths],
        "arrays": list(arrays),
        "a batch of arrays": arrays,
        "tensors": list(tensors),
        "a batch of tensors": tensors,
        "floats": tensors / 255,
        "a stream": iter(paths),
    }
    for name, pictures in forms.items():
        found = model.predict(pictures)
        assert said(found) == said(expected), name
        places = [answer.path for answer in found]
        assert places == ([str(path) for path in paths] if name in ("names", "a stream") else list(range(5))), name


def test_what_is_no_path_holds_no_model():
    with pytest.raises(InputError, match="text or a Path, not NoneType"):
        load(None)


def test_a_single_picture_needs_no_list(model, tmp_path):
    [path], [array] = files(tmp_path, 1), images(1)
    for picture in (
        path,
        str(path),
        path.read_bytes(),
        bytearray(path.read_bytes()),
        memoryview(path.read_bytes()),
        io.BytesIO(path.read_bytes()),
        Image.open(path),
        array,
        torch.from_numpy(array.transpose(2, 0, 1)),
    ):
        [answer] = model.predict(picture)
        assert isinstance(answer, Prediction)
    assert model.predict([]) == []


def test_files_that_are_open_the_wrong_way(model, tmp_path):
    [path] = files(tmp_path, 1)
    with path.open("rb") as closed:
        pass
    with path.open(encoding="utf-8") as text, pytest.raises(BadImage, match='open as text; open it with "rb"'):
        model.predict(text)
    with pytest.raises(BadImage, match='open as text; open it with "rb"'):
        model.predict(io.StringIO("x"))
    with pytest.raises(BadImage, match=r"its file cannot be read: .*closed"):
        model.predict(closed)
    with zipfile.ZipFile(io.BytesIO(), "w") as packed, pytest.raises(BadImage, match="its file cannot be read: "):
        model.predict(packed)


class Odd:
    """A file that has something of its own to say."""

    def __init__(self, content: object) -> None:
        self.read = lambda: content


def test_files_that_give_something_else_than_bytes(model, tmp_path):
    content = files(tmp_path, 1)[0].read_bytes()
    assert said(model.predict([Odd(bytearray(content))])) == said(model.predict([content]))
    with pytest.raises(BadImage, match="reading its file gives ndarray, not bytes; give its content instead"):
        model.predict(Odd(np.zeros((3, 16, 16))))


def test_a_tensor_with_a_gradient_is_a_picture_like_others(model, recwarn):
    pixels = torch.rand(3, 16, 16)
    assert said(model.predict(pixels.clone().requires_grad_())) == said(model.predict(pixels))
    assert not recwarn


def test_grey_and_transparent_arrays_and_other_sizes(model):
    grey = images(1)[0, :, :, 0]
    assert said(model.predict(grey)) == said(model.predict(np.repeat(grey[..., None], 3, 2)))
    assert said(model.predict(grey[..., None])) == said(model.predict(grey))
    solid = np.dstack([images(1)[0], np.full((16, 16), 255, np.uint8)])
    assert said(model.predict(solid)) == said(model.predict(solid[..., :3]))
    large = np.zeros((50, 70, 3), np.uint8)
    assert said(model.predict(large)) == said(model.predict(np.zeros((16, 16, 3), np.uint8)))


@pytest.mark.parametrize(
    ("picture", "reason"),
    [
        (np.zeros((16, 16, 3)), "float64"),
        (np.zeros((16, 16, 2), np.uint8), "(16, 16, 2)"),
        (np.zeros(7, np.uint8), "(7,)"),
        (np.zeros((0, 4, 3), np.uint8), "(0, 4, 3)"),
        (torch.full((3, 4, 4), -1.0), "not normalised"),
        (torch.full((3, 4, 4), float("nan")), "not normalised"),
        (torch.zeros(16, 16), "(channels, height, width)"),
        (torch.zeros(24, 20, 3, dtype=torch.uint8), "(24, 20, 3); a tensor is (channels, height, width)"),
        (torch.zeros(3, 8, 8, dtype=torch.int32), "uint8, 0 to 255, or floats in [0, 1]"),
        (b"", "empty"),
        (b"words", "not a picture"),
        ({"a": 1}, "it is of type dict"),
        (3, "it is of type int"),
    ],
    ids=["floats", "two channels", "one axis", "empty", "normalised", "no numbers", "two axes", "channels last",
         "integers", "no bytes", "words", "a dict", "a number"],
)  # fmt: skip
def test_what_is_no_picture_is_refused_by_its_place(model, picture, reason):
    sound = images(1)[0]
    first, second, third = model.predict_iter([sound, picture, sound])
    assert isinstance(second, BadImage)
    assert "picture 1" in str(second)
    assert reason in str(second)
    assert said([first]) == said([third])
    with pytest.raises(BadImage):
        model.predict([sound, picture])


def test_a_stream_without_end_is_read_no_further_than_needed(model):
    """So a million paths take no more memory than a few hundred."""
    last = 0

    def stream():
        nonlocal last
        while True:
            yield images(1)[0]
            last += 1

    ahead = []
    for done, answer in enumerate(itertools.islice(model.predict_iter(stream()), 5 * BATCH), 1):
        assert answer.path == done - 1
        ahead.append(last - done)
    assert max(ahead) <= 2 * BATCH
    assert threading.active_count() < 20


@pytest.mark.parametrize("nothing", [3, None])
def test_what_is_neither_a_picture_nor_several_is_refused(model, nothing):
    with pytest.raises(BadImage, match="give a path, a Pillow image, an array or a tensor"):
        model.predict(nothing)


def test_what_cannot_be_scored_is_unknown():
    broken = toy_model()
    with torch.no_grad():
        next(broken.net.parameters()).fill_(float("nan"))
    for answer in broken.predict(images(3)):
        assert answer.unknown
        assert answer.confidence == 0.0
        assert answer.score == FAR
    [near] = broken.nearest(broken.examine([images(1)[0].transpose(2, 0, 1)]).features, k=2)
    assert [neighbour.similarity for neighbour in near] == [0.0, 0.0]


def test_the_threshold_follows_the_share_that_is_kept(model):
    held = model.held_scores
    for keep in (0.5, 0.9, 0.95, 1.0):
        value = model.set_threshold(keep=keep)
        assert value == model.threshold
        assert float((held <= value).double().mean()) >= keep
    assert model.threshold == float(held.max())
    answers = model.predict(list(images(30)))
    model.threshold = sorted(answer.score for answer in answers)[14]
    assert sum(answer.unknown for answer in model.predict(list(images(30)))) == 15
    for wrong in (0, 1.5, -1):
        with pytest.raises(ValueError, match="share"):
            model.set_threshold(keep=wrong)
    with pytest.raises(InputError, match="keep cannot be 'a': it has to be a number"):
        model.set_threshold(keep="a")
    for wrong in (float("nan"), "a", None):
        with pytest.raises(InputError, match="number"):
            model.threshold = wrong


@pytest.mark.parametrize("detector", [Energy(temperature=5.0), GEN(gamma=0.5, top=2), Scale(percentile=50.0)])
def test_a_saved_model_keeps_what_its_detector_was_made_with(model, detector, tmp_path):
    learned = detector.fit(Fit(None, None, None, None, model.net.head.weight.detach(), model.net.head.bias.detach()))
    card = replace(model.card, detector=detector.name)
    mine = Model(model.net, learned, card, model.held_scores)
    mine.save(tmp_path)
    usual = Model(model.net, type(detector)().load_state(learned.state()), card, model.held_scores)
    again = load(tmp_path)
    assert said(again.predict(images(3))) == said(mine.predict(images(3))) != said(usual.predict(images(3)))
