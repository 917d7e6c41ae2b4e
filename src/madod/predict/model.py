"""A model in use: what it says of pictures, and of itself."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, Self

import torch
from torch import Tensor, nn

from madod.data.images import BadImage, Pixels
from madod.detectors.base import Detector
from madod.errors import InputError, is_out_of_memory
from madod.evaluation.threshold import KEEP, threshold
from madod.kinds import taken
from madod.models.device import device_named
from madod.predict import saved
from madod.predict.card import Card, Checked
from madod.predict.examine import Examined, examine
from madod.predict.findings import Findings, Verdict, findings, labelled
from madod.predict.gallery import Gallery, Neighbour
from madod.predict.pictures import Block, Picture, blocks, sound
from madod.progress import Progress, silent


class Prediction(NamedTuple):
    """What the model says of one picture; `label` is the nearest known class even where it is unknown."""

    path: str | int
    """The file, as it was named; of a picture without one, its place in the sequence."""
    label: str
    confidence: float
    score: float
    threshold: float
    unknown: bool


class Model:
    """A classifier with a detector and its threshold."""

    def __init__(
        self,
        net: nn.Module,
        detector: Detector,
        card: Card,
        held_scores: Tensor,
        gallery: Gallery | None = None,
    ) -> None:
        """Put together what was trained; `held_scores` (n,) are those of held-out pictures of the training domains."""
        self.net = net.eval()
        self.detector = detector
        self.card = card
        self.held_scores = held_scores
        self.gallery = gallery

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the known classes."""
        return self.card.classes

    @property
    def size(self) -> int:
        """The side in pixels of the square that every picture is squeezed to."""
        return self.card.shape[1]

    @property
    def check(self) -> Checked | None:
        """How its training did in held-out domains, and what not to rely on; None of a run of the benchmark.

        >>> check = madod.load("my_model/").check
        >>> check.domains, check.warnings
        (0, ())
        """
        return self.card.check

    @property
    def threshold(self) -> float:
        """The score above which a picture is called unknown."""
        return self.card.threshold

    @threshold.setter
    def threshold(self, value: float) -> None:
        try:
            number = float(value)
        except (TypeError, ValueError):
            number = math.nan
        if not math.isfinite(number):
            raise InputError(f"a threshold is a number, and {value!r} is none: take one from the scores of pictures")
        self.card = replace(self.card, threshold=number)

    def set_threshold(self, keep: float = KEEP) -> float:
        """Set the threshold so that this share of held-out training pictures passes as known, and return it.

        Without a share it is the 95 % of training.

        >>> model = madod.load("my_model/")
        >>> strict, lenient = model.set_threshold(keep=0.8), model.set_threshold(keep=0.99)
        >>> strict < lenient == model.threshold
        True
        """
        self.threshold = threshold(self.held_scores, taken("keep", float, keep))
        return self.threshold

    def to(self, device: torch.device | str) -> Self:
        """Move the network to a device, such as "cuda", or "auto" for the GPU where there is one.

        Answers stay on the CPU.
        """
        self.net.to(device_named(device))
        return self

    def predict(self, pictures: Picture | Iterable[Picture]) -> list[Prediction]:
        """Return one prediction per picture, in order; one that cannot be read raises its `BadImage`.

        >>> import numpy, PIL.Image, torch
        >>> model = madod.load("my_model/")
        >>> model.predict(["photo.jpg", PIL.Image.open("photo.jpg")])[1].label
        'dog'
        >>> len(model.predict(numpy.zeros((2, 50, 70, 3), dtype="uint8")))        # two arrays (h, w, c)
        2
        >>> [answer.path for answer in model.predict(torch.rand(2, 3, 50, 70))]   # two tensors (c, h, w) in [0, 1]
        [0, 1]
        """
        found = []
        for answer in self.predict_iter(pictures):
            if isinstance(answer, BadImage):
                raise answer
            found.append(answer)
        return found

    def predict_iter(self, pictures: Picture | Iterable[Picture]) -> Iterator[Prediction | BadImage]:
        """Yield a prediction for every picture, in order, in constant memory however many there are.

        Pictures are decoded in a few threads and judged in batches. One that cannot be read yields its `BadImage`.

        >>> model = madod.load("my_model/")
        >>> for answer in model.predict_iter(path for path in ("photo.jpg", "gone.jpg")):
        ...     print(answer if isinstance(answer, madod.BadImage) else answer.label)
        dog
        cannot read 'gone.jpg': it does not exist
        """
        for block in blocks(pictures, self.size):
            yield from self._answers(block)

    def similar(self, pictures: Picture | Iterable[Picture], k: int = 5) -> list[list[Neighbour]]:
        """Return for every picture, in order, the k most similar of the training pictures kept with the model.

        The most similar comes first. One that cannot be read raises its `BadImage`; of a model without a gallery there
        are none.

        >>> [neighbours] = madod.load("my_model/").similar("photo.jpg", k=3)
        >>> [neighbour.label for neighbour in neighbours]
        ['dog', 'dog', 'dog']
        """
        found = []
        k = taken("k", int, k)
        for block in blocks(pictures, self.size):
            found += self.nearest(self.examine(sound(block)).features, k)
        return found

    def evaluate(self, folder: Path | str, *, progress: Progress = silent) -> Findings:
        """Measure the model on pictures in FOLDER/DOMAIN/CLASS or FOLDER/CLASS; other classes than its own are unknown.

        Pictures that cannot be read are named in the findings, and the others counted.

        >>> found = madod.load("my_model/").evaluate("my_images/")
        >>> found.overall.known, found.overall.unknown, list(found.by_domain), found.unreadable
        (36, 0, ['day', 'night'], ())
        >>> found.overall.accuracy == 1 - sum(found.confused.values()) / 36
        True
        """
        pictures = labelled(Path(folder), self.classes)
        verdicts, unreadable = [], []
        answers = self.predict_iter(picture.path for picture in pictures)
        for done, (picture, answer) in enumerate(zip(pictures, answers, strict=True), 1):
            progress("evaluating", done, len(pictures))
            if isinstance(answer, BadImage):
                unreadable.append(str(answer))
            else:
                verdicts.append(Verdict(picture.domain, picture.label, answer.label, answer.score, answer.unknown))
        return findings(verdicts, self.classes, unreadable)

    def examine(self, pictures: Sequence[Pixels]) -> Examined:
        """Return all that the network says of uint8 pictures (c, h, w) at the model's size.

        Where a number comes out as none, the picture is as unknown and the network as unsure as can be. Pictures that
        do not fit into memory together, on a GPU that others use too, are looked at half by half.
        """
        try:
            return examine(self.net, self.detector, pictures)
        except (MemoryError, RuntimeError) as error:
            if len(pictures) < 2 or not is_out_of_memory(error):
                raise
        middle = len(pictures) // 2  # here, where the error no longer holds what did not fit
        halves = self.examine(pictures[:middle]), self.examine(pictures[middle:])
        return Examined(*(torch.cat(part) for part in zip(*halves, strict=True)))

    def judge(self, pictures: Sequence[Pixels]) -> tuple[Tensor, Tensor]:
        """Return probabilities (n, k) and unknown scores (n,) of uint8 pictures (c, h, w) at the model's size."""
        probabilities, scores, _ = self.examine(pictures)
        return probabilities, scores

    def nearest(self, features: Tensor, k: int = 5) -> list[list[Neighbour]]:
        """Return for features (n, f) of `examine` what `similar` returns for pictures."""
        if self.gallery is None:
            return [[] for _ in features]
        return self.gallery.neighbours(features, k, self.classes, self.card.domains)

    def save(self, folder: Path | str) -> None:
        """Write the weights, the gallery and, last, `model.json` with the checksums of all.

        In the folder of a run it takes the place of the run's model, which is whole until the new one is.
        """
        parts = saved.Parts(self.net, self.detector, self.card, self.held_scores, self.gallery)
        self.card = saved.write(Path(folder), parts)

    def _answers(self, block: Block) -> Iterator[Prediction | BadImage]:
        readable = [picture for _, picture in block if not isinstance(picture, BadImage)]
        verdicts = self._verdicts(readable) if readable else iter(())
        for name, picture in block:
            if isinstance(picture, BadImage):
                yield picture
                continue
            best, confidence, score = next(verdicts)
            unknown = score > self.threshold
            yield Prediction(name, self.classes[best], confidence, score, self.threshold, unknown)

    def _verdicts(self, pictures: Sequence[Pixels]) -> Iterator[tuple[int, float, float]]:
        probabilities, scores = self.judge(pictures)
        confidence, best = probabilities.max(1)
        return zip(best.tolist(), confidence.tolist(), scores.tolist(), strict=True)


def load(folder: Path | str) -> Model:
    """Read a saved model: a model's own folder, or that of the run that made it."""
    if not isinstance(folder, str | Path):
        raise InputError(f"the folder of a model is a text or a Path, not {type(folder).__name__}")
    return Model(*saved.read(folder))
