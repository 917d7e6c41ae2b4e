"""What the demo's page is made from: plain arrays, numbers and names."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

DEMO_NOTE = (
    "One unseen domain, one unknown class, one seed, all fixed beforehand: a look, not a claim. "
    "The claim is the mean over 48 cells in results/digits (4 unseen domains, 4 unknown digits, 3 seeds), where the "
    "methods are much closer than in a single cell."
)


class Samples(NamedTuple):
    """Example pictures of one domain, uint8 (m, h, w, 3), and the class name of each."""

    images: NDArray[np.uint8]
    labels: Sequence[str]


class Gauge(NamedTuple):
    """A measured number, and what it has to reach."""

    value: float
    least: float


@dataclass(frozen=True, eq=False)
class Cell:
    """One algorithm on one unseen domain; arrays run over the n target images, in the order of `Page.images`."""

    algorithm: str
    metrics: Mapping[str, Any]
    """As in a record: accuracy and ece as fractions, and one mapping of measures a detector."""
    scores: Mapping[str, NDArray[np.floating]]
    """By detector (n,); higher is more unknown."""
    threshold: Mapping[str, float]
    """By detector; a score above it is called unknown."""
    y: NDArray[np.integer]
    """Index into `Page.classes` (n,); -1 is unknown."""
    predicted: NDArray[np.integer]
    """Index into `Page.classes` (n,): the nearest known class, whatever the verdict."""
    confidence: NDArray[np.floating]
    """Probability of the predicted class (n,)."""
    features: NDArray[np.floating]
    """What the network computes before its last layer (n, d)."""
    history: Sequence[Mapping[str, float]] = ()
    """Rows of named numbers with their `step`."""

    def __post_init__(self) -> None:
        """Refuse arrays that do not speak of the same images."""
        arrays = {"predicted": self.predicted, "confidence": self.confidence, "features": self.features}
        for name, array in (arrays | {f"scores of {key}": value for key, value in self.scores.items()}).items():
            if len(array) != len(self.y):
                raise ValueError(f"{self.algorithm}: {len(array)} {name} for {len(self.y)} labels")

    def detectors(self) -> tuple[str, ...]:
        """Return the detectors that have both scores and a threshold."""
        return tuple(name for name in self.scores if name in self.threshold)


@dataclass(frozen=True, eq=False)
class Page:
    """Everything the demo's page shows."""

    title: str
    dataset: str
    test_domain: str
    sources: tuple[str, ...]
    unknown: tuple[str, ...]
    """Names of the classes that training never saw."""
    classes: tuple[str, ...]
    """Names of the known classes; labels are indices into it."""
    cells: tuple[Cell, ...]
    """In the order in which they are shown."""
    images: NDArray[np.uint8]
    """The target images (n, h, w, 3)."""
    samples: Mapping[str, Samples]
    """By domain, sources and the unseen one; of every class the first picture is shown."""
    grid_png: bytes | None
    """G's picture grid, originals above restylings; None where there is no G."""
    translation: Mapping[str, Gauge] = field(default_factory=dict)
    seconds: Mapping[str, Any] = field(default_factory=dict)
    """By stage; a stage may hold stages."""
    versions: Mapping[str, str] = field(default_factory=dict)
    command: str = ""
    detector: str = "energy"
    """Whose scores are drawn as histograms and order the pictures."""
    note: str = DEMO_NOTE
    """What the reader must know about the numbers."""

    def __post_init__(self) -> None:
        """Refuse a page without results, or with results about other images."""
        if not self.cells:
            raise ValueError("a page needs the results of at least one algorithm")
        if len({cell.algorithm for cell in self.cells}) < len(self.cells):
            raise ValueError("every algorithm of a page needs a name of its own")
        for cell in self.cells:
            if len(cell.y) != len(self.images):
                raise ValueError(f"{cell.algorithm}: {len(cell.y)} labels for {len(self.images)} images")

    def detectors(self) -> tuple[str, ...]:
        """Return every detector of any algorithm, each once, in the order met."""
        return tuple(dict.fromkeys(name for cell in self.cells for name in cell.detectors()))
