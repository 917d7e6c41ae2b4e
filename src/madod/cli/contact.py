"""The contact sheet of `madod predict`: what it keeps of a stream of predictions, and the page made of it."""

import heapq
from pathlib import Path
from typing import TYPE_CHECKING

from madod.data.images import BadImage, read_image
from madod.report.contact import Sheet, Tile, contact_sheet
from madod.storage import whole

if TYPE_CHECKING:
    from madod.predict import Model, Prediction

MOST = 500
"""Pictures kept at either end."""
SIDE = 96
"""Side of a picture on the page, in pixels."""
Kept = tuple[float, int, "Prediction"]


class Chosen:
    """The predictions with the highest and the lowest scores, however many go by."""

    def __init__(self) -> None:
        self.high: list[Kept] = []
        self.low: list[Kept] = []
        self.pictures = self.flagged = 0

    def add(self, answer: "Prediction") -> None:
        """Keep a prediction while it is among the extreme ones."""
        self.pictures += 1
        self.flagged += answer.unknown
        for heap, score in ((self.high, answer.score), (self.low, -answer.score)):
            change = heapq.heappush if len(heap) < MOST else heapq.heappushpop
            change(heap, (score, -self.pictures, answer))

    def write(self, file: Path, model: "Model", name: Path) -> None:
        """Write the page; pictures are read once more, so that none waits in memory."""
        high = {-place: answer for _, place, answer in sorted(self.high, reverse=True)}
        low = {-place: answer for _, place, answer in sorted(self.low) if -place not in high}
        ranked = sorted(low.items(), key=lambda item: (-item[1].score, item[0]))
        joined = self.pictures <= 2 * MOST
        highest = [tile(answer) for answer in [*high.values(), *(answer for _, answer in ranked if joined)]]
        lowest = [] if joined else [tile(answer) for _, answer in ranked]
        sheet = Sheet(
            str(name), model.card.detector, model.threshold, self.pictures, self.flagged, highest, lowest,
            model.card.warnings,
        )  # fmt: skip
        with whole(file) as part:
            part.write_text(contact_sheet(sheet), encoding="utf-8", errors="backslashreplace")


def tile(answer: "Prediction") -> Tile:
    """Return a picture with what was said of it."""
    try:
        image = read_image(Path(str(answer.path)), SIDE).transpose(1, 2, 0)
    except BadImage:  # it was there a moment ago
        image = None
    return Tile(str(answer.path), answer.label, answer.confidence, answer.score, answer.unknown, image)
