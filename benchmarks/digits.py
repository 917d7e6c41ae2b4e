"""Measure methods on the embedded digits: 4 unseen domains x 4 unknown digits x 3 seeds, one record a run.

    python benchmarks/digits.py --out results/digits

Runs whose record exists are not run again, so that it can be stopped and started; the table is made from the records
that there are.
"""

import argparse
import multiprocessing
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean
from typing import Any

from madod.benchmark.record import RunRecord, RunSpec, load_record
from madod.report.significance import compare

DOMAINS = ("ink", "chalk", "neon", "outline")
UNKNOWN = ("2", "4", "5", "7")  # as on ColoredMNIST; fixed before any run
SEEDS = (0, 1, 2)
DETECTORS = ("msp", "energy", "ddu")
COLUMNS = (*DETECTORS, "mean of 3", "own")


def specs(algorithms: list[str], domains: tuple[str, ...], unknown_digits: tuple[str, ...]) -> Iterator[RunSpec]:
    from madod.benchmark.settings import hparams

    for seed in SEEDS:
        for unknown in unknown_digits:
            for domain in domains:
                for name in algorithms:
                    algorithm, _, steps = name.partition(":")
                    yield RunSpec(
                        "digits",
                        domain,
                        (unknown,),
                        algorithm,
                        seed,
                        steps=int(steps or RunSpec.steps),
                        hparams=hparams(algorithm),
                    )


def one(job: tuple[RunSpec, Path, Path, str]) -> str:
    import torch

    from madod.benchmark.resources import Resources
    from madod.benchmark.run import run
    from madod.data.digits import Digits

    spec, out, cache, device = job
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as scratch:
        outcome = run(spec, Digits(), out=Path(scratch), resources=Resources(cache, torch.device(device)))
        outcome.record.save(out / spec.id)
    return spec.id


def label(record: RunRecord) -> str:
    """Return what tables call a run's method."""
    spec = record.spec
    return spec.algorithm + ("" if spec.steps == RunSpec.steps else f", {spec.steps} steps")


PAIRED = ("accuracy", *(f"{metric}, {name}" for metric in ("AUROC", "AUPR") for name in (*DETECTORS, "mean of 3")))


def less_erm(records: list[RunRecord], method: str) -> list[list[float]]:
    """Return by how many points a method is above ERM in the numbers of `PAIRED`, cell by cell, its seeds averaged."""

    def numbers(found: dict[str, Any]) -> list[float]:
        by_metric = [[found[name][metric] for name in DETECTORS] for metric in ("auroc", "aupr")]
        return [found["accuracy"], *(x for values in by_metric for x in (*values, fmean(values)))]

    by_run = {
        (label(record), record.spec.test_domain, record.spec.ood_classes, record.spec.seed): numbers(record.metrics)
        for record in records
    }
    cells: dict[tuple[str | None, tuple[str, ...]], list[list[float]]] = {}
    for (name, *cell, seed), ours in by_run.items():
        if name == method and (theirs := by_run.get(("erm", *cell, seed))):
            apart = [100 * (mine - its) for mine, its in zip(ours, theirs, strict=True)]
            cells.setdefault(tuple(cell), []).append(apart)
    return [[fmean(column) for column in zip(*seeds, strict=True)] for seeds in cells.values()]


def table(records: list[RunRecord]) -> str:
    """Return the mean and its standard error over runs, in percent, one line a method."""
    import numpy as np

    def cell(values: list[float]) -> str:
        percent = 100 * np.array(values)
        return f"{percent.mean():.1f} ± {percent.std(ddof=1) / len(percent) ** 0.5:.1f}"

    def scores(found: dict[str, Any], metric: str) -> dict[str, float]:
        by_name = {name: found[name][metric] for name in (*DETECTORS, "own") if name in found}
        return by_name | {"mean of 3": sum(by_name[name] for name in DETECTORS) / 3}

    columns = ["accuracy", *(f"{name} {metric}" for metric in ("AUROC", "AUPR") for name in COLUMNS)]
    lines = ["| method | runs | " + " | ".join(columns) + " |", "|---" * (len(columns) + 2) + "|"]
    for method in sorted({label(record) for record in records}):
        metrics = [record.metrics for record in records if label(record) == method]
        row = [cell([found["accuracy"] for found in metrics])]
        for metric in ("auroc", "aupr"):
            rows = [scores(found, metric) for found in metrics]
            row += [cell([each[name] for each in rows]) if name in rows[0] else "none" for name in COLUMNS]
        lines.append(f"| {method} | {len(metrics)} | " + " | ".join(row) + " |")
    if cells := less_erm(records, "madod"):
        how = f"paired over {len(cells)} cells, seeds averaged, with Student's 95 % interval over cells"
        lines += ["", f"MADOD less ERM, {how if len(cells) > 1 else 'the one cell, seeds averaged'}:", ""]
        for name, column in zip(PAIRED, zip(*cells, strict=True), strict=True):
            found = compare(column)
            interval = f" ({found.low:+.1f} to {found.high:+.1f})" if len(cells) > 1 else ""
            lines.append(f"- {name}: {found.mean:+.1f}{interval}")
    rate = 100 * np.mean([record.metrics["energy"]["base_rate"] for record in records])
    return (
        "\n".join(lines) + f"\n\nGuessing has an AUROC of 50 and an AUPR of {rate:.1f} (the base rate of unknowns).\n"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder of records and table")
    parser.add_argument("--algorithms", nargs="+", default=["erm", "madod"], help="names, or name:steps")
    parser.add_argument("--domains", nargs="+", default=DOMAINS, help="unseen domains")
    parser.add_argument("--unknown", nargs="+", default=UNKNOWN, help="unknown digits")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "madod-digits")
    how = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    cells = list(specs(how.algorithms, how.domains, how.unknown))
    wanted = [spec for spec in cells if not (how.out / spec.id / "record.json").exists()]
    jobs = [(spec, how.out, how.cache, how.device) for spec in wanted]
    with multiprocessing.get_context("spawn").Pool(how.workers) as pool:
        for number, done in enumerate(pool.imap_unordered(one, jobs), 1):
            print(f"{number} of {len(jobs)}: {done}", flush=True)
    records = [load_record(how.out / spec.id) for spec in cells]
    text = table(records)
    how.out.joinpath("table.md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
