"""The page that a training ends with: what was seen, how it does where it has not looked, and what it would flag."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from madod.report import words
from madod.report.html import Markup, document, facts, figure, paragraph, section, table, tag
from madod.report.plots import energies, learning_curves
from madod.report.table import MISSING

MOST_CLASSES = 12
"""Classes up to which all confusions are shown as a square."""
MOST_PAIRS = 12
"""Pairs of classes that are shown otherwise."""


class Unseen(NamedTuple):
    """How a training does in a domain that it did not see; shares, None where there is nothing to measure."""

    domain: str
    pictures: int
    accuracy: float | None
    hidden: str
    auroc: float | None
    failure: str = ""


class Flagging(NamedTuple):
    """What is called unknown at a threshold; shares, None where there is nothing to measure."""

    keep: float
    threshold: float
    held: float
    unseen: float | None
    hidden: float | None
    strangers: float | None


class Training(NamedTuple):
    """All that the page says."""

    name: str
    survey: Sequence[str]
    reasons: Sequence[str]
    warnings: Sequence[str]
    """What not to rely on, a sentence each."""
    check: str
    """short, full or none."""
    classes: Sequence[str]
    domains: Sequence[str]
    pictures: int
    accuracy: float
    confusion: NDArray[np.int64]
    """Held-out pictures of every class (rows) by label (columns)."""
    unseen: Sequence[Unseen]
    mistaken: Sequence[tuple[str, str, int]]
    """How often a class was taken for another in unseen domains, most often first."""
    detector: str
    threshold: float
    flagging: Sequence[Flagging]
    held_scores: NDArray[np.floating]
    stranger_scores: NDArray[np.floating]
    stranger_folder: str
    history: Sequence[Mapping[str, float]]
    seconds: Mapping[str, float]
    versions: Mapping[str, str]


def train_page(training: Training) -> Markup:
    """Return the page, whole."""
    held = int(training.confusion.sum())
    return document(
        f"What was learned from {training.name}",
        tag("h1", f"What was learned from {training.name}"),
        facts(
            {
                "pictures trained on": f"{training.pictures:,}",
                "domains": len(training.domains),
                "classes": len(training.classes),
                f"right on {held:,} held-out pictures": _percent(training.accuracy),
                "detector": words.detector(training.detector).title,
                "threshold": f"{training.threshold:.4g}",
            }
        ),
        *(paragraph(tag("b", "Warning"), f": {sentence}.") for sentence in training.warnings),
        _data(training),
        _unseen(training),
        _confused(training),
        _flagged(training),
        _made(training),
    )


def _data(training: Training) -> Markup | None:
    if not training.survey:
        return None
    return section("What is in the folder", tag("ul", *(tag("li", line) for line in training.survey)))


def _unseen(training: Training) -> Markup:
    title = "Where it has not looked"
    if not training.unseen:
        said = (
            "No domain was held out, so nothing here says how it does elsewhere: pictures held out of the training "
            "domains are easier. Train with --check short, or with --test-domain."
        )
        return section(title, paragraph(said))
    rows = [
        [each.domain, f"not checked: {each.failure}", MISSING, MISSING, MISSING]
        if each.failure
        else [each.domain, f"{each.pictures:,}", _percent(each.accuracy), each.hidden or MISSING, _percent(each.auroc)]
        for each in training.unseen
    ]
    how = {
        "short": "Each row is a training of its own that never saw that domain, for a quarter of the steps and with "
        "plain augmentation in place of G; the model itself has seen all domains and was trained longer. ",
        "full": "Each row is a training of its own, as long as the model's, that never saw that domain. ",
    }.get(training.check, "The model never saw this domain. ")
    detector = words.detector(training.detector).title
    caption = (
        f"{how}Right: share of pictures of classes that it knew. Hidden class: one that it was not shown either; AUROC "
        f"is the chance that such a picture scores above one of a known class ({detector}); 50 % is a coin toss."
    )
    heads = ["domain held out", "pictures", "right", "hidden class", "AUROC"]
    return section(title, table(heads, rows, caption))


def _confused(training: Training) -> Markup:
    classes, counts = training.classes, training.confusion
    if len(classes) <= MOST_CLASSES:
        rows = [
            [name, *(tag("b", f"{n:,}") if a == b else f"{n:,}" if n else MISSING for b, n in enumerate(counts[a]))]
            for a, name in enumerate(classes)
        ]
        square: Markup | None = table(["is \\ taken for", *classes], rows, "Held-out pictures of the training domains.")
    else:
        pairs = [(int(counts[a, b]), a, b) for a in range(len(classes)) for b in range(len(classes)) if a != b]
        worst = [(classes[a], classes[b], n) for n, a, b in sorted(pairs, reverse=True)[:MOST_PAIRS] if n]
        square = _pairs(worst, "The commonest mistakes on held-out pictures of the training domains.")
    elsewhere = _pairs(training.mistaken[:MOST_PAIRS], "The commonest mistakes in domains held out of a training.")
    return section("Which classes it confuses", tag("div", square, elsewhere, class_="pair"))


def _pairs(pairs: Sequence[tuple[str, str, int]], caption: str) -> Markup | None:
    if not pairs:
        return None
    return table(["is", "taken for", "pictures"], [[true, taken, f"{n:,}"] for true, taken, n in pairs], caption)


def _flagged(training: Training) -> Markup:
    rows = [
        [
            tag("b", f"{each.keep:.0%}") if each.threshold == training.threshold else f"{each.keep:.0%}",
            f"{each.threshold:.4g}",
            *(_percent(value) for value in (each.held, each.unseen, each.hidden, each.strangers)),
        ]
        for each in training.flagging
    ]
    heads = ["known kept", "threshold", "held-out", "unseen domain", "hidden class", "your unknowns"]
    caption = (
        "Share of pictures called unknown when the threshold keeps so many of the held-out pictures. Held-out, unseen "
        "domain: known classes, so few should be flagged; the threshold promises it of held-out pictures alone. "
        "Hidden class, your unknowns: all should be. Bold: the threshold of the model; madod predict --keep and "
        "set_threshold(keep=...) take another."
    )
    scores = np.concatenate([training.held_scores, training.stranger_scores])
    unknown = np.arange(len(scores)) >= len(training.held_scores)
    shown = f"{words.detector(training.detector).title} (right: more unknown)"
    drawn = energies(scores, unknown, training.threshold, shown, "held")
    beside = f" and of {training.stranger_folder} (unknown)" if len(training.stranger_scores) else ""
    return section(
        "What would be flagged",
        table(heads, rows, caption),
        figure(drawn, f"Scores of held-out pictures (known){beside}."),
    )


def _made(training: Training) -> Markup:
    seconds = [[stage, f"{value:,.1f}"] for stage, value in training.seconds.items()]
    return section(
        "How it was made",
        tag("ul", *(tag("li", reason) for reason in training.reasons)) if training.reasons else None,
        figure(learning_curves(training.history), "Training, step by step.") if training.history else None,
        tag(
            "div",
            table(["stage", "seconds"], seconds),
            table(["software", "version"], list(training.versions.items())),
            class_="pair",
        ),
    )


def _percent(value: float | None) -> str:
    return MISSING if value is None else f"{100 * value:.1f} %"
