"""From a name to a dataset: a registered one, with or without a root, or a folder of one's own."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from madod.errors import InputError

if TYPE_CHECKING:
    from madod.data.base import DomainDataset


@dataclass(frozen=True)
class Opening:
    """How to open a dataset, as far as somebody says."""

    root: Path | None = None
    size: int | None = None
    skip_bad: bool = False
    cache: Path | None = None
    test_domain: str | None = None
    ood_classes: tuple[str, ...] = ()


def open_dataset(name: str, how: Opening, progress: Callable[[str, int, int], None]) -> "DomainDataset":
    """Return the dataset of a name, or the folder of a path; a flag that the dataset has no use for is refused."""
    from madod.data.base import DATASETS
    from madod.data.cache import cache_dir

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
        given["cache"] = (how.cache or cache_dir()) / "images"
    if "test_domain" in takes:
        given |= {"test_domain": how.test_domain, "ood_classes": how.ood_classes}
    if "progress" in takes:
        given["progress"] = lambda done, total: progress("decoding", done, total)
    return make(**given)
