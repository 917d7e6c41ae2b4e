"""Equations that two or more methods or detectors share; one that belongs to a single method stands in its file."""

import torch
from torch import Tensor


def energy(logits: Tensor, temperature: float = 1.0) -> Tensor:
    """E(x) = -T log sum_k exp(f_k(x) / T) [Liu et al. 2020, eq. 4]."""
    return -temperature * torch.logsumexp(logits / temperature, dim=-1)


def energy_margin(known: Tensor, unknown: Tensor, margin_in: float, margin_out: float) -> Tensor:
    """R_OOD = mean relu(E_in - m_I)^2 + mean relu(m_O - E_out)^2 [MADOD, eq. ood-reg; Liu et al. 2020, eq. 8]."""
    return torch.relu(known - margin_in).square().mean() + torch.relu(margin_out - unknown).square().mean()


def l1_invariance(logits: Tensor, moved: Tensor) -> Tensor:
    """d(x, x~) = || softmax f(x) - softmax f(x~) ||_1 of every image [MADOD, eq. gi-reg]."""
    return (logits.softmax(-1) - moved.softmax(-1)).abs().sum(-1)
