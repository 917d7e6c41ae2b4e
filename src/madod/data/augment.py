"""Training-time augmentation: batched, every image with draws of its own, on whatever device the images are."""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor


@dataclass(frozen=True)
class Augmentation:
    """How strongly training images are varied; a dataset states what leaves its classes intact."""

    crop: tuple[float, float] = (0.7, 1.0)
    """Share of the image's area that a random crop keeps, lowest and highest."""
    ratio: tuple[float, float] = (3 / 4, 4 / 3)
    """Width over height of the crop, lowest and highest."""
    flip: float = 0.5
    """Probability of a left-right flip."""
    jitter: float = 0.3
    """Range of brightness, contrast and saturation factors around 1, and (in turns) of the hue around 0."""
    grey: float = 0.1
    """Probability of losing all colour."""

    def __call__(self, images: Tensor, rng: torch.Generator) -> Tensor:
        """Return varied copies of images (n, c, h, w) in [0, 1]."""
        return recolour(crop_and_flip(images, self, rng), self, rng)


NONE = Augmentation(crop=(1.0, 1.0), ratio=(1.0, 1.0), flip=0.0, jitter=0.0, grey=0.0)
"""Leaves images as they are."""


def uniform(n: int, low: float, high: float, rng: torch.Generator) -> Tensor:
    """Draw n numbers on the generator's device."""
    return torch.rand(n, generator=rng, device=rng.device) * (high - low) + low


def crop_and_flip(images: Tensor, how: Augmentation, rng: torch.Generator) -> Tensor:
    """Crop, resize and flip every image by one affine sampling grid."""
    n = len(images)
    area = uniform(n, *how.crop, rng)
    ratio = uniform(n, math.log(how.ratio[0]), math.log(how.ratio[1]), rng).exp()
    width, height = (area * ratio).sqrt().clamp(max=1), (area / ratio).sqrt().clamp(max=1)
    across, down = uniform(n, -1, 1, rng) * (1 - width), uniform(n, -1, 1, rng) * (1 - height)
    mirror = 1 - 2 * (uniform(n, 0, 1, rng) < how.flip).float()
    zero = torch.zeros_like(width)
    theta = torch.stack([width * mirror, zero, across, zero, height, down], 1).view(n, 2, 3)
    grid = F.affine_grid(theta, list(images.shape), align_corners=False)
    return F.grid_sample(images, grid, padding_mode="reflection", align_corners=False)


def recolour(images: Tensor, how: Augmentation, rng: torch.Generator) -> Tensor:
    """Vary brightness, contrast, saturation and hue, and turn some images grey."""
    if images.shape[1] != 3 or (how.jitter == 0 and how.grey == 0):
        return images
    n, span = len(images), how.jitter

    def factor() -> Tensor:
        return uniform(n, 1 - span, 1 + span, rng).view(n, 1, 1, 1)

    images = images * factor()
    mean = images.mean((1, 2, 3), keepdim=True)
    images = mean + (images - mean) * factor()
    dull = luminance(images)
    keep = (uniform(n, 0, 1, rng) >= how.grey).float().view(n, 1, 1, 1)
    images = dull + (images - dull) * factor() * keep
    return hue(images, uniform(n, -span, span, rng)).clamp_(0, 1)


def luminance(images: Tensor) -> Tensor:
    """Return the grey version (n, 1, h, w) of colour images [ITU-R BT.601]."""
    weights = images.new_tensor([0.299, 0.587, 0.114]).view(1, 3, 1, 1)
    return (images * weights).sum(1, keepdim=True)


def hue(images: Tensor, turns: Tensor) -> Tensor:
    """Rotate colours about the grey axis by a share of a full turn, one number an image [Rodrigues' formula]."""
    angle = turns * 2 * torch.pi
    cos, sin = angle.cos().view(-1, 1, 1), angle.sin().view(-1, 1, 1) / 3**0.5
    eye, ones = torch.eye(3, device=images.device), torch.ones(3, 3, device=images.device) / 3
    cross = torch.tensor([[0.0, -1.0, 1.0], [1.0, 0.0, -1.0], [-1.0, 1.0, 0.0]], device=images.device)
    rotation = cos * eye + (1 - cos) * ones + sin * cross
    return torch.einsum("nij,njhw->nihw", rotation, images)
