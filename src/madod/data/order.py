"""Whether the pictures of a folder lie in domains and classes as a training needs them."""

import logging
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from madod.data.finding import LAYOUT, LabelledFile, class_folders, domain_folders, folder_name
from madod.errors import InputError, first_few

log = logging.getLogger(__name__)

LISTED = 6
"""Names that a message lists."""
MOST = 20
"""Names that a message lists which stand nowhere else."""
DIFFERENCE = "capitals or blanks around them"
"""What names may differ by and yet be taken for one."""
PARTS = frozenset({"train", "training", "val", "valid", "validation", "dev", "test", "testing"})
"""What folders are called that divide pictures by what they are for."""


def refuse_deeper(pictures: Sequence[LabelledFile], root: Path) -> None:
    """Refuse pictures that lie in the same folders below every class, in ROOT/train, ROOT/val and the like, or in one.

    There these folders are the classes. Elsewhere, or where several classes do not share them, where they are called
    like parts of a training themselves or lie beside pictures of the class, they only divide a class.
    """
    inner: dict[str, set[str]] = {}
    for _, label, file in pictures:
        below = file.relative_to(root).parts[2:-1]
        if not below:
            return
        inner.setdefault(below[0], set()).add(label)
    shared = sorted(name for name, labels in inner.items() if len(labels) > 1)
    if len(shared) < 2 or 2 * len(shared) <= len(inner) or all(name.casefold() in PARTS for name in shared):
        return
    sizes = Counter(file.relative_to(root).parts[0] for _, _, file in pictures)
    if len(sizes) > 1 and not all(name.casefold() in PARTS for name in sizes):
        return
    likely = max(sizes, key=lambda name: (name.casefold().startswith("train"), sizes[name]))
    raise InputError(
        f"{root} seems to hold its domains and classes one level deeper, since no class folder has pictures of its own "
        f"but they share the folders {first_few(shared, LISTED)}: give {root / likely}, or move the pictures up "
        f"into the class folders if these only divide the classes; {LAYOUT}"
    )


def require_two(pictures: Sequence[LabelledFile], name: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the sorted domains and classes, two of each at least."""
    domains = tuple(sorted({picture.domain for picture in pictures}))
    classes = tuple(sorted({picture.label for picture in pictures}))
    for kind, plural, names in (("domain", "domains", domains), ("class", "classes", classes)):
        if not names:
            raise InputError(f"none of the pictures in {name} can be read")
        if len(names) == 1:
            raise InputError(f"{name} has pictures of one {kind} only, {names[0]!r}: two {plural} are needed; {LAYOUT}")
    return domains, classes


def refuse_twins(pictures: Sequence[LabelledFile], name: str) -> None:
    """Refuse domains or classes whose names differ by capitals or by blanks around them alone.

    Classes that stand beside each other in every domain that has one of them are meant so, such as letters: a warning.
    """
    for twins in _alike({picture.domain for picture in pictures}):
        listed = " and ".join(map(repr, twins))
        raise InputError(
            f"the domains {listed} of {name} differ by {DIFFERENCE} alone: put them together, or rename one"
        )
    places: dict[str, set[str]] = {}
    for picture in pictures:
        places.setdefault(picture.label, set()).add(picture.domain)
    for twins in _alike(places):
        listed = " and ".join(f"{label!r} (in {', '.join(sorted(places[label]))})" for label in twins)
        if any(places[label] != places[twins[0]] for label in twins):
            raise InputError(
                f"the classes {listed} of {name} differ by {DIFFERENCE} alone: give their folders one name, or "
                "names that differ in more where they are two classes"
            )
        log.warning("the classes %s of %s differ by %s alone, and count as different ones", listed, name, DIFFERENCE)


def _alike(names: Iterable[str]) -> list[list[str]]:
    """Return the groups of names that are the same but for capitals and blanks around them."""
    groups: dict[str, list[str]] = {}
    for name in sorted(names):
        groups.setdefault(name.strip().casefold(), []).append(name)
    return [group for group in groups.values() if len(group) > 1]


def missing(pictures: Collection[LabelledFile], root: Path) -> list[str]:
    """Say in a sentence each which classes and domains, by their folders, have no picture, and which pairs of them."""
    domains, classes = {picture.domain for picture in pictures}, {picture.label for picture in pictures}
    folders = {folder_name(folder): folder for folder in domain_folders(root)}
    labels = {folder_name(label) for name in domains & folders.keys() for label in class_folders(root, folders[name])}
    said = []
    if lost := sorted(labels - classes):
        named, them = _named("class", "classes", lost)
        said.append(f"{named} no picture that can be read in any domain, so the model will not know {them}")
    if lost := sorted(folders.keys() - domains):
        named, them = _named("domain", "domains", lost)
        said.append(f"{named} no picture that can be read, so nothing is learned from {them}")
    present = {(picture.domain, picture.label) for picture in pictures}
    pairs = [(domain, label) for domain in sorted(domains) for label in sorted(classes)]
    if gaps := [f"{label} in {domain}" for domain, label in pairs if (domain, label) not in present]:
        said.append(
            f"there is no picture of {first_few(gaps, LISTED)} ({len(gaps):,} of {len(pairs):,} pairs of class and "
            "domain); a class seen in one domain only is learned together with its style"
        )
    return said


def _named(one: str, many: str, names: Sequence[str]) -> tuple[str, str]:
    """Return the beginning of a sentence on what names have, and what it calls them further on."""
    listed = first_few(list(map(repr, names)), MOST)
    return (f"the {many} {listed} have", "them") if len(names) > 1 else (f"the {one} {listed} has", "it")
