"""What a folder of pictures holds, before anything is trained on it."""

import hashlib
import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from madod.data.depth import unused_bits
from madod.data.finding import LabelledFile, find_pictures
from madod.data.images import BadImage, dimensions, opened
from madod.data.order import LISTED, missing, refuse_deeper
from madod.errors import first_few

SCARCE = 10
"""Pictures of a class below which little can be learned of it."""
UNEVEN = 5
"""How many times the largest class may outnumber the smallest before it is worth saying."""
SAMPLE = 256
"""Pictures, evenly spread over the folder, whose sizes are looked up."""


@dataclass(frozen=True)
class Survey:
    """Counts by domain and class, the pictures' sizes, and what may lead training or its check astray."""

    root: str
    counts: dict[str, dict[str, int]]
    """Pictures by domain and class."""
    kinds: Counter[str]
    """Pictures by the ending of their files."""
    sides: tuple[int, ...]
    """Shorter sides in pixels, ascending, of a sample of the pictures that training may see."""
    across: tuple[tuple[Path, ...], ...]
    """Groups of files with the same content in several domains."""
    contradictory: tuple[tuple[Path, ...], ...]
    """Groups of files with the same content under several classes."""
    dark: dict[str, int]
    """Upper bits that the 16-bit pictures of a domain never use, where it has some."""
    missing: tuple[str, ...]
    """Sentences on domains and classes without pictures."""

    @property
    def side(self) -> float:
        """The median shorter side in pixels; 0 where no header can be read."""
        return statistics.median(self.sides) if self.sides else 0.0

    @property
    def classes(self) -> dict[str, int]:
        """Pictures of every class, in all domains together."""
        total = Counter[str]()
        for count in self.counts.values():
            total.update(count)
        return {name: total[name] for name in sorted(total)}

    def lines(self, *, missing: bool = True, unread: bool = False) -> list[str]:
        """Say in a dozen lines what there is and what to look at; opening the folder says what is missing, too.

        `unread` says that files were counted some of which may turn out to be none that can be read.
        """
        warnings = [*self.warnings(), *(self.missing if missing else ())]
        return [*self._contents("files" if unread else "pictures"), *(f"! {warning}" for warning in warnings)]

    def warnings(self) -> list[str]:
        """Say what may lead training or its check astray, each in one line."""
        classes, said = self.classes, []
        most, least = max(classes, key=classes.__getitem__), min(classes, key=classes.__getitem__)
        if classes[most] > UNEVEN * classes[least]:
            said.append(
                f"uneven: {most} has {classes[most]:,} pictures and {least} {classes[least]:,}; "
                "tasks draw the classes evenly, minibatches of other methods do not"
            )
        if scarce := {name: n for name, n in classes.items() if n < SCARCE}:
            listed = first_few([f"{name} ({n})" for name, n in scarce.items()], LISTED)
            said.append(f"nearly empty, so hardly to be learned: {listed}; add pictures, or leave the class out")
        for groups, what, harm in (
            (self.across, "domains", "a check on unseen domains flatters there"),
            (self.contradictory, "classes", "one of the labels is wrong"),
        ):
            if groups:
                files, few = sum(map(len, groups)), first_few(groups[0], 2)
                said.append(f"{files:,} files are copies of each other in several {what}, such as {few}; {harm}")
        if self.dark:
            listed = first_few([f"{domain} (upper {bits} bits)" for domain, bits in self.dark.items()], LISTED)
            said.append(
                f"16-bit pictures that never use their upper bits, and so are nearly black: those of {listed}; scale "
                "them to all 16 bits, or save them with 8"
            )
        return said

    def _contents(self, what: str) -> Iterable[str]:
        total, domains, classes = sum(self.classes.values()), len(self.counts), len(self.classes)
        yield f"{total:,} {what} in {domains} domain{'s' * (domains > 1)} and {classes} class{'es' * (classes > 1)}"
        yield "domains: " + first_few([f"{name} {sum(count.values()):,}" for name, count in self.counts.items()], 8)
        yield "classes: " + first_few([f"{name} {count:,}" for name, count in self.classes.items()], 12)
        yield "files: " + first_few([f"{count:,} {kind}" for kind, count in self.kinds.most_common()], 6)
        if self.sides:
            low, high = self.sides[0], self.sides[-1]
            yield f"shorter sides: {low} to {high} px, median {self.side:.0f}"


def survey(
    root: Path,
    *,
    test_domain: str | None = None,
    ood_classes: Sequence[str] = (),
    only: Collection[Path] | None = None,
) -> Survey:
    """Look at a folder ROOT/DOMAIN/CLASS, or at `only` some of its pictures.

    The sizes are those of pictures that training may see. Classes of which no header can be read do not count.
    """
    pictures = find_pictures(root, warn=False)
    refuse_deeper(pictures, root)
    pictures = with_something_to_read(pictures) if only is None else [p for p in pictures if p.path in only]
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for picture in pictures:
        counts[picture.domain][picture.label] += 1
    seen = [p.path for p in pictures if p.domain != test_domain and p.label not in ood_classes]
    copies = list(identical(pictures))
    dark = {domain: unused_bits([p.path for p in pictures if p.domain == domain]) for domain in counts}
    return Survey(
        root=str(root),
        counts={domain: dict(count) for domain, count in counts.items()},
        kinds=Counter(picture.path.suffix.lower() for picture in pictures),
        sides=tuple(sorted(shorter_sides(seen))),
        across=tuple(_paths(group) for group in copies if len({picture.domain for picture in group}) > 1),
        contradictory=tuple(_paths(group) for group in copies if len({picture.label for picture in group}) > 1),
        dark={domain: bits for domain, bits in dark.items() if bits},
        missing=tuple(missing(pictures, root)),
    )


def with_something_to_read(pictures: Sequence[LabelledFile]) -> list[LabelledFile]:
    """Leave out classes of domains where no header can be read; all stay where there is nothing else."""
    groups: dict[tuple[str, str], list[LabelledFile]] = defaultdict(list)
    for picture in pictures:
        groups[picture.domain, picture.label].append(picture)
    sound = [group for group in groups.values() if any(_side(picture.path) for picture in group)]
    return [picture for group in sound or groups.values() for picture in group]


def shorter_sides(paths: Sequence[Path]) -> list[int]:
    """Return the shorter side in pixels of a sample of the pictures, as their headers state it."""
    sides = map(_side, paths[:: max(1, -(-len(paths) // SAMPLE))])
    return [side for side in sides if side is not None]


def _side(path: Path) -> int | None:
    try:
        return min(dimensions(path))
    except BadImage:
        return None  # decoding reports it together with all others


def identical(pictures: Iterable[LabelledFile]) -> Iterable[list[LabelledFile]]:
    """Yield groups of files with the same content; only files of the same length are read."""
    by_length = _grouped(pictures, lambda picture: str(picture.path.stat().st_size))
    for alike in by_length:
        yield from _grouped(alike, lambda picture: _digest(picture.path))


def _grouped(pictures: Iterable[LabelledFile], key: Callable[[LabelledFile], str]) -> list[list[LabelledFile]]:
    """Return the groups of two or more pictures with the same key; a file that cannot be read is in none."""
    groups: dict[str, list[LabelledFile]] = defaultdict(list)
    for picture in pictures:
        try:
            groups[key(picture)].append(picture)
        except (OSError, BadImage):
            continue  # decoding reports it together with all others
    return [group for group in groups.values() if len(group) > 1]


def _digest(path: Path) -> str:
    with opened(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _paths(group: Iterable[LabelledFile]) -> tuple[Path, ...]:
    return tuple(picture.path for picture in group)
