"""Whether pictures with sixteen bits a channel use them: what is kept are the upper eight."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from madod.data.images import BadImage, peak

BITS = 16
DARK = 2
"""Upper bits that are never used from which on it is worth saying: all is darker than a quarter."""
SAMPLE = 64
"""Pictures, evenly spread, that are looked into."""


def unused_bits(paths: Sequence[Path]) -> int:
    """Return how many upper bits none of the 16-bit pictures uses; 0 where these are too few to matter, or none."""
    largest: int | None = None
    for path in paths[:: max(1, -(-len(paths) // SAMPLE))]:
        try:
            found = peak(path)
        except BadImage:
            continue  # decoding reports it together with all others
        if found is not None:
            largest = max(found, largest or 0)
            if largest >> (BITS - DARK):
                return 0
    return 0 if largest is None else BITS - largest.bit_length()


def nearly_black(paths: Sequence[Path]) -> Iterator[str]:
    """Say so if the 16-bit pictures among these never use their upper bits."""
    if bits := unused_bits(paths):
        yield (
            f"16-bit pictures here never use their upper {bits} bits, and so are nearly black to the model: scale them "
            "to all 16 bits, or save them with 8"
        )
