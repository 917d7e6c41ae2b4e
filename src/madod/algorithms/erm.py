"""Empirical risk minimisation: the plain baseline that every method has to beat."""

from dataclasses import dataclass

import torch.nn.functional as F

from madod.algorithms.base import ALGORITHMS, Algorithm, BaseConfig, Terms
from madod.tasks import Batch


@dataclass(frozen=True)
class ErmConfig(BaseConfig):
    """DomainBed's setting and ranges."""

    compile_from = 2700


@ALGORITHMS.register("erm")
class ERM(Algorithm):
    """Cross-entropy on all source domains together [Vapnik 1999]."""

    recordable = True
    Config = ErmConfig

    def objective(self, batch: Batch) -> Terms:
        """L = CE(f(x), y)."""
        return {"loss": F.cross_entropy(self.net(batch.x).logits, batch.y)}
