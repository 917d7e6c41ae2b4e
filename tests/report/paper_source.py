"""Reads the two result tables, with their bold and underlined cells, out of the paper's own LaTeX."""

import re
from collections.abc import Iterator

DATASETS = {"ColoredMNIST": "colored_mnist", "PACS": "pacs", "VLCS": "vlcs", "TerraIncognita": "terra_incognita"}
DOMAINS = {
    "colored_mnist": ("+90%", "+80%", "-90%"),
    "pacs": ("photo", "art_painting", "cartoon", "sketch"),
    "vlcs": ("VOC2007", "LabelMe", "Caltech101", "SUN09"),
    "terra_incognita": ("L38", "L43", "L46", "L100"),
}
"""In the order of the paper's columns."""
METRICS = ("auroc", "aupr", "accuracy")
MARKS = {r"\textbf": "best", r"\underline": "second", None: ""}
DETECTORS = {"scone": "energy"}
"""What scores a method that is not starred and not MADOD; otherwise its own score."""


def source_rows(tex: str) -> Iterator[dict[str, str]]:
    """Yield one row a dataset, domain (empty: the summary) and method: numbers as printed, and their marks."""
    dataset = ""
    for line in tex.splitlines():
        for title, name in DATASETS.items():
            if r"\multirow{12}" in line and title in line:
                dataset = name
        if r"$\pm$" not in line:
            continue
        head, *cells = [part.replace(r"\phantom{0}", "").strip() for part in line.split(r"\\")[0].split("&")]
        if head:  # the summary table has no column for the dataset
            keys = [(name, "") for name in DATASETS.values()]
        else:
            head, *cells = cells
            keys = [(dataset, domain) for domain in DOMAINS[dataset]]
        for index, (name, domain) in enumerate(keys):
            yield {"dataset": name, "domain": domain, **method(head), **numbers(cells[3 * index : 3 * index + 3])}


def method(head: str) -> dict[str, str]:
    """Return the method and what scores it: the best of three after the fact where it is starred."""
    title = head.partition(r"\cite")[0].strip()
    if title.startswith(r"\sysname"):
        return {"algorithm": "madod", "detector": title.rpartition("-")[2].lower()}
    name = title.rstrip("*").lower().replace("-", "_")
    return {"algorithm": name, "detector": "best" if title.endswith("*") else DETECTORS.get(name, "own")}


def numbers(cells: list[str]) -> dict[str, str]:
    """Return value, plus-minus and mark of every metric."""
    found = {}
    for metric, cell in zip(METRICS, cells, strict=True):
        match = re.fullmatch(r"(\\textbf|\\underline)?\{?([\d.]+)\}? \$\\pm\$ ([\d.]+)", cell)
        assert match, cell
        value, error = (f"{float(number):.2f}" for number in match.groups()[1:])
        found |= {metric: value, f"{metric}_error": error.rstrip("0").rstrip("."), f"{metric}_mark": MARKS[match[1]]}
    return found
