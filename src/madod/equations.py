"""Equations that two or more methods or detectors share; one that belongs to a single method stands in its file."""

from collections.abc import Callable, Sequence
from itertools import combinations
from math import comb

import torch
import torch.nn.functional as F
from torch import Tensor


def energy(logits: Tensor, temperature: float = 1.0) -> Tensor:
    """E(x) = -T log sum_k exp(f_k(x) / T) [Liu et al. 2020, eq. 4]."""
    return -temperature * torch.logsumexp(logits / temperature, dim=-1)


def surprisal(logits: Tensor) -> Tensor:
    """-log max_k p_k = log(1 + sum_(k != argmax) exp(l_k - l_max)) of logits (n, k).

    Taken over the other classes alone, it keeps apart images whose largest probability rounds to 1, up to gaps between
    the two largest logits that underflow: 745 in float64, 103 in float32.
    """
    ranked = logits.sort(dim=-1, descending=True).values
    return (ranked[..., 1:] - ranked[..., :1]).exp().sum(-1).log1p()


RBF_SCALES = (0.001, 0.01, 0.1, 1.0, 10.0, 100.0, 1000.0)


def rbf(x: Tensor, y: Tensor) -> Tensor:
    """K_ij = sum_g exp(-g ||x_i - y_j||^2), g in 10^{-3..3} [DomainBed].

    Distances come from differences: from norms and products float32 would leave an error that g = 1000 blows up.
    """
    squared = torch.cdist(x, y, compute_mode="donot_use_mm_for_euclid_dist").square()
    return sum((torch.exp(-g * squared) for g in RBF_SCALES), start=torch.zeros_like(squared))


def mmd(x: Tensor, y: Tensor) -> Tensor:
    """MMD^2 = mean K_xx + mean K_yy - 2 mean K_xy, the biased estimate [Gretton et al. 2012, eq. 5]."""
    return rbf(x, x).mean() + rbf(y, y).mean() - 2 * rbf(x, y).mean()


def sum_over_pairs(distance: Callable[[Tensor, Tensor], Tensor], parts: Sequence[Tensor]) -> Tensor:
    """sum_{d < e} distance(z_d, z_e); 0 for a single domain."""
    return sum((distance(x, y) for x, y in combinations(parts, 2)), start=parts[0].new_zeros(()))


def mean_over_pairs(distance: Callable[[Tensor, Tensor], Tensor], parts: Sequence[Tensor]) -> Tensor:
    """2 / (D (D - 1)) sum_{d < e} distance(z_d, z_e); 0 for a single domain."""
    return sum_over_pairs(distance, parts) / max(1, comb(len(parts), 2))


def dirichlet(concentration: Tensor, rng: torch.Generator) -> Tensor:
    """w ~ Dirichlet(alpha), one draw for every row of concentrations."""
    return torch._sample_dirichlet(concentration, rng)  # torch.distributions takes no generator


def mixture(parts: Tensor, weights: Tensor) -> Tensor:
    """sum_d w_d v_d of every row: parts (..., d, n, v), weights (..., n, d) [Shu et al. 2021, Dir-mixup]."""
    return torch.einsum("...dnv,...nd->...nv", parts, weights)


def soft_cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """CE(f, q) = -mean sum_k q_k log softmax_k f, the mean over all rows."""
    return -(targets * logits.log_softmax(-1)).sum(-1).mean()


def dir_mixup(
    features: Tensor, y: Tensor, classes: int, *, own: float, other: float, rng: torch.Generator
) -> tuple[Tensor, Tensor]:
    """z_m = sum_d w_d z_md, q_m = sum_d w_d y_d, w ~ Dirichlet(own for d = m, other for d != m) [Shu et al. 2021].

    Features (m, d, n, f) of every domain by every network and labels (d, n), both shuffled within each domain, become
    features (m, n, f) and distributions (m, n, k).
    """
    networks, domains, rows, _ = features.shape
    order = torch.rand(networks, domains, rows, 1, generator=rng, device=rng.device).argsort(2)
    concentration = other + (own - other) * torch.eye(networks, domains, device=rng.device, dtype=features.dtype)
    weights = dirichlet(concentration[:, None].repeat(1, rows, 1), rng)
    targets = torch.eye(classes, device=y.device, dtype=features.dtype)[y].expand(networks, -1, -1, -1)
    mixed, soft = (mixture(torch.take_along_dim(values, order, 2), weights) for values in (features, targets))
    return mixed, soft


def risk_table(logits: Tensor, y: Tensor) -> Tensor:
    """R_md = CE(f_m(x_d), y_d) of every network on every domain (m, d): logits (m, d, n, k), labels (d, n)."""
    every = F.cross_entropy(logits.flatten(0, 2), y.expand(logits.shape[:3]).flatten(), reduction="none")
    return every.view(logits.shape[:3]).mean(2)


def distillation(student: Tensor, teachers: Tensor, weights: Tensor, temperature: float) -> Tensor:
    """T^2 KL(sum_t w_t softmax(f_t / T) || softmax(f / T)), teachers detached, the mean over rows [Shu et al. 2021].

    Student (n, k), teachers (t, n, k), weights (n, t).
    """
    target = mixture((teachers.detach() / temperature).softmax(-1), weights)
    guess = (student / temperature).log_softmax(-1)
    return temperature**2 * F.kl_div(guess, target, reduction="batchmean")


def mutual_distillation(logits: Tensor, temperature: float, rng: torch.Generator) -> Tensor:
    """sum_d distillation(f_d(x_d) from f_m(x_d), m != d), weights ~ Dirichlet(1, ..., 1) [after Shu et al. 2021].

    Logits (m, d, n, k).
    """
    networks, _, rows, _ = logits.shape
    even = logits.new_ones(rows, networks - 1)
    pairs = [(logits[d, d], torch.cat([logits[:d, d], logits[d + 1 :, d]])) for d in range(networks)]
    lessons = [distillation(student, others, dirichlet(even, rng), temperature) for student, others in pairs]
    return torch.stack(lessons).sum()


def stepped(rate: float, done: float, marks: Sequence[float], factor: float) -> float:
    """rate * factor^(marks passed), `done` the share of the training behind: a learning rate that falls in steps."""
    return rate * factor ** sum(done >= mark for mark in marks)
