"""A dataset of a plan, looked up: its names, its runs' cells, and the weights that they start with."""

import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from madod.benchmark.plan import DatasetPlan
from madod.benchmark.toml import Toml
from madod.benchmark.unknown import unknown_of
from madod.benchmark.words import check_cells
from madod.data.base import DATASETS, DomainDataset
from madod.data.folder import recorded_as
from madod.data.opening import Opening, open_dataset, own_folder, refuse_missing
from madod.errors import InputError
from madod.models.pretrained import pretrained
from madod.models.weights import ENDINGS, Weights
from madod.progress import silent

Open = Callable[[str, int | None, bool], DomainDataset]
"""Gives a dataset by its name, the size of its pictures, and whether those that cannot be read are left out."""


class Names(NamedTuple):
    """What a dataset calls its domains, its units and its classes."""

    domains: tuple[str, ...]
    units: tuple[str, ...]
    classes: tuple[str, ...]


class Stage(NamedTuple):
    """One dataset of a plan, looked up."""

    entry: DatasetPlan
    names: Names
    weights: Weights | None
    file: str
    """The pretrained weights as a worker can find them."""

    @property
    def unseen(self) -> Sequence[str]:
        """The unseen domains of its runs."""
        return self.names.domains if self.entry.test_domains == "all" else self.entry.test_domains

    def unknown(self, seeds: Sequence[int]) -> dict[int, list[tuple[str, ...]]]:
        """Return by seed the classes that are unknown in each of its runs."""
        return unknown_of(self.entry.unknown, self.names.units, seeds)


def opened(
    name: str, size: int | None, skip_bad: bool, *, root: Path | None = None, cache: Path | None = None
) -> DomainDataset:
    """Return the dataset of a name in a plan; the root is where registered datasets lie that are no part of madod."""
    needed = own_folder(name) is None and takes(name, "root")
    return open_dataset(name, Opening(root if needed else None, size, skip_bad, cache), silent)


def stage_of(entry: DatasetPlan, toml: Toml, place: int, root: Path | None, open_: Open, cache: Path | None) -> Stage:
    """Return a dataset looked up; refuse what it does not have."""
    with toml.at(("datasets", place, "name")):
        names = names_of(entry, open_)
    check_cells(entry, names.domains, names.units, toml, place)
    if entry.name in DATASETS and entry.size is not None and not takes(entry.name, "size"):
        raise toml.refusal(("datasets", place, "size"), f"{entry.name} has one size only: leave size out")
    if entry.name in DATASETS and entry.skip_bad and not takes(entry.name, "skip_bad"):
        raise toml.refusal(("datasets", place, "skip_bad"), f"{entry.name} has no picture files: leave skip_bad out")
    file = entry.pretrained
    if root is not None and not Path(file).exists() and (root / file).is_file():
        file = str(root / file)
    with toml.at(("datasets", place, "pretrained")):
        return Stage(entry, names, _weights(file, root, cache), file)


def _weights(file: str, root: Path | None, cache: Path | None) -> Weights | None:
    """Return pretrained weights; a file that is not at hand may lie under a root that was not named."""
    try:
        return pretrained(file, cache=cache)
    except InputError as error:
        if root is not None or Path(file).suffix not in ENDINGS or Path(file).is_file():
            raise
        why = f"there is no file of weights {file!r} here: give the folder that it lies in as --root, or mend the path"
        raise InputError(why) from error


def names_of(entry: DatasetPlan, open_: Open = opened) -> Names:
    """Return the names of a dataset without reading its pictures; a folder of one's own is looked into.

    So is a dataset that only says them once it is opened.
    """
    folder = own_folder(entry.name)
    if folder is None:
        dataset = DATASETS[entry.name].without_files() or told_opened(entry, open_)
    else:
        refuse_missing(folder)
        if entry.size is None:
            raise InputError(f"the size of the pictures in {entry.name} is missing: add size = PIXELS")
        dataset = open_(entry.name, entry.size, entry.skip_bad)
    return Names(dataset.domains, dataset.units, dataset.classes)


def told_opened(entry: DatasetPlan, open_: Open) -> DomainDataset:
    """Return a dataset, opened for its names; say what would do without where it cannot be."""
    try:
        dataset = open_(entry.name, entry.size, entry.skip_bad)
    except (InputError, OSError) as error:
        raise InputError(
            f"{entry.name} says its domains and classes only when it is opened, and that it cannot be ({error}): write "
            "them into its class, or give the folder that it lies in as --root"
        ) from error
    dataset.check_names()
    return dataset


def called(entry: DatasetPlan) -> str:
    """Return what records call a dataset: its name, or the last part of a folder's."""
    folder = own_folder(entry.name)
    return entry.name if folder is None else recorded_as(folder)


def takes(name: str, word: str) -> bool:
    """Tell whether a registered dataset has a use for a root or a size."""
    return word in inspect.signature(DATASETS[name]).parameters
