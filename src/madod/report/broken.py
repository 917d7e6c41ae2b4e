"""Runs whose training broke, as the held-out pictures of their own sources tell."""

import pandas as pd

from madod.report import words

FAR = 0.2
"""So far below its method's median a run's held-out accuracy is taken for that of a broken training."""
NAMED = 3
"""Broken runs that a note names."""


def broken(frame: pd.DataFrame) -> list[str]:
    """Return a note for every method and dataset with runs that learnt far less of their own sources than the others.

    Means hold these runs all the same: a method that breaks now and then is no better for its other runs.
    """
    runs = frame.drop_duplicates(["folder", "method"]).dropna(subset=["val_accuracy"])
    notes = []
    for (dataset, method), mine in runs.groupby(["dataset", "method"], sort=False):
        median = mine["val_accuracy"].median()
        low = mine[mine["val_accuracy"] < median - FAR]
        told = zip(low["val_accuracy"][:NAMED], low["id"][:NAMED], strict=True)
        named = [f"{100 * accuracy:.0f} % in {run}" for accuracy, run in told]
        named += [f"and {len(low) - NAMED} more"] if len(low) > NAMED else []
        if named:
            name = f"{words.method(str(method))} on {words.dataset(str(dataset))}"
            notes.append(
                f"{name}: training broke in {len(low)} of {len(mine)} runs, which count all the same (accuracy on "
                f"held-out pictures of the sources: median {100 * median:.0f} %, {', '.join(named)})"
            )
    return notes
