"""CORAL: features whose means and covariances agree across domains."""

from dataclasses import dataclass
from typing import Annotated

import torch.nn.functional as F
from torch import Tensor

from madod.algorithms.base import ALGORITHMS, Algorithm, BaseConfig, Terms
from madod.equations import mean_over_pairs
from madod.search import LogUniform
from madod.tasks import Batch


def coral(x: Tensor, y: Tensor) -> Tensor:
    """mean (mu_x - mu_y)^2 + mean (C_x - C_y)^2, the means over all entries [Sun & Saenko 2016; DomainBed]."""
    return F.mse_loss(x.mean(0), y.mean(0)) + F.mse_loss(x.T.cov(), y.T.cov())


@dataclass(frozen=True)
class CoralConfig(BaseConfig):
    """DomainBed's setting and ranges."""

    alignment: Annotated[float, LogUniform(1e-1, 1e1)] = 1.0
    """gamma, weight of the distance between domains."""


@ALGORITHMS.register("coral")
class CORAL(Algorithm):
    """Risk plus the difference of the features' means and covariances between source domains [Sun & Saenko 2016]."""

    Config = CoralConfig
    config: CoralConfig

    def objective(self, batch: Batch) -> Terms:
        """L = CE + gamma mean_{d < e} CORAL(z_d, z_e)."""
        features, logits, _ = self.net(batch.x)
        risk = F.cross_entropy(logits, batch.y)
        gap = mean_over_pairs(coral, self.per_domain(features))
        return {"loss": risk + self.config.alignment * gap, "risk": risk, "gap": gap}
