"""Small files in the layouts of real datasets."""

import gzip
from pathlib import Path

import numpy as np
from PIL import Image

from madod.data.mnist import FILES

REAL = Path(__file__).parents[3] / "shared" / "data"
"""Where the real datasets lie, on machines that have them."""


def picture(path: Path, colour=(10, 20, 30)) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (20, 20), colour).save(path)
    return path


def idx(array: np.ndarray) -> bytes:
    return bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes() + array.astype(np.uint8).tobytes()


def write_mnist(home: Path, train=540, test=60, pack=False, dot=False) -> list[np.ndarray]:
    """Write four idx files of random scans without a black pixel; return what is in them."""
    home.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    arrays = [array for n in (train, test) for array in (rng.integers(1, 256, (n, 28, 28)), rng.integers(0, 10, n))]
    for name, array in zip(FILES, arrays, strict=True):
        name = name.replace("-idx", ".idx") if dot else name
        (home / (f"{name}.gz" if pack else name)).write_bytes(gzip.compress(idx(array)) if pack else idx(array))
    return arrays
