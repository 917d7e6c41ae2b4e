"""One picture from a file, a body of bytes or Pillow, as the square of uint8 pixels that everything else works on."""

import io
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray
from PIL import ExifTags, Image, UnidentifiedImageError

from madod.errors import InputError

try:
    from simplejpeg import decode_jpeg  # type: ignore[import-untyped]  # it ships no types
except ImportError:  # Pillow alone makes the same bits, in twice the time
    decode_jpeg = None

Pixels = NDArray[np.uint8]

MAX_PIXELS = 100_000_000
"""Width times height of the largest picture that is read."""

EXTENSIONS = frozenset(
    {".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".avif", ".bmp", ".gif", ".tif", ".tiff", ".jp2"}
    | {".ppm", ".pgm", ".pbm", ".pnm"}
)
"""The endings, in lower case, of files that count as pictures."""

# Only these are tried: some of Pillow's other readers start external programs or guess.
_FORMATS = ("JPEG", "PNG", "GIF", "WEBP", "BMP", "TIFF", "PPM", "JPEG2000", "AVIF")
_SIXTEEN_BITS = ("PNG", "PPM")  # of these, Pillow's 32-bit integers hold sixteen bits
_OVER_LIMIT = "it has more than the {:,} pixels that are allowed"
_GAP = 3.0  # a cheap first reduction stops at three times the final size, where Pillow finds no visible difference
_UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


class BadImage(InputError):  # noqa: N818  # a verdict on a file, collected as often as raised
    """A picture that cannot be read, by name, and the reason."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(name, reason)
        self.name = name
        self.reason = reason

    def __str__(self) -> str:
        """Return the one sentence."""
        return f"cannot read {self.name!r}: {self.reason}"


def is_picture(path: Path) -> bool:
    """Tell by its ending whether a file counts as a picture."""
    return path.suffix.lower() in EXTENSIONS


def read_image(path: Path, size: int) -> Pixels:
    """Return a picture file of at most 100,000,000 pixels as uint8 (3, size, size), or raise `BadImage`."""
    with opened(path) as file:
        return _decode(file, size, str(path))


def from_bytes(data: bytes, size: int, name: str = "the picture", limit: int = MAX_PIXELS) -> Pixels:
    """Return a file's bytes, a picture of at most `limit` pixels, as uint8 (3, size, size), or raise `BadImage`."""
    if not data:
        raise BadImage(name, "it is empty")
    return _decode(io.BytesIO(data), size, name, limit)


def from_pil(image: Image.Image, size: int, name: str = "the picture") -> Pixels:
    """Return a Pillow image, upright, over white and squeezed to a square, as uint8 (3, size, size).

    Of an animation it takes the frame that it stands at; sixteen-bit grey keeps its upper eight bits.
    """
    _check(image, name)
    with blaming(name):
        image.load()
        return _square(image, size, _upright(image))


def dimensions(path: Path) -> tuple[int, int]:
    """Return width and height as a picture file's header states them, or raise `BadImage`."""
    with opened(path) as file:
        return _identify(file, str(path)).size


def peak(path: Path) -> int | None:
    """Return the largest value in a picture file of sixteen bits a channel, None of others, or raise `BadImage`."""
    with opened(path) as file, _identify(file, str(path)) as image, blaming(str(path)):
        if image.mode.startswith("I"):
            return int(np.asarray(image).max())
        if ";16" not in str(getattr(image, "tile", "")):
            return None
        colours = [k for k, band in enumerate(image.getbands()) if band != "A"]
        upper = np.atleast_3d(np.asarray(image))[..., colours]  # of colours Pillow reads the upper halves alone
        return int(upper.max()) << 8


@contextmanager
def opened(path: Path) -> Iterator[io.BufferedReader]:
    """Open an ordinary, non-empty file, and turn whatever goes wrong with it into a `BadImage`."""
    with blaming(str(path)):
        facts = path.stat()
        if stat.S_ISDIR(facts.st_mode):
            shut = not os.access(path, os.R_OK | os.X_OK)
            raise BadImage(
                str(path), "there is no permission to look into this folder" if shut else "it is a directory"
            )
        if not stat.S_ISREG(facts.st_mode):  # opening a pipe would wait for ever
            raise BadImage(str(path), "it is not an ordinary file")
        if facts.st_size == 0:
            raise BadImage(str(path), "it is empty")
        with path.open("rb") as file:
            yield file


@contextmanager
def blaming(name: str, limit: int = MAX_PIXELS) -> Iterator[None]:
    """Turn any exception into a `BadImage` of this name: damaged files make decoders fail in every way there is."""
    try:
        yield
    except BadImage:
        raise
    except Exception as error:
        raise BadImage(name, _reason(error, name, limit)) from error


def _reason(error: Exception, name: str, limit: int) -> str:
    match error:
        case FileNotFoundError():
            return "it does not exist"
        case PermissionError():
            return "there is no permission to read it"
        case UnidentifiedImageError():
            remedy = "; convert HEIC to JPEG first" if name.lower().endswith((".heic", ".heif")) else ""
            return f"its content is not a picture of a known kind{remedy}"
        case Image.DecompressionBombError():
            return _OVER_LIMIT.format(limit)
        case MemoryError():
            return "there is not enough memory to decode it"
        case OSError(errno=int(number)):
            return os.strerror(number).lower()
    message = " ".join(str(error).split())
    if "truncated" in message.lower():
        return "it is truncated"
    return f"it is damaged or of a kind that is not supported ({message or type(error).__name__})"


def _decode(file: IO[bytes], size: int, name: str, limit: int = MAX_PIXELS) -> Pixels:
    with _identify(file, name, limit) as image, blaming(name, limit):
        whole = image.size
        image.draft(None, (int(size * _GAP), int(size * _GAP)))  # large JPEGs are decoded at a fraction
        pixels = _decode_jpeg(image, file) if image.size == whole else None
        if pixels is None:
            return from_pil(image, size, name)
        turn = _upright(image)
        if whole == (size, size) and turn is None:
            return np.ascontiguousarray(np.broadcast_to(pixels, (size, size, 3)).transpose(2, 0, 1))
        return _square(Image.fromarray(pixels if image.mode == "RGB" else pixels[:, :, 0]), size, turn)


def _decode_jpeg(image: Image.Image, file: IO[bytes]) -> Pixels | None:
    """Return an ordinary JPEG (h, w, c) by simplejpeg, with Pillow's bits; what is odd or damaged is left to Pillow."""
    space = {"RGB": "RGB", "L": "GRAY"}.get(image.mode)
    if decode_jpeg is None or image.format != "JPEG" or space is None:
        return None
    file.seek(0)
    with suppress(ValueError):
        return decode_jpeg(file.read(), space)
    return None


def _identify(file: IO[bytes], name: str, limit: int = MAX_PIXELS) -> Image.Image:
    with blaming(name, limit):
        image = Image.open(file, formats=_formats())
    _check(image, name, limit)
    return image


@cache
def _formats() -> tuple[str, ...]:
    """Return the formats to try that this build of Pillow can read."""
    Image.init()
    return tuple(name for name in _FORMATS if name in Image.OPEN)


def _check(image: Image.Image, name: str, limit: int = MAX_PIXELS) -> None:
    if not image.width * image.height:
        raise BadImage(name, f"it has no pixels ({image.width} x {image.height})")
    if image.width * image.height > limit:
        raise BadImage(name, f"{_OVER_LIMIT.format(limit)} ({image.width:,} x {image.height:,})")
    if image.mode == "F":
        raise BadImage(name, "its pixels are floating-point numbers of unknown range")
    if image.mode == "I" and image.format not in _SIXTEEN_BITS:
        raise BadImage(name, "its pixels are 32-bit or signed integers of unknown range")


def _square(image: Image.Image, size: int, turn: Image.Transpose | None) -> Pixels:
    """Return an image squeezed to a square, turned, and over white."""
    small = _scalable(image).resize((size, size), Image.Resampling.BICUBIC, reducing_gap=_GAP)
    if turn is not None:  # commutes with squeezing to a square, and costs less afterwards
        small = small.transpose(turn)
    return np.ascontiguousarray(np.asarray(_over_white(small)).transpose(2, 0, 1))


def _scalable(image: Image.Image) -> Image.Image:
    """Return the image as L, LA, RGB or RGBA, which resize smoothly."""
    if image.mode.startswith("I"):
        return Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    if image.mode in ("LA", "RGBA"):
        return image
    if image.has_transparency_data:
        return image.convert("RGBA")
    if image.mode in ("1", "L"):
        return image.convert("L")
    return image.convert("RGB")


def _upright(image: Image.Image) -> Image.Transpose | None:
    """Return the turn that the EXIF orientation asks for; damaged EXIF asks for none."""
    with suppress(Exception):
        return _UPRIGHT.get(image.getexif().get(ExifTags.Base.Orientation, 1))
    return None


def _over_white(image: Image.Image) -> Image.Image:
    if image.mode not in ("LA", "RGBA"):
        return image.convert("RGB")
    white = Image.new("RGBA", image.size, "white")
    return Image.alpha_composite(white, image.convert("RGBA")).convert("RGB")
