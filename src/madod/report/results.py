"""The numbers of several algorithms side by side."""

from collections.abc import Mapping, Sequence
from typing import Any

from madod.report import words
from madod.report.html import Markup, table, tag
from madod.report.inputs import Cell, Page
from madod.report.table import MISSING, marks
from madod.report.words import OVERALL, RANKED, Measure, Word


def percent(value: float | None) -> str:
    """Return a fraction as percent with one decimal, or a dash where there is none."""
    return MISSING if value is None or value != value else f"{100 * value:.1f}"


def marked(values: Sequence[float | None], higher: bool) -> list[object]:
    """Return the values in percent, the best one marked, and all that print like it."""
    shown = [percent(value) for value in values]
    places = zip(shown, marks(shown, higher=higher), strict=True)
    return [tag("strong", text, class_="best") if mark == "best" else text for text, mark in places]


def result_table(page: Page) -> Markup:
    """Return accuracy and, detector by detector, how well unknown pictures are told from known ones."""
    rows: list[Sequence[object]] = [
        row for key, measure in OVERALL.items() for row in _row(page.cells, (), key, measure)
    ]
    for name in dict.fromkeys(key for cell in page.cells for key, value in cell.metrics.items() if _measures(value)):
        word = words.detector(name)
        rows.append([tag("span", tag("b", word.title), f": {word.meaning}" if word.meaning else None)])
        for key, measure in RANKED.items():
            rows += _row(page.cells, (name,), key, measure)
    heads = ["in percent", *(words.algorithm(cell.algorithm).title for cell in page.cells)]
    return table(heads, rows, page.note, class_="results")


def reading(terms: Sequence[Word | Measure]) -> Markup | None:
    """Return what each term means."""
    items = [tag("li", tag("b", term.title), f": {term.meaning}.") for term in terms]
    return tag("ul", *items, class_="reading") if items else None


def summary(page: Page) -> str:
    """Return the result in one sentence of numbers and no adjectives."""
    said = []
    for cell in page.cells:
        ranks = [
            value["auroc"] for value in cell.metrics.values() if _measures(value) and value.get("auroc") is not None
        ]
        mean = percent(sum(ranks) / len(ranks)) if ranks else MISSING
        over = f"a mean AUROC of {mean} over {len(ranks)} detectors" if len(ranks) != 1 else f"an AUROC of {mean}"
        name, accuracy = words.algorithm(cell.algorithm).title, percent(cell.metrics.get("accuracy"))
        said.append(f"{name} labels {accuracy} % of the known pictures right and reaches {over}")
    return "; ".join(said) + "."


def _row(cells: Sequence[Cell], path: tuple[str, ...], key: str, measure: Measure) -> list[Sequence[object]]:
    values = [_find(cell.metrics, (*path, key)) for cell in cells]
    if all(value is None for value in values):
        return []
    rates = [_find(cell.metrics, (*path, "base_rate")) for cell in cells] if key == "aupr" else []
    rate = next((f"base rate {percent(rate)}" for rate in rates if rate is not None), None)
    arrow = tag(
        "abbr", "↑" if measure.higher else "↓", title="higher is better" if measure.higher else "lower is better"
    )
    label = tag("span", measure.title, " ", arrow, tag("small", " ", rate) if rate else None)
    return [[label, *marked(values, measure.higher)]]


def _measures(value: object) -> bool:
    return isinstance(value, Mapping) and any(key in value for key in RANKED)


def _find(metrics: Any, path: tuple[str, ...]) -> float | None:
    for key in path:
        metrics = metrics.get(key) if isinstance(metrics, Mapping) else None
    return metrics
