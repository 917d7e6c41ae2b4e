"""What a dataset hands out is held to what it says of itself before anything is made of it."""

import numpy as np
import pytest
import torch

from madod.data.base import Domain, DomainDataset
from madod.data.split import never_held_out, split
from madod.errors import InputError

LABELS = torch.arange(3).repeat_interleave(5)
IMAGES = torch.arange(15, dtype=torch.uint8)[:, None, None, None].expand(15, 3, 8, 6).contiguous()


class Plain(DomainDataset):
    """Three classes in two domains."""

    name = "plain"
    domains = ("a", "b")
    classes = ("x", "y", "z")
    shape = (3, 8, 6)

    def __init__(self, images=IMAGES, labels=LABELS, units=LABELS):
        self.parts = images, labels, units

    def read(self, domain):
        return Domain(domain, *self.parts)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"images": IMAGES.permute(0, 2, 3, 1)}, r"uint8 \(15, 8, 6, 3\), and have to be .* \(15, 3, 8, 6\)"),
        ({"images": IMAGES[:, :, :4, :4]}, r"images of 'a' in plain are torch.uint8 \(15, 3, 4, 4\)"),
        ({"images": IMAGES / 255}, r"are torch.float32 \(15, 3, 8, 6\), and have to be a tensor of torch.uint8"),
        ({"images": IMAGES[:9]}, r"are torch.uint8 \(9, 3, 8, 6\).* \(15, 3, 8, 6\): one image a label"),
        ({"images": IMAGES.numpy()}, r"are uint8 \(15, 3, 8, 6\), and have to be a tensor"),
        ({"labels": LABELS + 1}, "labels of 'a' in plain .* from 0 to 2: where its name stands among x, y, z"),
        ({"labels": LABELS.float()}, "labels of 'a' in plain have to be a tensor of torch.int64"),
        ({"labels": np.asarray(LABELS)}, "labels of 'a' in plain have to be a tensor of torch.int64"),
        ({"units": LABELS[:9]}, "units of 'a' in plain have to be"),
        ({"units": LABELS - 1}, "units of 'a' in plain have to be"),
    ],
)
def test_a_dataset_that_hands_out_other_than_it_says_is_refused(changed, said):
    assert len(split(Plain(), test_domain="a").source) == 12
    with pytest.raises(InputError, match=said):
        split(Plain(**changed), test_domain="a")


def test_a_dataset_whose_names_are_no_texts_or_come_twice_is_refused():
    for what, names in (("domains", ("a", "b", "a")), ("classes", ("x", "y", "y")), ("classes", (0, 1, 2))):
        with pytest.raises(InputError, match=f"the {what} of plain have to be texts, each once: there are"):
            split(type("Slip", (Plain,), {what: names})(), test_domain="b")
    for what, name in (("domains", "ab"), ("classes", "x")):
        with pytest.raises(InputError, match=f"the {what} of plain are one text: write them as a list, as in ..{name}"):
            split(type("Slip", (Plain,), {what: name})(), test_domain="b")
    with pytest.raises(InputError, match="read of plain returns tuple: let it return a Domain"):
        split(type("Slip", (Plain,), {"read": lambda self, _: self.parts})(), test_domain="b")


def test_a_dataset_that_reads_a_domain_under_another_name_is_refused():
    """Two domains of one name would be held out alike, and be measured as one."""
    slip = type("Slip", (Plain,), {"read": lambda self, _: Domain("a", *self.parts)})()
    with pytest.raises(InputError, match=r"read of plain calls 'b' 'a': let it return Domain\('b', \.\.\.\)"):
        split(slip, test_domain="a")


def test_a_dataset_that_does_not_say_what_it_has_is_refused():
    bare = type("Bare", (DomainDataset,), {"name": "bare", "classes": ("x", "y"), "read": Plain.read})()
    with pytest.raises(InputError, match="bare does not say its domains and shape: every dataset has to"):
        split(bare, test_domain=None)


def test_copies_of_an_image_are_held_out_together_or_not_at_all():
    """A network that was trained on an image knows its copies: they say nothing of new ones."""
    different = torch.randint(0, 256, (30, 3, 40, 40), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    different[10:] = different[9]  # alike at a glance, and told apart by one pixel
    different[torch.arange(10, 30), 0, 1, 1] = torch.arange(20, dtype=torch.uint8)
    copied = different.repeat_interleave(4, 0)

    class Copied(Plain):
        shape = (3, 40, 40)

    labels = torch.arange(3).repeat(40)
    for seed in range(5):
        parts = split(Copied(copied, labels.sort().values, labels.sort().values), test_domain="a", split_seed=seed)
        train, held = (
            {image.numpy().tobytes() for image in part.stored(torch.arange(len(part)))} for part in parts[:2]
        )
        assert not train & held
        assert (len(train), len(held)) == (24, 6)
        assert (len(parts.source), len(parts.val)) == (96, 24)


def test_classes_of_which_none_is_held_out_are_counted():
    labels = torch.tensor([0, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2])
    images = IMAGES.clone()
    images[4:] = torch.arange(11, dtype=torch.uint8)[:, None, None, None]  # all different
    few = Plain(images, labels, labels)
    assert never_held_out(split(few, test_domain=None)) == [
        (1, "x", "a"), (2, "y", "a"), (1, "x", "b"), (2, "y", "b"),
    ]  # fmt: skip
    assert never_held_out(split(few, test_domain="a", ood_classes=["x"])) == [(2, "y", "b")]
    images[4:] = 0  # copies count once
    labels = torch.arange(3).repeat_interleave(5)
    assert (1, "z", "a") in never_held_out(split(Plain(images, labels, labels), test_domain="b"))
    assert never_held_out(split(Plain(), test_domain="b")) == []
