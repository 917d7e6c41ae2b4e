"""What DAML and EDir-MMD learn from mixtures of domains."""

import torch
from torch import Tensor

from madod.equations import dir_mixup, soft_cross_entropy
from madod.models.ensemble import Views


def mixture_risk(seen: Views, y: Tensor, *, own: float, other: float, rng: torch.Generator) -> Tensor:
    """sum_m CE(h_m(z_m), q_m) on Dir-mixups z_m, q_m of features and labels (d, n) [after Shu et al. 2021]."""
    mixed, soft = dir_mixup(seen.features, y, seen.weight.shape[1], own=own, other=other, rng=rng)
    return len(mixed) * soft_cross_entropy(seen.classify(mixed), soft)
