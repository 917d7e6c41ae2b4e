"""A model's folder: weights, gallery and card, and the parts of a model made of them again."""

import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from torch import Tensor, nn

from madod.algorithms.base import ALGORITHMS
from madod.data.augment import NONE
from madod.detectors.base import DETECTORS, Detector
from madod.errors import InputError, first_few, is_out_of_memory
from madod.models.backbones import build
from madod.models.classifier import Setting, no_translate
from madod.predict.card import AGAIN, FACTS, GALLERY, NEW, WEIGHTS, Card, damaged, latest, read_card, sealed, write_card
from madod.predict.examine import examine
from madod.predict.gallery import Gallery, read_gallery
from madod.registry import PLUGINS
from madod.storage import read_tensors, refuse_file, under, whole, write_tensors

HELD = "held.scores"


class Parts(NamedTuple):
    """What a model is put together of."""

    net: nn.Module
    detector: Detector
    card: Card
    held_scores: Tensor
    gallery: Gallery | None = None


def write(folder: Path, parts: Parts) -> Card:
    """Write the weights, the gallery and, last, `model.json` with the checksums of all; return what that says.

    A model that lies there is read, whole, until the new one is whole; in a run's folder that is the run's.
    """
    refuse_file(folder)
    folder = home_of(folder) if is_model(folder) else folder
    settle(folder)
    home = folder / NEW if (folder / FACTS).exists() else folder
    tensors = {f"net.{name}": value for name, value in parts.net.state_dict().items()}
    tensors |= {f"detector.{name}": value for name, value in parts.detector.state().items()}
    tensors[HELD] = parts.held_scores
    write_tensors(home / WEIGHTS, tensors, {})
    if parts.gallery is not None:
        parts.gallery.save(home / GALLERY)
    seal = "" if parts.gallery is None else sealed(home, {}, GALLERY)
    card = replace(parts.card, settings=parts.detector.settings(), gallery=seal)
    write_card(home, card)
    settle(folder)
    return card


def settle(folder: Path) -> None:
    """Put a new model that is whole in the place of the old one, and leave nothing of one that is not."""
    new = folder / NEW
    if (new / FACTS).exists():
        (folder / GALLERY).unlink(missing_ok=True)  # the new one may have none
        for name in (WEIGHTS, GALLERY, FACTS):
            if (new / name).exists():
                with whole(folder / name) as part:
                    shutil.copyfile(new / name, part)
        (new / FACTS).unlink()  # it counts no more
    shutil.rmtree(new, ignore_errors=True)


def home_of(folder: Path) -> Path:
    """Return where the model is: in a folder of its own, or else in that of a run."""
    return folder if (folder / FACTS).exists() else folder / "model"


def is_model(folder: Path) -> bool:
    """Tell whether there is a model in a folder of its own, or in that of a run."""
    return (latest(home_of(folder)) / FACTS).exists()


def read(folder: Path | str) -> Parts:
    """Read what `write` wrote into a model's own folder, or that of the run that made it."""
    home = latest(home_of(Path(folder)))
    card = read_card(home, folder)
    try:
        parts = _rebuilt(card, _tensors(home))
    except (RuntimeError, ValueError, TypeError, LookupError, AttributeError) as error:
        if isinstance(error, InputError) or is_out_of_memory(error):
            raise
        raise damaged(home) from error
    shown = read_gallery(home / GALLERY, len(card.classes), len(card.domains)) if card.gallery else None
    return parts._replace(gallery=shown)


def card_of(folder: Path | str) -> Card:
    """Read what a saved model says of itself, without its network; refuse one that is not as it was saved."""
    return read_card(latest(home_of(Path(folder))), folder)


def held_scores(folder: Path | str) -> Tensor:
    """Read a saved model's scores of held-out pictures (n,), without its network."""
    return _tensors(latest(home_of(Path(folder))))[HELD]


def _tensors(home: Path) -> dict[str, Tensor]:
    tensors, _ = read_tensors(home / WEIGHTS)
    if HELD not in tensors:
        raise InputError(f"the model in {home} lacks the scores of held-out pictures, which set a threshold: {AGAIN}")
    return tensors


def _rebuilt(card: Card, tensors: dict[str, Tensor]) -> Parts:
    """Return what a card describes, with these weights."""
    for registry, name in ((ALGORITHMS, card.algorithm), (DETECTORS, card.detector)):
        if name not in registry:
            raise InputError(
                f"this model has the {registry.kind} {name!r}, which is not madod's own: import the module that "
                f"registers it first, or name it in {PLUGINS}"
            )
    channels, height, width = card.shape
    net = _shell(card).eval()
    net.load_state_dict(under(tensors, "net."))
    detector = DETECTORS[card.detector](**card.settings).load_state(under(tensors, "detector."))
    examine(net, detector, [np.zeros((channels, height, width), dtype=np.uint8)])  # what cannot score is no model
    return Parts(net, detector, card, tensors[HELD])


def _shell(card: Card) -> nn.Module:
    """Return an untrained network of the shape that a card's method ships."""
    classes, channels = len(card.classes), card.shape[0]
    make_net = partial(build, card.backbone, channels=channels, classes=classes, seed=0, norm=card.norm)
    return ALGORITHMS[card.algorithm].shell(Setting(make_net, len(card.domains), no_translate, NONE, 0))


def refuse_unloadable(card: Card, net: nn.Module) -> None:
    """Refuse a network whose weights do not fit into what its method builds for a saved model."""
    ships, built = ({name: value.shape for name, value in each.state_dict().items()} for each in (net, _shell(card)))
    if apart := sorted(name for name in {*ships, *built} if ships.get(name) != built.get(name)):
        raise InputError(
            f"what deploy of {card.algorithm} returns is not the network that its shell builds, into which a saved "
            f"model is loaded (apart are {first_few(apart, 3)}): let shell build what deploy returns"
        )
