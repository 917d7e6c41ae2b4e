"""The demo's story as one self-contained HTML page, told to somebody who has not read the paper."""

from collections.abc import Iterator, Mapping
from typing import Any

from madod.report import plots, words
from madod.report.evidence import feature_maps, histograms, pictures, rocs
from madod.report.html import Markup, document, facts, figure, join, panels, paragraph, section, table, tag
from madod.report.inputs import Page
from madod.report.pictures import picture, whole
from madod.report.results import reading, result_table, summary
from madod.report.table import MISSING
from madod.report.words import OVERALL, RANKED, listed


def demo_page(page: Page) -> str:
    """Return the whole page as HTML."""
    parts = [opening, training_saw, result, generator, rocs, histograms, feature_maps, pictures, making]
    return str(document(page.title, *(part(page) for part in parts)))


def opening(page: Page) -> Markup:
    """The question in two sentences, and the answer in one."""
    contestants = [words.algorithm(cell.algorithm) for cell in page.cells]
    question = (
        "Can a classifier keep working in a kind of picture it has never seen, and say so when it is shown a thing it "
        f"has never seen? Here {listed([word.title for word in contestants])} learned from the same pictures and took "
        "the same test."
    )
    return tag(
        "header",
        tag("h1", page.title),
        paragraph(question, class_="lead"),
        facts({"unseen domain": page.test_domain, "unknown class": listed(page.unknown), "dataset": page.dataset}),
        reading([word for word in contestants if word.meaning]),
        paragraph(tag("b", "In short. "), summary(page)),
    )


def training_saw(page: Page) -> Markup:
    """One picture of every class and domain, with what training never saw marked."""
    return section(
        "What training saw, and what it never saw",
        paragraph(
            f"Training saw the known classes in {listed(page.sources)}. It saw no picture at all from "
            f"{page.test_domain}, and nowhere a picture of {listed(page.unknown)}. Both arrive together at the test.",
        ),
        table(
            ["", *page.classes, *(f"{name} ★" for name in page.unknown)],
            [_domain(page, name) for name in (*page.sources, page.test_domain) if name in page.samples],
            "★ unknown class; hatched: kept from training; framed: the unseen domain, used for the test alone.",
            class_="saw",
        ),
    )


def _domain(page: Page, name: str) -> list[object]:
    """Return a domain's row: its name, then the first picture of every class that may be shown."""
    unseen, samples = name == page.test_domain, page.samples[name]
    first = {label: index for index, label in reversed(list(enumerate(samples.labels)))}
    row: list[object] = [join(name, tag("small", "never seen" if unseen else "training"))]
    for label in (*page.classes, *page.unknown):
        if label in page.unknown and not unseen:
            row.append(tag("span", "not shown", class_="hidden"))
        elif label not in first:
            row.append(MISSING)
        else:
            alt = f"{label}{', an unknown class,' if label in page.unknown else ''} in {name}"
            image = picture(samples.images[first[label]], alt)
            row.append(tag("span", image, class_="unseen") if unseen else image)
    return row


def result(page: Page) -> Markup:
    """The table of all measures."""
    explained = "A detector gives each picture a score: the higher, the more unknown. A dot marks the better number."
    key = reading([*OVERALL.values(), *RANKED.values()])
    return section("The result", paragraph(explained), tag("div", result_table(page), key, class_="pair"))


def generator(page: Page) -> Markup | None:
    """G's picture grid and the numbers it is judged by."""
    if page.grid_png is None:
        return None
    alt = "Rows of original source pictures, each above restylings of the same picture by G"
    numbers = [[name, f"{gauge.value:.2f}", f"at least {gauge.least:g}"] for name, gauge in page.translation.items()]
    explained = (
        "Retention: of the pictures that a plain classifier labels right, the share that it still labels right "
        "restyled. Diversity: how far apart two restylings of a picture lie, relative to two pictures of a class from "
        "two domains. "
        "A copy would keep everything and vary nothing."
    )
    return section(
        "Old pictures in new looks",
        paragraph(
            "First a network called G learns, from the training pictures alone, to keep what a picture shows and to "
            "change how it looks. Training can then ask for the same answer on both."
        ),
        figure(whole(page.grid_png, alt), "Originals above their restylings."),
        table(["measured on held-out source pictures", "value", "allowed"], numbers) if numbers else None,
        paragraph(explained, class_="quiet") if numbers else None,
    )


def making(page: Page) -> Markup:
    """Command, learning curves, seconds and versions."""
    curves = {
        words.algorithm(cell.algorithm).title: plots.learning_curves(cell.history, name=f"learning-{index}")
        for index, cell in enumerate(page.cells)
        if cell.history
    }
    seconds = [[stage, f"{value:.1f}"] for stage, value in _flat(page.seconds)]
    return section(
        "How this page was made",
        tag("pre", tag("code", page.command)) if page.command else None,
        panels(curves, "Training, step by step.") if curves else None,
        tag(
            "div",
            table(["stage", "seconds"], seconds) if seconds else None,
            table(["software", "version"], list(page.versions.items())) if page.versions else None,
            class_="pair",
        ),
    )


def _flat(seconds: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, float]]:
    for name, value in seconds.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}: ")
        else:
            yield f"{prefix}{name}", float(value)
