"""How weights descend: Adam and SGD, with the settings that methods choose."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import nn


def adam(parameters: Iterable[nn.Parameter], lr: float, **rest: Any) -> torch.optim.Adam:
    """Return Adam, as one kernel a step where there is a GPU [Kingma & Ba 2015, alg. 1]."""
    weights = list(parameters)
    return torch.optim.Adam(weights, lr, fused=weights[0].is_cuda, **rest)


def sgd(
    parameters: Iterable[nn.Parameter], lr: float, *, momentum: float, weight_decay: float, nesterov: bool = False
) -> torch.optim.SGD:
    """v <- mu v + g, theta <- theta - lr v, g with the weight decay; Nesterov's steps by g + mu v instead.

    At mu = 0 both are g, and torch knows Nesterov's with momentum only.
    """
    return torch.optim.SGD(
        parameters, lr, momentum=momentum, weight_decay=weight_decay, nesterov=nesterov and momentum > 0
    )
