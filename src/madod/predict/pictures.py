"""Whatever a person holds as a picture, as the square of uint8 pixels that a model looks at."""

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from madod.data.images import BadImage, Pixels, from_bytes, from_pil, read_image
from madod.data.threads import ordered

BATCH = 64
"""Pictures that go through a network at once."""
Block = list[tuple[str | int, Pixels | BadImage]]
"""Some pictures, each under its name."""
Content = bytes | bytearray | memoryview
Picture = str | Path | Content | BinaryIO | Image.Image | np.ndarray[Any, Any] | Tensor
"""A file's path, a file's content, an open file, a Pillow image, an array (h, w, c) of uint8, or a tensor (c, h, w).

A tensor is uint8, or float in [0, 1]; one channel is grey, four have transparency. Any size will do.
"""


def blocks(pictures: Picture | Iterable[Picture], size: int) -> Iterator[Block]:
    """Yield pictures in order, decoded in a few threads, as many at a time as a network looks at."""
    read = ordered(partial(_read, size=size), enumerate(each(pictures)))
    while block := list(islice(read, BATCH)):
        yield block


def sound(block: Block) -> list[Pixels]:
    """Return the pictures of a block without their names; one that cannot be read raises its `BadImage`."""
    found = []
    for _, picture in block:
        if isinstance(picture, BadImage):
            raise picture
        found.append(picture)
    return found


def _read(numbered: tuple[int, Picture], size: int) -> tuple[str | int, Pixels | BadImage]:
    """Return a picture, or why it cannot be read, under its path or its place."""
    place, picture = numbered
    name: str | int = str(picture) if isinstance(picture, str | Path) else place
    try:
        return name, pixels(picture, size, f"picture {place}")
    except BadImage as bad:
        return name, bad


def each(pictures: Picture | Iterable[Picture]) -> Iterable[Picture]:
    """Return pictures one by one: those of an iterable, those of a batch with four axes, or a single one."""
    if isinstance(pictures, np.ndarray | Tensor):
        return iter(pictures) if pictures.ndim == 4 else (pictures,)
    if isinstance(pictures, str | Path | Content | Image.Image) or not isinstance(pictures, Iterable):
        return (pictures,)
    return (cast(BinaryIO, pictures),) if hasattr(pictures, "read") else pictures


def pixels(picture: Picture, size: int, name: str) -> Pixels:
    """Return a picture as uint8 (3, size, size), or raise `BadImage` under this name."""
    match picture:
        case str() | Path():
            return read_image(Path(picture), size)
        case bytes() | bytearray() | memoryview():
            return from_bytes(bytes(picture), size, name)
        case Image.Image():
            return from_pil(picture, size, name)
        case np.ndarray():
            return from_pil(_drawn(picture, name), size, name)
        case Tensor():
            return from_pil(_drawn(_array(picture, name), name), size, name)
    if hasattr(picture, "read"):
        return from_bytes(_content(picture, name), size, name)
    raise BadImage(name, f"it is of type {type(picture).__name__}; give a path, a Pillow image, an array or a tensor")


def _content(file: Any, name: str) -> bytes:
    """Return what is left to read of an open file."""
    try:
        content = file.read()
    except UnicodeDecodeError:
        content = ""
    except (OSError, ValueError, TypeError) as error:  # it is closed, or wants to be told what to read
        raise BadImage(name, f"its file cannot be read: {error}") from error
    if isinstance(content, str):
        raise BadImage(name, 'its file is open as text; open it with "rb"')
    if not isinstance(content, Content):
        raise BadImage(name, f"reading its file gives {type(content).__name__}, not bytes; give its content instead")
    return bytes(content)


def _array(tensor: Tensor, name: str) -> np.ndarray[Any, Any]:
    """Return a tensor (c, h, w) as an array (h, w, c) of uint8."""
    tensor = tensor.detach()
    if tensor.ndim != 3 or tensor.shape[0] not in (1, 3, 4) or not tensor.numel():
        shape = tuple(tensor.shape)
        raise BadImage(name, f"its shape is {shape}; a tensor is (channels, height, width) with 1, 3 or 4 of them")
    if tensor.is_floating_point():
        low, high = (float(bound) for bound in tensor.aminmax())
        if not (low >= 0 and high <= 1):
            raise BadImage(name, f"its values go from {low:.3g} to {high:.3g}; give floats in [0, 1], not normalised")
        tensor = tensor.mul(255).round().to(torch.uint8)
    if tensor.dtype != torch.uint8:
        raise BadImage(name, f"its numbers are {tensor.dtype}; a tensor is uint8, 0 to 255, or floats in [0, 1]")
    return tensor.permute(1, 2, 0).cpu().numpy()


def _drawn(array: np.ndarray[Any, Any], name: str) -> Image.Image:
    """Return an array (h, w) or (h, w, c) of uint8 as a Pillow image."""
    if array.dtype != np.uint8:
        raise BadImage(name, f"its numbers are {array.dtype}; an array is uint8, 0 to 255")
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[..., 0]
    if not (array.ndim == 2 or (array.ndim == 3 and array.shape[2] in (3, 4))) or not array.size:
        raise BadImage(
            name, f"its shape is {array.shape}; an array is (height, width, channels) with 1, 3 or 4 of them"
        )
    return Image.fromarray(np.ascontiguousarray(array))
