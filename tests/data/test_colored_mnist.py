"""ColoredMNIST's statistics, on scans that the test makes and on the real MNIST where it is at hand."""

import numpy as np
import pytest
import torch

from madod.data.base import UNKNOWN
from madod.data.colored_mnist import ColoredMnist
from madod.data.split import split
from madod.tasks import episodes
from tests.data.miniatures import REAL, write_mnist

AGREEMENT = {"+90%": 0.9, "+80%": 0.8, "-90%": 0.1}


@pytest.fixture(scope="module", params=["stand-in", "real"])
def dataset(request, tmp_path_factory):
    if request.param == "real":
        if not (REAL / "mnist").is_dir():
            pytest.skip("the real MNIST is not at hand")
        return ColoredMnist(REAL)
    root = tmp_path_factory.mktemp("root")
    write_mnist(root, train=5400, test=600)
    return ColoredMnist(root)


def colour(domain):
    """Return the one channel of every image that is not black."""
    lit = domain.images.flatten(2).amax(2) > 0
    assert (lit.sum(1) == 1).all()
    assert not lit[:, 2].any()
    return lit[:, 1].long()


def near(share, expected):
    """Whether a share of draws is within five standard errors of its probability."""
    return abs(share.double().mean() - expected) < 5 * (expected * (1 - expected) / len(share)) ** 0.5


def test_states_its_facts(dataset):
    assert dataset.domains == ("+90%", "+80%", "-90%")
    assert dataset.classes == ("5-9", "0-4")
    assert dataset.units == tuple("0123456789")
    assert not dataset.augmentation.jitter
    for name in dataset.domains:
        domain = dataset.read(name)
        assert domain.images.shape == (len(domain.labels), *dataset.shape)
        assert domain.images.dtype == torch.uint8
        assert domain.labels.dtype == domain.units.dtype == torch.int64
        assert set(domain.labels.tolist()) == {0, 1}
        assert set(domain.units.tolist()) == set(range(10))


def test_every_scan_is_in_one_environment(dataset):
    domains = [dataset.read(name) for name in dataset.domains]
    sizes = [len(domain.labels) for domain in domains]
    assert max(sizes) - min(sizes) <= 1
    dealt = [scan.tobytes() for domain in domains for scan in domain.images.amax(1)[:, 2:-2, 2:-2].numpy()]
    assert sorted(dealt) == sorted(scan.tobytes() for scan in dataset.scans.pixels)
    margin = torch.cat([domain.images.amax(1) for domain in domains])
    margin[:, 2:-2, 2:-2] = 0
    assert not margin.any()


def test_a_quarter_of_the_labels_is_wrong_and_colour_follows_the_noisy_label(dataset):
    for name in dataset.domains:
        domain = dataset.read(name)
        clean = (domain.units < 5).long()
        assert near(domain.labels != clean, 0.25)
        assert near(colour(domain) == domain.labels, AGREEMENT[name])
        wrong = domain.labels != clean
        assert near(colour(domain)[wrong] == domain.labels[wrong], AGREEMENT[name])
        assert near(domain.labels[domain.units == 3], 0.75)
        assert near(domain.labels[domain.units == 8], 0.25)


def test_it_is_the_same_every_time(tmp_path):
    write_mnist(tmp_path)
    first, again = (ColoredMnist(tmp_path).read("+80%") for _ in range(2))
    assert torch.equal(first.images, again.images)
    assert torch.equal(first.labels, again.labels)


@pytest.mark.parametrize("digit", ["4", "7"])
def test_an_unknown_digit_is_in_the_target_only(dataset, digit):
    parts = split(dataset, test_domain="-90%", ood_classes=(digit,))
    for known in (parts.source, parts.val):
        assert int(digit) not in known.u
        assert set(known.u.tolist()) == set(range(10)) - {int(digit)}
        assert set(known.y.tolist()) == {0, 1}
        assert known.classes == dataset.classes
    unknown = parts.target.u == int(digit)
    assert torch.equal(unknown, parts.target.y == UNKNOWN)
    assert set(parts.target.y[~unknown].tolist()) == {0, 1}
    assert 0.08 < unknown.double().mean() < 0.12  # the base rate of AUPR: one digit of ten
    assert len(parts.target) == len(dataset.read("-90%").labels)


def test_pseudo_unknowns_are_digits(dataset):
    parts = split(dataset, test_domain="+90%", ood_classes=("4",))
    for task in next(episodes(parts.source, np.random.default_rng(0), tasks=4, shots=2)):
        assert set(task.support.y.tolist()) == {0, 1}
        assert len(task.support.y) == 2 * 8  # nine known digits, one of them held out
        assert len(task.pseudo_ood.x) == 2


@pytest.mark.skipif(not (REAL / "mnist").is_dir(), reason="the real MNIST is not at hand")
def test_the_real_mnist_has_the_official_counts():
    dataset = ColoredMnist(REAL)
    assert dataset.differences() == ()
    assert sum(dataset.tally()["MNIST"].values()) == 70000
