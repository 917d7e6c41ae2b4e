"""Domains, datasets made of them, and pools of their images."""

import hashlib
import shlex
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import torch
from torch import Tensor

from madod.data.augment import Augmentation
from madod.errors import InputError, first_few, nearest
from madod.registry import Registry

UNKNOWN = -1
"""The label of every image whose class is hidden from training."""


@dataclass(frozen=True)
class Domain:
    """The images of one domain, at rest: images uint8 (n, c, h, w), labels and units int64 (n,).

    A unit is what tasks hold out and splits stratify by: the class, unless the dataset has something finer
    (the digits behind ColoredMNIST's binary label).
    """

    name: str
    images: Tensor
    labels: Tensor
    units: Tensor


class DomainDataset(ABC):
    """The same classes seen in several domains."""

    name: str
    recorded_name: str = ""
    """What records call it, where that is not its name."""
    domains: tuple[str, ...]
    classes: tuple[str, ...]
    shape: tuple[int, int, int]
    augmentation: Augmentation = Augmentation()
    contents: str = ""
    """What tells its pictures from others without a look at them, where they are a person's own and may change."""

    @property
    def short_name(self) -> str:
        """What records call it."""
        return self.recorded_name or self.name

    @property
    def units(self) -> tuple[str, ...]:
        """The names of the units: the classes, unless the dataset has finer ones."""
        return self.classes

    @classmethod
    def without_files(cls) -> Self | None:
        """Return one that can be asked for its names alone, wherever its files are; none where only `__init__` knows.

        Refuse one that states none at all. Its shape may come with `__init__`, and has no bearing on names.
        """
        blank, names, opens = cls.__new__(cls), ("domains", "classes"), cls.__init__ is not DomainDataset.__init__
        if opens and not all(hasattr(blank, what) for what in names):
            return None
        blank.check_names(names if opens else (*names, "shape"))
        return blank

    @abstractmethod
    def read(self, domain: str) -> Domain:
        """Return one domain's images, memory-mapped where they are large."""

    def unit_index(self, name: str) -> int:
        """Return the index of a unit, or say which there are."""
        if name not in self.units:
            listed, parts = first_few(self.units, 24), [part.strip() for part in name.split(",")]
            several = f" (name each by itself, with blanks between them: {shlex.join(parts)})"
            meant = several if {*parts} <= {*self.units} else nearest(name, self.units)
            raise InputError(f"no class {name!r} in {self.name}{meant}; it has {listed}")
        return self.units.index(name)

    def check_names(self, needed: Sequence[str] = ("domains", "classes", "shape")) -> None:
        """Refuse a dataset that does not say what it has, or names domains or classes as nobody can tell apart."""
        if missing := [what for what in needed if not hasattr(self, what)]:
            raise InputError(f"{self.name} does not say its {' and '.join(missing)}: every dataset has to")
        for what, names in (("domains", self.domains), ("classes", self.classes)):
            if isinstance(names, str):  # whose letters would be taken for names
                raise InputError(f"the {what} of {self.name} are one text: write them as a list, as in [{names!r}]")
            if not all(isinstance(name, str) for name in names) or len({*names}) < len(names):
                raise InputError(f"the {what} of {self.name} have to be texts, each once: there are {(*names,)}")

    def check_domain(self, name: str) -> str:
        """Return the domain's name, or say which there are."""
        if name not in self.domains:
            allowed = ", ".join(self.domains)
            raise InputError(f"no domain {name!r} in {self.name}{nearest(name, self.domains)}; it has {allowed}")
        return name


DATASETS: Registry[DomainDataset] = Registry("dataset", DomainDataset)


@dataclass(frozen=True)
class Pool:
    """Images of several domains to draw from, without copying them.

    Image i is `images[part[i]][row[i]]`; `to` gathers all of them into one part. Labels `y` index `classes` and are -1
    for hidden classes, `d` indexes `domains`, `u` indexes `units`.
    """

    images: tuple[Tensor, ...]
    part: Tensor
    row: Tensor
    y: Tensor
    d: Tensor
    u: Tensor
    domains: tuple[str, ...]
    classes: tuple[str, ...]
    units: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.row)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width of every image."""
        channels, height, width = self.images[0].shape[1:]
        return channels, height, width

    @property
    def device(self) -> torch.device:
        """Where the images are."""
        return self.row.device

    def stored(self, index: Tensor) -> Tensor:
        """Return images as they lie at rest, uint8 (n, c, h, w)."""
        if len(self.images) == 1:
            return self.images[0].index_select(0, self.row[index])  # ten times as fast as images[rows]
        out = torch.empty((len(index), *self.shape), dtype=torch.uint8)
        for k, images in enumerate(self.images):
            at = (self.part[index] == k).nonzero()[:, 0]
            out.index_copy_(0, at, images.index_select(0, self.row[index[at]]))
        return out

    def take(self, index: Tensor) -> Tensor:
        """Return images as networks want them, float (n, c, h, w) in [0, 1]."""
        return self.stored(index).float().div_(255)

    def sample(self, most: int) -> Tensor:
        """Return the indices of at most so many images, in a random order that is the same each time."""
        return torch.randperm(len(self), generator=torch.Generator().manual_seed(0))[:most].to(self.device)

    def subset(self, index: Tensor) -> "Pool":
        """Return the pool of these images only; the images themselves are shared."""
        columns = {name: getattr(self, name)[index] for name in ("part", "row", "y", "d", "u")}
        return replace(self, **columns)

    def to(self, device: torch.device) -> "Pool":
        """Return the pool with all of its images in one tensor on the device, so that taking a batch never waits."""
        everything = torch.arange(len(self), device=self.device)
        return replace(
            self,
            images=(self.stored(everything).to(device),),
            part=torch.zeros_like(everything, device=device),
            row=everything.to(device),
            y=self.y.to(device),
            d=self.d.to(device),
            u=self.u.to(device),
        )

    @cached_property
    def fingerprint(self) -> str:
        """A hash of every image, label and domain: all that a model trained on this pool depends on."""
        digest = hashlib.sha256(repr((self.domains, self.classes, self.shape)).encode())
        for part in (self.y, self.d, self.u):
            digest.update(part.cpu().contiguous().numpy().data)
        for chunk in torch.arange(len(self), device=self.device).split(1024):
            digest.update(self.stored(chunk).cpu().contiguous().numpy().data)
        return digest.hexdigest()


def pool(domains: Sequence[Domain], classes: Sequence[str], units: Sequence[str]) -> Pool:
    """Put domains side by side into one pool."""
    number = torch.cat([torch.full_like(domain.labels, k) for k, domain in enumerate(domains)])
    return Pool(
        images=tuple(domain.images for domain in domains),
        part=number,
        row=torch.cat([torch.arange(len(domain.labels)) for domain in domains]),
        y=torch.cat([domain.labels for domain in domains]),
        d=number,
        u=torch.cat([domain.units for domain in domains]),
        domains=tuple(domain.name for domain in domains),
        classes=tuple(classes),
        units=tuple(units),
    )
