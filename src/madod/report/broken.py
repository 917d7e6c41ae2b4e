"""Runs whose training broke, as the held-out pictures of their own sources tell."""

import pandas as pd

from madod.report import words

FAR = 0.2
"""So far below the median of runs like it a run's held-out accuracy is taken for that of a broken training."""
NAMED = 3
"""Broken runs that a note names."""


def broken(frame: pd.DataFrame) -> list[str]:
    """Return a note for every method and dataset with runs that learnt far less of their own sources than others did.

    A run is held against those of its method with the same unseen domain, whose sources are the same. Means hold it all
    the same: a method that breaks now and then is no better for its other runs.
    """
    runs = frame.drop_duplicates(["folder", "method"]).dropna(subset=["val_accuracy"])
    alike = runs.groupby(["dataset", "method", "test_domain"], dropna=False)["val_accuracy"]
    runs = runs.assign(median=alike.transform("median"))
    notes = []
    for (dataset, method), mine in runs.groupby(["dataset", "method"], sort=False):
        low = mine[mine["val_accuracy"] < mine["median"] - FAR]
        told = zip(low["id"][:NAMED], low["val_accuracy"][:NAMED], low["median"][:NAMED], strict=True)
        named = [f"{run} {100 * accuracy:.0f} %, usually {100 * usual:.0f} %" for run, accuracy, usual in told]
        named += [f"and {len(low) - NAMED} more"] if len(low) > NAMED else []
        if named:
            name = f"{words.method(str(method))} on {words.dataset(str(dataset))}"
            notes.append(
                f"{name}: training seems to have broken in {len(low)} of {len(mine)} runs, which count all the same "
                f"(accuracy on held-out pictures of the sources: {'; '.join(named)})"
            )
    return notes
