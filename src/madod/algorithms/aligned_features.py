"""What CORAL and MMD share: risk, and a distance between the features of every two domains."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Annotated

import torch.nn.functional as F
from torch import Tensor

from madod.algorithms.base import Algorithm, BaseConfig, Terms
from madod.equations import mean_over_pairs
from madod.search import AtLeast, LogUniform
from madod.tasks import Batch


@dataclass(frozen=True)
class AlignmentConfig(BaseConfig):
    """DomainBed's setting and ranges."""

    alignment: Annotated[float, LogUniform(1e-1, 1e1), AtLeast(0)] = 1.0
    """gamma, weight of the distance between domains."""

    compile_from = 4000


class AlignedFeatures(Algorithm):
    """Risk plus the mean distance between the features of source domains; a method says what distance."""

    Config = AlignmentConfig
    config: AlignmentConfig

    @staticmethod
    @abstractmethod
    def distance(x: Tensor, y: Tensor) -> Tensor:
        """Return how far apart the features (n, f) and (m, f) of two domains are."""

    def objective(self, batch: Batch) -> Terms:
        """L = CE + gamma mean_{d < e} distance(z_d, z_e)."""
        features, logits, _ = self.net(batch.x)
        risk = F.cross_entropy(logits, batch.y)
        gap = mean_over_pairs(self.distance, self.per_domain(features))
        return {"loss": risk + self.config.alignment * gap, "risk": risk, "gap": gap}
