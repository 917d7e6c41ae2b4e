"""What results/pacs/main/README.md says of MADOD and ERM beyond the tables, from the records.

    python benchmarks/pacs_numbers.py results/pacs/main > results/pacs/main/numbers.md

Both methods with the same detectors, then by the unknown class and by the unseen domain.
"""

import sys
from pathlib import Path

import pandas as pd

from madod.report.frame import PLACE, load_records
from madod.report.measured import with_rows_beside
from madod.report.significance import compare
from pacs_choice import heading, line

DETECTORS = ("declared", "knn", "vim", "ddu", "msp", "energy")
METRICS = ["auroc", "aupr"]
PAIR = ("madod", "erm")


def runs(home: Path) -> pd.DataFrame:
    """Return the numbers of both methods in percent, a row a run and detector, the declared ones among them."""
    frame = load_records(home)
    rows = with_rows_beside(frame[frame["method"].isin(PAIR)].dropna(subset=["detector"]))
    return rows.assign(**{metric: 100 * rows[metric] for metric in METRICS})


def alike(rows: pd.DataFrame) -> list[str]:
    """Return MADOD less ERM, each with its own declared detectors, or both with the same."""
    names = rows.drop_duplicates([*PLACE, "method"]).set_index([*PLACE, "method"])["declared"]
    lines = heading("detectors", *(f"{metric}: MADOD, ERM, difference (95 % interval)" for metric in METRICS))
    for title, owner in (("each its own", None), ("MADOD's for both", "madod"), ("ERM's for both", "erm")):
        wanted = [names[(*row[:-1], owner or row[-1])] for row in rows[[*PLACE, "method"]].itertuples(index=False)]
        cells = rows[rows["detector"] == wanted].groupby([*PLACE, "method"])[METRICS].mean()
        lines.append(line(title, *(_paired(cells[metric].unstack("method")) for metric in METRICS)))
    return lines


def _paired(wide: pd.DataFrame) -> str:
    found = compare((wide["madod"] - wide["erm"]).to_numpy())
    means = f"{wide['madod'].mean():.1f}, {wide['erm'].mean():.1f}"
    return f"{means}, {found.mean:+.2f} ({found.low:+.2f} to {found.high:+.2f})"


def grouped(rows: pd.DataFrame, by: str) -> list[str]:
    """Return AUROC and AUPR of both methods by the unknown class or the unseen domain."""
    lines = heading(by, "method", *DETECTORS)
    chosen = rows[rows["detector"].isin(DETECTORS)]
    for (group, method), mine in chosen.groupby([by, "method"], sort=True):
        means = mine.groupby("detector")[METRICS].mean()
        lines.append(line(group, method, *(f"{means.auroc[name]:.1f} / {means.aupr[name]:.1f}" for name in DETECTORS)))
    return lines


def report(home: Path) -> str:
    """Return all of it as Markdown."""
    rows = runs(home)
    parts = {
        "MADOD and ERM with the same detectors": alike(rows),
        "AUROC / AUPR by the unknown class": grouped(rows, "ood_classes"),
        "AUROC / AUPR by the unseen domain": grouped(rows, "test_domain"),
    }
    return "\n\n".join(f"### {title}\n\n" + "\n".join(lines) for title, lines in parts.items()) + "\n"


if __name__ == "__main__":
    print(report(Path(sys.argv[1])), end="")
