"""Training-time augmentation: batched, every image with draws of its own, on whatever device the images are."""

import math
from dataclasses import dataclass
from functools import cache

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


LUMINANCE = (0.299, 0.587, 0.114)
"""What red, green and blue give to grey [ITU-R BT.601]."""
CROSS = ((0.0, -1.0, 1.0), (1.0, 0.0, -1.0), (-1.0, 1.0, 0.0))
"""The cross product with (1, 1, 1)."""


@cache
def constant(values: tuple[float | tuple[float, ...], ...], device: torch.device) -> Tensor:
    """Return numbers on a device, sent there once, so that no step waits for them."""
    return torch.tensor(values, device=device)


def uniform(n: int, low: float, high: float, rng: torch.Generator) -> Tensor:
    """Draw n numbers on the generator's device."""
    return torch.rand(n, generator=rng, device=rng.device) * (high - low) + low


def crop_and_flip(images: Tensor, how: Augmentation, rng: torch.Generator) -> Tensor:
    """Crop, resize and flip every image by one sampling grid; images that are only flipped keep their bits."""
    n, _, high, wide = images.shape
    area = uniform(n, *how.crop, rng)
    ratio = uniform(n, math.log(how.ratio[0]), math.log(how.ratio[1]), rng).exp()
    width, height = (area * ratio).sqrt().clamp(max=1), (area / ratio).sqrt().clamp(max=1)
    across, down = uniform(n, -1, 1, rng) * (1 - width), uniform(n, -1, 1, rng) * (1 - height)
    mirror = uniform(n, 0, 1, rng) < how.flip
    if how.crop == how.ratio == (1.0, 1.0):
        return torch.where(mirror.view(n, 1, 1, 1), images.flip(3), images) if how.flip else images
    columns = torch.outer(width * (1 - 2 * mirror.float()), centres(wide, images.device)) + across[:, None]
    rows = torch.outer(height, centres(high, images.device)) + down[:, None]
    grid = torch.stack([columns[:, None, :].expand(n, high, wide), rows[:, :, None].expand(n, high, wide)], 3)
    return F.grid_sample(images, grid, padding_mode="border", align_corners=False)


def centres(pixels: int, device: torch.device) -> Tensor:
    """Return where the centres of a row of pixels lie between its ends, -1 and 1."""
    return (2 * torch.arange(pixels, device=device) + 1) / pixels - 1


def recolour(images: Tensor, how: Augmentation, rng: torch.Generator) -> Tensor:
    """Vary brightness, contrast, saturation and hue, and turn some images grey.

    Each of these maps a colour x to A x + b, so that all of them together are one matrix and one offset per image; the
    contrast turns about the image's mean, and what the others do to a grey offset is nothing.
    """
    if images.shape[1] != 3 or (how.jitter == 0 and how.grey == 0):
        return images
    n, span = len(images), how.jitter
    brightness, contrast = (uniform(n, 1 - span, 1 + span, rng).view(n, 1, 1) for _ in range(2))
    keep = (uniform(n, 0, 1, rng) >= how.grey).float().view(n, 1, 1)
    colour = uniform(n, 1 - span, 1 + span, rng).view(n, 1, 1) * keep
    turned = hue(uniform(n, -span, span, rng))
    matrix = turned @ saturation(colour) * (brightness * contrast)
    offset = (1 - contrast) * brightness * images.mean((1, 2, 3)).view(n, 1, 1)
    return torch.baddbmm(offset, matrix, images.flatten(2)).clamp_(0, 1).view_as(images)


def saturation(factor: Tensor) -> Tensor:
    """Return the matrices (n, 3, 3) that move colours away from their grey by factors (n, 1, 1), to it by 0."""
    grey = constant(LUMINANCE, factor.device).expand(3, 3)
    return grey + factor * (torch.eye(3, device=factor.device) - grey)


def hue(turns: Tensor) -> Tensor:
    """Return the matrices (n, 3, 3) that turn colours about the grey axis by shares of a turn [Rodrigues' formula]."""
    angle = turns * 2 * torch.pi
    cos, sin = angle.cos().view(-1, 1, 1), angle.sin().view(-1, 1, 1) / 3**0.5
    eye, cross = torch.eye(3, device=turns.device), constant(CROSS, turns.device)
    return cos * eye + (1 - cos) / 3 + sin * cross
