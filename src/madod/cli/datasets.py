"""From the words of a command to a dataset: a registered name, with or without a root, or a folder of one's own."""

import inspect
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from madod.cli.arguments import cache_folder
from madod.errors import InputError

if TYPE_CHECKING:
    from madod.data.base import DomainDataset
    from madod.training import Progress

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Opening:
    """How to open a dataset, as far as the command says."""

    root: Path | None = None
    size: int | None = None
    skip_bad: bool = False
    cache: Path | None = None
    test_domain: str | None = None
    ood_classes: tuple[str, ...] = ()


def open_dataset(name: str, how: Opening, progress: "Progress") -> "DomainDataset":
    """Return the dataset of a name, or the folder of a path; a flag that the dataset has no use for is refused."""
    from madod.data.base import DATASETS

    given: dict[str, Any] = {}
    if how.root is None and (Path(name).is_dir() or name not in DATASETS):
        if not Path(name).exists():
            known = ", ".join(known for known in DATASETS if known != "folder")
            raise InputError(f"there is no folder {name}, and no dataset of that name (there are: {known})")
        name, given["root"] = "folder", Path(name)
    make: Any = DATASETS[name]
    takes = inspect.signature(make).parameters
    if "root" in takes and not given and how.root is None:
        raise InputError(f"{name} lies in a folder of yours: name it with --root DIR")
    for word, value in (("root", how.root), ("size", how.size), ("skip_bad", how.skip_bad or None)):
        if value is not None and word not in takes:
            raise InputError(f"{name} takes no --{word.replace('_', '-')}")
        if value is not None:
            given[word] = value
    if "cache" in takes:
        given["cache"] = cache_folder(how.cache) / "images"
    if "test_domain" in takes:
        given |= {"test_domain": how.test_domain, "ood_classes": how.ood_classes}
    if "progress" in takes:
        given["progress"] = lambda done, total: progress("decoding", done, total)
    return make(**given)


def differences(dataset: "DomainDataset") -> tuple[str, ...]:
    """Return what differs from a published dataset's official counts."""
    from madod.data.published import Published

    return dataset.differences() if isinstance(dataset, Published) else ()


def warn_of_differences(dataset: "DomainDataset") -> None:
    """Say before anything long starts that a published dataset is not what it should be."""
    for phrase in differences(dataset):
        log.warning("this is not the whole official %s: %s", dataset.name, phrase)
