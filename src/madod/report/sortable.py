"""Tables on a page that a reader sorts and filters."""

import json
from collections.abc import Sequence

import pandas as pd

from madod.report import words
from madod.report.frame import CELL, MEASURES, OVERALL, accuracy_alone
from madod.report.html import Markup, join, paragraph, scrolling, tag
from madod.report.order import methods_in_order
from madod.report.table import Item, Row, Table, signed
from madod.report.variants import flat

FIRST = 60
"""Rows of the list of all runs that are there before anybody asks for more."""
RUN_COLUMNS = ("dataset", "unseen", "unknown", "seed", "method", "detector", "accuracy", "held-out", "ECE", "AUROC",
               "AUPR", "base rate", "FPR95", "OSCR", "seconds", "run")  # fmt: skip

RUN_NAMES = ("dataset", "unseen", "unknown", "method", "detector", "run")


def sortable(table: Table, name: str) -> Markup:
    """Return a table whose heads sort it and whose rows a reader can filter, its notes below."""
    names, groups = len(table.names), table.groups
    heads = [*table.names, *(head for _, head in table.columns)]
    above = [tag("th", "", colspan=names)] if any(groups) else []
    if above:
        above += [
            tag("th", group, colspan=len(places), scope="colgroup", class_="over") for group, places in groups.items()
        ]
    starts = {places[0] + names for places in groups.values()} if any(groups) else set()
    head = tag(
        "thead",
        tag("tr", *above) if above else None,
        tag("tr", *(_head(text, place in starts, place < names) for place, text in enumerate(heads)), class_="heads"),
    )
    body = tag("tbody", *(_row(row, {place - names for place in starts}) for row in table.rows))
    notes = [tag("li", note[:1].upper() + note[1:], ".") for note in table.notes]
    return join(
        tag("h3", table.title),
        _filter(name, f"{len(table.rows)} rows"),
        scrolling(tag("table", head, body, class_="sortable", id=name)),
        tag("ul", *notes, class_="reading") if notes else None,
    )


def all_runs(frame: pd.DataFrame) -> Markup:
    """Return every run and detector as a table that the page's script fills, so that thousands open at once."""
    rows = []
    tested = pd.concat([frame.dropna(subset=["detector"]), accuracy_alone(frame)], ignore_index=True)
    columns = [tested[name].round(4).tolist() for name in (*OVERALL, *MEASURES)]
    said = [tested[name].tolist() for name in (*CELL, "method", "detector")]
    for line in zip(*said, *columns, tested["seconds"].round(1).tolist(), tested["id"].tolist(), strict=True):
        dataset, domain, unknown, seed, method, detector, *rest = line
        numbers = [None if isinstance(value, float) and value != value else value for value in rest]
        rows.append([words.dataset(dataset), domain, unknown, seed, words.method(method),
                     words.detector(detector).title, *numbers])  # fmt: skip
    data = json.dumps(rows, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    head = tag("thead", tag("tr", *(_head(text, False, text in RUN_NAMES) for text in RUN_COLUMNS), class_="heads"))
    return join(
        _filter("runs", f"{len(rows):,} rows"),
        scrolling(tag("table", head, tag("tbody"), class_="sortable", id="runs", data_first=FIRST)),
        tag("p", tag("button", "Show more", type="button", class_="more", data_for="runs")),
        tag("noscript", paragraph("This list needs scripts; records.csv beside this page holds it too.")),
        tag("script", Markup(data), type="application/json", id="runs-data"),
    )


def settings(frame: pd.DataFrame) -> Table:
    """Return one row per dataset and method: every setting, with all of its values where runs differ."""
    rows = []
    for dataset, part in frame.groupby("dataset", sort=False):
        for method in methods_in_order(part["method"]):
            mine = part[part["method"] == method].drop_duplicates("folder")
            found: dict[str, list[str]] = {}
            for setting in mine["settings"]:
                for key, value in flat(setting).items():
                    text = f"{value:g}" if isinstance(value, float) else str(value)
                    if text not in found.setdefault(key, []):
                        found[key].append(text)
            said = ", ".join(f"{key} {_values(values)}" for key, values in found.items())
            rows.append(Row((words.dataset(str(dataset)), words.method(method)), (str(len(mine)), said)))
    columns = (("", "runs"), ("", "settings"))
    return Table("Every setting", ("dataset", "method"), columns, tuple(rows))


def _values(values: Sequence[str]) -> str:
    return values[0] if len(values) == 1 else f"{' | '.join(values[:3])}{' | ...' if len(values) > 3 else ''}"


def _head(text: str, starts: bool, name: bool) -> Markup:
    class_ = "start" if starts else "name" if name else None
    return tag("th", tag("button", text, type="button"), scope="col", class_=class_)


def _row(row: Row, starts: set[int]) -> Markup:
    cells = [_cell(item, place in starts) for place, item in enumerate(row.items)]
    return tag(
        "tr", *(tag("th", name, scope="row") for name in row.names), *cells, class_=None if row.ranked else "aside"
    )


def _cell(item: Item, starts: bool) -> Markup:
    class_ = "start" if starts else None
    if isinstance(item, str):
        return tag("td", item, class_=class_)
    shown = tag("b", item.printed, class_=item.mark, title=f"{item.mark} in its column") if item.mark else item.printed
    error = None if item.error is None else tag("small", f" ± {item.error:.1f}")
    if item.paper is None:
        return tag("td", shown, error, class_=class_)
    against = f", {signed(item.difference)}" if item.difference is not None else ""
    spread = "" if item.paper_error is None else f" ± {item.paper_error:.1f}"
    title = f"the paper prints {item.paper:.2f}{spread}"
    paper = tag("small", f"paper {item.paper:.2f}{item.sign}{against}", class_="paper", title=title)
    return tag("td", shown, error, paper, class_=class_)


def _filter(name: str, count: str) -> Markup:
    field = tag(
        "input", type="search", placeholder="filter rows, as in: madod ddu", data_for=name, aria_label="filter rows"
    )
    return tag("p", field, tag("span", count, class_="quiet count", data_for=name), class_="filter")
