"""How a network computes: in what number format, in what memory layout, compiled or not."""

import importlib.util
import math
import os
import shutil
import sysconfig
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from madod.errors import InputError

Precision = Literal["float32", "bfloat16"]

WORTH_LAYOUT = 64
"""Side in pixels from which channels-last pays."""
WORTH_COMPILING = 128
"""Side in pixels from which compiling pays on a GPU."""

MOST_SHAPES = 256
"""Shapes that one process compiles a network for: torch's own 8 are used up by a few runs with batches of other sizes,
and whatever comes after them would not be compiled, without a word."""
OLDEST_COMPILED = (7, 0)
"""The least compute capability that Triton makes code for: Volta's."""


@dataclass(frozen=True)
class Compute:
    """What a network's passes are made of; weights are float32 whatever happens between input and output."""

    precision: Precision = "float32"
    channels_last: bool = False
    compiled: bool = False

    def prepare(self, *nets: nn.Module) -> None:
        """Lay weights out, and have forward passes compiled; names and values stay as they are."""
        for net in nets:
            if self.channels_last:
                net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # missing from the stubs
            if self.compiled:
                setattr(torch._dynamo.config, limit_of_shapes(), MOST_SHAPES)
                net.compile(dynamic=False)

    def laid_out(self, images: Tensor) -> Tensor:
        """Return images or maps with channels last in memory, where that pays."""
        return images.contiguous(memory_format=torch.channels_last) if self.channels_last else images

    def over(self, steps: int, *, least: float, insist: bool = False) -> "Compute":
        """Return this way, compiled only where `steps` reach `least`, from which on compiling pays.

        `insist` has it compiled however few they are, unless `least` is infinite: then it never pays.
        """
        return replace(self, compiled=self.compiled and (steps >= least or (insist and least < math.inf)))

    def __call__(self, net: nn.Module, images: Tensor, *others: Tensor) -> Any:
        """Return what the network makes of images or maps (n, c, h, w), in this precision."""
        images = images if self.compiled else self.laid_out(images)  # compiled code does it on the way
        if self.precision == "float32":
            return net(images, *others)
        with torch.autocast(images.device.type, torch.bfloat16):
            return net(images, *others)


PLAIN = Compute()


def compute(shape: tuple[int, int, int], device: torch.device, precision: str = "float32") -> Compute:
    """Return the fastest way to compute on images of a shape in a precision, by rules measured in docs/performance.md.

    Compiling takes minutes, so it waits for a GPU, pictures of some size, all that it needs (`can_compile`), and steps
    enough (`Compute.over`).
    """
    if precision not in ("float32", "bfloat16"):
        raise InputError(f"there is no precision {precision!r}: take float32, or bfloat16 on a GPU")
    cuda, side = device.type == "cuda", min(shape[1:])
    if precision == "bfloat16" and not (cuda and has_bfloat16()):
        raise InputError(f"{device.type} does not compute in bfloat16 here: leave precision at float32")
    compiled = cuda and side >= WORTH_COMPILING and can_compile(device)
    return Compute("bfloat16" if precision == "bfloat16" else "float32", side >= WORTH_LAYOUT, compiled)


def usual_precision(size: int, *, gpu: bool) -> Precision:
    """Return bfloat16 where a GPU has it and pictures are large enough for it to pay, else float32."""
    return "bfloat16" if gpu and size >= WORTH_COMPILING and has_bfloat16() else "float32"


def has_bfloat16() -> bool:
    """Tell whether the GPU itself computes in bfloat16: those before Ampere only imitate it, slower than float32."""
    return torch.cuda.is_bf16_supported(including_emulation=False)


def limit_of_shapes() -> str:
    """Return what torch calls the number of shapes that it compiles for; 2.6 has the other name."""
    return "recompile_limit" if hasattr(torch._dynamo.config, "recompile_limit") else "cache_size_limit"


def can_compile(gpu: torch.device) -> bool:
    """Tell whether there is all that compiling takes: Triton, a GPU that it knows, a C compiler, Python's headers."""
    if importlib.util.find_spec("triton") is None or torch.cuda.get_device_capability(gpu) < OLDEST_COMPILED:
        return False
    compiler = os.environ.get("CC") or shutil.which("gcc") or shutil.which("clang")
    scheme = sysconfig.get_default_scheme().replace("posix_local", "posix_prefix")  # Debian's own has no headers
    headers = Path(sysconfig.get_path("include", scheme), "Python.h")
    return os.name == "nt" or (compiler is not None and headers.exists())  # Triton for Windows brings both along
