"""What run folders keep beside their records, as plain arrays: verdicts and features; read without torch."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from madod.benchmark.record import OUTPUTS, VERDICTS
from madod.errors import InputError
from madod.storage import EndlessError, ordinary


class Seen(NamedTuple):
    """What a run said of the n target images, and the pictures it kept of its most confident mistakes."""

    y: NDArray[np.integer]
    """Index into `classes` (n,); -1 is unknown."""
    predicted: NDArray[np.integer]
    confidence: NDArray[np.floating]
    scores: Mapping[str, NDArray[np.floating]]
    """By detector (n,); higher is more unknown."""
    classes: tuple[str, ...]
    shown: NDArray[np.integer]
    """Which images the pictures are of (k,)."""
    pictures: NDArray[np.uint8]
    """Pictures (k, h, w, 3)."""
    truth: Sequence[str]
    """What each picture shows."""


def seen(folder: Path) -> Seen:
    """Return the verdicts that a run left of its target images."""
    arrays, facts = _read(folder / VERDICTS)
    return Seen(
        y=arrays["y"],
        predicted=arrays["predicted"],
        confidence=arrays["confidence"],
        scores={name.removeprefix("score."): array for name, array in arrays.items() if name.startswith("score.")},
        classes=tuple(json.loads(facts["classes"])),
        shown=arrays["shown"],
        pictures=arrays["pictures"],
        truth=json.loads(facts["truth"]),
    )


def features(folder: Path) -> tuple[NDArray[np.floating], NDArray[np.integer]] | None:
    """Return the target images' features (n, d) and labels (n,), where a run kept them."""
    if not (folder / OUTPUTS).exists():
        return None
    arrays, _ = _read(folder / OUTPUTS, ("target.features", "target.y"))
    return (arrays["target.features"], arrays["target.y"]) if len(arrays) == 2 else None


def _read(file: Path, names: Sequence[str] = ()) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    """Return the named arrays that a file holds, all where none are named, and its facts."""
    try:
        with safe_open(ordinary(file), framework="numpy") as opened:
            there = [name for name in opened.keys() if not names or name in names]  # noqa: SIM118  # no mapping
            return {name: opened.get_tensor(name) for name in there}, opened.metadata() or {}
    except (SafetensorError, EndlessError) as error:
        raise InputError(f"{file} is not a whole safetensors file ({error}): delete it or run it again") from error
