"""What a dataset hands out is held to what it says of itself before anything is made of it."""

import numpy as np
import pytest
import torch

from madod.data.base import Domain, DomainDataset
from madod.data.split import split
from madod.errors import InputError

LABELS = torch.arange(3).repeat_interleave(5)
IMAGES = torch.zeros(15, 3, 8, 6, dtype=torch.uint8)


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
