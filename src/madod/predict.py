"""A saved model in use: pictures in; label, confidence, score and a verdict out."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from madod.algorithms.base import ALGORITHMS
from madod.data.augment import NONE
from madod.data.images import BadImage, Pixels, read_image
from madod.detectors.base import DETECTORS, Detector
from madod.errors import InputError
from madod.models.backbones import build
from madod.models.classifier import Setting
from madod.models.layers import NormName
from madod.storage import read_tensors, under, write_json, write_tensors

FORMAT = 1
BATCH = 64


class Prediction(NamedTuple):
    """What the model says of one picture; `label` is the nearest known class even where it is unknown."""

    path: str
    label: str
    confidence: float
    score: float
    threshold: float
    unknown: bool


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


class Model:
    """A classifier with a detector and its threshold."""

    def __init__(self, net: nn.Module, detector: Detector, card: Card) -> None:
        self.net = net.eval()
        self.detector = detector
        self.card = card

    @property
    def threshold(self) -> float:
        """The score above which a picture is called unknown."""
        return self.card.threshold

    def save(self, folder: Path) -> None:
        """Write `model.safetensors` and, last, `model.json` with the checksum of both."""
        tensors = {f"net.{name}": value for name, value in self.net.state_dict().items()}
        tensors |= {f"detector.{name}": value for name, value in self.detector.state().items()}
        write_tensors(folder / "model.safetensors", tensors, {})
        facts = asdict(self.card)
        write_json(folder / "model.json", {**facts, "sha256": _checksum(folder / "model.safetensors", facts)})

    def judge(self, pixels: Sequence[Pixels]) -> tuple[Tensor, Tensor]:
        """Return probabilities (n, k) and unknown scores (n,) of uint8 pictures (c, h, w) at the model's size."""
        images = torch.from_numpy(np.stack(pixels)).float().div_(255)
        if self.detector.needs_model:
            scores = self.detector.score_images(self.net, images)
        with torch.no_grad():
            outputs = self.net(images)
            if not self.detector.needs_model:
                scores = self.detector.score(outputs)
        return outputs.logits.double().softmax(1), scores

    def predict(self, paths: Iterable[Path | str]) -> Iterator[Prediction | BadImage]:
        """Yield a prediction for every picture file, in order; one that cannot be read yields its `BadImage`."""
        remaining = iter(paths)
        while block := list(islice(remaining, BATCH)):
            read = [self._read(Path(path)) for path in block]
            pixels = [picture for picture in read if not isinstance(picture, BadImage)]
            verdicts = zip(*self.judge(pixels), strict=True) if pixels else iter(())
            for path, picture in zip(block, read, strict=True):
                yield picture if isinstance(picture, BadImage) else self._prediction(str(path), *next(verdicts))

    def _read(self, path: Path) -> Pixels | BadImage:
        try:
            return read_image(path, self.card.shape[1])
        except BadImage as bad:
            return bad

    def _prediction(self, path: str, probabilities: Tensor, score: Tensor) -> Prediction:
        best = int(probabilities.argmax())
        value = float(score)
        unknown = value > self.threshold
        return Prediction(path, self.card.classes[best], float(probabilities[best]), value, self.threshold, unknown)


def load(folder: Path | str) -> Model:
    """Read a saved model: a model's own folder, or that of the run that made it."""
    home = Path(folder)
    home = home if (home / "model.json").exists() else home / "model"
    try:
        facts = json.loads((home / "model.json").read_text(encoding="utf-8"))
        checksum = facts.pop("sha256")
        card = Card(**facts | {key: tuple(facts[key]) for key in ("classes", "shape", "domains")})
    except FileNotFoundError:
        raise InputError(f"there is no model in {folder}: it has no model.json; `madod train` makes one") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{home / 'model.json'} cannot be read ({error}): train the model again") from error
    if card.format != FORMAT:
        raise InputError(
            f"{home} was saved in format {card.format} and this madod reads {FORMAT}: train the model again"
        )
    if checksum != _checksum(home / "model.safetensors", facts):
        raise InputError(
            f"the model in {home} is damaged or was changed by hand: its checksum does not fit; train it again"
        )
    tensors, _ = read_tensors(home / "model.safetensors")
    make_net = partial(build, card.backbone, channels=card.shape[0], classes=len(card.classes), seed=0, norm=card.norm)
    net = ALGORITHMS[card.algorithm].shell(Setting(make_net, len(card.domains), nn.Identity(), NONE, 0))
    net.load_state_dict(under(tensors, "net."))
    return Model(net, DETECTORS[card.detector]().load_state(under(tensors, "detector.")), card)


def _checksum(weights: Path, facts: dict[str, Any]) -> str:
    """Return a hash of the weights' file and of everything said beside it."""
    try:
        digest = hashlib.sha256(weights.read_bytes())
    except OSError as error:
        raise InputError(f"{weights} cannot be read ({error.strerror}): train the model again") from error
    digest.update(json.dumps(facts, sort_keys=True, ensure_ascii=False).encode())
    return digest.hexdigest()
