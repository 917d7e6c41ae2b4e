"""`madod predict`: pictures in, verdicts out."""

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from madod.cli.arguments import parse
from madod.errors import InputError


@dataclass(frozen=True)
class Predict:
    """What to label, with which model, and how to print it."""

    model: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="MODEL")]
    """Folder of a trained model, as `madod train --out` makes it."""
    paths: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="PATH")]
    """Picture files, or folders that are searched for pictures at any depth."""
    format: Literal["table", "csv", "json"] = "table"
    """table for people, csv, or json: one object a line."""


ABOUT = """Label pictures with a trained model.

The label is always the nearest known class; "unknown" says whether the score is above the model's threshold, so
that the picture probably shows none of the known classes. Exit code: 0 all done, 1 some pictures could not be read
(they are listed at the end, the rest is done), 2 refused."""
COLUMNS = ("path", "label", "confidence", "score", "threshold", "unknown")


def main(arguments: Sequence[str]) -> int:
    """Print one line a picture as it is done, then what could not be read."""
    how = parse(Predict, arguments, "predict", ABOUT)
    if not how.paths:
        raise InputError("no pictures named: give files or folders after the model, as in madod predict MODEL photos/")
    files = list(pictures(how.paths))
    from madod.data.images import BadImage
    from madod.predict import load

    model = load(how.model)
    bad = []
    if how.format != "json":
        sys.stdout.write(line(COLUMNS, how.format))
    for answer in model.predict_iter(files):
        if isinstance(answer, BadImage):
            bad.append(answer)
        elif how.format == "json":
            sys.stdout.write(json.dumps(answer._asdict(), ensure_ascii=False) + "\n")
        else:
            sys.stdout.write(line(rounded(answer), how.format))
    sys.stdout.flush()
    for each in bad:
        sys.stderr.write(f"madod: {each}\n")
    if bad:
        sys.stderr.write(f"madod: {len(bad)} of {len(files)} pictures could not be read; the others are done\n")
    return 1 if bad else 0


def pictures(paths: Sequence[Path]) -> Iterator[Path]:
    """Yield the files themselves, and the pictures inside folders in order of their names."""
    from madod.data.folder import files_below
    from madod.data.images import is_picture

    for path in paths:
        if not path.is_dir():
            yield path
            continue
        inside = sorted(file for file in files_below(path, set()) if is_picture(file))
        if not inside:
            raise InputError(f"the folder {path} has no pictures in it: give a file, or a folder with pictures")
        yield from inside


def rounded(answer: tuple[object, ...]) -> list[str]:
    """Return the fields as short texts."""
    return [f"{part:.4f}" if isinstance(part, float) else str(part) for part in answer]


def line(fields: Sequence[str], style: str) -> str:
    """Return a row of a table or of a CSV file."""
    if style == "csv":
        import csv
        import io

        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerow(fields)
        return text.getvalue()
    path, label, *rest = fields
    return f"{path:40}  {label:16}" + "".join(f"  {field:>10}" for field in rest) + "\n"
