"""Cell by cell: the numbers of every method, and the pictures that it was most confidently wrong about."""

from pathlib import Path

import numpy as np
import pandas as pd

from madod.report import words
from madod.report.folders import Seen, seen
from madod.report.html import Markup, join, paragraph, section, table, tag
from madod.report.order import detectors_in_order, methods_in_order
from madod.report.pictures import jpeg_uri
from madod.report.results import marked
from madod.report.showcase import Place, folders_of, places, rows_of

BUDGET = 960
"""Pictures on a page: with more cells, fewer of each."""
FEWEST, MOST = 4, 12
"""Pictures of a kind that a method shows: with fewer than so many each, some methods show none; a run keeps no more."""


def cells(frame: pd.DataFrame, reference: str) -> Markup:
    """Return a part a cell that opens on a click."""
    there = places(frame)
    folders = {place: folders_of(frame, place) for place in there}
    each, said = _ration(folders, reference)
    parts = [_cell(frame, place, {m: f for m, f in folders[place].items() if m in each}, each) for place in there]
    intro = (
        "Every unseen domain with every unknown class: means over seeds, in percent, the best of a column marked. "
        "Below them, of the run with the lowest seed, the pictures about which it was most sure and wrong. " + said
    )
    return section("Cell by cell", paragraph(intro), *parts)


def _ration(folders: dict[Place, dict[str, Path]], reference: str) -> tuple[dict[str, int], str]:
    """Return how many pictures of either kind each method shows, and what the reader is told about it."""
    methods = methods_in_order({method for found in folders.values() for method in found})
    strips = sum(len(found) for found in folders.values())
    if not strips:
        return {}, "These runs kept no pictures."
    share = min(MOST, BUDGET // (2 * strips))
    if share >= FEWEST:
        return dict.fromkeys(methods, share), f"Up to {share} of known and {share} of unknown pictures are shown."
    kept = [method for method in methods if method in (reference, "erm")] or methods[:1]
    strips = sum(method in found for found in folders.values() for method in kept)
    share = max(1, min(MOST, BUDGET // (2 * max(1, strips))))
    names = words.listed([words.method(method) for method in kept])
    said = f"To keep the page small, pictures are shown for {names} only, {share} of a kind."
    return dict.fromkeys(kept, share), said


def _cell(frame: pd.DataFrame, place: Place, folders: dict[str, Path], each: dict[str, int]) -> Markup:
    mine = rows_of(frame, place).dropna(subset=["detector"])
    numbers = mine.groupby(["method", "detector"])[["accuracy", "auroc", "aupr", "fpr95", "oscr"]].mean()
    keys = [
        (method, detector)
        for method in methods_in_order(numbers.index.get_level_values("method"))
        for detector in detectors_in_order(numbers.loc[method].index)
    ]
    higher = {"accuracy": True, "auroc": True, "aupr": True, "fpr95": False, "oscr": True}
    columns = [marked(numbers[name].loc[keys].tolist(), up) for name, up in higher.items()]
    rows = [[f"{words.method(m)}, {words.detector(d).title}", *(column[line] for column in columns)]
            for line, (m, d) in enumerate(keys)]  # fmt: skip
    rate = 100 * float(mine["base_rate"].mean())
    heads = ["method and detector", "accuracy", "AUROC", "AUPR", "FPR95 ↓", "OSCR"]
    seeds = mine["seed"].nunique()
    caption = f"Means over {seeds} seed{'s' * (seeds > 1)}; base rate {rate:.1f} %, the AUPR of guessing."
    strips = [_strip(method, seen(folder), each[method]) for method, folder in folders.items()]
    return tag("details", tag("summary", place.title), table(heads, rows, caption), *strips, class_="cell")


def _strip(method: str, found: Seen, most: int) -> Markup | None:
    """Return a method's mistakes, the surest first: known pictures with a wrong label, then unknown ones."""
    unknown = np.asarray(found.y)[found.shown] < 0
    kinds = {"known, with a wrong label": ~unknown, "unknown, taken for known": unknown}
    parts: list[object] = []
    for kind, which in kinds.items():
        tiles = [_tile(found, int(place)) for place in np.flatnonzero(which)[:most]]
        if tiles:
            parts += [tag("h3", f"{words.method(method)}: {kind}"), tag("ol", *tiles, class_="tiles")]
    if not len(found.shown):
        return paragraph(f"{words.method(method)}: this run kept no pictures.", class_="quiet")
    return join(*parts)


def _tile(found: Seen, place: int) -> Markup:
    image = int(found.shown[place])
    said, sure = found.classes[int(found.predicted[image])], f"{100 * float(found.confidence[image]):.0f} %"
    truth = found.truth[place]
    return tag(
        "li",
        tag("img", src=jpeg_uri(found.pictures[place]), alt=f"is {truth}, called {said}, {sure} sure"),
        tag("strong", f"✗ said {said}"),
        tag("span", f"is {truth}{' ★' if found.y[image] < 0 else ''}"),
        tag("span", f"{sure} sure", class_="quiet"),
        class_="wrong",
    )
