"""The mean of a network's weights along its way."""

import torch
from torch import nn


class MeanWeights(nn.Module):
    """theta_bar_n = theta_bar_{n-1} + (theta_n - theta_bar_{n-1}) / n, over the last steps [Izmailov et al. 2018].

    Weights alone are averaged: running statistics, where a network has live ones, stay those of the last step.
    """

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        copies = [nn.Parameter(weight.detach().clone(), requires_grad=False) for weight in net.parameters()]
        self.weights = nn.ParameterList(copies)

    @torch.no_grad()
    def add(self, net: nn.Module, n: int) -> None:
        """Take the weights of the n-th network in, n from 1."""
        torch._foreach_lerp_(list(self.weights), list(net.parameters()), 1 / n)  # one kernel for all

    @torch.no_grad()
    def give(self, net: nn.Module) -> None:
        """Put the mean in a network's place."""
        torch._foreach_copy_(list(net.parameters()), list(self.weights))
