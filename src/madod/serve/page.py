"""The page that a person sees: one self-contained document that asks nothing of any other host."""

from importlib.resources import files

from madod.report.html import Markup, allowed, facts, paragraph, skeleton, tag
from madod.serve.answers import About

FEW = 12
"""Classes that are listed; of more, their number is given and the list folded away."""


def _text(room: str, name: str) -> str:
    return files(f"madod.{room}").joinpath(name).read_text(encoding="utf-8")


STYLE, SCRIPT = _text("report", "page.css") + _text("serve", "page.css"), _text("serve", "page.js")
POLICY = (
    f"default-src 'none'; style-src {allowed(STYLE)}; script-src {allowed(SCRIPT)}; img-src 'self' blob: data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


def page(about: About) -> str:
    """Return the whole page; what the script needs to know of the model stands in it."""
    needed = about.model_dump_json(include={"threshold", "kept", "limits", "gallery"}).replace("<", "\\u003c")
    return str(
        skeleton(
            "madod: known or unknown?",
            STYLE,
            tag("main", _opening(about), _door(about), _dial(about), _results(), _programs()),
            tag("script", Markup(needed), type="application/json", id="facts"),
            tag("script", Markup(SCRIPT)),
        )
    )


def _opening(about: About) -> Markup:
    names = ", ".join(about.classes)
    many = len(about.classes) > FEW
    listed = tag("details", tag("summary", f"{len(about.classes)} classes"), paragraph(names)) if many else names
    return tag(
        "header",
        tag("h1", "Known or unknown?"),
        paragraph(
            "Give this model pictures. It names the class that each resembles most, and says so when a picture "
            "probably shows nothing that it has ever learned.",
            class_="lead",
        ),
        _warnings(about),
        facts({"it knows": listed, "learned from": ", ".join(about.domains), "unknown score": about.detector}),
    )


def _warnings(about: About) -> Markup | None:
    said = [paragraph(tag("b", "This model's own check warns"), f": {sentence}.") for sentence in about.warnings]
    return tag("aside", *said, class_="warnings", aria_label="Warnings") if said else None


def _door(about: About) -> Markup:
    most = f"up to {about.limits.image_bytes // 2**20} MiB and {about.limits.pixels // 10**6} million pixels each"
    return tag(
        "div",
        tag("noscript", paragraph("This page needs JavaScript; the addresses below work without it.")),
        tag("input", type="file", id="files", multiple="", accept="image/*,.tif,.tiff,.jp2,.ppm,.pgm,.pbm,.pnm"),
        tag(
            "label",
            tag("strong", "Choose pictures"),
            tag("span", " drop them anywhere on this page, or paste one"),
            tag(
                "small", f"JPEG, PNG, WebP, GIF, TIFF and more, {most}. They stay on this server's machine, in memory."
            ),
            for_="files",
        ),
        class_="door",
    )


def _dial(about: About) -> Markup:
    return tag(
        "section",
        tag("h2", "Where the known ends", id="dial-title"),
        tag("div", id="strip", class_="strip", role="img"),
        tag(
            "div",
            tag("label", "Keep ", tag("output", id="share", for_="keep"), " of known pictures", for_="keep"),
            tag("input", type="range", id="keep", min=1, max=len(about.kept), step=1),
            tag("button", "Reset", type="button", id="reset"),
            class_="dial",
        ),
        paragraph(tag("span", id="meaning"), class_="quiet"),
        aria_labelledby="dial-title",
    )


def _results() -> Markup:
    return tag(
        "section",
        tag(
            "div",
            tag("h2", "Verdicts", id="results-title"),
            tag("p", "Nothing to judge yet.", id="summary", role="status"),
            tag("button", "Most unknown first", type="button", id="sort", aria_pressed="false", hidden=""),
            tag("button", "Clear", type="button", id="clear", hidden=""),
            class_="bar",
        ),
        tag("ol", id="results", class_="cards"),
        aria_labelledby="results-title",
    )


def _programs() -> Markup:
    command = "curl -F files=@one.jpg -F files=@two.png 'http://HOST/predict?keep=0.95'"
    return tag(
        "section",
        tag("h2", "From a program"),
        tag("pre", tag("code", command, id="command"), tabindex="0"),
        paragraph(
            "One entry a picture comes back as JSON. ",
            tag("a", "/openapi.json", href="openapi.json"),
            " describes every address, ",
            tag("a", "/model", href="model"),
            " the model, ",
            tag("a", "/metrics", href="metrics"),
            " what the server is doing.",
        ),
    )
