"""ColoredMNIST: a colour that predicts the label better than the digit does, until it turns around."""

from pathlib import Path

import numpy as np
import torch

from madod.data.augment import NONE
from madod.data.base import DATASETS, Domain
from madod.data.mnist import CENSUS, SOURCES, read_mnist
from madod.data.published import Counts, Published

LABEL_NOISE = 0.25
COLOUR_NOISE = {"+90%": 0.1, "+80%": 0.2, "-90%": 0.9}
"""By environment, the probability that the colour contradicts the noisy label."""


@DATASETS.register("colored_mnist")
class ColoredMnist(Published):
    """70,000 red or green digits; is it below five? [Arjovsky et al. 2019].

    `y = [digit < 5]`, flipped with probability 0.25; the colour is that noisy y, flipped with probability e = 0.1, 0.2
    and 0.9; y = 1 is green where the colour agrees. Scans are 28 px with a black margin of 2; the channel of the other
    colour, and blue, are zero. Each scan lies in one environment. Units are the digits, so that one can be unknown.
    `seed` decides the dealing and the noise.
    """

    domains = tuple(COLOUR_NOISE)
    classes = ("5-9", "0-4")
    shape = (3, 32, 32)
    augmentation = NONE  # a jittered colour would be another dataset
    census = (CENSUS,)
    sources = SOURCES

    def __init__(self, root: Path | str, *, seed: int = 0) -> None:
        self.seed = seed
        self.scans = read_mnist(Path(root))
        self._read: dict[str, Domain] = {}

    @property
    def units(self) -> tuple[str, ...]:
        """The digits."""
        return tuple("0123456789")

    def tally(self) -> Counts:
        """Return how many scans there are of every digit."""
        return self.scans.tally()

    def read(self, domain: str) -> Domain:
        """Return one environment's coloured digits."""
        if self.check_domain(domain) not in self._read:
            self._read[domain] = self._coloured(self.domains.index(domain))
        return self._read[domain]

    def _coloured(self, place: int) -> Domain:
        name = self.domains[place]
        scans = self.scans.dealt(self.seed, len(self.domains))[place]
        rng = np.random.default_rng([self.seed, place])
        n = len(scans.digits)
        y = (scans.digits < 5) ^ (rng.random(n) < LABEL_NOISE)
        colour = y ^ (rng.random(n) < COLOUR_NOISE[name])
        images = np.zeros((n, *self.shape), np.uint8)
        images[np.arange(n), colour.astype(np.int64)] = scans.padded()
        return Domain(
            name, torch.from_numpy(images), torch.from_numpy(y.astype(np.int64)), torch.from_numpy(scans.digits)
        )
