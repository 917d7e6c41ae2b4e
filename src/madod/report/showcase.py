"""One cell looked at closely, from what its runs left: curves, scores, features, training."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from madod.benchmark.record import VERDICTS, read_history
from madod.errors import InputError, nearest
from madod.report import plots, words
from madod.report.folders import Seen, features, seen
from madod.report.frame import PLACE
from madod.report.html import Markup, join, panels, paragraph, section, tag
from madod.report.order import detectors_in_order, methods_in_order

MOST = 6
"""Methods in one figure."""
CURVES = 3
"""Detectors that have curves."""


class Place(NamedTuple):
    """A cell without its seeds."""

    dataset: str
    test_domain: str
    ood_classes: str

    @property
    def title(self) -> str:
        """The cell for readers."""
        return f"{words.dataset(self.dataset)}, unseen {self.test_domain}, unknown {self.ood_classes or 'none'}"


def rows_of(frame: pd.DataFrame, place: Place) -> pd.DataFrame:
    """Return the rows of one cell."""
    return frame[(frame[PLACE] == list(place)).all(axis=1)]


def folders_of(frame: pd.DataFrame, place: Place) -> dict[str, Path]:
    """Return one folder per method: of its run of the lowest seed that left its verdicts."""
    mine = rows_of(frame, place).drop_duplicates(["method", "seed"]).sort_values("seed")
    found: dict[str, Path] = {}
    for method, folder in zip(mine["method"], mine["folder"], strict=True):
        if method not in found and (Path(folder) / VERDICTS).exists():
            found[method] = Path(folder)
    return {method: found[method] for method in methods_in_order(found)}


def places(frame: pd.DataFrame) -> list[Place]:
    """Return every cell, in the frame's order."""
    tested = frame.dropna(subset=["detector"])
    return list(dict.fromkeys(Place(*row) for row in tested[PLACE].itertuples(index=False)))


def cell_named(wanted: str, frame: pd.DataFrame) -> Place:
    """Return the cell that a person calls DOMAIN/UNKNOWN, its dataset before it or not, or say which there are."""
    named: dict[str, list[Place]] = {}
    for place in places(frame):
        named.setdefault("/".join(place[1:]), []).append(place)
    whole = {"/".join(place): [place] for place in places(frame)}
    found = (named | whole).get(wanted)
    if found is None:
        raise InputError(f"no cell {wanted!r}{nearest(wanted, list(named))}; there are: {', '.join(named) or 'none'}")
    if len(found) > 1:
        several = " or ".join("/".join(place) for place in found)
        raise InputError(f"several datasets have a cell {wanted!r}: name it as {several}")
    return found[0]


def chosen(frame: pd.DataFrame, wanted: str | None) -> Place | None:
    """Return the cell asked for (`cell_named`), or the first with most methods; None where runs left no outputs."""
    if wanted is not None:
        return cell_named(wanted, frame)
    counts = {place: len(folders_of(frame, place)) for place in places(frame)}
    best = max(counts, key=lambda place: counts[place], default=None)
    return best if best is not None and counts[best] else None


def showcase(frame: pd.DataFrame, reference: str, wanted: str | None = None) -> Markup:
    """Return the section: ROC and PR curves, score histograms, t-SNE of two methods, learning curves."""
    place = chosen(frame, wanted)
    folders = folders_of(frame, place) if place else {}
    if place is None or not folders:
        said = "The runs left no outputs beside their records, so there is nothing to draw curves from."
        return section("One cell, looked at closely", paragraph(said))
    cell = rows_of(frame, place)
    picked = {method: folders[method] for method in _few(cell, list(folders), reference)}
    shown = {method: seen(folder) for method, folder in picked.items()}
    why = (
        "as asked for" if wanted else "the first cell in which most methods left their outputs, whatever came out there"
    )
    scored = {name for one in shown.values() for name in one.scores}
    drawn = _first_detectors(scored, set(cell["declared"]))
    intro = f"{place.title}; of every method the run with the lowest seed that left its outputs. Chosen by rule: {why}."
    return section(
        "One cell, looked at closely",
        paragraph(intro, _left_out(cell, list(folders), list(picked), scored, drawn)),
        _curves(shown, drawn),
        _histograms(shown, reference, thresholds(frame, picked)),
        _maps(picked, shown, reference),
        _learning(picked),
    )


def thresholds(frame: pd.DataFrame, folders: Mapping[str, Path]) -> dict[tuple[str, str], float]:
    """Return the thresholds of these runs by method and detector."""
    mine = frame[frame["folder"].isin([str(folder) for folder in folders.values()])].dropna(subset=["threshold"])
    return dict(zip(zip(mine["method"], mine["detector"], strict=True), mine["threshold"], strict=True))


def _few(cell: pd.DataFrame, methods: list[str], reference: str) -> list[str]:
    """Return as many of the methods as a figure holds, in their order.

    The two that are shown side by side come first, then MADOD, then those with the highest AUROC over detectors.
    """
    means = cell.groupby("method")["auroc"].mean().fillna(0.0)
    first = (*two(methods, reference), "madod")
    rank = sorted(methods, key=lambda method: (method not in first, -means[method]))
    return [method for method in methods if method in rank[:MOST]]


def _first_detectors(names: Collection[str], declared: Collection[str]) -> list[str]:
    """Return the detectors that have curves: those declared beforehand, then the paper's, then others."""
    return detectors_in_order(sorted(detectors_in_order(names), key=lambda name: name not in declared)[:CURVES])


def _left_out(
    cell: pd.DataFrame, kept: Sequence[str], picked: Sequence[str], scored: Collection[str], drawn: Sequence[str]
) -> str:
    """Say what of a cell is not drawn, and why; nothing where all is."""
    there = detectors_in_order(cell.loc[cell["method"].isin(picked), "detector"].dropna())
    methods = {
        f"a figure holds {MOST} methods: the two compared below, MADOD, then the highest AUROC here": [
            name for name in kept if name not in picked
        ],
        "left no outputs": [name for name in methods_in_order(cell["method"]) if name not in kept],
    }
    detectors = {
        f"curves are of {CURVES} detectors: those declared beforehand, then the paper's, then others by name": [
            name for name in detectors_in_order(scored) if name not in drawn
        ],
        "of which the runs kept no scores; madod rescore adds them": [name for name in there if name not in scored],
    }
    said = [
        f"{words.listed([words.method(name) for name in names])} ({why})" for why, names in methods.items() if names
    ]
    said += [
        f"the detector{'s' * (len(names) > 1)} {words.listed([words.detector(name).title for name in names])} ({why})"
        for why, names in detectors.items()
        if names
    ]
    return f" Not drawn: {'; '.join(said)}." if said else ""


def _curves(shown: Mapping[str, Seen], names: Sequence[str]) -> Markup | None:
    drawn: dict[str, Markup] = {}
    areas: dict[str, Markup] = {}
    for name in names:
        mine = {words.method(method): one for method, one in shown.items() if name in one.scores}
        unknown = next(iter(mine.values())).y < 0
        if unknown.all() or not unknown.any():
            continue
        scores = {title: np.asarray(one.scores[name]) for title, one in mine.items()}
        title = words.detector(name).title
        drawn[f"{title}: ROC"] = plots.roc(scores, unknown, name=f"roc-{name}")
        areas[f"{title}: precision and recall"] = plots.precision_recall(scores, unknown, name=f"pr-{name}")
    caption = "Every point of a curve is one threshold. Dotted: guessing. Numbers are the areas, in percent."
    return panels(drawn | areas, caption) if drawn else None


def _histograms(shown: Mapping[str, Seen], reference: str, limits: Mapping[tuple[str, str], float]) -> Markup | None:
    pair = two(list(shown), reference)
    drawn = {}
    for index, method in enumerate(pair):
        one = shown[method]
        name = "energy" if "energy" in one.scores else next(iter(one.scores), None)
        if name:
            label = f"{words.detector(name).title.lower()} score (further right: more unknown)"
            score = np.asarray(one.scores[name])
            drawn[f"{words.method(method)}: {words.detector(name).title}"] = plots.energies(
                score, one.y < 0, limits.get((method, name)), label, name=f"energies-{index}"
            )
    caption = (
        "Scores of known and unknown pictures, each as shares of its own number; right of the line: called unknown."
    )
    return panels(drawn, caption) if drawn else None


def _maps(folders: Mapping[str, Path], shown: Mapping[str, Seen], reference: str) -> Markup:
    drawn = {}
    for index, method in enumerate(two(list(shown), reference)):
        found = features(folders[method])
        if found:
            drawn[words.method(method)] = plots.tsne(*found, shown[method].classes, name=f"tsne-{index}")
    if not drawn:
        return paragraph("The runs kept no features, so there is no map of them.", class_="quiet")
    caption = (
        f"Up to {plots.MOST_POINTS} pictures laid out by t-SNE so that neighbours among the features are neighbours "
        "here; colour and shape are the true class, stars are the unknown class."
    )
    return join(tag("h3", "Where the networks put the pictures"), panels(drawn, caption))


def _learning(folders: Mapping[str, Path]) -> Markup | None:
    rows = {method: read_history(folder) for method, folder in folders.items()}
    drawn = {
        words.method(method): plots.learning_curves(found, name=f"learning-{index}")
        for index, (method, found) in enumerate(rows.items())
        if found
    }
    return panels(drawn, "Training, step by step.") if drawn else None


def two(methods: list[str], reference: str) -> list[str]:
    """Return the two methods that are shown side by side: MBDG, ERM or the first other one, and the reference."""
    mine = next((method for method in methods if reference in (method, method.partition(",")[0])), None)
    others = [method for method in ("mbdg", "erm", *methods) if method in methods and method != mine]
    return [*others[:1], *([mine] if mine else others[1:2])]
