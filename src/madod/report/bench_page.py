"""A folder of runs as one self-contained page that a supervisor can be sent."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from importlib.resources import files

import pandas as pd

from madod.report import contests, words
from madod.report.cells import cells
from madod.report.html import Markup, document, facts, figure, panels, paragraph, section, table, tag
from madod.report.paper import lookup
from madod.report.showcase import showcase
from madod.report.significance import by_cell, compare, comparisons, said_p, wide_cells
from madod.report.sortable import all_runs, settings, sortable
from madod.report.statistics import statistics
from madod.report.table import MISSING, signed
from madod.report.tables import per_domain, summary

PLAIN = "erm"
"""Plain training, which every method has to beat."""
TITLE = "Unseen domains, unknown classes: what the runs say"
PAPERS_ABLATION = (
    "The paper's own bars, also means of three: PACS full 83.89 AUROC and 40.82 AUPR, without R_GI 72.74 AUROC; "
    "ColoredMNIST 38.53 AUPR full and 12.92 without R_OOD."
)


def report_page(frame: pd.DataFrame, *, command: str = "", reference: str = "madod", cell: str | None = None) -> str:
    """Return the whole page as HTML."""
    script = files("madod.report").joinpath("report.js").read_text(encoding="utf-8")
    parts = [
        opening(frame, reference),
        results(frame),
        differences(frame, reference),
        ablations(frame, reference),
        showcase(frame, reference, cell),
        cells(frame, reference),
        datasets(frame),
        runs(frame),
        provenance(frame, command),
    ]
    return str(document(TITLE, *parts, script=script))


def opening(frame: pd.DataFrame, reference: str) -> Markup:
    """The question, how much was run, and the answer in numbers."""
    tested = frame.dropna(subset=["detector"])
    question = (
        "Can a classifier keep working in a kind of picture it has never seen, and say so when it is shown a thing it "
        "has never seen? Each run leaves one domain and one class out of training and is tested on both."
    )
    counts = {
        "runs": f"{frame['folder'].nunique():,}",
        "methods": str(tested["method"].nunique()),
        "datasets": words.listed([words.dataset(name) for name in dict.fromkeys(frame["dataset"])]),
        "cells": str(len(tested.drop_duplicates(["dataset", "test_domain", "ood_classes"]))),
        "seeds": str(tested["seed"].nunique()),
    }
    return tag(
        "header",
        tag("h1", TITLE),
        paragraph(question, class_="lead"),
        facts(counts),
        *(
            paragraph(tag("b", "In short. " if not line else ""), said)
            for line, said in enumerate(short(frame, reference))
        ),
    )


def short(frame: pd.DataFrame, reference: str) -> list[str]:
    """Return the answer, one sentence per dataset: the reference less plain training, paired over cells.

    Where plain training itself is the reference, it is compared with the other method, if it is one alone.
    """
    others = [name for name in dict.fromkeys(frame["method"]) if name != reference]
    if reference == PLAIN and len(others) > 1:
        return [f"{words.method(reference)} less each of the others is in the paired differences below."]
    against = PLAIN if reference != PLAIN or not others else others[0]
    numbers = by_cell(frame)
    wide, how = wide_cells(numbers, "auroc", "declared"), "by the detectors declared beforehand"
    if wide is None:
        wide, how = wide_cells(numbers, "auroc", "mean"), "mean of three detectors"
    title, other = words.method(reference), words.method(against)
    if wide is None or reference not in wide or against not in wide:
        return [f"There are no runs of both {title} and {other} with all of MSP, Energy and DDU to compare."]
    said = []
    for dataset, part in wide.groupby(level="dataset", sort=False):
        difference = (part[reference] - part[against]).dropna()
        if len(difference):
            one = compare(difference.to_numpy())
            sure = f", 95 % interval {signed(one.low)} to {signed(one.high)}" if one.low == one.low else ""
            cells = f"{one.cells} cell{'s' * (one.cells > 1)}"
            said.append(
                f"On {words.dataset(str(dataset))} {title} less {other} is {signed(one.mean)} points of AUROC ({how}, "
                f"paired over {cells}{sure})."
            )
    return said


def results(frame: pd.DataFrame) -> Markup:
    """The paper's tables with our numbers."""
    first, rest = summary(frame), per_domain(frame)
    tables = [sortable(first, "summary")]
    for place, one in enumerate(rest):  # what the first table's notes say is not said again
        notes = tuple(note for note in one.notes if note not in first.notes)
        tables.append(sortable(replace(one, notes=notes), f"domains-{place}"))
    beside = any(key[0] in set(frame["dataset"]) for key in lookup())
    intro = "A click on a head sorts; words in the field above keep the rows that hold all of them."
    paper = " Below a number: what the paper prints in its place, and ours less the paper's." if beside else ""
    return section("The tables", paragraph(intro, paper), *tables)


def differences(frame: pd.DataFrame, reference: str) -> Markup:
    """Paired comparisons and mean ranks."""
    found = contests.ranks(frame, reference)
    drawn = None
    if found:
        left = f" Left out, for want of runs: {words.listed([words.method(name) for name in found.left_out])}."
        caption = (
            f"Mean rank in AUROC (mean of three detectors) over {found.cells} cells. Methods whose bars do not overlap "
            f"differ at 5 % (Nemenyi, {found.critical:.2f}); all alike: p {said_p(found.p)} (Friedman)."
            f"{left if found.left_out else ''}"
        )
        drawn = figure(tag("div", contests.rank_plot(found, reference), class_="panel"), caption)
    return section("Is the difference real?", sortable(comparisons(frame, reference), "paired"), drawn)


def ablations(frame: pd.DataFrame, reference: str) -> Markup | None:
    """Bars of the reference's variants, where there are any."""
    algorithm = reference.partition(",")[0]
    drawn = {}
    for metric, title in (("auroc", "AUROC"), ("aupr", "AUPR")):
        found = contests.ablation(frame, algorithm, metric)
        if found:
            drawn[title] = contests.ablation_bars(found, f"{title}, percent", name=f"ablation-{metric}")
    if not drawn:
        return None
    caption = (
        "Mean over MSP, Energy and DDU, with standard errors over the runs that all variants share (their number is "
        f"behind the dataset). {PAPERS_ABLATION if set(frame['dataset']) & {'pacs', 'colored_mnist'} else ''}"
    )
    return section("What each part does", panels(drawn, caption))


def datasets(frame: pd.DataFrame) -> Markup:
    """What the datasets hold."""
    return section("The datasets", sortable(statistics(frame), "datasets"))


def runs(frame: pd.DataFrame) -> Markup:
    """Every run, and every setting."""
    explained = "One row per run and detector, in percent. records.csv beside this page holds the same."
    return section("All runs", paragraph(explained), all_runs(frame), sortable(settings(frame), "settings"))


def provenance(frame: pd.DataFrame, command: str) -> Markup:
    """What made the runs, how long they took, and how G was judged."""
    each = frame.drop_duplicates("folder")
    counted = Counter(
        (key, re.sub(r"[0-9a-f]{40}", lambda commit: commit[0][:10], str(value)))
        for versions in each["versions"]
        for key, value in versions.items()
    )
    versions = [[key, value, f"{count:,}"] for (key, value), count in sorted(counted.items())]
    hours = each.groupby("method", sort=False)["seconds"].agg(["sum", "median"])
    most = {str(name): _memory(part) for name, part in each.groupby("method", sort=False)["memory"]}
    times = [
        [words.method(str(name)), f"{total / 3600:.2f}", f"{middle:.0f}", most[str(name)]]
        for name, total, middle in hours.itertuples()
    ]
    judged = [found for found in each["translation"] if isinstance(found, dict) and "retention" in found]
    return section(
        "Where this comes from",
        tag("pre", tag("code", command)) if command else None,
        tag(
            "div",
            table(["", "value", "runs"], versions) if versions else None,
            table(["method", "hours", "median seconds a run", "most memory, MiB"], times),
            class_="pair",
        ),
        paragraph(_judged(judged)) if judged else None,
    )


def _memory(used: Iterable[Mapping[str, int]]) -> str:
    """Return the most memory that any of the runs used, by kind."""
    most: dict[str, int] = {}
    for one in used:
        most |= {kind: max(size, most.get(kind, 0)) for kind, size in one.items()}
    return ", ".join(f"{kind} {size:,}" for kind, size in most.items()) or MISSING


def _judged(judged: list[dict[str, float]]) -> str:
    spans = {key: [found[key] for found in judged] for key in ("retention", "diversity")}
    said = words.listed([f"{key} {min(values):.2f} to {max(values):.2f}" for key, values in spans.items()])
    waived = sum(bool(found.get("waived")) for found in judged)
    return f"G on held-out source pictures, {len(judged):,} runs: {said}; its gate was waived in {waived} of them."
