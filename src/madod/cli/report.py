"""`madod report`: a folder of runs as tables, figures and one page; needs no torch, unless it has to read a plan."""

import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from madod.cli.arguments import left_open, parse
from madod.cli.looking import Place, agenda_of
from madod.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

ABOUT = """Make a report of all finished runs below a folder.

DIR/index.html is one page that needs nothing else: the tables beside the paper's, paired differences, figures, every
cell with the pictures that were got most confidently wrong, settings and provenance. DIR/tables holds every table as
text, Markdown, LaTeX and CSV, DIR/figures every figure as SVG, DIR/records.csv every number."""


@dataclass(frozen=True)
class Report:
    """Which runs, and where the report goes."""

    runs: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUNS")]
    """Folder of finished runs, of any depth."""
    out: Annotated[Path, tyro.conf.arg(metavar="DIR")]
    """Folder for the report."""
    plan: Annotated[Path | None, left_open("PLAN")] = None
    """Show only what this plan's selection rule picked, under the plan's names."""
    root: Annotated[Path | None, left_open("DATA")] = None
    """Folder of datasets and weights; needed only with a plan whose sweep has not been started in RUNS."""
    reference: str = "madod"
    """The method that the others are compared with."""
    cell: Annotated[str | None, left_open("DOMAIN/UNKNOWN")] = None
    """The cell that curves and t-SNE are drawn for, as DATASET/DOMAIN/UNKNOWN where several datasets have it; by
    default the first in which most methods left their outputs."""


def main(arguments: Sequence[str]) -> int:
    """Read the records, write tables and page, and say where they are."""
    how = parse(Report, arguments, "report", ABOUT)
    from madod.report.bench_page import report_page
    from madod.report.drawing import standalone
    from madod.report.frame import load_records
    from madod.report.showcase import cell_named
    from madod.report.tables import refuse_method
    from madod.storage import refuse_closed, refuse_file, whole

    refuse_file(how.out)
    refuse_closed(how.out)
    frame = load_records(how.runs, agenda_of(Place(how.plan, how.runs, how.root)) if how.plan else None)
    if frame["test_domain"].isna().all():
        raise InputError(
            f"no run below {how.runs} was tested in an unseen domain (--test-domain), so that there is nothing to "
            "tabulate; what a training found out about itself is in report.html in its folder"
        )
    refuse_method(frame, how.reference)
    if how.cell is not None:
        cell_named(how.cell, frame)  # one that is not there is refused before anything is written
    command = shlex.join(["madod", "report", *arguments])
    write_tables(frame, how.out / "tables", how.reference)
    plain = frame.drop(columns=["hparams", "settings", "versions", "translation", "memory"])
    with whole(how.out / "records.csv") as part:
        plain.to_csv(part, index=False)
    page = report_page(frame, command=command, reference=how.reference, cell=how.cell)
    for name, drawing in standalone(page).items():
        with whole(how.out / "figures" / f"{name}.svg") as part:
            part.write_text(drawing, encoding="utf-8")
    with whole(how.out / "index.html") as part:
        part.write_text(page, encoding="utf-8")
    sys.stdout.write(f"{how.out / 'index.html'}: open it in a browser\n")
    return 0


def write_tables(frame: "pd.DataFrame", folder: Path, reference: str) -> None:
    """Write every table in every form."""
    from madod.report.forms import ENDINGS, written
    from madod.report.tables import SHAPES, tables_of
    from madod.storage import whole

    for shape in SHAPES:
        tables = tables_of(frame, shape, reference=reference)
        for form, ending in ENDINGS.items():
            with whole(folder / f"{shape}.{ending}") as part:
                part.write_text(written(tables, form), encoding="utf-8")
