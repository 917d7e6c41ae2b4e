"""Pictures inside a page: arrays and PNG files as `<img>` that load nothing."""

import base64
import io

import numpy as np
from numpy.typing import NDArray

from madod.report.html import Markup, tag

LARGEST = 64
"""The longest side, in pixels, at which a picture among many is embedded; it keeps a page of photographs small."""
QUALITY = 80
"""Of JPEG files."""


def data_uri(png: bytes) -> str:
    """Return a PNG file as an address that holds it."""
    return "data:image/png;base64," + base64.b64encode(png).decode("ascii")


def png(image: NDArray[np.uint8]) -> bytes:
    """Return uint8 pixels (h, w, 3) as a PNG file, shrunk where its longest side is above `LARGEST`."""
    from PIL import Image

    if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3:
        raise ValueError(f"a picture is uint8 (h, w, 3), not {image.dtype} {image.shape}")
    picture = Image.fromarray(image)
    picture.thumbnail((LARGEST, LARGEST), Image.Resampling.LANCZOS)
    buffer = io.BytesIO()
    picture.save(buffer, format="PNG", optimize=True)
    return buffer.getvalue()


def jpeg_uri(image: NDArray[np.uint8]) -> str:
    """Return uint8 pixels (h, w, 3) as an address that holds them as a JPEG file."""
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(image).save(buffer, format="JPEG", quality=QUALITY)
    return "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")


def picture(image: NDArray[np.uint8], alt: str) -> Markup:
    """Return uint8 pixels (h, w, 3) as a small picture; its size on the page is the stylesheet's affair."""
    return tag("img", src=data_uri(png(image)), alt=alt, class_="pixels")


def whole(file: bytes, alt: str) -> Markup:
    """Return a PNG file as a picture of its own."""
    return tag("img", src=data_uri(file), alt=alt, class_="pixels whole")
