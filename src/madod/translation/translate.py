"""G, frozen: the same content in a style drawn at random."""

import json
from dataclasses import asdict
from pathlib import Path

import torch
from torch import Tensor, nn

from madod.data.augment import NONE, Augmentation
from madod.errors import InputError, is_out_of_memory
from madod.models.compute import PLAIN, Compute
from madod.storage import read_tensors, write_tensors
from madod.translation.blocks import at_once, whole_quarters
from madod.translation.munit import Munit
from madod.translation.networks import Architecture, ContentEncoder, Decoder, for_g

AGAIN = "delete it, and it is made again"
"""What to do about a G that is none."""


class Translate(nn.Module):
    """DataAug(x) = D(E_s(x), v), v ~ N(0, I) [MADOD, alg. 1, DataAug]: images in [0, 1] in and out, no gradient."""

    def __init__(self, architecture: Architecture, compute: Compute = PLAIN) -> None:
        super().__init__()
        self.architecture = architecture
        self.compute = for_g(compute)
        self.content_encoder = ContentEncoder(architecture)
        self.decoder = Decoder(architecture)
        self.requires_grad_(False).eval()
        self.compute.prepare(self.content_encoder, self.decoder)

    def forward(self, images: Tensor, rng: torch.Generator) -> Tensor:
        """Return every image in a style of its own."""
        v = torch.randn(len(images), self.architecture.style, generator=rng, device=images.device)
        height, width = images.shape[2:]
        x, most = whole_quarters(images * 2 - 1), at_once(images)
        passes = zip(x.split(most), v.split(most), strict=True)
        moved = [self.compute(self.decoder, self.compute(self.content_encoder, part), style) for part, style in passes]
        return (torch.cat(moved)[:, :, :height, :width].to(images.dtype) + 1) / 2


def freeze(munit: Munit, architecture: Architecture, compute: Compute = PLAIN) -> Translate:
    """Return what serves after training: content encoder and decoder, frozen."""
    translate = Translate(architecture, compute)
    translate.content_encoder.load_state_dict(munit.content_encoder.state_dict())
    translate.decoder.load_state_dict(munit.decoder.state_dict())
    return translate


def save(translate: Translate, path: Path) -> None:
    """Write G to one file, whole or absent."""
    write_tensors(path, translate.state_dict(), {"architecture": json.dumps(asdict(translate.architecture))})


def load(path: Path, compute: Compute = PLAIN) -> Translate:
    """Read G back, frozen."""
    tensors, facts = read_tensors(path, remedy=AGAIN)
    try:
        translate = Translate(Architecture(**json.loads(facts["architecture"])), compute)
        translate.load_state_dict(tensors)
    except (KeyError, ValueError, TypeError, RuntimeError) as error:
        if is_out_of_memory(error):
            raise
        raise InputError(f"{path} does not hold a generator ({type(error).__name__}): {AGAIN}") from error
    return translate


class PlainAugmentation(nn.Module):
    """The control without G: strong plain augmentation of colour and frame."""

    def __init__(self, augmentation: Augmentation) -> None:
        super().__init__()
        if augmentation == NONE:
            raise InputError(
                "plain augmentation in place of G leaves the images of this dataset as they are, since none keeps its "
                "classes intact: set translate to munit"
            )
        self.augmentation = augmentation

    def forward(self, images: Tensor, rng: torch.Generator) -> Tensor:
        """Return every image varied by draws of its own."""
        return self.augmentation(images, rng)
