"""From a name to a dataset: a registered one, with or without a root, or a folder of one's own."""

import inspect
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from madod.errors import InputError, nearest
from madod.progress import Progress

if TYPE_CHECKING:
    from madod.data.base import DomainDataset

log = logging.getLogger(__name__)

SHOWN = 200
"""Letters of a folder's name that are shown where it is too long to be one."""


@dataclass(frozen=True)
class Opening:
    """How to open a dataset, as far as somebody says."""

    root: Path | None = None
    size: int | None = None
    skip_bad: bool = False
    cache: Path | None = None


def own_folder(name: str, root: Path | None = None) -> Path | None:
    """Return the folder of a person's own that a name means; nothing for a dataset that is known by name.

    The name of a dataset never means a folder, whatever lies here: `./digits` does.
    """
    from madod.data.base import DATASETS

    if root is not None:
        return root if name == "folder" else None
    return Path(name) if name == "folder" or name not in DATASETS else None


def refuse_missing(folder: Path) -> None:
    """Refuse the path of a folder where nothing lies; it may be meant for the name of a dataset."""
    from madod.data.base import DATASETS

    try:
        there = folder.exists()
    except OSError as error:  # a name longer than any can be, or a folder that may not be looked into
        name = str(folder)
        named = name if len(name) <= SHOWN else f"{name[:SHOWN]}..."
        raise InputError(f"the folder {named} cannot be looked for ({error.strerror}): check the name") from error
    if not there:
        known = tuple(name for name in DATASETS if name != "folder")
        raise InputError(
            f"there is no folder {folder}, and no dataset of that name{nearest(str(folder), known)}; "
            f"there are: {', '.join(known)}"
        )


def open_dataset(name: str, how: Opening, progress: Progress) -> "DomainDataset":
    """Return the dataset of a name, or the folder of a path; a flag that the dataset has no use for is refused.

    A folder of a person's own has no size of its own: it has to be said.
    """
    from madod.data.base import DATASETS
    from madod.data.cache import cache_dir
    from madod.data.images import is_picture

    given: dict[str, Any] = {}
    own = own_folder(name, how.root)
    if own is not None:
        refuse_missing(own)
    if own is None and how.root is None and any(map(is_picture, Path(name).glob("*/*/*"))):
        log.warning("%s is the dataset of that name, not the folder of pictures here: that one is ./%s", name, name)
    if own is None and name not in DATASETS and Path(name).is_dir():
        raise InputError(f"{name} is a folder of your own, which takes no --root: leave it out")
    make: Any = DATASETS["folder" if own else name]
    takes, root = inspect.signature(make).parameters, own or how.root
    if "root" in takes and root is None:
        raise InputError(f"{name} lies in a folder of yours: name it with --root DIR")
    for word, value in (("root", root), ("size", how.size), ("skip_bad", how.skip_bad or None)):
        if value is not None and word not in takes:
            raise InputError(f"{name} takes no --{word.replace('_', '-')}")
        if value is not None:
            given[word] = value
    if "cache" in takes:
        given["cache"] = (how.cache or cache_dir()) / "images"
    if "progress" in takes:
        given["progress"] = progress
    return make(**given)
