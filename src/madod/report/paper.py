"""What the paper printed: its two result tables with their marks, its dataset statistics, and where they mislead."""

from functools import cache
from importlib.resources import files
from io import StringIO
from typing import NamedTuple

import pandas as pd

from madod.detectors import THREE

METRICS = ("auroc", "aupr", "accuracy")
"""In the order of the paper's columns."""
KEYS = ["dataset", "domain", "algorithm", "detector"]


class Statistics(NamedTuple):
    """Domains, images and classes of a dataset."""

    domains: int
    images: int
    classes: int


PRINTED = {
    "colored_mnist": Statistics(3, 70_000, 2),
    "pacs": Statistics(4, 9_991, 7),
    "vlcs": Statistics(4, 10_729, 5),
    "terra_incognita": Statistics(4, 16_110, 10),
}
"""The paper's Table I."""


class Caveat(NamedTuple):
    """Numbers of the paper that are not like for like, with ours or with each other, and why."""

    sign: str
    dataset: str
    metrics: tuple[str, ...]
    why: str
    summary_only: bool = False
    rows: frozenset[tuple[str, str]] | None = None
    """Algorithm and detector; None is every row."""


CAVEATS = (
    Caveat(
        "†",
        "colored_mnist",
        ("auroc", "aupr"),
        "the paper's ColoredMNIST rows mix base rates of about 10 % and about 30 %, so they are like for like neither "
        "with each other nor with ours",
    ),
    Caveat(
        "‡",
        "colored_mnist",
        ("accuracy",),
        "the paper's summary is about 0.1 above the mean of its own per-domain table",
        summary_only=True,
        rows=frozenset(
            [(name, "best") for name in ("erm", "irm", "mixup", "mbdg")] + [("madod", name) for name in THREE]
        ),
    ),
    Caveat(
        "§",
        "vlcs",
        ("auroc",),
        "the paper's summary is 5.00 above the mean of its own per-domain table",
        summary_only=True,
        rows=frozenset({("madod", "msp"), ("madod", "energy")}),
    ),
    Caveat(
        "¶",
        "terra_incognita",
        METRICS,
        "the paper counts 16,110 images of TerraIncognita; as downloaded it has 24,788 or 24,330",
    ),
)
UNKNOWN_CLASSES = (
    "the paper does not say which classes were unknown, so its base rates, and with them its AUPR, can differ "
    "everywhere"
)


@cache
def printed() -> pd.DataFrame:
    """Return the paper's numbers: one row per dataset, domain (empty: the summary), algorithm, detector and metric.

    Values and what stands after ± are in percent; `mark` is best (bold), second (underlined) or empty. The detector of
    a starred row is "best": the best of three after the fact.
    """
    text = files("madod.report").joinpath("paper.csv").read_text(encoding="utf-8")
    wide = pd.read_csv(StringIO(text), keep_default_na=False)
    parts = [
        wide[KEYS].assign(
            metric=metric,
            value=wide[metric],
            error=wide[f"{metric}_error"],
            mark=wide[f"{metric}_mark"],
            order=wide.index,
        )
        for metric in METRICS
    ]
    return pd.concat(parts).sort_values("order", kind="stable", ignore_index=True).drop(columns="order")


@cache
def lookup() -> dict[tuple[str, str, str, str, str], tuple[float, float]]:
    """Return value and plus-minus by dataset, domain, algorithm, detector and metric."""
    table = printed()
    keys = zip(*(table[key] for key in (*KEYS, "metric")), strict=True)
    return dict(zip(keys, zip(table["value"], table["error"], strict=True), strict=True))


def caveat(dataset: str, domain: str, algorithm: str, detector: str, metric: str) -> Caveat | None:
    """Return why a number of the paper is not like for like, where it is not."""
    for one in CAVEATS:
        told = one.dataset == dataset and metric in one.metrics and not (one.summary_only and domain)
        if told and (one.rows is None or (algorithm, detector) in one.rows):
            return one
    return None
