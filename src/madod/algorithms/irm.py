"""Invariant risk minimisation: one classifier that is optimal in every source domain at once."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from madod.algorithms.base import ALGORITHMS, Algorithm, BaseConfig, Terms
from madod.models.recorded import forget
from madod.search import AtLeast, LogUniform
from madod.tasks import Batch


def scale_gradient(logits: Tensor, y: Tensor) -> Tensor:
    """d/ds CE(s f(x), y) at s = 1, which is mean (sum_k p_k f_k - f_y), p = softmax f [Arjovsky et al. 2019, IRMv1]."""
    return ((logits.softmax(1) * logits).sum(1) - logits.gather(1, y[:, None])[:, 0]).mean()


def penalty(logits: Tensor, y: Tensor) -> Tensor:
    """P = d/ds CE(even images) * d/ds CE(odd images), unbiased for ||grad_s CE||^2 [Arjovsky et al. 2019, app. D]."""
    return scale_gradient(logits[::2], y[::2]) * scale_gradient(logits[1::2], y[1::2])


@dataclass(frozen=True)
class IrmConfig(BaseConfig):
    """DomainBed's setting and ranges."""

    batch: Annotated[int, LogUniform(8, 45), AtLeast(2)] = 32
    """Images of every source domain in a minibatch; the penalty needs two."""
    penalty: Annotated[float, LogUniform(1e-1, 1e5), AtLeast(0)] = 100.0
    """lambda, weight of the penalty once annealing is over; 1 before."""
    anneal: Annotated[int, LogUniform(1, 1e4), AtLeast(0)] = 500
    """T_anneal, steps before the penalty gets its weight."""

    scratch: ClassVar[dict[str, Any]] = BaseConfig.scratch | {"penalty": 1.0}
    compile_from = 4000


@ALGORITHMS.register("irm")
class IRM(Algorithm):
    """Risk plus a penalty on how much rescaling the logits would help each domain alone [Arjovsky et al. 2019]."""

    recordable = True
    Config = IrmConfig
    config: IrmConfig

    def objective(self, batch: Batch) -> Terms:
        """L = mean_d [CE_d + w P_d], w = 1 until T_anneal, then lambda."""
        domains = list(zip(self.per_domain(self.net(batch.x).logits), self.per_domain(batch.y), strict=True))
        risk = torch.stack([F.cross_entropy(logits, y) for logits, y in domains]).mean()
        gap = torch.stack([penalty(logits, y) for logits, y in domains]).mean()
        weight = 1.0 if self.step < self.config.anneal else self.config.penalty
        return {"loss": risk + weight * gap, "risk": risk, "penalty": gap}

    def update(self, batch: Batch) -> Terms:
        """Take one step; Adam forgets its moments when the penalty's weight jumps."""
        if self.step == self.config.anneal:
            self.optimizer.state.clear()
            forget(self)
        return super().update(batch)
