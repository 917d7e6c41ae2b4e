"""The method in one drawing, for the docs; `python docs/images/overview.py` makes it."""

# ruff: noqa: RUF001  # formulas have primes and minus signs

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from madod.report.html import Markup, join, tag
from madod.report.pictures import data_uri, png

INK, QUIET, LINE, PAPER, CARD = "#23282d", "#626b74", "#d8dcdf", "#fbfaf8", "#ffffff"
BLUE, ORANGE = "#0b6e99", "#d55e00"
WIDTH, HEIGHT, SIDE = 980, 775, 44
LOOKS: dict[str, tuple[NDArray[np.float64], NDArray[np.float64]]] = {
    "ink": (np.array([0.97, 0.95, 0.90]), np.array([0.10, 0.12, 0.30])),
    "chalk": (np.array([0.13, 0.28, 0.22]), np.array([0.95, 0.96, 0.90])),
    "print": (np.array([0.93, 0.80, 0.62]), np.array([0.55, 0.16, 0.12])),
    "neon": (np.array([0.05, 0.04, 0.12]), np.array([0.98, 0.30, 0.85])),
}
"""Paper and ink of made-up domains; the last one is never seen."""
RESTYLED = ("#e8f0c8/#1f5f3a", "#2b2450/#f2c14e", "#f6d5d8/#31569c")


def overview() -> str:
    """Return the drawing as SVG: four panels, to be read from left to right and down."""
    body = [
        tag("rect", width=WIDTH, height=HEIGHT, rx=14, fill=PAPER),
        _panel(20, 20, 340, "1", "G learns to restyle", _restyling()),
        _panel(500, 20, 340, "2", "Every step deals tasks", _tasks()),
        _panel(20, 380, 375, "3", "An inner step a task, an outer step for all", _steps()),
        _panel(500, 380, 375, "4", "Adapt to all classes, then meet what was never seen", _test()),
    ]
    alt = (
        "MADOD in four parts: a generator G restyles source pictures; tasks hold out a known class as pseudo-unknown; "
        "an inner step adapts the head and an outer step moves the whole network; at last the head adapts to all "
        "classes and the model is tested on an unseen domain with an unknown class"
    )
    size = {"viewBox": f"0 0 {WIDTH} {HEIGHT}", "xmlns": "http://www.w3.org/2000/svg", "role": "img", "aria_label": alt}
    return str(tag("svg", *body, font_family="system-ui, 'Noto Sans', 'DejaVu Sans', sans-serif", **size)) + "\n"


def _panel(x: int, y: int, height: int, number: str, title: str, content: Markup) -> Markup:
    frame = tag("rect", width=460, height=height, rx=10, fill=CARD, stroke=LINE)
    badge = tag("circle", cx=30, cy=30, r=13, fill=BLUE)
    heads = join(_text(30, 35, number, 14, CARD, "middle", 700), _text(52, 35, title, 15, INK, "start", 600))
    return tag("g", frame, badge, heads, content, transform=f"translate({x} {y})")


def _restyling() -> Markup:
    parts: list[Markup] = []
    for row, (look, digit) in enumerate((("ink", 3), ("chalk", 7), ("print", 0))):
        y = 62 + row * 66
        parts += [_text(24, y + 27, look, 12, QUIET), _picture(70, y, digit, look), _arrow(122, y + 22, 176)]
        for place, colours in enumerate(RESTYLED):
            parts.append(_picture(262 + place * 56, y, digit, colours))
        parts.append(_arrow(226, y + 22, 254))
    parts += [_box(182, 62, 40, 176, "G")]
    parts += _lines(24, 272, (
        "Keep the content, draw a new style: G(x, v) = D(E_s(x), v) with v ~ N(0, I).",
        "Learned from the training pictures of the source domains,",
        "judged on held-out ones, then frozen.",
    ))  # fmt: skip
    return join(*parts)


def _tasks() -> Markup:
    rows = (
        ("S, support", (0, 1, 2, 3, 5), BLUE, "ink chalk print ink chalk"),
        ("Q, query", (1, 3, 0, 5, 2), BLUE, "print ink chalk print ink"),
        ("O, pseudo-unknown", (7, 7, 7, 7, 7), ORANGE, "chalk print ink chalk print"),
    )
    parts: list[Markup] = []
    for row, (name, digits, colour, looks) in enumerate(rows):
        y = 56 + row * 68
        parts.append(tag("rect", x=20, y=y, width=420, height=60, rx=8, fill="none", stroke=colour, stroke_width=1.4))
        parts.append(_text(32, y + 35, name, 13, colour, "start", 600))
        parts += [
            _picture(178 + place * 51, y + 8, digit, look, 3 + 2 * place)
            for place, (digit, look) in enumerate(zip(digits, looks.split(), strict=True))
        ]
    parts += _lines(24, 282, (
        "A task first draws a known class that plays the unknown, here 7.",
        "S and Q hold shots of every other class; the three are disjoint",
        "and mix the source domains. The next task draws another class.",
    ))  # fmt: skip
    return join(*parts)


def _steps() -> Markup:
    parts = [
        _picture(20, 66, 2, "ink"), _picture(20, 118, 2, RESTYLED[1]),
        _text(20, 178, "x and its restyling x̃", 11, QUIET),
        _arrow(68, 114, 92), _box(96, 84, 84, 60, "g", "featurizer φ"), _arrow(182, 114, 206),
        _box(210, 84, 84, 60, "h", "head ψ"), _arrow(296, 114, 320),
    ]  # fmt: skip
    parts += [
        _text(322, 104, "R_GI: the same", 12, INK),
        _text(322, 121, "answer for x and x̃,", 12, INK),
        _text(322, 138, "|h(g(x)) − h(g(x̃))|₁", 12, INK),
    ]
    parts += [
        tag("path", d="M 252 148 C 252 186, 214 186, 214 150", fill="none", stroke=BLUE, stroke_dasharray="4 3"),
        tag("polygon", points="214,146 209,155 219,155", fill=BLUE),
        _text(232, 202, "inner, a task:  ψ′ = ψ − η₁ ∇ [ CE(S) + λ₁ R_GI(S) ]", 12.5, BLUE, "middle", 600),
        _text(232, 226, "outer:  φ, ψ  ←  ∇ Σ over tasks [ CE(Q; ψ′) + λ₂ R_OOD ]", 12.5, ORANGE, "middle", 600),
        _energies(30, 238, ("Q: known", "O: pseudo-unknown"), (("m_I", 0.42), ("m_O", 0.56))),
    ]  # fmt: skip
    parts += _lines(24, 358, ("R_OOD pushes energies of Q below m_I and of O above m_O.",))
    return join(*parts)


def _test() -> Markup:
    parts = _lines(
        24, 66, ("φ stays; the head takes the inner step on all known classes.", "That is the model that ships.")
    )
    parts.append(_text(24, 122, "An unseen domain, with a class that was never there:", 12.5, INK, "start", 600))
    for place, (digit, known) in enumerate(((1, True), (5, True), (3, True), (4, False), (4, False))):
        x = 34 + place * 84
        colour = BLUE if known else ORANGE
        parts.append(_picture(x, 134, digit, "neon", 3 + place))
        parts.append(
            tag(
                "rect",
                x=x - 3,
                y=131,
                width=SIDE + 6,
                height=SIDE + 6,
                rx=5,
                fill="none",
                stroke=colour,
                stroke_width=1.6,
            )
        )
        parts.append(_text(x + SIDE // 2, 200, f"“{digit}”" if known else "unknown", 12.5, colour, "middle", 600))
    parts.append(_energies(30, 212, ("known classes", "unknown class"), (("threshold", 0.55),)))
    parts += _lines(24, 338, (
        "Measured: accuracy on the known, AUROC and AUPR for the unknown.",
        "The threshold keeps 95 % of held-out source pictures.",
    ))  # fmt: skip
    return join(*parts)


def _energies(x: int, y: int, names: tuple[str, str], marks: Sequence[tuple[str, float]]) -> Markup:
    """Return two humps over an energy axis, known left and unknown right, with marked places."""
    grid = np.linspace(0, 1, 60)
    parts: list[Markup] = []
    for centre, colour, name in ((0.27, BLUE, names[0]), (0.74, ORANGE, names[1])):
        heights = 58 * np.exp(-(((grid - centre) / 0.12) ** 2))
        points = " ".join(f"{x + 400 * a:.1f},{y + 84 - b:.1f}" for a, b in zip(grid, heights, strict=True))
        parts.append(
            tag(
                "polygon",
                points=f"{x},{y + 84} {points} {x + 400},{y + 84}",
                fill=colour,
                fill_opacity=0.28,
                stroke=colour,
                stroke_width=1.4,
            )
        )
        parts.append(_text(round(x + 400 * centre), y + 74, name, 11.5, INK, "middle", 600))
    parts.append(tag("line", x1=x, y1=y + 84, x2=x + 400, y2=y + 84, stroke=QUIET))
    parts.append(_text(x + 400, y + 99, "energy E: low is familiar, high is not", 11, QUIET, "end"))
    for name, place in marks:
        at = round(x + 400 * place)
        parts.append(
            tag("line", x1=at, y1=y + 22, x2=at, y2=y + 84, stroke=INK, stroke_dasharray="4 3", stroke_width=1.2)
        )
        parts.append(_text(at, y + 17, name, 11.5, INK, "middle"))
    return join(*parts)


def _picture(x: int, y: int, digit: int, look: str, scan: int = 3) -> Markup:
    """Return a scanned digit on the paper and in the ink of a look, or of two colours `#paper/#ink`."""
    from PIL import Image
    from sklearn.datasets import load_digits

    scans = load_digits()
    grey = scans.images[int(np.flatnonzero(scans.target == digit)[scan])] / 16
    smooth = np.asarray(Image.fromarray((255 * grey).astype(np.uint8)).resize((48, 48), Image.Resampling.BICUBIC)) / 255
    paper, ink = LOOKS[look] if look in LOOKS else (_colour(part) for part in look.split("/"))
    pixels = paper + smooth[..., None] * (ink - paper)
    address = data_uri(png(np.round(255 * np.clip(pixels, 0, 1)).astype(np.uint8)))
    return tag("image", href=address, x=x, y=y, width=SIDE, height=SIDE)


def _colour(text: str) -> NDArray[np.float64]:
    return np.array([int(text[place : place + 2], 16) / 255 for place in (1, 3, 5)])


def _text(
    x: float, y: float, said: str, size: float, colour: str = INK, anchor: str = "start", weight: int = 400
) -> Markup:
    return tag("text", said, x=x, y=y, font_size=size, fill=colour, text_anchor=anchor, font_weight=weight)


def _lines(x: int, y: int, lines: Sequence[str]) -> list[Markup]:
    return [_text(x, y + 20 * place, line, 12.5, QUIET) for place, line in enumerate(lines)]


def _box(x: int, y: int, width: int, height: int, name: str, below: str = "") -> Markup:
    shape = tag("rect", x=x, y=y, width=width, height=height, rx=8, fill="#eef3f6", stroke=BLUE, stroke_width=1.4)
    middle = y + height // 2
    said = _text(x + width / 2, middle + (0 if below else 7), name, 20, BLUE, "middle", 700)
    return join(shape, said, _text(x + width / 2, middle + 19, below, 11.5, QUIET, "middle") if below else None)


def _arrow(x: int, y: int, end: int) -> Markup:
    line = tag("line", x1=x, y1=y, x2=end - 5, y2=y, stroke=QUIET, stroke_width=1.5)
    return join(line, tag("polygon", points=f"{end},{y} {end - 7},{y - 4} {end - 7},{y + 4}", fill=QUIET))


if __name__ == "__main__":
    Path(__file__).with_suffix(".svg").write_text(overview(), encoding="utf-8")
