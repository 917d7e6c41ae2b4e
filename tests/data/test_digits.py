import hashlib

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from madod.data import digits
from madod.data.base import DATASETS
from madod.errors import InputError


@pytest.fixture(scope="module")
def domains():
    dataset = DATASETS["digits"]()
    return {name: dataset.read(name) for name in dataset.domains}


def test_states_its_facts(domains):
    dataset = DATASETS["digits"]()
    assert dataset.domains == ("ink", "chalk", "neon", "outline")
    assert dataset.classes == dataset.units == tuple("0123456789")
    assert dataset.augmentation.flip == 0  # a mirrored digit is another one, or none
    for name, domain in domains.items():
        assert domain.name == name
        assert domain.images.shape == (len(domain.labels), *dataset.shape)
        assert domain.images.dtype == torch.uint8
        assert domain.labels.dtype == torch.int64
        assert torch.equal(domain.labels, domain.units)


@pytest.mark.parametrize("file", [digits.FILE, "sklearn/not/here.csv.gz"])
def test_the_scans_are_those_of_scikit_learn_wherever_they_lie(monkeypatch, file):
    monkeypatch.setattr(digits, "FILE", file)
    for ours, theirs in zip(digits._scans.__wrapped__(), load_digits(return_X_y=True), strict=True):
        assert ours.dtype == theirs.dtype
        assert np.array_equal(ours, theirs)


def test_every_scan_is_in_exactly_one_domain(domains):
    _, labels = load_digits(return_X_y=True)
    place = digits._deal(labels)
    rows = [np.flatnonzero(place == k) for k in range(4)]
    assert sorted(np.concatenate(rows).tolist()) == list(range(1797))
    for domain, chosen in zip(domains.values(), rows, strict=True):
        assert domain.labels.tolist() == labels[chosen].tolist()
    assert sum(len(domain.labels) for domain in domains.values()) == 1797


def test_every_digit_is_spread_evenly(domains):
    counts = np.array([np.bincount(domain.labels, minlength=10) for domain in domains.values()])
    assert (counts.max(0) - counts.min(0)).max() <= 1
    assert counts.min() >= 43


def test_is_the_same_every_time(domains):
    digits._render.cache_clear()
    again = DATASETS["digits"]()
    for name, domain in domains.items():
        fresh = again.read(name)
        assert torch.equal(fresh.images, domain.images)
        assert torch.equal(fresh.labels, domain.labels)


def test_labels_have_the_checksum_they_always_had(domains):
    """Which scan is where does not depend on how pictures are drawn, so it is fixed across versions of Pillow too."""
    digest = hashlib.sha256(b"".join(domain.labels.numpy().tobytes() for domain in domains.values()))
    assert digest.hexdigest()[:16] == "26655f257a9284df"


def test_pixels_are_what_they_always_were(domains):
    """Means to a tenth of a grey level: enough to notice a change of drawing, not a last digit of a resampling."""
    means = {name: domain.images.double().mean((0, 2, 3)) for name, domain in domains.items()}
    expected = {
        "ink": [183.21, 179.69, 174.02],
        "chalk": [76.91, 97.18, 85.02],
        "neon": [88.09, 87.25, 88.36],
        "outline": [129.2, 122.58, 122.23],
    }
    for name, mean in means.items():
        torch.testing.assert_close(mean, torch.tensor(expected[name]).double(), atol=0.1, rtol=0, msg=name)


def test_domains_look_different(domains):
    pixels = {name: domain.images.double() / 255 for name, domain in domains.items()}
    brightness = {name: float(x.mean()) for name, x in pixels.items()}
    colour = {name: float((x.amax(1) - x.amin(1)).mean()) for name, x in pixels.items()}
    assert brightness["ink"] > 0.65 > brightness["outline"] > 0.45 > max(brightness["chalk"], brightness["neon"])
    assert min(colour["neon"], colour["outline"]) > 2 * max(colour["ink"], colour["chalk"])
    corner = {name: float(x[..., :3, :3].mean()) for name, x in pixels.items()}
    centre = {name: float(x[..., 10:22, 10:22].mean()) for name, x in pixels.items()}
    assert centre["ink"] < corner["ink"]  # dark on light
    assert centre["chalk"] > corner["chalk"]  # light on dark
    assert centre["neon"] > corner["neon"]


@pytest.mark.parametrize("drawing", digits.RENDERINGS.values(), ids=digits.RENDERINGS)
def test_a_drawing_shows_the_stroke(drawing):
    scan = load_digits().data[0]
    stroke = digits._stroke(scan)
    assert stroke.shape == (32, 32, 1)
    assert stroke.min() >= 0
    assert stroke.max() <= 1
    drawn, empty = (drawing(pen, np.random.default_rng(3)) for pen in (stroke, np.zeros_like(stroke)))
    changed = np.abs(drawn - empty).max(2)
    assert changed.max() > 0.3
    assert changed[:4, :4].max() < 0.1  # nothing where there is no pen near


def test_neighbouring_scans_are_drawn_differently(domains):
    for name in ("neon", "outline"):
        corner = domains[name].images[:, :, 0, 0].double()
        assert corner.std(0).min() > 10


def test_an_unknown_domain_is_refused_by_name():
    with pytest.raises(InputError, match=r"no domain 'inc' in digits \(did you mean 'ink'\?\); it has ink, chalk"):
        DATASETS["digits"]().read("inc")
