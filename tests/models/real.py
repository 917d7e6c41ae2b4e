"""Real photographs and weights beside the repository, where they are at hand."""

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

DATA = Path(__file__).parents[3] / "shared" / "data"
RESNET50 = DATA / "weights" / "resnet50_imagenet_v1.safetensors"
PHOTOS = DATA / "pacs" / "photo.zip"
IMAGENET = {"dog": {*range(151, 269)}, "elephant": {101, 385, 386}, "guitar": {402, 546}}
"""ImageNet's classes of three classes of PACS."""

needs_photos = pytest.mark.skipif(not PHOTOS.exists(), reason="PACS is not at hand")


def photographs(each):
    """Yield a class and its first photographs (n, 3, 224, 224) in [0, 1]."""
    with zipfile.ZipFile(PHOTOS) as archive:
        for name in IMAGENET:
            files = sorted(f for f in archive.namelist() if f.startswith(f"photo/{name}/") and f.endswith(".jpg"))
            pictures = [Image.open(io.BytesIO(archive.read(file))).convert("RGB") for file in files[:each]]
            pixels = np.stack(
                [np.asarray(picture.resize((224, 224), Image.Resampling.BICUBIC)) for picture in pictures]
            )
            yield name, torch.from_numpy(pixels).permute(0, 3, 1, 2).float().div(255)


@torch.no_grad()
def share_right(net, head_weight, head_bias, each=7):
    """Return the share of photographs that are taken for one of the ImageNet classes of their class, by class."""
    found = {}
    for name, images in photographs(each):
        best = (net.eval()(images) @ head_weight.float().T + head_bias.float()).argmax(1)
        found[name] = sum(int(k) in IMAGENET[name] for k in best) / len(images)
    return found
