"""MBDG: risk under the constraint that restyling by G changes no answer, solved by primal and dual steps."""

from dataclasses import dataclass
from typing import Annotated

import torch
import torch.nn.functional as F
from torch import Tensor

from madod.algorithms.base import ALGORITHMS, Algorithm, BaseConfig, Terms
from madod.models.classifier import Setting
from madod.search import AtLeast, Uniform
from madod.tasks import Batch


def kl_invariance(logits: Tensor, moved: Tensor) -> Tensor:
    """d(x, x~) = KL(softmax f(x) || softmax f(x~)) of every image; finite however saturated [Robey et al. 2021]."""
    p, q = logits.log_softmax(-1), moved.log_softmax(-1)
    return (p.exp() * (p - q)).sum(-1)


def dual_ascent(dual: Tensor, gap: Tensor, rate: float, slack: float) -> Tensor:
    """lambda <- max(0, lambda + eta_d (R - gamma)) [Robey et al. 2021, alg. 1]."""
    return (dual + rate * (gap - slack)).clamp_min(0)


@dataclass(frozen=True)
class MbdgConfig(BaseConfig):
    """The published setting and ranges."""

    dual_rate: Annotated[float, Uniform(0.001, 0.1), AtLeast(0)] = 0.05
    """eta_d, step size of the dual variable."""
    slack: Annotated[float, Uniform(1e-4, 0.01), AtLeast(0)] = 0.025
    """gamma, how far answers may move without a price."""

    compile_from = 1500
    needs_translate = True  # the constraint is about G


@ALGORITHMS.register("mbdg")
class MBDG(Algorithm):
    """Risk under a constraint of invariance to the generator G, primal and dual steps in turns [Robey et al. 2021]."""

    recordable = True
    Config = MbdgConfig
    config: MbdgConfig
    dual: Tensor

    def __init__(self, config: MbdgConfig, setting: Setting, rng: torch.Generator) -> None:
        super().__init__(config, setting, rng)
        self.register_buffer("dual", torch.ones(()))

    def objective(self, batch: Batch) -> Terms:
        """L = CE + lambda R, R = mean KL(p(x) || p(G(x, v))), v ~ N(0, I) drawn anew for every image and step."""
        with torch.no_grad():
            restyled = self.setting.translate(batch.x, self.rng)
        logits, moved = self.net(torch.cat([batch.x, restyled])).logits.chunk(2)
        risk, gap = F.cross_entropy(logits, batch.y), kl_invariance(logits, moved).mean()
        return {"loss": risk + self.dual * gap, "risk": risk, "gap": gap, "dual": self.dual.clone()}

    def update(self, batch: Batch) -> Terms:
        """Take a primal step, then a dual one."""
        terms = super().update(batch)
        self.dual.copy_(dual_ascent(self.dual, terms["gap"], self.config.dual_rate, self.config.slack))
        return terms
