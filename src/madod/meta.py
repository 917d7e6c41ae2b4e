"""The inner loop of meta-learning, differentiable from end to end."""

from collections.abc import Callable, Iterable

import torch
from torch import Tensor

Params = dict[str, Tensor]


def step(params: Params, loss: Tensor, *, lr: float, first_order: bool = False) -> Params:
    """theta' = theta - lr grad L(theta), with its graph back to theta, and the loss keeping its own.

    With `first_order` the gradient counts as a constant, so that d theta' / d theta is the identity.
    """
    grads = torch.autograd.grad(loss, list(params.values()), create_graph=not first_order, retain_graph=True)
    return _moved(params, grads, lr)


def rehearse(params: Params, loss: Tensor, *, lr: float, first_order: bool = False) -> tuple[Params, Tensor]:
    """Return theta' = theta - lr grad L(theta) and L, to be descended together with a loss at theta'.

    With `first_order` the gradient g = grad L is at hand, and L is returned as L + <g, theta> - <g, theta>, g and all
    but the middle term constant: the same value and gradient, without going through the network a second time.
    """
    if not first_order:
        return step(params, loss, lr=lr), loss
    grads = torch.autograd.grad(loss, list(params.values()))
    plane = _flat(grads) @ _flat(params.values())
    return _moved(params, grads, lr), loss.detach() + (plane - plane.detach())


def _moved(params: Params, grads: Iterable[Tensor], lr: float) -> Params:
    return {name: value - lr * grad for (name, value), grad in zip(params.items(), grads, strict=True)}


def _flat(tensors: Iterable[Tensor]) -> Tensor:
    return torch.cat([tensor.flatten() for tensor in tensors])


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
