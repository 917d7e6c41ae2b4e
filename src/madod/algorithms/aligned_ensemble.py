"""What EDir-MMD and EDst-MMD share: a network for every domain, all of them aligned over the domains."""

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from madod.algorithms.base import Algorithm, BaseConfig, Terms
from madod.algorithms.pseudo_domains import pseudo_domains
from madod.data.base import Pool
from madod.equations import mmd, risk_table, sum_over_pairs
from madod.models.classifier import Setting
from madod.models.ensemble import Ensemble, Views, one_per_domain, views
from madod.search import AtLeast, Between, LogUniform
from madod.tasks import Batch, minibatches


def weighted_risk(table: Tensor, own: float) -> Tensor:
    """sum_m sum_d w_md CE_md, w_mm = own and 1 elsewhere: risks (m, d) [Noguchi & Shirakawa 2023]."""
    return table.sum() + (own - 1) * table.trace()


def alignment(features: Tensor) -> Tensor:
    """sum_m sum_{d < e} MMD^2(z_md, z_me): features (m, d, n, f) [Noguchi & Shirakawa 2023]."""
    return torch.stack([sum_over_pairs(mmd, member.unbind()) for member in features]).sum()


@dataclass(frozen=True)
class AlignedConfig(BaseConfig):
    """The published setting; the ranges are ours, about the published values."""

    lr: Annotated[float, LogUniform(10**-4, 10**-2.5)] = 1e-3
    """Learning rate of SGD, a tenth of it after 70 % and a hundredth after 90 % of the steps."""
    weight_decay: Annotated[float, LogUniform(10**-6, 10**-2)] = 5e-4
    """Weight decay of SGD."""
    momentum: Annotated[float, Between(0, 1)] = 0.9
    """Nesterov momentum of SGD."""
    own_risk: Annotated[float, AtLeast(0)] = 3.0
    """Weight of a network's risk in its own domain; 1 in the others."""
    alignment: Annotated[float, LogUniform(1e-1, 1e1), AtLeast(0)] = 1.0
    """Weight of the distance between domains."""

    scratch: ClassVar[dict[str, Any]] = BaseConfig.scratch | {"lr": 3e-3}
    compile_from = 1000


class AlignedEnsemble(Algorithm):
    """One network for every domain, each trained on all domains, most on its own, with MMD between them."""

    descent = "nesterov"
    falls = (0.7, 0.9)
    own_score = True
    Config = AlignedConfig
    config: AlignedConfig
    net: Ensemble

    @classmethod
    def shell(cls, setting: Setting) -> Ensemble:
        """Return a network for every source domain, their logits averaged."""
        return one_per_domain(setting)

    def batches(self, source: Pool, rng: np.random.Generator) -> Iterator[Batch]:
        """Yield batches of every domain; a single domain is dealt into two."""
        pool = pseudo_domains(source, len(self.net.members))
        return minibatches(pool, rng, per_domain=self.config.batch, transform=self.augment)

    def objective(self, batch: Batch) -> Terms:
        """L = sum_md w_md CE_md + w_align sum_m MMD_m + lesson."""
        seen = views(self.net, dict(self.net.named_parameters()), batch.x)
        y = batch.y.view(len(seen.features), -1)
        risk = weighted_risk(risk_table(seen.logits, y), self.config.own_risk)
        gap = alignment(seen.features)
        lesson = self.lesson(seen, y)
        return {"loss": risk + self.config.alignment * gap + lesson, "risk": risk, "gap": gap, "lesson": lesson}

    @abstractmethod
    def lesson(self, seen: Views, y: Tensor) -> Tensor:
        """Return, weighted, what the networks learn beyond risk and alignment: labels (d, n)."""
