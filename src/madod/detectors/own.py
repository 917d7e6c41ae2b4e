"""The score that a method brings along."""

from torch import Tensor

from madod.detectors.base import DETECTORS, Detector
from madod.errors import InputError
from madod.models.classifier import Outputs


@DETECTORS.register("own")
class Own(Detector):
    """The method's own unknown score, where it has one."""

    needs_own = True

    def score(self, outputs: Outputs) -> Tensor:
        """Return the own score, or refuse where the method has none."""
        if outputs.own is None:
            raise InputError("this method has no unknown score of its own; choose another detector, such as energy")
        return outputs.own.double()
