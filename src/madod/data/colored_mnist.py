"""ColoredMNIST: a colour that predicts the label better than the digit does, until it turns around."""

import numpy as np
import torch

from madod.data.augment import NONE
from madod.data.base import DATASETS, Domain
from madod.data.dealt import SEED, DealtMnist
from madod.data.mnist import Scans

LABEL_NOISE = 0.25
COLOUR_NOISE = {"+90%": 0.1, "+80%": 0.2, "-90%": 0.9}
"""By environment, the probability that the colour contradicts the noisy label."""


@DATASETS.register("colored_mnist")
class ColoredMnist(DealtMnist):
    """70,000 red or green digits; is it below five? [Arjovsky et al. 2019].

    `y = [digit < 5]`, flipped with probability 0.25; the colour is that noisy y, flipped with probability e = 0.1, 0.2
    and 0.9; y = 1 is green where the colour agrees. Scans are 28 px with a black margin of 2; the channel of the other
    colour, and blue, are zero. Each scan lies in one environment. Units are the digits, so that one can be unknown.
    """

    domains = tuple(COLOUR_NOISE)
    classes = ("5-9", "0-4")
    augmentation = NONE  # a jittered colour would be another dataset

    @property
    def units(self) -> tuple[str, ...]:
        """The digits."""
        return tuple("0123456789")

    def changed(self, domain: str, scans: Scans) -> Domain:
        """Return the scans coloured, and their labels noisy."""
        rng = np.random.default_rng([SEED, self.domains.index(domain)])
        n = len(scans.digits)
        y = (scans.digits < 5) ^ (rng.random(n) < LABEL_NOISE)
        colour = y ^ (rng.random(n) < COLOUR_NOISE[domain])
        images = np.zeros((n, *self.shape), np.uint8)
        images[np.arange(n), colour.astype(np.int64)] = scans.padded()
        return Domain(
            domain, torch.from_numpy(images), torch.from_numpy(y.astype(np.int64)), torch.from_numpy(scans.digits)
        )
