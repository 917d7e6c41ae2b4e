"""A user's own pictures."""

import hashlib
import logging
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import torch

from madod.data.base import DATASETS, Domain, DomainDataset
from madod.data.cache import Counted, decoded
from madod.data.images import BadImage, is_picture
from madod.errors import InputError

log = logging.getLogger(__name__)

LAYOUT = "the layout is ROOT/DOMAIN/CLASS/*.jpg, with two domains and two classes at least"
MIN_SIZE, MAX_SIZE = 8, 2048
"""Sides in pixels of the squares that pictures may be squeezed to."""
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


def recorded_as(folder: Path) -> str:
    """Return what records call a folder of pictures: its own name, wherever it lies and however it was reached."""
    return folder.resolve().name


@DATASETS.register("folder")
class Folder(DomainDataset):
    """Your own pictures, laid out as ROOT/DOMAIN/CLASS/*.jpg (or png, webp, bmp, gif, tiff, ...).

    Domains and classes are the sorted names of the folders; a class may be missing in some domains. Pictures are
    squeezed to `size` x `size` pixels. `paths[domain][i]` is the file behind image i of that domain.
    """

    def __init__(
        self,
        root: Path | str,
        *,
        size: int,
        skip_bad: bool = False,
        cache: Path | None = None,
        progress: Counted | None = None,
    ) -> None:
        self.name = str(root)  # type: ignore[misc]  # messages name the user's folder, not the kind of dataset
        self._short_name = recorded_as(Path(root))
        refuse_size(size)
        pictures = find_pictures(Path(root))
        _require_two(pictures, self.name)
        _refuse_twins(pictures, self.name)
        found = decoded([picture.path for picture in pictures], size, cache=cache, progress=progress)
        if found.bad:
            report_bad(found.bad, len(pictures), self.name, skip_bad)
        kept = [pictures[k] for k in found.kept]
        self.domains, self.classes = _require_two(kept, self.name)
        self.shape = (3, size, size)
        described = repr((found.key, [(picture.domain, picture.label) for picture in kept]))
        self.contents = hashlib.sha256(described.encode()).hexdigest()
        self._images = found.images
        self._labels = torch.tensor([self.classes.index(picture.label) for picture in kept])
        self._rows = {domain: _span(kept, domain) for domain in self.domains}
        self.paths = {name: tuple(picture.path for picture in kept[rows]) for name, rows in self._rows.items()}
        _warn_of_missing(kept, self.domains, self.classes, self.name)

    @property
    def short_name(self) -> str:
        """What records call it: the folder's own name."""
        return self._short_name

    def read(self, domain: str) -> Domain:
        """Return one domain's images, memory-mapped, in the order of `paths`."""
        rows = self._rows[self.check_domain(domain)]
        return Domain(domain, self._images[rows], self._labels[rows], self._labels[rows])


def refuse_size(size: int) -> None:
    """Refuse a side that pictures cannot be squeezed to."""
    if size < MIN_SIZE:
        raise InputError(f"a size of {size} pixels is too small for pictures: give {MIN_SIZE} or more")
    if size > MAX_SIZE:
        raise InputError(f"a size of {size} pixels is too large to train on: give {MAX_SIZE} or less")


def find_pictures(root: Path, *, warn: bool = True, layout: str = LAYOUT) -> list[LabelledFile]:
    """Return the pictures under ROOT/DOMAIN/CLASS, sorted by domain, class and path; warn of files left out.

    Where there are none, `layout` says what was looked for.
    """
    if not root.is_dir():
        raise InputError(f"{root} is not a folder; {layout}" if root.exists() else f"there is no folder {root}")
    pictures, others = [], Counter[str]()
    for domain in listing(root).folders:
        for label in listing(domain).folders if _place(domain) != _place(root) else ():
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
    try:
        folder.name.encode()
    except UnicodeEncodeError:
        raise InputError(f"the folder name {str(folder)!r} is not valid text: rename it") from None
    return unicodedata.normalize("NFC", folder.name)


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
    seen = f" (only {', '.join(sorted(others))})" if others else ""
    return f"no pictures in {root}{seen}; {layout}"


def _pictures_in(folders: Iterable[Path]) -> list[Path]:
    return [file for folder in folders for file in listing(folder).files if is_picture(file)]


def warn_of_loose(root: Path, domains: Iterable[Path] = ()) -> None:
    """Warn of pictures that lie beside the folders of classes: in the root, or in those of domains."""
    if loose := _pictures_in([root, *domains]):
        log.warning("left out %d pictures of %s that lie in no class folder, such as %s", len(loose), root, loose[0])


def _warn_of_kinds(root: Path, others: Counter[str]) -> None:
    if others:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(others.items()))
        remedy = "; convert HEIC to JPEG first" if {".heic", ".heif"} & {kind.lower() for kind in others} else ""
        log.warning("left out files of %s that do not end like pictures: %s%s", root, kinds, remedy)


def _require_two(pictures: Sequence[LabelledFile], name: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the sorted domains and classes, two of each at least."""
    domains = tuple(sorted({picture.domain for picture in pictures}))
    classes = tuple(sorted({picture.label for picture in pictures}))
    for kind, plural, names in (("domain", "domains", domains), ("class", "classes", classes)):
        if not names:
            raise InputError(f"none of the pictures in {name} can be read")
        if len(names) == 1:
            raise InputError(f"{name} has pictures of one {kind} only, {names[0]!r}: two {plural} are needed; {LAYOUT}")
    return domains, classes


def _refuse_twins(pictures: Sequence[LabelledFile], name: str) -> None:
    """Refuse domains or classes whose names differ by capitals alone.

    Classes that stand beside each other in every domain that has one of them are meant so, such as letters: a warning.
    """
    for twins in _alike({picture.domain for picture in pictures}):
        listed = " and ".join(map(repr, twins))
        raise InputError(f"the domains {listed} of {name} differ by capitals alone: put them together, or rename one")
    places: dict[str, set[str]] = {}
    for picture in pictures:
        places.setdefault(picture.label, set()).add(picture.domain)
    for twins in _alike(places):
        listed = " and ".join(f"{label!r} (in {', '.join(sorted(places[label]))})" for label in twins)
        if any(places[label] != places[twins[0]] for label in twins):
            raise InputError(
                f"the classes {listed} of {name} differ by capitals alone: give their folders one name, or names that "
                "differ in more where they are two classes"
            )
        log.warning("the classes %s of %s differ by capitals alone, and count as different ones", listed, name)


def _alike(names: Iterable[str]) -> list[list[str]]:
    """Return the groups of names that are the same but for capitals."""
    groups: dict[str, list[str]] = {}
    for name in sorted(names):
        groups.setdefault(name.casefold(), []).append(name)
    return [group for group in groups.values() if len(group) > 1]


def report_bad(bad: Sequence[BadImage], total: int, name: str, skip: bool) -> None:
    """Refuse pictures that cannot be read, all of them by name, or warn where they are to be left out."""
    lines = "".join(f"\n  {image.name}: {image.reason}" for image in bad)
    if skip:
        log.warning("left out %d of %d pictures in %s that cannot be read:%s", len(bad), total, name, lines)
        return
    raise InputError(
        f"{len(bad)} of {total} pictures in {name} cannot be read; "
        f"mend or remove them, or leave them out with --skip-bad (in a plan: skip_bad = true):{lines}"
    )


def _span(pictures: Sequence[LabelledFile], domain: str) -> slice:
    """Return where a domain's pictures lie in a sequence sorted by domain."""
    rows = [k for k, picture in enumerate(pictures) if picture.domain == domain]
    return slice(rows[0], rows[-1] + 1)


def _warn_of_missing(
    pictures: Iterable[LabelledFile], domains: Sequence[str], classes: Sequence[str], name: str
) -> None:
    present = {(picture.domain, picture.label) for picture in pictures}
    for domain in domains:
        for label in classes:
            if (domain, label) not in present:
                log.warning("class %r has no picture in domain %r of %s", label, domain, name)
