"""RotatedMNIST: every domain turns its digits by an angle of its own."""

import numpy as np
import torch
from PIL import Image

from madod.data.augment import Augmentation
from madod.data.base import DATASETS, Domain
from madod.data.dealt import DealtMnist
from madod.data.mnist import Scans


@DATASETS.register("rotated_mnist")
class RotatedMnist(DealtMnist):
    """70,000 digits, each turned by 0, 15, 30, 45, 60 or 75 degrees [Ghifary et al. 2015].

    Scans are 28 px with a black margin of 2, turned counter-clockwise, grey in three channels. Each scan lies in one
    domain, named after its angle.
    """

    domains = ("0", "15", "30", "45", "60", "75")
    classes = tuple("0123456789")
    augmentation = Augmentation(crop=(0.8, 1.0), ratio=(0.9, 1.1), flip=0.0)

    def changed(self, domain: str, scans: Scans) -> Domain:
        """Return the scans turned."""
        turned = [Image.fromarray(scan).rotate(int(domain), Image.Resampling.BILINEAR) for scan in scans.padded()]
        grey = np.stack([np.asarray(image) for image in turned])
        images = torch.from_numpy(grey)[:, None].expand(-1, *self.shape).contiguous()
        digits = torch.from_numpy(scans.digits)
        return Domain(domain, images, digits, digits)
