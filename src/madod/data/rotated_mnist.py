"""RotatedMNIST: every domain turns its digits by an angle of its own."""

from pathlib import Path

import numpy as np
import torch
from PIL import Image

from madod.data.augment import Augmentation
from madod.data.base import DATASETS, Domain
from madod.data.mnist import CENSUS, SOURCES, read_mnist
from madod.data.published import Counts, Published


@DATASETS.register("rotated_mnist")
class RotatedMnist(Published):
    """70,000 digits, each turned by 0, 15, 30, 45, 60 or 75 degrees [Ghifary et al. 2015].

    Scans are 28 px with a black margin of 2, turned counter-clockwise, grey in three channels. Each scan lies in one
    domain, named after its angle; `seed` decides which.
    """

    domains = ("0", "15", "30", "45", "60", "75")
    classes = tuple("0123456789")
    shape = (3, 32, 32)
    augmentation = Augmentation(crop=(0.8, 1.0), ratio=(0.9, 1.1), flip=0.0)
    census = (CENSUS,)
    sources = SOURCES

    def __init__(self, root: Path | str, *, seed: int = 0) -> None:
        self.seed = seed
        self.scans = read_mnist(Path(root))
        self._read: dict[str, Domain] = {}

    def tally(self) -> Counts:
        """Return how many scans there are of every digit."""
        return self.scans.tally()

    def read(self, domain: str) -> Domain:
        """Return one domain's turned digits."""
        if self.check_domain(domain) not in self._read:
            scans = self.scans.dealt(self.seed, len(self.domains))[self.domains.index(domain)]
            turned = [Image.fromarray(scan).rotate(int(domain), Image.Resampling.BILINEAR) for scan in scans.padded()]
            grey = np.stack([np.asarray(image) for image in turned])
            images = torch.from_numpy(grey)[:, None].expand(-1, *self.shape).contiguous()
            digits = torch.from_numpy(scans.digits)
            self._read[domain] = Domain(domain, images, digits, digits)
        return self._read[domain]
