"""Mixup across domains: straight lines between images of different domains."""

from dataclasses import dataclass
from typing import Annotated

import torch
import torch.nn.functional as F
from torch import Tensor

from madod.algorithms.base import ALGORITHMS, Algorithm, BaseConfig, Terms
from madod.equations import dirichlet
from madod.search import Above, LogUniform
from madod.tasks import Batch


def partners(cycle: Tensor, size: int) -> Tensor:
    """j(d, r) = (the domain after d in the cycle, r + 1 mod n): each image's partner, its own domain if there is one.

    `cycle` (d,) is a permutation of the domains; images lie domain after domain, `size` of each.
    """
    following = torch.empty_like(cycle).scatter_(0, cycle, cycle.roll(-1))
    rows = torch.arange(1, size + 1, device=cycle.device) % size
    return (following[:, None] * size + rows).flatten()


def mixed_risk(logits: Tensor, y: Tensor, partner_y: Tensor, share: Tensor) -> Tensor:
    """L = mean [lam CE(f, y_i) + (1 - lam) CE(f, y_j)] [Zhang et al. 2018]."""
    first, second = (F.cross_entropy(logits, labels, reduction="none") for labels in (y, partner_y))
    return (share * first + (1 - share) * second).mean()


@dataclass(frozen=True)
class MixupConfig(BaseConfig):
    """DomainBed's setting and ranges."""

    concentration: Annotated[float, LogUniform(1e-1, 1e1), Above(0)] = 0.2
    """a of lam ~ Beta(a, a)."""

    compile_from = 4000


@ALGORITHMS.register("mixup")
class Mixup(Algorithm):
    """Cross-entropy on straight lines between images of different domains [Zhang et al. 2018; Yan et al. 2020]."""

    Config = MixupConfig
    config: MixupConfig

    def objective(self, batch: Batch) -> Terms:
        """x = lam x_i + (1 - lam) x_j, lam ~ Beta(a, a) for every pair of a random cycle of the domains."""
        size, domains = self.config.batch, len(self.per_domain(batch.x))
        cycle = torch.randperm(domains, generator=self.rng, device=self.rng.device)
        other = partners(cycle, size)
        ends = torch.full((domains, 2), self.config.concentration, device=self.rng.device)
        share = dirichlet(ends, self.rng)[:, 0].repeat_interleave(size, output_size=len(batch.x))
        lam = share.view(-1, 1, 1, 1)
        logits = self.net(lam * batch.x + (1 - lam) * batch.x[other]).logits
        return {"loss": mixed_risk(logits, batch.y, batch.y[other], share)}
