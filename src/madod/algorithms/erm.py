"""Empirical risk minimisation: the plain baseline that every method has to beat."""

import torch.nn.functional as F

from madod.algorithms.base import ALGORITHMS, Algorithm, Terms
from madod.tasks import Batch


@ALGORITHMS.register("erm")
class ERM(Algorithm):
    """Cross-entropy on all source domains together [Vapnik 1999]."""

    compile_from = 2700
    recordable = True

    def objective(self, batch: Batch) -> Terms:
        """L = CE(f(x), y)."""
        return {"loss": F.cross_entropy(self.net(batch.x).logits, batch.y)}
