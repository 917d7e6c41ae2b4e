"""The inner loop of meta-learning, differentiable from end to end."""

from collections.abc import Callable

import torch
from torch import Tensor

Params = dict[str, Tensor]


def adapt(
    params: Params, loss: Callable[[Params], Tensor], *, lr: float, steps: int, first_order: bool = False
) -> Params:
    """theta' = theta - lr * grad loss(theta), repeated; theta' keeps its graph back to theta [Finn et al. 2017, eq. 1].

    With `first_order` the gradients count as constants, so that d theta' / d theta is the identity. Several tasks
    adapt at once when every parameter has a leading task dimension and the loss is the sum over tasks: each slice
    then sees the gradient of its own task alone.
    """
    for _ in range(steps):
        grads = torch.autograd.grad(loss(params), list(params.values()), create_graph=not first_order)
        params = {name: value - lr * grad for (name, value), grad in zip(params.items(), grads, strict=True)}
    return params
