"""How fast training images come on one CPU thread: `pool.take` and our augmentation against one picture at a time.

    python benchmarks/data_speed.py [--root FOLDER]

Both make batches of 32 images of 224 px with the same augmentation: a crop of 70 to 100 % of the area, resized; flips;
brightness, contrast, saturation and hue; some grey. The plain pipeline opens and decodes every JPEG with Pillow, varies
it with Pillow, and stacks tensors; ours takes from decoded pictures and varies the batch as a whole. Both run in turns
in one process, on CPU seconds, and the ratio is of the medians; the goal is at least 3. Pictures are made for the
purpose, or the first 256 below a folder; they are 224 px, as PACS is, so that decoding is as cheap as it gets.

Measured on two busy cores: 3.4 to 3.5 times with made pictures, 3.4 to 3.9 times with PACS (1.3 and 4.8 ms an image).
"""

import argparse
import math
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageEnhance
from torch import Tensor

from madod.data.augment import Augmentation
from madod.data.base import Domain, pool
from madod.data.cache import decoded

SIZE, BATCH, PICTURES = 224, 32, 256


def varied(file: Path, how: Augmentation, rng: random.Random) -> Tensor:
    """Return one picture, decoded and varied with Pillow."""
    image = Image.open(file).convert("RGB")
    area, ratio = rng.uniform(*how.crop), math.exp(rng.uniform(*map(math.log, how.ratio)))
    width, height = (min(1.0, math.sqrt(share)) for share in (area * ratio, area / ratio))
    left, top = rng.uniform(0, 1 - width) * image.width, rng.uniform(0, 1 - height) * image.height
    box = (left, top, left + width * image.width, top + height * image.height)
    image = image.resize((SIZE, SIZE), Image.Resampling.BILINEAR, box=box)
    if rng.random() < how.flip:
        image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    for enhance in (ImageEnhance.Brightness, ImageEnhance.Contrast, ImageEnhance.Color):
        image = enhance(image).enhance(rng.uniform(1 - how.jitter, 1 + how.jitter))
    shift = round(rng.uniform(-how.jitter, how.jitter) * 255) % 256
    hue, saturation, value = image.convert("HSV").split()
    hue = hue.point([(level + shift) % 256 for level in range(256)])
    image = Image.merge("HSV", (hue, saturation, value)).convert("RGB")
    if rng.random() < how.grey:
        image = image.convert("L").convert("RGB")
    return torch.from_numpy(np.asarray(image).transpose(2, 0, 1).copy()).float().div_(255)


def made(folder: Path) -> list[Path]:
    """Return JPEG files of smooth shapes with some noise."""
    rng = np.random.default_rng(0)
    files = [folder / f"{k}.jpg" for k in range(PICTURES)]
    for file in files:
        coarse = Image.fromarray(rng.integers(0, 256, (14, 14, 3), np.uint8)).resize((SIZE, SIZE))
        grain = np.asarray(coarse) + rng.normal(0, 6, (SIZE, SIZE, 3))
        Image.fromarray(np.clip(grain, 0, 255).astype(np.uint8)).save(file, quality=82)
    return files


def seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def measure(files: Sequence[Path], cache: Path, *, turns: int = 12) -> dict[str, float]:
    """Return the median CPU milliseconds an image of both, and their ratio."""
    torch.set_num_threads(1)
    images = decoded(files, SIZE, cache=cache).images
    zeros = torch.zeros(len(images), dtype=torch.int64)
    source = pool([Domain("all", images, zeros, zeros)], ["one"], ["one"])
    how, rng, plain_rng = Augmentation(), torch.Generator().manual_seed(0), random.Random(0)

    def ours() -> Tensor:
        return how(source.take(torch.randint(len(source), (BATCH,), generator=rng)), rng)

    def plain() -> Tensor:
        return torch.stack([varied(plain_rng.choice(files), how, plain_rng) for _ in range(BATCH)])

    assert ours().shape == plain().shape
    pairs = [(seconds(ours), seconds(plain)) for _ in range(turns)]
    quick, slow = (1000 * statistics.median(column) / BATCH for column in zip(*pairs, strict=True))
    return {"ours, ms an image": quick, "plain, ms an image": slow, "ratio": slow / quick}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, help="folder of JPEG files to take instead of made ones")
    how = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        files = sorted(how.root.rglob("*.jpg"))[:PICTURES] if how.root else made(Path(scratch))
        for name, value in measure(files, Path(scratch) / "cache").items():
            print(f"{name}: {value:.3g}")


if __name__ == "__main__":
    main()
