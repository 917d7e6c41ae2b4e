"""Real handwritten digits in four rendered domains; embedded, so that everything can be tried without a download."""

from collections.abc import Callable
from functools import cache
from importlib.metadata import distribution
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageFilter

from madod.data.augment import Augmentation
from madod.data.base import DATASETS, Domain, DomainDataset

SIZE = 32
FILE = "sklearn/datasets/data/digits.csv.gz"
"""Where scikit-learn keeps the scans."""
Array = NDArray[np.floating[Any]]


@DATASETS.register("digits")
class Digits(DomainDataset):
    """1,797 handwritten digits [UCI Optdigits, through scikit-learn], each scan drawn in one of four domains."""

    domains = ("ink", "chalk", "neon", "outline")
    classes = tuple("0123456789")
    shape = (3, SIZE, SIZE)
    augmentation = Augmentation(crop=(0.8, 1.0), ratio=(0.9, 1.1), flip=0.0)

    def read(self, domain: str) -> Domain:
        """Return the scans dealt to one domain, drawn in its manner."""
        return _render(self.check_domain(domain))


@cache
def _render(domain: str) -> Domain:
    scans, labels = _scans()
    place = Digits.domains.index(domain)
    rows = np.flatnonzero(_deal(labels) == place)
    rng = np.random.default_rng(place)
    images = np.stack([RENDERINGS[domain](_stroke(scans[row]), rng) for row in rows])
    pixels = torch.from_numpy((images.clip(0, 1) * 255).round().astype(np.uint8)).permute(0, 3, 1, 2).contiguous()
    y = torch.from_numpy(labels[rows].astype(np.int64))
    return Domain(domain, pixels, y, y)


@cache
def _scans() -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return all scans (n, 64) and their digits (n,), from scikit-learn's file, as importing it takes a second."""
    try:
        table = np.loadtxt(str(distribution("scikit-learn").locate_file(FILE)), delimiter=",")
    except (ImportError, OSError):  # it lies elsewhere; scikit-learn knows where
        from sklearn.datasets import load_digits

        return load_digits(return_X_y=True)
    return table[:, :-1], table[:, -1].astype(np.int64)


def _deal(labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """Give every scan a domain, each digit as evenly as it goes."""
    rng = np.random.default_rng(0)
    place = np.empty(len(labels), np.int64)
    for digit in range(10):
        rows = rng.permutation(np.flatnonzero(labels == digit))
        place[rows] = np.arange(len(rows)) % len(Digits.domains)
    return place


def _stroke(scan: NDArray[np.float64]) -> Array:
    """Return how much pen there is at every pixel (32, 32, 1), from an 8 x 8 scan with values up to 16."""
    small = Image.fromarray((scan.reshape(8, 8) * 255 / 16).astype(np.uint8))
    large = small.resize((28, 28), Image.Resampling.BICUBIC)
    canvas = Image.new("L", (SIZE, SIZE))
    canvas.paste(large, (2, 2))
    pen = np.asarray(canvas, np.float32) / 255
    return (1 / (1 + np.exp(-12 * (pen - 0.45))))[..., None].astype(np.float32)


def _blur(plane: Array, radius: float) -> Array:
    image = Image.fromarray((plane[..., 0].clip(0, 1) * 255).astype(np.uint8))
    return (np.asarray(image.filter(ImageFilter.GaussianBlur(radius)), np.float32) / 255)[..., None]


def _colour(hue: float, saturation: float, value: float) -> Array:
    """Return an RGB triple from hue, saturation and value in [0, 1]."""
    wheel = np.clip(np.abs((hue * 6 + np.array([0, 4, 2])) % 6 - 3) - 1, 0, 1)
    return (value * (1 - saturation + saturation * wheel)).astype(np.float32)


def _noise(rng: np.random.Generator, scale: float) -> Array:
    return rng.normal(0, scale, (SIZE, SIZE, 1)).astype(np.float32)


def ink(stroke: Array, rng: np.random.Generator) -> Array:
    """Dark ink on warm paper."""
    paper = _colour(0.11, rng.uniform(0.02, 0.15), rng.uniform(0.88, 1.0)) + _noise(rng, 0.02)
    pen = _colour(rng.uniform(0.55, 0.7), rng.uniform(0.2, 0.8), rng.uniform(0.05, 0.3))
    return paper * (1 - stroke) + pen * stroke


def chalk(stroke: Array, rng: np.random.Generator) -> Array:
    """Grainy chalk on a smudged green board."""
    smudge = _blur(rng.uniform(0, 1, (SIZE, SIZE, 1)).astype(np.float32), 3) - 0.5
    board = _colour(0.4, 0.35, rng.uniform(0.2, 0.35)) + 0.8 * smudge + _noise(rng, 0.03)
    grain = stroke * rng.uniform(0.35, 1.0, stroke.shape).astype(np.float32)
    return board * (1 - grain) + rng.uniform(0.8, 1.0) * grain


def neon(stroke: Array, rng: np.random.Generator) -> Array:
    """A glowing tube of any colour before a dark gradient of another."""
    hue = rng.uniform()
    slope = np.linspace(0, 1, SIZE, dtype=np.float32)[:, None, None]
    wall = _colour(hue + rng.uniform(0.3, 0.7), 0.8, 0.35) * (slope if rng.uniform() < 0.5 else 1 - slope)
    glow = _blur(stroke, 2.5) * 1.2 * _colour(hue, 0.9, 1.0)
    return wall + glow + np.square(_blur(stroke, 0.7)) * _colour(hue, 0.3, 1.0) * 0.6


def outline(stroke: Array, rng: np.random.Generator) -> Array:
    """Only the contour of the digit, one colour on another."""
    soft = _blur(stroke, 0.6)
    edge = (4 * soft * (1 - soft)).clip(0, 1) ** 1.5
    ground = _colour(rng.uniform(), rng.uniform(0.3, 0.7), rng.uniform(0.55, 0.95))
    line = _colour(rng.uniform(), rng.uniform(0.5, 1.0), rng.uniform(0.0, 0.3))
    return ground * (1 - edge) + line * edge + _noise(rng, 0.02)


RENDERINGS: dict[str, Callable[[Array, np.random.Generator], Array]] = {
    "ink": ink,
    "chalk": chalk,
    "neon": neon,
    "outline": outline,
}
