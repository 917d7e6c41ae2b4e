"""`madod data`: find or fetch a dataset, check its counts, decode it once."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from madod.cli.arguments import Switch, cache_folder, left_open, parse, torch_device
from madod.cli.datasets import differences
from madod.cli.progress import shown
from madod.data.opening import Opening

if TYPE_CHECKING:
    from madod.data.base import DomainDataset
    from madod.data.published import Counts
    from madod.progress import Progress

ABOUT = """Make a dataset ready.

Looks for the dataset NAME (madod list datasets) under --root, in any layout in which it circulates, packed or not.
Fetches it where a public source is known (the same command resumes a broken download), otherwise says what to put
where. Then compares the counts of every domain and class with the official ones and decodes the pictures once.
A folder of your own is counted and decoded at the size that `madod train` would choose for it here.
Exits with 1 where counts differ."""

MANY = 12
"""More classes than these are not listed one by one."""


@dataclass(frozen=True)
class Data:
    """Which dataset, and where."""

    name: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="NAME")]
    """A dataset's name, or your own folder DIR/DOMAIN/CLASS/*.jpg; one that is called like a dataset is ./NAME."""
    root: Annotated[Path | None, left_open("DIR")] = None
    """Folder that the dataset lies in, or is fetched into."""
    size: Annotated[int | None, left_open("PIXELS")] = None
    """Side of the square that pictures are squeezed to; that of `madod train` unless given."""
    skip_bad: Switch = False
    """Leave out files that cannot be read instead of stopping."""
    cache: Annotated[Path | None, left_open("DIR")] = None
    """Where unpacked archives and decoded pictures are kept; by default in your cache folder."""
    quiet: Switch = False
    """Print nothing but the counts."""


def main(arguments: Sequence[str]) -> int:
    """Find or fetch, count, compare, decode; return 1 where counts differ."""
    how = parse(Data, arguments, "data", ABOUT)
    with shown(how.quiet) as progress:
        dataset = found_or_fetched(how, progress)
        sys.stdout.write(counted(dataset))
        sys.stdout.flush()
        wrong = differences(dataset)
        sizes = {"x".join(map(str, dataset.read(domain).images.shape[2:])) for domain in dataset.domains}
    for phrase in wrong:
        sys.stdout.write(f"differs: {phrase}\n")
    if not wrong and _is_published(dataset):
        sys.stdout.write("all counts are the official ones\n")
    sys.stdout.write(f"ready: {', '.join(sorted(sizes))} pixels\n")
    return 1 if wrong else 0


def found_or_fetched(how: Data, progress: "Progress") -> "DomainDataset":
    """Return the dataset, fetched first where it is not there and a public source is known."""
    from madod.data.base import DATASETS
    from madod.data.download import fetch
    from madod.data.published import Absent

    try:
        return as_trained(how, progress)
    except Absent:
        sources = getattr(DATASETS[how.name], "sources", ())
        if not sources or how.root is None:
            raise
        for source in sources:
            fetch(source, how.root, cache=cache_folder(how.cache), progress=progress)
        return as_trained(how, progress)


def as_trained(how: Data, progress: "Progress") -> "DomainDataset":
    """Return the dataset as `madod train` reads it."""
    from madod.fitting.choose import Wishes
    from madod.fitting.prepare import look, opened

    opening = Opening(how.root, how.size, how.skip_bad, how.cache)
    seen = look(how.name, opening, Wishes(size=how.size), torch_device("auto"), progress=progress)
    return opened(how.name, opening, seen, progress)


def counted(dataset: "DomainDataset") -> str:
    """Say how many images there are, one line per domain."""
    lines = []
    for domain, counts in _tally(dataset).items():
        each = ", ".join(f"{name} {n:,}" for name, n in counts.items())
        detail = each if len(counts) <= MANY else f"{len(counts)} classes, {min(counts.values()):,} images at least"
        lines.append(f"{domain}: {sum(counts.values()):,} images ({detail})\n")
    return "".join(lines)


def _tally(dataset: "DomainDataset") -> "Counts":
    from madod.data.published import Published

    if isinstance(dataset, Published):
        return dataset.tally()
    units = {domain: dataset.read(domain).units for domain in dataset.domains}
    return {domain: {name: int((u == k).sum()) for k, name in enumerate(dataset.units)} for domain, u in units.items()}


def _is_published(dataset: "DomainDataset") -> bool:
    from madod.data.published import Published

    return isinstance(dataset, Published) and bool(dataset.census)
