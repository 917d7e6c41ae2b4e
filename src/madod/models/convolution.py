"""Networks that are differentiated twice, by the kernels that differentiate convolutions once.

PyTorch's own second derivative of a convolution convolves with images and channels in each other's place, and so with
kernels as large as maps, for which libraries have no fast way; that of a frozen norm passes over maps a dozen times.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import reduce
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.overrides import TorchFunctionMode

from madod.models.layers import folding

convolution, slopes = torch.ops.aten.convolution, torch.ops.aten.convolution_backward

Sides = int | Sequence[int]
Asked = tuple[bool, bool, bool]
"""Which derivatives of a convolution are wanted: by images, weight, bias."""


@contextmanager
def differentiated_twice() -> Iterator[None]:
    """Make passes, within it, whose derivative is fast to differentiate again; the numbers are the same."""
    with folding(), _Convolutions():
        yield


class _Convolutions(TorchFunctionMode):
    """Within it, `F.conv2d`, and with it `nn.Conv2d`, is the one below."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Iterable[type], args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Call the function, or what stands in its place."""
        return (conv2d if func is F.conv2d else func)(*args, **(kwargs or {}))


def conv2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sides = 1,
    padding: Any = 0,
    dilation: Sides = 1,
    groups: int = 1,
) -> Tensor:
    """x * w + b as `F.conv2d` has it, with autocast; an image alone and a padding by name are left to `F.conv2d`."""
    if input.dim() < 4 or isinstance(padding, str):
        return F.conv2d(input, weight, bias, stride, padding, dilation, groups)
    device = input.device.type
    if torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device):
        dtype = torch.get_autocast_dtype(device)
        input, weight, bias = input.to(dtype), weight.to(dtype), None if bias is None else bias.to(dtype)
    how = _pair(stride), _pair(padding), _pair(dilation), False, [0, 0], groups
    return _Convolution.apply(input, weight, bias, how)


class _Convolution(torch.autograd.Function):
    """y = x * w + b, whose derivative is `_Slopes`."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor, b: Tensor | None, how: tuple[Any, ...]) -> Tensor:
        ctx.save_for_backward(x, w)
        ctx.how, ctx.biases = how, None if b is None else b.shape
        return convolution(x, w, b, *how)

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        return *_Slopes.apply(*upstream, *ctx.saved_tensors, ctx.biases, ctx.how, ctx.needs_input_grad[:3]), None


class _Slopes(torch.autograd.Function):
    """(X, W, B)(g, x, w) = the derivatives of <g, x * w + b> by x, w and b, those that are asked for."""

    @staticmethod
    def forward(
        ctx: Any, g: Tensor, x: Tensor, w: Tensor, biases: torch.Size | None, how: Any, asked: Asked
    ) -> tuple[Tensor | None, ...]:
        ctx.save_for_backward(g, x, w)
        ctx.how = how
        return tuple(slopes(g, x, w, biases, *how, asked))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, u: Tensor | None, v: Tensor | None, c: Tensor | None) -> tuple[Tensor | None, ...]:
        """<u, X> + <v, W> + <c, B> = <g, u * w + x * v + c>, by g; by x as X(g, v), by w as W(g, u)."""
        (g, x, w), how = ctx.saved_tensors, ctx.how
        parts = [] if u is None else [convolution(u, w, None, *how)]
        parts += [] if v is None else [convolution(x, v, None, *how)]
        parts += [] if c is None else [c.view(-1, 1, 1).expand_as(g)]
        by_x = by_w = None
        if u is not None and v is not None:  # else x or w, or both, are constant
            by_x, _, _ = slopes(g, x, v, None, *how, (True, False, False))
            _, by_w, _ = slopes(g, u, w, None, *how, (False, True, False))
        return reduce(torch.add, parts), by_x, by_w, None, None, None


def _pair(sides: Sides) -> list[int]:
    given = [sides] if isinstance(sides, int) else list(sides)
    return given * 2 if len(given) == 1 else given
