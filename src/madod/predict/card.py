"""What a saved model says of itself, and whether its files are as they were written."""

import hashlib
import json
import math
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from madod.errors import InputError
from madod.kinds import filled
from madod.models.layers import NormName
from madod.storage import ordinary, write_json

FORMAT = 1
WEIGHTS, FACTS, GALLERY = "model.safetensors", "model.json", "gallery.safetensors"
"""The files of a model's folder; the gallery may be deleted, and the model answers as before."""
NEW = "model.new"
"""Folder below it for a model that takes its place: the one that counts as soon as it is whole."""
AGAIN = "train the model again in a fresh folder"
"""What to do about one that is lost; in its old folder the training counts as finished."""


@dataclass(frozen=True)
class Checked:
    """How its training did in domains that were held out: means over them, None where there is nothing to measure."""

    domains: int
    accuracy: float | None
    """Share of pictures of known classes that got the right label there."""
    auroc: float | None
    """Chance that a picture of a hidden class scored above one of a known class there."""
    of_labels: tuple[str, ...] = ()
    """Why not to rely on its labels, and what to do, in a sentence each."""
    of_unknowns: tuple[str, ...] = ()
    """Why not to rely on its detector to find unknowns, and what to do, in a sentence each."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """What not to rely on, why, and what to do, in a sentence each."""
        return self.of_labels + self.of_unknowns


@dataclass(frozen=True)
class Card:
    """What `model.json` says: all that is needed to rebuild the network and to read its answers."""

    classes: tuple[str, ...]
    shape: tuple[int, int, int]
    algorithm: str
    backbone: str
    domains: tuple[str, ...]
    detector: str
    threshold: float
    provenance: dict[str, Any]
    norm: NormName = "group"
    format: int = FORMAT
    settings: dict[str, Any] = field(default_factory=dict)
    """What the detector was made with; what is missing is as it is by default."""
    gallery: str = ""
    """The checksum of the gallery's file; empty where the model was saved without one."""
    check: Checked | None = None

    @property
    def warnings(self) -> tuple[str, ...]:
        """What its own check says not to rely on; nothing where it found nothing, or where there was none."""
        return self.check.warnings if self.check else ()


def read_card(home: Path, folder: Path | str) -> Card:
    """Read `model.json`; refuse a model of which any file is not as it was saved. `folder` is what was asked for."""
    try:
        facts = json.loads(ordinary(home / FACTS).read_text(encoding="utf-8"))
        if (written := facts["format"]) != FORMAT:
            raise InputError(f"{home / FACTS} is in format {written} and this madod reads {FORMAT}: update madod")
        checksum = facts.pop("sha256")
        card = _card(facts)
    except InputError:
        raise
    except FileNotFoundError:
        raise InputError(
            f"there is no model in {folder}: it has no {FACTS}; `madod train` makes one in a fresh folder"
        ) from None
    except NotADirectoryError:
        raise InputError(f"{folder} is a file: give the folder of a model, as `madod train --out` makes it") from None
    except OSError as error:
        raise InputError(f"{home / FACTS} cannot be read ({error.strerror}): {remedy(error)}") from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(
            f"{home / FACTS} is damaged or was changed by hand: it is not what a training writes; {AGAIN}"
        ) from error
    if checksum != sealed(home, facts):
        raise damaged(home)
    if card.gallery and (home / GALLERY).exists() and card.gallery != sealed(home, {}, GALLERY):
        raise InputError(
            f"the gallery of the model in {home} is damaged or was changed by hand: delete {GALLERY}, and the model "
            "works without it"
        )
    return card


def write_card(home: Path, card: Card) -> None:
    """Write `model.json` beside the weights, with a checksum of both."""
    facts = asdict(card)
    write_json(home / FACTS, {**facts, "sha256": sealed(home, facts)})


def note(home: Path, check: Checked) -> None:
    """Add to a saved model how its training did."""
    home = latest(home)
    card = read_card(home, home)
    if card.check != check:
        write_card(home, replace(card, check=check))


def latest(home: Path) -> Path:
    """Return where a model's files are whole: its folder, or the one below it where a new model was left by a kill."""
    return home / NEW if (home / NEW / FACTS).exists() else home


def _card(facts: dict[str, Any]) -> Card:
    """Return a card of what a file says; a ValueError or the like where that cannot be what a training writes."""
    given = dict(facts)
    check = given.pop("check", None)
    try:
        card = filled(Card, **given, check=check and filled(Checked, **check))
    except InputError as error:  # in words for people who chose a value
        raise ValueError(error) from error
    for names in (card.classes, card.domains):
        if not names or len(set(names)) < len(names):
            raise ValueError(names)
    if len(card.shape) != 3 or not math.isfinite(card.threshold):
        raise ValueError(card)
    return card


def damaged(home: Path) -> InputError:
    """Return the refusal of a model that is not what was saved."""
    return InputError(f"the model in {home} is damaged or was changed by hand: its checksum does not fit; {AGAIN}")


def sealed(home: Path, facts: dict[str, Any], name: str = WEIGHTS) -> str:
    """Return a hash of a file of the model and of everything said beside it."""
    try:
        with ordinary(home / name).open("rb") as file:
            digest = hashlib.file_digest(file, "sha256")
    except OSError as error:
        raise InputError(f"{home / name} cannot be read ({error.strerror}): {remedy(error)}") from error
    if facts:
        digest.update(json.dumps(facts, sort_keys=True, ensure_ascii=False).encode())
    return digest.hexdigest()


def remedy(error: OSError) -> str:
    """Return what to do about a part of a model that the system does not hand out."""
    return "make it readable" if isinstance(error, PermissionError) else AGAIN
