"""What a detector is: fitted on source outputs alone, then one number per image; higher means more unknown, always."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from inspect import signature
from typing import Any, ClassVar, NamedTuple, Self

import torch
from torch import Tensor

from madod.algorithms.base import ALGORITHMS
from madod.errors import InputError
from madod.models.classifier import Outputs
from madod.registry import Registry


class Fit(NamedTuple):
    """All that a detector may look at: source images, their labels, and the head."""

    train: Outputs
    y: Tensor
    val: Outputs
    y_val: Tensor
    weight: Tensor
    bias: Tensor

    def head(self) -> tuple[Tensor, Tensor]:
        """Return copies of the head's weight (k, f) and bias (k,) in float64, for a detector to keep."""
        return self.weight.double().clone(), self.bias.double().clone()


class Detector(ABC):
    """Scores how unknown an image is. Learned attributes are tensors whose names end in an underscore."""

    name: ClassVar[str]
    needs_model: ClassVar[bool] = False
    """Whether the score needs the network itself, not only its stored outputs; then only `score_images` gives it."""
    heavy: ClassVar[bool] = False
    """Whether it is worth a GPU where there is one; then `fit` and `score` compute where what they are given is."""
    needs_own: ClassVar[bool] = False
    """Whether it is nothing but the method's own score, which most methods have not."""

    def __init__(self) -> None:
        """Need nothing: whatever a detector is made with has a default."""
        super().__init__()

    def fit(self, fit: Fit) -> Self:
        """Learn from source outputs; a detector without anything to learn returns itself."""
        return self

    @abstractmethod
    def score(self, outputs: Outputs) -> Tensor:
        """Return one number per image (n,); higher is more unknown."""

    def score_images(self, net: Callable[[Tensor], Outputs], images: Tensor) -> Tensor:
        """Return one number per image (n, c, h, w), seen through a network in evaluation mode."""
        with torch.no_grad():
            return self.score(net(images))

    def settings(self) -> dict[str, Any]:
        """Return what it was made with, to be saved with a model: numbers and texts that its constructor keeps."""
        kept = {name: vars(self)[name] for name in signature(type(self)).parameters if name in vars(self)}
        return {name: value for name, value in kept.items() if value is None or isinstance(value, int | float | str)}

    def state(self) -> dict[str, Tensor]:
        """Return what was learned, as tensors to be saved with a model."""
        return {key: value for key, value in vars(self).items() if key.endswith("_") and isinstance(value, Tensor)}

    def load_state(self, state: Mapping[str, Tensor]) -> Self:
        """Take back what `state` returned."""
        for key, value in state.items():
            setattr(self, key, torch.as_tensor(value))
        return self


DETECTORS: Registry[Detector] = Registry("detector", Detector)


def refuse_scoreless(algorithm: str, detectors: Iterable[str]) -> None:
    """Refuse a detector that asks for a score which the method does not have, before anything is trained."""
    method = ALGORITHMS[algorithm]  # looked up whatever the detectors: its file may bring the backbone along
    for name in detectors:
        if DETECTORS[name].needs_own and not method.own_score:
            raise InputError(
                f"{algorithm} has no unknown score of its own, and {name} is nothing else: "
                "choose another detector, such as energy"
            )
