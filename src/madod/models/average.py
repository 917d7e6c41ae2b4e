"""The mean of a network's weights along its way."""

from copy import deepcopy

import torch
from torch import nn


class MeanWeights(nn.Module):
    """theta_bar_n = theta_bar_{n-1} + (theta_n - theta_bar_{n-1}) / n, over the last steps [Izmailov et al. 2018]."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = deepcopy(net).requires_grad_(False)

    @torch.no_grad()
    def add(self, net: nn.Module, n: int) -> None:
        """Take the weights of the n-th network in, n from 1."""
        torch._foreach_lerp_(list(self.net.parameters()), list(net.parameters()), 1 / n)  # one kernel for all

    @torch.no_grad()
    def give(self, net: nn.Module) -> None:
        """Put the mean in a network's place."""
        net.load_state_dict(self.net.state_dict())
