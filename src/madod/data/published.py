"""Datasets that others published: their files lie under a root, and their counts are known."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import ClassVar, NamedTuple

from madod.data.base import DomainDataset
from madod.data.download import Source
from madod.errors import InputError

Counts = Mapping[str, Mapping[str, int]]
"""Images by domain and class."""


class Absent(InputError):  # noqa: N818  # says what is missing, not what went wrong
    """Files of a dataset that are not under its root: one sentence says what to put where."""


class Census(NamedTuple):
    """The official counts of one version: images of every domain and, where known, of every class in their order."""

    totals: Mapping[str, int]
    classes: Mapping[str, tuple[int, ...]] = {}


class Published(DomainDataset):
    """A dataset found under a root; it states where its files come from and how many there should be."""

    census: tuple[Census, ...]
    """The official counts, one entry per version in circulation."""
    sources: ClassVar[tuple[Source, ...]] = ()
    """Files that can be fetched into the root; nothing where no stable public address is known."""

    @abstractmethod
    def tally(self) -> Counts:
        """Return how many images there are, without decoding any."""

    def differences(self) -> tuple[str, ...]:
        """Return what differs from the official counts (of the nearest version), one phrase per domain."""
        found = self.tally()
        return min((_compared(found, census) for census in self.census), key=len, default=())


def _compared(found: Counts, census: Census) -> tuple[str, ...]:
    phrases = []
    for domain, total in census.totals.items():
        counts, has = found.get(domain, {}), sum(found.get(domain, {}).values())
        official = dict(zip(counts, census.classes.get(domain, ()), strict=False))
        wrong = [f"{name} {counts[name]:,} instead of {n:,}" for name, n in official.items() if counts[name] != n]
        if has != total or wrong:
            detail = f" ({', '.join(wrong)})" if wrong else ""
            phrases.append(f"{domain} has {has:,} images instead of {total:,}{detail}")
    return tuple(phrases)
