"""EDir-MMD: an ensemble with Dirichlet mixup and MMD."""

from dataclasses import dataclass
from typing import Annotated

from torch import Tensor

from madod.algorithms.aligned_ensemble import AlignedConfig, AlignedEnsemble
from madod.algorithms.base import ALGORITHMS
from madod.algorithms.domain_mixtures import mixture_risk
from madod.models.ensemble import Views
from madod.search import Above, AtLeast


@dataclass(frozen=True)
class EDirConfig(AlignedConfig):
    """The published setting."""

    mixup: Annotated[float, AtLeast(0)] = 3.0
    """Weight of Dir-mixup."""
    near: Annotated[float, Above(0)] = 0.6
    """Dirichlet concentration of a network's own domain."""
    far: Annotated[float, Above(0)] = 0.2
    """Dirichlet concentration of the other domains."""


@ALGORITHMS.register("edir_mmd")
class EDirMMD(AlignedEnsemble):
    """A network for every domain, Dirichlet mixup of features, MMD between domains [Noguchi & Shirakawa 2023]."""

    Config = EDirConfig
    config: EDirConfig

    def lesson(self, seen: Views, y: Tensor) -> Tensor:
        """w_mixup sum_m CE(h_m(z_m), q_m) on the Dir-mixup of every network's features."""
        how = self.config
        return how.mixup * mixture_risk(seen, y, own=how.near, other=how.far, rng=self.rng)
