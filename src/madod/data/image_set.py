"""Published datasets of picture files: found in the layouts in which they circulate, decoded once."""

import logging
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import ClassVar

import torch

from madod.data.base import Domain
from madod.data.cache import cache_dir, decoded
from madod.data.finding import MOST, LabelledFile, most_first, pictures_below
from madod.data.folder import refuse_size, report_bad
from madod.data.layout import archives, folder_in, homes, unpacked
from madod.data.published import Absent, Counts, Published
from madod.errors import InputError, first_few
from madod.progress import Progress, silent

log = logging.getLogger(__name__)


class ImageSet(Published):
    """Pictures in ROOT/DOMAIN/CLASS, or in another layout that the dataset describes, at `size` x `size` pixels."""

    folders: ClassVar[tuple[str, ...]]
    """Names of folders and archives in which the set circulates, in lower case; all of them are looked into."""
    also: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    """Other names, in lower case, that circulate for a domain or a class."""
    passed_over: ClassVar[tuple[str, ...]] = ()
    """Classes of the published dataset, in lower case, that are left out on purpose."""
    parts: ClassVar[tuple[tuple[str, ...], ...]] = ()
    """Folders between domain and class that together hold the domain; the first group that is there counts."""
    wanted: ClassVar[str]
    """What to put where, when nothing is found."""

    def __init__(
        self,
        root: Path | str,
        *,
        size: int = 224,
        skip_bad: bool = False,
        cache: Path | None = None,
        progress: Progress = silent,
    ) -> None:
        refuse_size(size)
        self.root, self.shape, self.skip_bad = Path(root), (3, size, size), skip_bad
        self.cache, self.progress = cache or cache_dir(), progress
        if not self.root.is_dir():
            raise Absent(f"there is no folder {self.root}: make it, and {self.wanted}")
        self.pictures = {domain: sorted(pictures) for domain, pictures in self.find().items()}
        self._read: dict[str, Domain] = {}

    def find(self) -> Mapping[str, Iterable[LabelledFile]]:
        """Return the pictures of every domain; reads names only, and unpacks archives where folders are missing."""
        found = {domain: self._folder(domain) for domain in self.domains}
        missing = [domain for domain, folder in found.items() if folder is None]
        if len(missing) == len(self.domains):
            raise Absent(f"there is nothing of {self.name} in {self.root}: {self.wanted}")
        if missing:
            raise Absent(f"{self.name} in {self.root} lacks {', '.join(missing)}: {self.wanted}")
        return {domain: self._pictures(domain, folder) for domain, folder in found.items() if folder}

    def read(self, domain: str) -> Domain:
        """Return one domain's images, memory-mapped, decoded when first asked for."""
        if self.check_domain(domain) not in self._read:
            pictures, size = self.of_one_class(domain), self.shape[1]
            found = decoded([p.path for p in pictures], size, cache=self.cache, progress=self.progress)
            if found.bad:
                report_bad(found.bad, len(pictures), f"{self.name} {domain}", self.skip_bad)
            labels = torch.tensor([self.classes.index(pictures[k].label) for k in found.kept])
            self._read[domain] = Domain(domain, found.images, labels, labels)
        return self._read[domain]

    def of_one_class(self, domain: str) -> list[LabelledFile]:
        """Return the pictures of a domain that are read: all, unless the dataset has some of two classes at once."""
        return self.pictures[domain]

    def tally(self) -> Counts:
        """Return how many pictures there are of every domain and class, read or not."""
        counts = {domain: Counter(p.label for p in pictures) for domain, pictures in self.pictures.items()}
        return {domain: {label: count[label] for label in self.classes} for domain, count in counts.items()}

    def places(self, names: tuple[str, ...] = ()) -> list[Path]:
        """Return the folders to look into: those of the usual names, and archives of these or the given names."""
        there = list(homes(self.root, self.folders))
        inside = [unpacked(file, self.cache) for file in archives(there, names)]
        return [*there, *(home for folder in inside for home in homes(folder, self.folders))]

    def _folder(self, domain: str) -> Path | None:
        names = (domain.lower(), *self.also.get(domain, ()))
        for archived in ((), names, self.folders):  # an archive is unpacked only where a folder is missing
            if folder := folder_in(self.places(archived), names):
                return folder
        return None

    def _pictures(self, domain: str, folder: Path) -> list[LabelledFile]:
        labels = {name: label for label in self.classes for name in (label.lower(), *self.also.get(label, ()))}
        below = [(file.relative_to(folder).parts[:-1], file) for file in sorted(pictures_below(folder))]
        tops = {between[0].lower() for between, _ in below if between}
        group = next((group for group in self.parts if tops & set(group)), ())
        pictures, others = [], Counter[str]()
        for between, file in below:
            inner = _within(group, between)
            if inner and inner[0].lower() in labels:
                pictures.append(LabelledFile(domain, labels[inner[0].lower()], file))
            elif not inner or inner[0].lower() not in self.passed_over:
                others["/".join(between) or "."] += 1
        if not pictures:
            raise InputError(f"{self.name} has no pictures in {folder}: {self.wanted}")
        if others:
            listed = first_few([f"{count} in {name}" for name, count in most_first(others)], MOST)
            log.warning("left out pictures of %s that lie in no folder of a class: %s", folder, listed)
        return pictures


def _within(group: tuple[str, ...], between: tuple[str, ...]) -> tuple[str, ...]:
    """Return the folders on the way to a picture without the part of its domain; none where it lies in no part."""
    if not group:
        return between
    if between and between[0].lower() in group:
        return between[1:]
    return ()
