"""Domains made of MNIST: its scans are dealt out to them, and each changes its own."""

from abc import abstractmethod
from pathlib import Path
from typing import ClassVar

from madod.data.base import Domain
from madod.data.download import Source
from madod.data.mnist import CENSUS, SOURCES, Scans, read_mnist
from madod.data.published import Census, Counts, Published

SEED = 0
"""Decides which scan lies in which domain, and the noise: the same for everybody."""


class DealtMnist(Published):
    """70,000 scans of 28 px with a black margin of 2, each in one domain."""

    shape = (3, 32, 32)
    census: tuple[Census, ...] = (CENSUS,)
    sources: ClassVar[tuple[Source, ...]] = SOURCES

    def __init__(self, root: Path | str) -> None:
        self.scans = read_mnist(Path(root))
        self._read: dict[str, Domain] = {}

    @abstractmethod
    def changed(self, domain: str, scans: Scans) -> Domain:
        """Return a domain's scans the way that it shows them."""

    def tally(self) -> Counts:
        """Return how many scans there are of every digit."""
        return self.scans.tally()

    def read(self, domain: str) -> Domain:
        """Return one domain's digits."""
        if self.check_domain(domain) not in self._read:
            dealt = self.scans.dealt(SEED, len(self.domains))
            self._read[domain] = self.changed(domain, dealt[self.domains.index(domain)])
        return self._read[domain]
