"""EDst-MMD: an ensemble with distillation and MMD."""

from dataclasses import dataclass
from typing import Annotated

from torch import Tensor

from madod.algorithms.aligned_ensemble import AlignedConfig, AlignedEnsemble
from madod.algorithms.base import ALGORITHMS
from madod.equations import mutual_distillation
from madod.models.ensemble import Views
from madod.search import Above, AtLeast


@dataclass(frozen=True)
class EDstConfig(AlignedConfig):
    """The published setting."""

    distill: Annotated[float, AtLeast(0)] = 1.0
    """Weight of distillation."""
    temperature: Annotated[float, Above(0)] = 2.0
    """T of distillation."""


@ALGORITHMS.register("edst_mmd")
class EDstMMD(AlignedEnsemble):
    """A network for every domain, distillation between them, MMD between domains [Noguchi & Shirakawa 2023]."""

    Config = EDstConfig
    config: EDstConfig

    def lesson(self, seen: Views, y: Tensor) -> Tensor:
        """w_distill sum_d T^2 KL(the other networks' mixture on x_d || f_d(x_d))."""
        return self.config.distill * mutual_distillation(seen.logits, self.config.temperature, self.rng)
