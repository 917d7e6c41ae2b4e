"""A table written out: as text for a terminal, as Markdown, LaTeX or CSV."""

import csv
import io
from collections.abc import Callable, Sequence
from typing import Literal

from madod.report.columns import aligned, widths
from madod.report.table import MISSING, Entry, Item, Table, signed

Form = Literal["text", "markdown", "latex", "csv"]
ENDINGS: dict[Form, str] = {"text": "txt", "markdown": "md", "latex": "tex", "csv": "csv"}
MARKS = {"best": "*", "second": "+", "": ""}
SPECIAL = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"} | {
    sign: f"\\{sign}" for sign in "&%$#_{}"
}
SYMBOLS = {
    "±": r"$\pm$",
    "<": "$<$",
    ">": "$>$",
    "|": "$|$",
    "†": r"$^\dagger$",
    "‡": r"$^\ddagger$",
    "§": r"$^\S$",
    "¶": r"$^\P$",
    MISSING: "--",
}
FIELDS = ("group", "metric", "value", "error", "runs", "of", "mark", "paper", "paper_error", "difference", "note")


def text(table: Table) -> str:
    """Write one block per group, in columns of even width; * is best, + second best."""
    lines = [table.title, ""]
    for group in table.groups:
        part = table.only(group)
        heads = [*table.names, *(head for _, head in part.columns)]
        rows = [heads, *([*row.names, *map(_plain, row.items)] for row in part.rows)]
        rule = "  ".join("-" * width for width in widths(rows))
        head, *body = aligned(rows, len(table.names))
        lines += [group, rule] if group else [rule]
        lines += [head, rule, *body, rule, ""]
    notes = [*table.notes, *_legend(table, "* best, + second best")]
    return "\n".join([*lines, *(f"{note}." for note in notes), ""])


def markdown(table: Table) -> str:
    """Write one table; best is bold, second best in italics."""
    wide = len(table.groups) > 1
    heads = [*table.names, *(f"{group}: {head}" if wide else head for group, head in table.columns)]
    lines = [f"### {_bare(table.title)}", ""]
    lines += [_bare(group) + "\n" for group in table.groups if group and not wide]
    lines += [_piped(heads), _piped(["---"] * len(heads))]
    lines += [_piped([*row.names, *(_marked(item, "**{}**", "*{}*") for item in row.items)]) for row in table.rows]
    notes = [*table.notes, *_legend(table, "**best**, *second best*")]
    return "\n".join([*lines, "", *(f"- {note}." for note in notes), ""])


def latex(table: Table) -> str:
    """Write a `table*` for booktabs; best is bold, second best underlined."""
    names = len(table.names)
    groups = {group: len(places) for group, places in table.groups.items()}
    spec = "l" * names + "".join("|" * bool(group) + "c" * size for group, size in groups.items())
    lines = [r"\begin{table*}", r"\centering", rf"\caption{{{_tex(table.title)}}}", rf"\begin{{tabular}}{{{spec}}}"]
    lines.append(r"\toprule")
    if any(groups):
        spans = [rf"\multicolumn{{{size}}}{{c}}{{{_tex(group)}}}" for group, size in groups.items()]
        lines.append(" & ".join([""] * names + spans) + r" \\")
    lines.append(" & ".join(_tex(head) for head in (*table.names, *(head for _, head in table.columns))) + r" \\")
    lines.append(r"\midrule")
    first = None
    for row in table.rows:
        if first not in (None, row.names[0]) and len(row.names) > 1:
            lines.append(r"\midrule")
        first = row.names[0]
        items = (_marked(item, r"\textbf{{{}}}", r"\underline{{{}}}", _tex) for item in row.items)
        lines.append(" & ".join([*(_tex(name) for name in row.names), *items]) + r" \\")
    lines += [r"\bottomrule", r"\end{tabular}", "", r"\raggedright\footnotesize"]
    lines += [f"{_tex(note)}.\\par" for note in table.notes]
    return "\n".join([*lines, r"\end{table*}", ""])


def tidy(table: Table) -> str:
    """Write CSV: one line per number where there are measured ones, otherwise one line per row."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    if any(isinstance(item, Entry) for row in table.rows for item in row.items):
        writer.writerow(["table", *table.names, *FIELDS])
        for row in table.rows:
            for (group, head), item in zip(table.columns, row.items, strict=True):
                if isinstance(item, Entry):
                    writer.writerow([table.title, *row.names, group, head, *_fields(item)])
    else:
        writer.writerow([*table.names, *(head for _, head in table.columns)])
        writer.writerows([*row.names, *row.items] for row in table.rows)
    return buffer.getvalue()


FORMS: dict[Form, Callable[[Table], str]] = {"text": text, "markdown": markdown, "latex": latex, "csv": tidy}


def written(tables: Sequence[Table], form: Form) -> str:
    """Write tables one after the other; as CSV under one line of names."""
    parts = [FORMS[form](table) for table in tables]
    return (
        "\n".join(parts) if form != "csv" else "".join([*parts[:1], *(part.partition("\n")[2] for part in parts[1:])])
    )


def beside(item: Entry) -> str:
    """Return what stands behind a number: its error, and the paper's number, from which a whole row's may differ."""
    said = "" if item.error is None else f" ± {item.error:.1f}"
    if item.paper is None:
        return said
    gap = "" if item.difference is None else f", {signed(item.difference)}"
    return f"{said} [{item.paper:.2f}{item.sign}{gap}]"


def _plain(item: Item) -> str:
    return item if isinstance(item, str) else f"{item.printed}{MARKS[item.mark]}{beside(item)}"


def _marked(item: Item, best: str, second: str, escape: Callable[[str], str] = str) -> str:
    if isinstance(item, str):
        return escape(item)
    form = {"best": best, "second": second, "": "{}"}[item.mark]
    return form.format(escape(item.printed)) + escape(beside(item))


def _legend(table: Table, said: str) -> list[str]:
    marks = any(isinstance(item, Entry) and item.mark for row in table.rows for item in row.items)
    return [said] if marks else []


def _piped(cells: Sequence[str]) -> str:
    return "| " + " | ".join(_bare(cell) for cell in cells) + " |"


def _bare(cell: str) -> str:
    return cell.replace("|", "\\|").replace("\n", " ")


def _tex(said: str) -> str:
    return "".join(SYMBOLS.get(sign, SPECIAL.get(sign, sign)) for sign in said).replace("\N{MINUS SIGN}", "$-$")


def _fields(item: Entry) -> list[object]:
    difference = item.difference
    numbers = [item.value, item.error, item.runs, item.of, item.mark, item.paper, item.paper_error, difference]
    return ["" if n is None else round(n, 4) if isinstance(n, float) else n for n in numbers] + [item.sign]
