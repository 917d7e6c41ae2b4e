"""`madod predict`: pictures in, verdicts out."""

import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from madod.cli.arguments import Switch, left_open, parse
from madod.cli.escaped import escaped
from madod.cli.inputs import pictures
from madod.cli.streams import silence
from madod.cli.using import Using
from madod.errors import InputError
from madod.report.columns import padded
from madod.storage import refuse_closed, refuse_file

if TYPE_CHECKING:
    from madod.cli.contact import Chosen
    from madod.predict import Model, Prediction


@dataclass(frozen=True, kw_only=True)
class Predict(Using):
    """What to label, with which model, and how to print it."""

    paths: Annotated[
        tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="PATH", help_behavior_hint="(one or more)")
    ]
    """Picture files, folders that are searched at any depth, patterns such as 'shots/**/*.png', or - for a list of
    files and folders on standard input, one a line or with NULs between them."""
    format: Literal["table", "csv", "json"] = "table"
    """table for people, with rounded numbers; csv, or json: one object a line."""
    gallery: Annotated[Path | None, left_open("FILE.html")] = None
    """Also write a page with the pictures, the most unknown first: the 500 with the highest and the 500 with the
    lowest scores where there are more than 1000."""
    device: str = "cpu"
    """cpu, cuda, or auto."""
    quiet: Switch = False
    """Say nothing of how far it is, nor what the model's own check warned of; a page of --gallery has it at its top."""


ABOUT = """Label pictures with a trained model.

The label is always the nearest known class; "unknown" says whether the score is above the model's threshold, so
that the picture probably shows none of the known classes.

Exit code: 0 all pictures are done; 1 some could not be read (they are listed at the end on standard error, and the
others are done); 2 refused: nothing to do, or words that mean nothing; 130 interrupted."""
COLUMNS = ("path", "label", "confidence", "score", "threshold", "unknown")


def main(arguments: Sequence[str]) -> int:
    """Print one line per picture as it is done, then what could not be read."""
    how = parse(Predict, arguments, "predict", ABOUT)
    if not how.paths:
        raise InputError("no pictures named: give files or folders after the model, as in madod predict MODEL photos/")
    tally = Tally()
    files = pictures(how.paths, tally.bad)
    chosen = shown_by(how.gallery)
    model = how.loaded(how.device, how.paths)
    first = next(files, None)
    if first is None:
        nothing = InputError("standard input lists no pictures: give it their names, one a line")
        raise tally.bad[0] if tally.bad else nothing
    report, say = counted(how.quiet), partial(printed, page=chosen is not None)
    for warning in () if how.quiet else model.card.warnings:
        sys.stderr.write(f"madod: of this model's own check: {warning}\n")
    if how.format != "json":
        say(line(COLUMNS, how.format))
    for answer in model.predict_iter(chain([first], files)):
        if isinstance(answer, InputError):
            tally.bad.append(answer)
        else:
            say(written(answer, how.format))
            tally.count(answer)
            if chosen is not None:
                chosen.add(answer)
        report(tally.done + len(tally.bad))
    say("", flush=True)
    sys.stderr.writelines(f"madod: {said}\n" for said in tally.told(model, quiet=how.quiet))
    if chosen is not None and how.gallery is not None:  # last: a disk that is full by now takes nothing else along
        chosen.write(how.gallery, model, how.model)
    return 1 if tally.bad else 0


@dataclass
class Tally:
    """What has become of the pictures so far."""

    bad: list[InputError] = field(default_factory=list)
    done: int = 0
    flagged: int = 0
    first: list[Path] = field(default_factory=list)
    """Some that were read, to look at once more."""

    def count(self, answer: "Prediction") -> None:
        """Take in a picture that was read."""
        from madod.data.depth import SAMPLE

        if self.done < SAMPLE:
            self.first.append(Path(str(answer.path)))
        self.done += 1
        self.flagged += answer.unknown

    def told(self, model: "Model", *, quiet: bool) -> Iterator[str]:
        """Yield what could not be read, and what else a person should know in the end."""
        from madod.data.depth import nearly_black
        from madod.data.images import BadImage

        yield from (escaped(str(each)) for each in self.bad)
        if self.done and not quiet:
            yield summary(model, self.flagged, self.done)
            yield from nearly_black(self.first)
        if self.bad:
            pictures = all(isinstance(each, BadImage) for each in self.bad)  # a folder is none of so many
            what = f"{len(self.bad)} of {self.done + len(self.bad)} pictures" if pictures else "what is listed above"
            yield f"{what} could not be read{'; the others are done' if self.done else ''}"


def summary(model: "Model", flagged: int, done: int) -> str:
    """Say how many pictures were called unknown, and how many known ones are by mistake."""
    wrongly = float((model.held_scores > model.threshold).float().mean())
    return f"{flagged} of {done} pictures called unknown; of known ones in the training domains it is {wrongly:.0%}"


def shown_by(gallery: Path | None) -> "Chosen | None":
    """Return what collects pictures for a page, where one is asked for and can be written."""
    if gallery is None:
        return None
    if gallery.is_dir():
        raise InputError(f"{gallery} is a folder: name a file for the page, such as {gallery / 'gallery.html'}")
    if gallery.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"{gallery} is no name for a page: let it end in .html, as in {gallery.with_suffix('.html')}")
    refuse_file(gallery.parent)
    refuse_closed(gallery, "file")
    refuse_report(gallery)
    from madod.cli.contact import Chosen

    return Chosen()


def refuse_report(gallery: Path) -> None:
    """Refuse a page in the place of the one that a training left in its folder."""
    from madod.benchmark.claim import LOCK

    if not (gallery.parent / LOCK).exists():
        return
    from madod.cli.demo import PAGE
    from madod.fitting.prepare import REPORT

    if gallery.name in (REPORT, PAGE):
        other = gallery.with_name("gallery.html")
        raise InputError(f"{gallery} is the page of the training in that folder: name another one, such as {other}")


def counted(quiet: bool) -> Callable[[int], None]:
    """Return what says every few seconds how many pictures are done, unless they are seen to be printed."""
    from madod.cli.progress import EVERY

    start = last = time.monotonic()

    def report(done: int) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= EVERY and not quiet and not sys.stdout.isatty():
            last = now
            sys.stderr.write(f"{done:,} pictures done, {done / (now - start):.0f} a second\n")
            sys.stderr.flush()

    return report


def printed(text: str, *, page: bool, flush: bool = False) -> None:
    """Print a part of the answers; where their reader leaves, a page that is asked for is made all the same."""
    try:
        sys.stdout.write(text)
        if flush:
            sys.stdout.flush()
    except BrokenPipeError:
        if not page:
            raise
        silence(sys.stdout)


def written(answer: "Prediction", style: str) -> str:
    """Return a prediction as a line of the chosen form."""
    if style == "json":
        return json.dumps(answer._asdict(), ensure_ascii=False) + "\n"
    shown = short if style == "table" else str
    return line([shown(part) for part in answer], style)


def short(part: object) -> str:
    """Return a number in four decimals, or in four digits where those would be mostly noughts; a word escaped."""
    if not isinstance(part, float):
        return escaped(str(part))
    return f"{part:.4f}" if abs(part) >= 0.1 else f"{part:.4g}"


def line(fields: Sequence[str], style: str) -> str:
    """Return a row of a table or of a CSV file."""
    if style == "csv":
        import csv
        import io

        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerow(fields)
        return text.getvalue()
    path, label, *rest = fields
    return f"{padded(path, 40)}  {padded(label, 16)}" + "".join(f"  {field:>10}" for field in rest) + "\n"
