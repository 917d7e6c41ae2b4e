"""Empirical risk minimisation: the plain baseline that every method has to beat."""

from typing import Any

import torch.nn.functional as F

from madod.algorithms.base import ALGORITHMS, Algorithm, Terms
from madod.tasks import Batch


@ALGORITHMS.register("erm")
class ERM(Algorithm):
    """Cross-entropy on all source domains together [Vapnik 1999]."""

    @classmethod
    def compile_from(cls, config: Any) -> float:
        """A step is short."""
        return 4000

    def objective(self, batch: Batch) -> Terms:
        """L = CE(f(x), y)."""
        return {"loss": F.cross_entropy(self.net(batch.x).logits, batch.y)}
