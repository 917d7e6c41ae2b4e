"""MMD: features whose distributions agree across domains, seen through Gaussian kernels."""

from dataclasses import dataclass
from typing import Annotated

import torch.nn.functional as F

from madod.algorithms.base import ALGORITHMS, Algorithm, BaseConfig, Terms
from madod.equations import mean_over_pairs, mmd
from madod.search import LogUniform
from madod.tasks import Batch


@dataclass(frozen=True)
class MmdConfig(BaseConfig):
    """DomainBed's setting and ranges."""

    alignment: Annotated[float, LogUniform(1e-1, 1e1)] = 1.0
    """gamma, weight of the distance between domains."""


@ALGORITHMS.register("mmd")
class MMD(Algorithm):
    """Risk plus the maximum mean discrepancy between the features of source domains [Li et al. 2018]."""

    Config = MmdConfig
    config: MmdConfig

    def objective(self, batch: Batch) -> Terms:
        """L = CE + gamma mean_{d < e} MMD^2(z_d, z_e)."""
        features, logits, _ = self.net(batch.x)
        risk = F.cross_entropy(logits, batch.y)
        gap = mean_over_pairs(mmd, self.per_domain(features))
        return {"loss": risk + self.config.alignment * gap, "risk": risk, "gap": gap}
