"""A user's own pictures."""

import hashlib
import logging
from collections.abc import Sequence
from pathlib import Path

import torch

from madod.data.base import DATASETS, Domain, DomainDataset
from madod.data.cache import decoded
from madod.data.finding import LabelledFile, find_pictures, refuse_name
from madod.data.images import BadImage
from madod.data.order import missing, refuse_deeper, refuse_twins, require_two
from madod.errors import InputError
from madod.progress import Progress, silent

log = logging.getLogger(__name__)

MIN_SIZE, MAX_SIZE = 8, 2048
"""Sides in pixels of the squares that pictures may be squeezed to."""


def recorded_as(folder: Path) -> str:
    """Return what records call a folder of pictures: its own name, wherever it lies and however it was reached."""
    there = folder.resolve()
    refuse_name(there)
    return there.name


@DATASETS.register("folder")
class Folder(DomainDataset):
    """Your own pictures, laid out as ROOT/DOMAIN/CLASS/*.jpg (or png, webp, bmp, gif, tiff, ...).

    Domains and classes are the sorted names of the folders; a class may be missing in some domains. Pictures are
    squeezed to `size` x `size` pixels. `paths[domain][i]` is the file behind image i of that domain.
    """

    def __init__(
        self,
        root: Path | str,
        *,
        size: int,
        skip_bad: bool = False,
        cache: Path | None = None,
        progress: Progress = silent,
    ) -> None:
        self.name = str(root)  # messages name the user's folder, not the kind of dataset
        self.recorded_name = recorded_as(Path(root))
        refuse_size(size)
        pictures = find_pictures(Path(root))
        refuse_deeper(pictures, Path(root))
        require_two(pictures, self.name)
        refuse_twins(pictures, self.name)
        found = decoded([picture.path for picture in pictures], size, cache=cache, progress=progress)
        if found.bad:
            report_bad(found.bad, len(pictures), self.name, skip_bad)
        kept = [pictures[k] for k in found.kept]
        self.domains, self.classes = require_two(kept, self.name)
        self.shape = (3, size, size)
        described = repr((found.key, [(picture.domain, picture.label) for picture in kept]))
        self.contents = hashlib.sha256(described.encode()).hexdigest()
        self._images = found.images
        self._labels = torch.tensor([self.classes.index(picture.label) for picture in kept])
        self._rows = {domain: _span(kept, domain) for domain in self.domains}
        self.paths = {name: tuple(picture.path for picture in kept[rows]) for name, rows in self._rows.items()}
        for sentence in missing(kept, Path(root)):
            log.warning("%s: %s", self.name, sentence)

    def read(self, domain: str) -> Domain:
        """Return one domain's images, memory-mapped, in the order of `paths`."""
        rows = self._rows[self.check_domain(domain)]
        return Domain(domain, self._images[rows], self._labels[rows], self._labels[rows])


def refuse_size(size: int) -> None:
    """Refuse a side that pictures cannot be squeezed to."""
    if size < MIN_SIZE:
        raise InputError(f"a size of {size} pixels is too small for pictures: give {MIN_SIZE} or more")
    if size > MAX_SIZE:
        raise InputError(f"a size of {size} pixels is too large to train on: give {MAX_SIZE} or less")


def report_bad(bad: Sequence[BadImage], total: int, name: str, skip: bool) -> None:
    """Refuse pictures that cannot be read, all of them by name, or warn where they are to be left out."""
    lines = "".join(f"\n  {image.name}: {image.reason}" for image in bad)
    if skip:
        log.warning("left out %d of %d pictures in %s that cannot be read:%s", len(bad), total, name, lines)
        return
    raise InputError(
        f"{len(bad)} of {total} pictures in {name} cannot be read; "
        f"mend or remove them, or leave them out with --skip-bad (in a plan: skip_bad = true):{lines}"
    )


def _span(pictures: Sequence[LabelledFile], domain: str) -> slice:
    """Return where a domain's pictures lie in a sequence sorted by domain."""
    rows = [k for k, picture in enumerate(pictures) if picture.domain == domain]
    return slice(rows[0], rows[-1] + 1)
