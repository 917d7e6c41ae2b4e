"""HTML from small pieces: what is not HTML already is escaped on its way in, so a page is sound by construction."""

import base64
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib.resources import files

VOID = frozenset({"br", "img", "input", "link", "meta"})
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


class Markup(str):
    """Text that is HTML already; any other text is escaped when it becomes part of a page."""

    __slots__ = ()


def join(*parts: object) -> Markup:
    """Return the parts as one piece of HTML; None is nothing."""
    present = (part for part in parts if part is not None)
    return Markup("".join(part if isinstance(part, Markup) else escape(str(part)) for part in present))


def tag(name: str, /, *children: object, **attributes: object) -> Markup:
    """Return `<name ...>children</name>`; `class_` is written class, `aria_label` aria-label, None is left out."""
    named = {key.rstrip("_").replace("_", "-"): value for key, value in attributes.items() if value is not None}
    head = "".join(f' {key}="{escape(str(value))}"' for key, value in named.items())
    return Markup(f"<{name}{head}>" if name in VOID else f"<{name}{head}>{join(*children)}</{name}>")


def section(title: object, *children: object) -> Markup:
    """Return a section under a heading of the second order."""
    return tag("section", tag("h2", title), *children)


def paragraph(*children: object, class_: str | None = None) -> Markup:
    """Return a paragraph of running text."""
    return tag("p", *children, class_=class_)


def figure(content: Markup, caption: object, class_: str | None = None) -> Markup:
    """Return a figure above its caption."""
    return tag("figure", content, tag("figcaption", caption), class_=class_)


def panels(contents: Mapping[str, Markup], caption: object) -> Markup:
    """Return one figure of titled panels, side by side where there is room and below each other where not."""
    each = [tag("div", tag("h3", title), content, class_="panel") for title, content in contents.items()]
    return figure(tag("div", *each, class_="panels"), caption)


def table(
    columns: Iterable[object],
    rows: Iterable[Sequence[object]],
    caption: object = None,
    class_: str | None = None,
) -> Markup:
    """Return a table that scrolls in its own box; a row of one cell opens a group, a first cell names its row.

    A pandas frame goes in as `table(frame.columns, frame.itertuples(index=False))`.
    """
    heads = tuple(columns)
    groups: list[list[Markup]] = [[]]
    for row in rows:
        if len(row) == 1 and len(heads) > 1:
            groups.append([tag("tr", tag("th", row[0], colspan=len(heads), scope="rowgroup"), class_="group")])
        else:
            cells = [tag("td", cell) for cell in row[1:]]
            groups[-1].append(tag("tr", tag("th", row[0], scope="row"), *cells))
    head = tag("thead", tag("tr", *(tag("th", head, scope="col") for head in heads)))
    bodies = [tag("tbody", *group) for group in groups if group]
    box = scrolling(tag("table", head, *bodies, class_=class_))
    return box if caption is None else figure(box, caption, class_="tabled")


def scrolling(table: Markup) -> Markup:
    """Return a table in a box of its own, in which it scrolls sideways where it is wide."""
    return tag("div", table, class_="scroll", tabindex="0", role="group", aria_label="table, scrolls sideways if wide")


def facts(pairs: Mapping[str, object]) -> Markup:
    """Return names and values as a description list."""
    return tag("dl", *(tag("div", tag("dt", name), tag("dd", value)) for name, value in pairs.items()), class_="facts")


def document(title: str, *body: object, script: str = "") -> Markup:
    """Return a whole page with its stylesheet inside; its policy forbids anything from elsewhere and other scripts."""
    policy = f"{POLICY}; script-src {allowed(script)}" if script else POLICY
    stated = tag("meta", http_equiv="Content-Security-Policy", content=policy)
    style = files("madod.report").joinpath("page.css").read_text(encoding="utf-8")
    return skeleton(title, style, tag("main", *body), tag("script", Markup(script)) if script else None, policy=stated)


def skeleton(title: str, style: str, *body: object, policy: Markup | None = None) -> Markup:
    """Return a whole page around its body; a `policy` stands in it where no server states one."""
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        policy,
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", title),
        tag("link", rel="icon", href="data:,"),
        tag("style", Markup(style)),
    )
    return join(Markup("<!doctype html>\n"), tag("html", head, tag("body", *body), lang="en"), Markup("\n"))


def allowed(text: str) -> str:
    """Return how a policy names the very script or style that it allows."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
