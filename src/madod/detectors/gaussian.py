"""Gaussians over features in float64, well defined however few images there are."""

from collections.abc import Iterator

import torch
from torch import Tensor

RESOLUTION = 1e-12
"""A variance below this share of the largest is rounding noise of float32 features."""

ROWS = 2048
"""Images converted to float64 at a time."""


def class_means(features: Tensor, y: Tensor) -> Tensor:
    """mu_k (classes, f) of the classes that occur in y, in ascending order."""
    return torch.stack([features[y == label].mean(0, dtype=torch.float64) for label in y.unique()])


def centred(features: Tensor, mean: Tensor) -> Iterator[Tensor]:
    """Yield z - mu in blocks of images."""
    return (block.double() - mean for block in features.split(ROWS))


def scatter(features: Tensor, mean: Tensor) -> Tensor:
    """sum_i (z_i - mu)(z_i - mu)' (f, f)."""
    total = mean.new_zeros(len(mean), len(mean))
    for block in centred(features, mean):
        total.addmm_(block.mT, block)
    return total


def vanishes(total: Tensor, mean: Tensor) -> bool:
    """Whether a scatter is nothing but rounding noise: its images are all equal, or there is only one."""
    return float(total.trace()) <= RESOLUTION * float(mean.square().sum())


def total_scatter(features: Tensor) -> tuple[Tensor, int]:
    """Return the scatter about the mean of all images and its degrees of freedom; I where all images are equal."""
    mean = features.mean(0, dtype=torch.float64)
    total = scatter(features, mean)
    return (torch.eye(len(mean)).to(total), 1) if vanishes(total, mean) else (total, len(features) - 1)


def within_scatter(features: Tensor, y: Tensor) -> tuple[Tensor, int]:
    """Return sum_k sum_(i in k) (z_i - mu_k)(z_i - mu_k)' and its degrees of freedom.

    Where no class has two different images, the scatter about the mean of all images stands in for it.
    """
    means = class_means(features, y)
    total = means.new_zeros(means.shape[1], means.shape[1])
    for label, mean in zip(y.unique(), means, strict=True):
        total += scatter(features[y == label], mean)
    return total_scatter(features) if vanishes(total, means) else (total, len(features) - len(means))


def squared_distances(features: Tensor, mean: Tensor, factor: Tensor) -> Tensor:
    """(z - mu)' (L L')^-1 (z - mu) = ||L^-1 (z - mu)||^2 (n,), for a lower triangular L (f, f)."""
    solved = (torch.linalg.solve_triangular(factor, block.mT, upper=False) for block in centred(features, mean))
    return torch.cat([block.square_().sum(0) for block in solved])


def class_distances(features: Tensor, means: Tensor, factor: Tensor) -> Tensor:
    """||L^-1 (z - mu_k)||^2 (n, k) for classes that share L; every image is whitened once."""
    origin = means.mean(0)
    centres = torch.linalg.solve_triangular(factor, (means - origin).mT, upper=False).mT
    whitened = (torch.linalg.solve_triangular(factor, block.mT, upper=False).mT for block in centred(features, origin))
    return torch.cat([torch.cdist(z, centres, compute_mode="donot_use_mm_for_euclid_dist").square() for z in whitened])
