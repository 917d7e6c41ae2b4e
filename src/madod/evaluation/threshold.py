"""Where the known ends: a threshold from held-out source images alone."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from madod.errors import InputError

KEEP = 0.95
"""Share of known images that a threshold lets pass unless another is asked for."""

FAR = float(np.finfo(np.float32).max)
"""The score of a picture of which no finite number comes out."""


def threshold(scores: ArrayLike, keep: float = KEEP) -> float:
    """Return the smallest score that a share `keep` or more of the images do not exceed; what does is unknown."""
    ascending = np.sort(checked(scores))
    if not len(ascending):
        raise InputError("no held-out image to set a threshold from; hold out more images")
    if not 0 < keep <= 1:
        raise InputError(f"cannot keep a share of {keep} of the known images; give one above 0 and at most 1")
    shares = np.arange(1, len(ascending) + 1) / len(ascending)
    return float(ascending[np.searchsorted(shares, keep)])


def checked(scores: ArrayLike) -> NDArray[np.float64]:
    """Return scores (n,) as float64, and refuse those that are not numbers."""
    numbers = np.asarray(scores, dtype=np.float64)
    if missing := int(np.isnan(numbers).sum()):
        raise InputError(
            f"{missing} of {len(numbers)} scores are not a number; the features or logits behind them are not finite"
        )
    return numbers
