"""Means over runs: from one row per run and detector to one number per method, detector, dataset, domain and metric."""

from collections.abc import Sequence

import pandas as pd

from madod.detectors import THREE
from madod.report.declared import declared_rows
from madod.report.frame import CELL, accuracy_alone
from madod.report.order import ALONE, standing_beside
from madod.report.paper import METRICS

KEYS = ["dataset", "domain", "method", "detector", "metric"]


def measured(frame: pd.DataFrame, *, by_domain: bool = False, detectors: Sequence[str] = ()) -> pd.DataFrame:
    """Return value and standard error in percent, and the number of runs, by `KEYS`; domain is empty for the summary.

    Beside every detector by itself stand "declared", the one chosen beforehand, where one was; "mean", the mean over
    the paper's three run by run; and "best", the best of the three after the fact, metric by metric, as in the paper's
    starred rows. A run without unknowns has its accuracy, under `ALONE`. Of many detectors some can be named; what
    was declared stands beside them whichever it was.
    """
    tested = pd.concat([with_rows_beside(frame.dropna(subset=["detector"])), accuracy_alone(frame)], ignore_index=True)
    tested = tested.assign(domain=tested["test_domain"] if by_domain else "")
    long = tested.melt([*KEYS[:-1]], list(METRICS), "metric").dropna(subset="value")
    found = long.groupby(KEYS, sort=False)["value"].agg(["mean", "sem", "size"]).reset_index()
    found = found.rename(columns={"mean": "value", "sem": "error", "size": "runs"})
    found[["value", "error"]] *= 100
    found = pd.concat([found, best_of_three(found)], ignore_index=True)
    return found[found["detector"].isin([ALONE, *detectors, *standing_beside(detectors)])] if detectors else found


def with_rows_beside(tested: pd.DataFrame) -> pd.DataFrame:
    """Return the rows, and beside them those of the mean of three and of the detector declared beforehand."""
    return pd.concat([tested, mean_of_three(tested), declared_rows(tested)], ignore_index=True)


def mean_of_three(tested: pd.DataFrame) -> pd.DataFrame:
    """Return one row per run that has all three of the paper's detectors, with the mean of their measures."""
    three = tested[tested["detector"].isin(THREE)]
    numbers = ["accuracy", "auroc", "aupr", "base_rate"]
    grouped = three.groupby([*CELL, "method", "id"], sort=False, dropna=False)
    means = grouped[numbers].mean()[grouped.size() == len(THREE)].reset_index()
    return means.assign(detector="mean")


def best_of_three(found: pd.DataFrame) -> pd.DataFrame:
    """Return, where all three of the paper's detectors are there, the largest of their means."""
    three = found[found["detector"].isin(THREE)]
    keys = [key for key in KEYS if key != "detector"]
    grouped = three.groupby(keys, sort=False)["value"]
    best = three.loc[grouped.idxmax()[grouped.size() == len(THREE)]]
    return best.assign(detector="best")


def base_rates(frame: pd.DataFrame, *, by_domain: bool = False) -> dict[tuple[str, str], tuple[float, float, float]]:
    """Return the mean, smallest and largest share of unknown images over cells, in percent, by dataset and domain."""
    cells = frame.dropna(subset=["base_rate"]).drop_duplicates(CELL)
    cells = cells.assign(domain=cells["test_domain"] if by_domain else "")
    rates = cells.groupby(["dataset", "domain"], sort=False)["base_rate"].agg(["mean", "min", "max"])
    return {key: (100 * mean, 100 * low, 100 * high) for key, mean, low, high in rates.itertuples()}
