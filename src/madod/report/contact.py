"""A contact sheet: many pictures with what a model says of them, the most unknown first."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from madod.report.html import Markup, document, facts, paragraph, section, tag
from madod.report.pictures import jpeg_uri


class Tile(NamedTuple):
    """A picture uint8 (h, w, 3), or nothing where it can no longer be read, and what was said of it."""

    name: str
    label: str
    confidence: float
    score: float
    unknown: bool
    image: NDArray[np.uint8] | None


class Sheet(NamedTuple):
    """What a contact sheet shows; where there are too many pictures, those with the highest and the lowest scores."""

    model: str
    detector: str
    threshold: float
    pictures: int
    flagged: int
    highest: Sequence[Tile]
    lowest: Sequence[Tile]
    """Also from the highest score down; empty where `highest` holds all."""
    warnings: Sequence[str]
    """What the model's own check says not to rely on."""


def contact_sheet(sheet: Sheet) -> Markup:
    """Return the page, whole."""
    left_out = sheet.pictures - len(sheet.highest) - len(sheet.lowest)
    return document(
        "What the model says of these pictures",
        tag("h1", "What the model says of these pictures"),
        *(paragraph(tag("b", "This model's own check warns"), f": {sentence}.") for sentence in sheet.warnings),
        facts(
            {
                "pictures": f"{sheet.pictures:,}",
                "flagged as unknown": f"{sheet.flagged:,}",
                f"threshold ({sheet.detector})": f"{sheet.threshold:.4g}",
                "model": sheet.model,
            }
        ),
        paragraph(
            "Sorted by score, the most unknown first. A dashed frame marks a picture whose score is above the "
            "threshold: it probably shows none of the known classes, and its label is only the nearest of them. "
            "Pictures are shown as the model sees them, squeezed to a square."
        ),
        section("Highest scores" if sheet.lowest else "All pictures", tiles(sheet.highest)),
        section("Lowest scores", paragraph(f"{left_out:,} pictures in between are not shown."), tiles(sheet.lowest))
        if sheet.lowest
        else None,
    )


def tiles(each: Sequence[Tile]) -> Markup:
    """Return pictures in rows, each with its verdict."""
    return tag("ol", *(_tile(tile) for tile in each), class_="tiles")


def _tile(tile: Tile) -> Markup:
    said = "unknown" if tile.unknown else tile.label
    alt = f"{said}, score {tile.score:.4g}"
    shown = tag("span", "(gone)") if tile.image is None else tag("img", src=jpeg_uri(tile.image), alt=alt)
    sure = f"{tile.confidence:.0%}"
    return tag(
        "li",
        shown,
        tag("strong", said),
        tag("span", f"nearest: {tile.label}, {sure}" if tile.unknown else f"{sure} sure"),
        tag("span", f"score {tile.score:.4g}"),
        tag("span", "/".join(tile.name.replace("\\", "/").split("/")[-2:]), title=tile.name, class_="quiet"),
        class_="wrong" if tile.unknown else "right",
    )
