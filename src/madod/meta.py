"""The inner loop of meta-learning, differentiable from end to end."""

from collections.abc import Callable

import torch
from torch import Tensor

Params = dict[str, Tensor]


def step(params: Params, loss: Tensor, *, lr: float, first_order: bool = False) -> Params:
    """theta' = theta - lr grad L(theta), with its graph back to theta, and the loss keeping its own.

    With `first_order` the gradient counts as a constant, so that d theta' / d theta is the identity.
    """
    grads = torch.autograd.grad(loss, list(params.values()), create_graph=not first_order, retain_graph=True)
    return {name: value - lr * grad for (name, value), grad in zip(params.items(), grads, strict=True)}


def adapt(
    params: Params, loss: Callable[[Params], Tensor], *, lr: float, steps: int, first_order: bool = False
) -> Params:
    """theta' = theta - lr grad L(theta), repeated; theta' keeps its graph back to theta [Finn et al. 2017, eq. 1].

    Several tasks adapt at once when every parameter has a leading task dimension and the loss is the sum over tasks:
    each slice then sees the gradient of its own task alone.
    """
    for _ in range(steps):
        params = step(params, loss(params), lr=lr, first_order=first_order)
    return params
