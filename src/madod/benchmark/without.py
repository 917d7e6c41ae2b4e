"""A dataset with domains and classes taken out, for selection inside the sources."""

from dataclasses import replace

import torch

from madod.data.base import Domain, DomainDataset


class Without(DomainDataset):
    """What is left of a dataset when whole domains and units are out of sight: nobody can look at what is not there.

    Its name says what is missing, `pacs~photo~person`, so that its runs have ids of their own.
    """

    def __init__(self, dataset: DomainDataset, domains: tuple[str, ...], units: tuple[str, ...]) -> None:
        self.dataset = dataset
        self.name = without_name(dataset.name, domains, units)
        self.recorded_name = without_name(dataset.short_name, domains, units)
        gone = {dataset.check_domain(name) for name in domains}
        self.hidden = sorted({dataset.unit_index(name) for name in units})
        self.domains = tuple(name for name in dataset.domains if name not in gone)
        self._units = tuple(name for k, name in enumerate(dataset.units) if k not in self.hidden)
        self.classes = dataset.classes if self.finer else self._units
        self.shape, self.augmentation = dataset.shape, dataset.augmentation
        self.contents = dataset.contents

    @property
    def finer(self) -> bool:
        """Whether units are finer than classes; then the classes all stay."""
        return self.dataset.units != self.dataset.classes

    @property
    def units(self) -> tuple[str, ...]:
        """The units that are left."""
        return self._units

    def read(self, domain: str) -> Domain:
        """Return what is left of one domain, numbered anew."""
        whole = self.dataset.read(self.check_domain(domain))
        kept = (~torch.isin(whole.units, torch.tensor(self.hidden, dtype=torch.int64))).nonzero()[:, 0]
        numbers = torch.tensor([k not in self.hidden for k in range(len(self.dataset.units))]).long().cumsum(0) - 1
        units = numbers[whole.units[kept]]
        labels = whole.labels[kept] if self.finer else units
        return replace(whole, images=whole.images[kept], labels=labels, units=units)


def without_name(dataset: str, domains: tuple[str, ...], units: tuple[str, ...]) -> str:
    """Return the name of a dataset without these."""
    return "~".join((dataset, *domains, *units))
