"""Compare two rules for what a cell of PACS takes from its folds, by folds and seeds that they were not shown.

    python benchmarks/pacs_rules.py results/pacs/choice

Each rule picks a setting and a detector for every cell from part of its rows (`pacs_choice.py`), and is measured by
the accuracy and the AUROC that its pick has on the rest: one of the three folds is left out in turn, or one of the two
seeds, or one seed of two folds is shown and the other seed of the third left out. Settings are those of MADOD that
were run with both seeds.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import product
from pathlib import Path
from statistics import fmean

from pacs_choice import CELLS, DETECTORS, PAIRS, SETTINGS, Cell, Row, best, heading, line, mean, rows_of

Picked = tuple[str, str]
Rule = Callable[[Sequence[Row], Cell], Picked]
Parts = Iterator[tuple[list[Row], list[Row]]]


def at_once(rows: Sequence[Row], cell: Cell) -> Picked:
    """Take the pair of setting and detector with the highest accuracy plus AUROC."""
    groups = {name: [row for row in rows if row["setting"] == name] for name in sorted({r["setting"] for r in rows})}

    def worth(pick: Picked) -> float:
        group = groups[pick[0]]
        return mean(group, "accuracy") + 100 * fmean(cell.auroc(row, pick[1]) for row in group)

    return max(product(groups, DETECTORS), key=worth)


def in_turn(rows: Sequence[Row], cell: Cell) -> Picked:
    """Take the setting by all detectors, then a detector for it, as `results/pacs/choice` does."""
    pick = best(rows, cell, "madod")
    assert pick
    return pick.setting, pick.detector


RULES: dict[str, Rule] = {"setting and detector at once": at_once, "setting by all detectors, then a detector": in_turn}


def without_a_fold(rows: Sequence[Row]) -> Parts:
    """Yield what is shown and what is left out, a fold at a time."""
    for held in sorted({row["held"] for row in rows}):
        yield [row for row in rows if row["held"] != held], [row for row in rows if row["held"] == held]


def without_a_seed(rows: Sequence[Row]) -> Parts:
    """Do so with a seed at a time."""
    for seed in (0, 1):
        yield [row for row in rows if row["seed"] != seed], [row for row in rows if row["seed"] == seed]


def without_both(rows: Sequence[Row]) -> Parts:
    """Show one seed of two folds, and leave the other seed of the third one out."""
    for (shown, left), seed in product(list(without_a_fold(rows)), (0, 1)):
        yield [row for row in shown if row["seed"] != seed], [row for row in left if row["seed"] == seed]


WAYS = {"a fold": without_a_fold, "a seed": without_a_seed, "a fold and a seed": without_both}


def twice_run(rows: Iterable[Row]) -> list[Row]:
    """Return the rows of MADOD's settings that were measured on all unknown classes with both seeds."""
    full = [r for r in rows if "others" in r and r["average"] and SETTINGS[r["setting"]].algorithm == "madod"]
    return [row for row in full if {other["seed"] for other in full if other["setting"] == row["setting"]} == {0, 1}]


def outcome(rows: Sequence[Row], rule: Rule, parts: Callable[[Sequence[Row]], Parts]) -> tuple[float, float]:
    """Return accuracy and AUROC of what a rule picks, on what it was not shown, over all cells."""
    right, found = [], []
    for cell in CELLS:
        for shown, left in parts([row for row in rows if row["unseen"] == cell.unseen]):
            setting, detector = rule(shown, cell)
            for row in left:
                if row["setting"] == setting:
                    right.append(row["accuracy"])
                    found.append(cell.auroc(row, detector))
    return 100 * fmean(right), 100 * fmean(found)


def table(rows: Iterable[Row]) -> str:
    """Return both rules side by side."""
    rows = twice_run(rows)
    lines = heading("left out", "rule", "accuracy", "AUROC")
    for (left, parts), (name, rule) in product(WAYS.items(), RULES.items()):
        accuracy, auroc = outcome(rows, rule, parts)
        lines.append(line(left, name, f"{accuracy:.1f}", f"{auroc:.1f}"))
    return "\n".join(lines)


if __name__ == "__main__":
    home = Path(sys.argv[1])
    print(table(row for pair in PAIRS for row in rows_of(home / f"{'-'.join(pair)}.json")))
