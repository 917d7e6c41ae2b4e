"""A few of the pictures that a model was trained on, small, to be shown beside those that it is asked about."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from madod.data.base import Pool
from madod.data.images import Pixels
from madod.errors import InputError
from madod.evaluation.verdicts import shrunk
from madod.storage import read_tensors, write_tensors

MOST = 512
"""Pictures in a gallery, spread evenly over domains and classes."""


class Neighbour(NamedTuple):
    """A training picture that resembles another: uint8 (3, h, w), and the cosine between their features."""

    label: str
    domain: str
    similarity: float
    thumbnail: Pixels


class Gallery(NamedTuple):
    """Thumbnails uint8 (m, 3, h, w), their features (m, f), and where each belongs, as indices."""

    thumbnails: Tensor
    features: Tensor
    labels: Tensor
    domains: Tensor

    def nearest(self, features: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """Return the k most similar pictures of features (n, f), nearest first: their rows (n, k) and the cosines."""
        if features.ndim != 2 or features.shape[1] != self.features.shape[1]:
            wanted = self.features.shape[1]
            raise InputError(f"features are (n, {wanted}) here, not {tuple(features.shape)}: take those of this model")
        cosines = (F.normalize(features.float(), dim=1) @ F.normalize(self.features, dim=1).T).clamp(-1, 1)  # rounded
        found = cosines.topk(min(max(k, 0), len(self.features)), dim=1)
        return found.indices, found.values

    def neighbours(
        self, features: Tensor, k: int, classes: Sequence[str], domains: Sequence[str]
    ) -> list[list[Neighbour]]:
        """Return the same as pictures, with the names of their classes and domains."""
        rows, cosines = self.nearest(features, k)
        return [
            [
                Neighbour(
                    classes[int(self.labels[row])],
                    domains[int(self.domains[row])],
                    cosine,
                    self.thumbnails[row].numpy(),
                )
                for row, cosine in zip(*pair, strict=True)
            ]
            for pair in zip(rows.tolist(), cosines.tolist(), strict=True)
        ]

    def save(self, file: Path) -> None:
        """Write it into one safetensors file."""
        write_tensors(file, self._asdict(), {})


def gathered(source: Pool, features: Tensor) -> Gallery:
    """Return a gallery of training pictures and their features (n, f), taking turns among domains and classes."""
    rows = spread(source.d.cpu().numpy(), source.y.cpu().numpy())
    small = shrunk(source.stored(rows.to(source.device)).cpu())
    return Gallery(small, features[rows].float(), source.y.cpu()[rows], source.d.cpu()[rows])


def spread(domains: np.ndarray, labels: np.ndarray) -> Tensor:
    """Return up to `MOST` rows, ascending: as many of every domain and class as there are, or as many as of others."""
    turn = np.zeros(len(labels), dtype=np.int64)
    for cell in np.unique(np.stack([domains, labels]), axis=1).T:
        inside = np.flatnonzero((domains == cell[0]) & (labels == cell[1]))
        turn[np.random.default_rng(0).permutation(inside)] = np.arange(len(inside))
    return torch.from_numpy(np.sort(turn.argsort(kind="stable")[:MOST]))


def read_gallery(file: Path, classes: int, domains: int) -> Gallery | None:
    """Read what `Gallery.save` wrote, of a model with so many classes and domains; nothing where there is no file."""
    if not file.exists():
        return None
    found = read_tensors(file)[0]
    if found.keys() != set(Gallery._fields) or not _sound(Gallery(**found), classes, domains):
        raise InputError(f"{file} is no gallery of this model: delete it, and the model works without it")
    return Gallery(**found)


def _sound(gallery: Gallery, classes: int, domains: int) -> bool:
    """Tell whether there are a picture, its features and its place in every row."""
    pictures, features, *places = gallery
    shaped = pictures.ndim == 4 and pictures.shape[1] == 3 and pictures.dtype == torch.uint8
    counted = features.ndim == 2 and {len(part) for part in gallery if part.ndim} == {len(pictures)}
    return (
        shaped
        and counted
        and features.dtype == torch.float32
        and all(
            place.ndim == 1 and place.dtype == torch.int64 and bool(((place >= 0) & (place < most)).all())
            for place, most in zip(places, (classes, domains), strict=True)
        )
    )
