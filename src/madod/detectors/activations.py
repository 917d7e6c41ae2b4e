"""Features reshaped before the head, and the energy that comes of it."""

import torch
from torch import Tensor

from madod.equations import energy


def largest(features: Tensor, percentile: float) -> Tensor:
    """Return the top (100 - percentile) % of every image's activations (n, k), at least one, descending."""
    count = features.shape[1] - round(features.shape[1] * percentile / 100)
    return features.topk(max(count, 1), dim=1).values


def head_energy(features: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """E(W z + b) (n,)."""
    return energy(torch.nn.functional.linear(features.double(), weight, bias))
