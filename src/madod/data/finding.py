"""The pictures of a folder: where they lie, and which files are left out."""

import logging
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from madod.data.images import is_picture
from madod.errors import InputError, first_few

log = logging.getLogger(__name__)

LAYOUT = "the layout is ROOT/DOMAIN/CLASS/*.jpg, with two domains and two classes at least"
MOST = 12
"""Kinds of files, or places, that a message lists."""
_IGNORED = frozenset({"__MACOSX", "Thumbs.db", "desktop.ini", "@eaDir", "$RECYCLE.BIN", "lost+found"})


class LabelledFile(NamedTuple):
    """A picture file, its domain and its class."""

    domain: str
    label: str
    path: Path


class Listing(NamedTuple):
    """The visible folders and other files of a folder."""

    folders: list[Path]
    files: list[Path]


def find_pictures(root: Path, *, warn: bool = True, layout: str = LAYOUT) -> list[LabelledFile]:
    """Return the pictures under ROOT/DOMAIN/CLASS, sorted by domain, class and path; warn of files left out.

    Where there are none, `layout` says what was looked for.
    """
    if not root.is_dir():
        raise InputError(f"{root} is not a folder; {layout}" if root.exists() else f"there is no folder {root}")
    pictures, others = [], Counter[str]()
    for domain in domain_folders(root):
        for label in class_folders(root, domain):
            for file in files_below(label, {_place(root), _place(domain)}):
                if is_picture(file):
                    pictures.append(LabelledFile(folder_name(domain), folder_name(label), file))
                else:
                    others[file.suffix or file.name] += 1
    if not pictures:
        raise InputError(_nothing_found(root, others, layout))
    if warn:
        warn_of_loose(root, listing(root).folders)
        _warn_of_kinds(root, others)
    return sorted(pictures)


def domain_folders(root: Path) -> list[Path]:
    """Return the folders of domains; a link back to the root is none."""
    return [folder for folder in listing(root).folders if _place(folder) != _place(root)]


def class_folders(root: Path, domain: Path) -> list[Path]:
    """Return the folders of a domain's classes; a link back to the domain or the root is none."""
    return [folder for folder in listing(domain).folders if _place(folder) not in {_place(root), _place(domain)}]


def is_visible(name: str) -> bool:
    """Tell whether a person sees a file or folder of this name."""
    return name[0] != "." and name not in _IGNORED


def listing(folder: Path) -> Listing:
    """Return what a person sees in a folder, sorted by name."""
    try:
        items = [item for item in sorted(folder.iterdir()) if is_visible(item.name)]
        folders = [item for item in items if item.is_dir()]
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise InputError(f"cannot list the folder {folder}: {reason}; make it readable or move it elsewhere") from error
    inner = set(folders)
    return Listing(folders, [item for item in items if item not in inner])


def pictures_below(folder: Path, *, warn: bool = False, bad: list[InputError] | None = None) -> Iterator[Path]:
    """Yield the pictures at any depth: those of a folder, then those of its folders, in order of their names.

    With `warn` it says in the end which files it left out; `bad` is as in `files_below`.
    """
    others = Counter[str]()
    for file in files_below(folder, set(), bad):
        if is_picture(file):
            yield file
        else:
            others[file.suffix or file.name] += 1
    if warn:
        _warn_of_kinds(folder, others)


def files_below(folder: Path, seen: set[tuple[int, int]], bad: list[InputError] | None = None) -> Iterator[Path]:
    """Yield the files at any depth; a folder already seen is not entered again, so that links lead in no circle.

    Folders that cannot be listed are noted in `bad`, so that the others are done, or raise where there is no such list.
    """
    if _place(folder) in seen:
        return
    seen.add(_place(folder))
    try:
        folders, files = listing(folder)
    except InputError as error:
        if bad is None:
            raise
        bad.append(error)
        return
    yield from files
    for inner in folders:
        yield from files_below(inner, seen, bad)


def _place(folder: Path) -> tuple[int, int]:
    facts = folder.stat()
    return facts.st_dev, facts.st_ino


def folder_name(folder: Path) -> str:
    """Return the name with accents composed, since systems differ in how they store the same letters."""
    refuse_name(folder)
    return unicodedata.normalize("NFC", folder.name)


def refuse_name(folder: Path) -> None:
    """Refuse a folder whose name is no text, since no record can hold it."""
    try:
        folder.name.encode()
    except UnicodeEncodeError:
        raise InputError(f"the folder name {str(folder)!r} is not valid text: rename it") from None


def _nothing_found(root: Path, others: Counter[str], layout: str) -> str:
    folders, files = listing(root)
    if not folders and not files:
        return f"the folder {root} is empty; {layout}"
    if loose := _pictures_in(folders):
        return (
            f"{root} looks like ROOT/CLASS/*.jpg, without domains ({loose[0]} lies directly in a folder of the root): "
            f"put the class folders of each site or style into a folder of its own; {layout}"
        )
    if _pictures_in([root]):
        return f"the pictures of {root} lie in no class and no domain; {layout}"
    seen = f" (only {first_few(sorted(others), MOST)})" if others else ""
    return f"no pictures in {root}{seen}; {layout}"


def _pictures_in(folders: Iterable[Path]) -> list[Path]:
    return [file for folder in folders for file in listing(folder).files if is_picture(file)]


def warn_of_loose(root: Path, domains: Iterable[Path] = ()) -> None:
    """Warn of pictures that lie beside the folders of classes: in the root, or in those of domains."""
    if loose := _pictures_in([root, *domains]):
        log.warning("left out %d pictures of %s that lie beside class folders, such as %s", len(loose), root, loose[0])


def _warn_of_kinds(root: Path, others: Counter[str]) -> None:
    if others:
        listed = first_few([f"{count} {kind}" for kind, count in most_first(others)], MOST)
        remedy = "; convert HEIC to JPEG first" if {".heic", ".heif"} & {kind.lower() for kind in others} else ""
        log.warning("left out files of %s that do not end like pictures: %s%s", root, listed, remedy)


def most_first(counts: Counter[str]) -> list[tuple[str, int]]:
    """Return names and how often each was counted, the commonest first, equals by name."""
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))
