"""MNIST's four idx files, compressed or not, found in the usual places."""

import gzip
import math
import zlib
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from madod.data.download import Source
from madod.data.published import Absent, Census, Counts
from madod.errors import InputError

PLACES = ("", "MNIST/raw", "mnist", "MNIST", "raw", "mnist/raw", "MNIST/MNIST/raw")
"""Where under a root the files lie, tried in this order."""
FILES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
WANTED = f"put {', '.join(FILES)} there, each as it is or as .gz, directly or in MNIST/raw"
CENSUS = Census({"MNIST": 70000}, {"MNIST": (6903, 7877, 6990, 7141, 6824, 6313, 6876, 7293, 6825, 6958)})
MIRRORS = ("https://ossci-datasets.s3.amazonaws.com/mnist/", "https://storage.googleapis.com/cvdf-datasets/mnist/")
CHECKSUMS = (
    "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
    "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
    "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
    "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
)
SOURCES = tuple(
    Source(f"MNIST/raw/{name}.gz", tuple(f"{mirror}{name}.gz" for mirror in MIRRORS), sha256)
    for name, sha256 in zip(FILES, CHECKSUMS, strict=True)
)
Bytes = NDArray[np.uint8]


class Scans(NamedTuple):
    """Handwritten digits: pixels uint8 (n, 28, 28) and the digit of each, int64 (n,)."""

    pixels: Bytes
    digits: NDArray[np.int64]

    def tally(self) -> Counts:
        """Return how many scans there are of every digit."""
        return {"MNIST": {str(digit): int((self.digits == digit).sum()) for digit in range(10)}}

    def dealt(self, seed: int, places: int) -> list["Scans"]:
        """Return the shuffled scans in equal parts, each scan in one part only."""
        order = np.random.default_rng(seed).permutation(len(self.digits))
        return [Scans(self.pixels[order[k::places]], self.digits[order[k::places]]) for k in range(places)]

    def padded(self) -> Bytes:
        """Return the pixels with a black margin of 2 on every side."""
        return np.pad(self.pixels, ((0, 0), (2, 2), (2, 2)))


def read_mnist(root: Path) -> Scans:
    """Return the training scans followed by the test scans under a root."""
    if not root.is_dir():
        raise Absent(f"there is no folder {root}: make it, and {WANTED}")
    train_x, train_y, test_x, test_y = (read_idx(_find(root, name)) for name in FILES)
    for images, labels, what in ((train_x, train_y, "train"), (test_x, test_y, "t10k")):
        if images.shape[1:] != (28, 28) or images.shape[:1] != labels.shape:
            raise InputError(
                f"the {what} files of MNIST in {root} do not fit together: images {images.shape}, labels {labels.shape}"
            )
    return Scans(np.concatenate([train_x, test_x]), np.concatenate([train_y, test_y]).astype(np.int64))


def _find(root: Path, name: str) -> Path:
    """Return one of the four files; some sources write a dot before idx."""
    spellings = [f"{stem}{ending}" for stem in (name, name.replace("-idx", ".idx")) for ending in ("", ".gz")]
    for place in PLACES:
        for spelling in spellings:
            if (root / place / spelling).is_file():
                return root / place / spelling
    raise Absent(f"there is no {name} of MNIST in {root}: {WANTED}")


def read_idx(path: Path) -> Bytes:
    """Return the array of unsigned bytes in an idx file, gzipped or not."""
    try:
        content = path.read_bytes()
        content = gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content
    except (gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise InputError(f"{path} is damaged ({error}): get it again") from error
    kind, axes = content[:3], content[3] if len(content) > 3 else 0
    start = 4 + 4 * axes
    shape = tuple(int(n) for n in np.frombuffer(content[4:start], ">u4")) if len(content) >= start else ()
    if kind != b"\x00\x00\x08" or len(shape) != axes or len(content) != start + math.prod(shape):
        raise InputError(f"{path} is no whole idx file of bytes: get it again")
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)
