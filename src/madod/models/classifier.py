"""A featurizer with a linear head, and what comes out of it."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from madod.data.augment import Augmentation
from madod.errors import InputError
from madod.models.compute import PLAIN, Compute


class Outputs(NamedTuple):
    """Features (n, f) and logits (n, k) of images; `own` (n,) is the method's own unknown score, where it has one."""

    features: Tensor
    logits: Tensor
    own: Tensor | None = None


class Classifier(nn.Module):
    """f(x) = h(g(x)): a featurizer g and a linear head h over the known classes."""

    def __init__(self, featurizer: nn.Module, features: int, classes: int, compute: Compute = PLAIN) -> None:
        super().__init__()
        self.featurizer = featurizer
        self.head = nn.Linear(features, classes)
        self.compute = compute
        compute.prepare(featurizer)

    def features(self, images: Tensor) -> Tensor:
        """g(x): features (n, f) of images (n, c, h, w) in [0, 1], in the head's number format."""
        return self.compute(self.featurizer, images).to(self.head.weight.dtype)

    def forward(self, images: Tensor) -> Outputs:
        """Return features and logits of images (n, c, h, w) in [0, 1]."""
        features = self.features(images)
        return Outputs(features, self.head(features))


Restyle = Callable[[Tensor, torch.Generator], Tensor]
"""G, or what stands in its place: images (n, c, h, w) in [0, 1] to as many others, fed from the generator."""


def no_translate(images: Tensor, rng: torch.Generator) -> Tensor:
    """Stand where there is no G, since the method did not ask for one."""
    raise InputError("the method restyles images and did not say so: set needs_translate = True in its Config")


class Setting(NamedTuple):
    """All that a method knows before it sees data."""

    make_net: Callable[[], Classifier]
    """Builds a fresh network, pretrained or not, over the known classes."""
    domains: int
    """How many source domains there are."""
    translate: Restyle
    """G, frozen."""
    augment: Augmentation
    """How training images are varied."""
    steps: int
    """How many steps training takes, for schedules."""
