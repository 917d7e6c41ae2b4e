"""How figures look and become SVG: the same bytes each time, in the colours of the page that holds them."""

import io
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from madod.report.html import Markup, tag

INK, FAINT, PAPER = "#010101", "#020202", "#fefefe"
PALETTE = ("#0b6e99", "#d55e00", "#00875f", "#b8589a", "#b47d00", "#5b6fd6", "#7a8b1a", "#8c5a3c")
"""Safe for colour-blind eyes together with the markers and line styles that go with it; dark pages lighten it."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p", "h")
DASHES = ("-", (0, (5, 1.6)), (0, (1.5, 1.2)), (0, (5, 1.5, 1, 1.5)))

THEME = {INK: "currentColor", FAINT: "var(--faint, #8a8a8a)", PAPER: "var(--card, #ffffff)"} | {
    colour: f"var(--c{index}, {colour})" for index, colour in enumerate(PALETTE, start=1)
}
STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "madod",
    "text.parse_math": False,
    "axes.unicode_minus": True,
    "font.size": 10,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": FAINT,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "axes.facecolor": "none",
    "figure.facecolor": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "hatch.linewidth": 0.7,
}


@contextmanager
def axes(width: float, height: float) -> Iterator[Any]:
    """Give one set of axes, in inches, in the house's look; draw inside the `with`, `svg` included."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")  # the reader's browser has the glyphs
        yield Figure(figsize=(width, height), layout="constrained").subplots()


def svg(ax: Any, name: str, alt: str) -> Markup:
    """Return the drawing as inline SVG whose ids begin with `name`, so that several share a page."""
    buffer = io.StringIO()
    nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    ax.figure.savefig(buffer, format="svg", metadata=nothing)
    whole = buffer.getvalue()
    size = re.search(r'viewBox="([^"]+)"', whole)
    body = whole[whole.index(">", whole.index("<svg")) + 1 : whole.rindex("</svg>")]
    body = re.sub(r"<defs>\s*<style.*?</style>\s*</defs>", "", body, flags=re.DOTALL)
    body = re.sub(r"<[a-z][^>]*>", lambda match: _adapted(match[0], name), body)
    return tag("svg", Markup(body), viewBox=size[1] if size else None, role="img", aria_label=alt, class_="plot")


def _adapted(element: str, name: str) -> str:
    """Return one SVG element with the page's colours, its own ids, and no name spaces, which HTML does not need."""
    element = re.sub(r"#[0-9a-f]{6}\b", lambda colour: THEME.get(colour[0], colour[0]), element)
    element = element.replace("xlink:href=", "href=").replace('href="#', f'href="#{name}-')
    return element.replace('id="', f'id="{name}-').replace("url(#", f"url(#{name}-")


def standalone(page: str) -> dict[str, str]:
    """Return every drawing of a page by its name, each as an SVG file that needs no page: in light colours."""
    found = re.findall(r'<svg [^>]*class="plot">.*?</svg>', page, flags=re.DOTALL)
    return {_name(drawing): _alone(drawing) for drawing in found}


def _name(drawing: str) -> str:
    match = re.search(r'id="([^"]+)-figure_1"', drawing)
    return match[1] if match else "figure"


def _alone(drawing: str) -> str:
    plain = re.sub(r"var\(--[\w-]+, (#[0-9a-f]{6})\)", r"\1", drawing).replace("currentColor", "#23282d")
    fonts = "system-ui, 'Noto Sans', 'DejaVu Sans', sans-serif"
    head = f'<svg xmlns="http://www.w3.org/2000/svg" font-family="{fonts}" color="#23282d" '
    return plain.replace("<svg ", head, 1) + "\n"
