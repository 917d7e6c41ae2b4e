"""What is taken out of a dataset is not there to be looked at."""

import pytest
import torch

from madod.benchmark.without import Without
from madod.data.base import Domain, DomainDataset
from madod.data.digits import Digits
from madod.data.split import split
from madod.errors import InputError


def test_a_domain_and_a_class_are_gone_and_the_rest_is_as_it_was():
    whole, left = Digits(), Without(Digits(), ("neon",), ("4", "7"))
    assert left.name == "digits~neon~4~7"
    assert left.domains == ("ink", "chalk", "outline")
    assert left.classes == left.units == tuple("01235689")
    with pytest.raises(InputError, match="no domain 'neon' in digits~neon~4~7"):
        left.read("neon")
    for name in left.domains:
        before, after = whole.read(name), left.read(name)
        kept = [k for k, label in enumerate(before.labels.tolist()) if label not in (4, 7)]
        assert torch.equal(after.images, before.images[kept])
        assert [left.classes[k] for k in after.labels] == [whole.classes[before.labels[k]] for k in kept]
        assert torch.equal(after.labels, after.units)


def test_it_can_be_split_again():
    parts = split(Without(Digits(), ("neon",), ("4",)), test_domain="ink", ood_classes=("9",))
    assert parts.source.domains == ("chalk", "outline")
    assert parts.source.classes == tuple("01235678")
    assert (parts.target.y == -1).any()


def test_a_split_copies_every_domain_once(monkeypatch):
    read, copied = Without.read, []
    monkeypatch.setattr(Without, "read", lambda self, domain: copied.append(domain) or read(self, domain))
    left = Without(Digits(), ("neon",), ("4",))
    split(left, test_domain="ink", ood_classes=("9",))
    assert sorted(copied) == sorted(left.domains)


class Coloured(DomainDataset):
    name = "coloured"
    domains, classes, shape = ("red", "green"), ("even", "odd"), (1, 2, 2)
    units = ("0", "1", "2", "3")

    def read(self, domain: str) -> Domain:
        units = torch.arange(8) % 4
        return Domain(domain, torch.arange(32, dtype=torch.uint8).view(8, 1, 2, 2), units % 2, units)


def test_units_finer_than_classes_go_without_their_class():
    left = Without(Coloured(), (), ("1",))
    assert (left.units, left.classes) == (("0", "2", "3"), ("even", "odd"))
    read = left.read("red")
    assert read.units.tolist() == [0, 1, 2, 0, 1, 2]
    assert read.labels.tolist() == [0, 0, 1, 0, 0, 1]
    assert read.images[:, 0, 0, 0].tolist() == [0, 8, 12, 16, 24, 28]
    with pytest.raises(InputError, match="no class '4' in coloured"):
        Without(Coloured(), (), ("4",))
