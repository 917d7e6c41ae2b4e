"""`madod evaluate`: how a trained model does on pictures whose classes are known."""

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from madod.cli.arguments import Switch, parse
from madod.cli.escaped import escaped
from madod.cli.progress import shown
from madod.cli.using import Using
from madod.errors import InputError
from madod.report.columns import aligned

if TYPE_CHECKING:
    from madod.predict import Model
    from madod.predict.findings import Findings, Measures


@dataclass(frozen=True, kw_only=True)
class Evaluate(Using):
    """Which model, on which pictures."""

    folder: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FOLDER")]
    """Pictures in FOLDER/DOMAIN/CLASS or FOLDER/CLASS."""
    format: Literal["table", "json"] = "table"
    """table for people, in percent; json: one object, in shares."""
    device: str = "cpu"
    """cpu, cuda, or auto."""
    quiet: Switch = False
    """Say nothing of how far it is, nor what the model's own check warned of."""


ABOUT = """Measure a trained model on pictures whose classes you know.

Pictures in folders that are named like a class of the model are known, all others unknown. Take pictures that training
has not seen, best of all from a new domain: on others the numbers flatter it.

Exit code: 0 all pictures are counted; 1 some could not be read (they are listed on standard error, and the others are
counted); 2 refused."""
HEAD = ("domain", "known", "accuracy", "kept", "unknown", "flagged", "AUROC")
NOTES = """accuracy: known pictures with their own label, flagged or not; kept: known pictures that are not flagged
flagged: unknown pictures that are; AUROC: the chance that an unknown picture scores above a known one"""
MOST = 5
"""Confusions that are listed."""


def main(arguments: Sequence[str]) -> int:
    """Print the measures by domain, then what could not be read."""
    how = parse(Evaluate, arguments, "evaluate", ABOUT)
    from madod.data.depth import nearly_black
    from madod.data.finding import pictures_below

    model = how.loaded(how.device, [how.folder])
    with shown(how.quiet) as progress:
        found = model.evaluate(how.folder, progress=progress)
    if not found.by_domain:
        count, first = len(found.unreadable), found.unreadable[0]
        raise InputError(f"none of the {count} pictures in {how.folder} can be read; of the first: {first}")
    if how.format == "json":
        sys.stdout.write(json.dumps(in_json(found) | {"threshold": model.threshold}, ensure_ascii=False) + "\n")
    else:
        sys.stdout.write(f"{model.card.detector}, threshold {model.threshold:.4g}\n{table(found)}{NOTES}\n")
    own = () if how.quiet else model.card.warnings
    dark = () if how.quiet else nearly_black(list(pictures_below(how.folder)))
    for warning in (*(f"of this model's own check: {said}" for said in own), *lookalikes(model, found), *dark):
        sys.stderr.write(f"madod: {warning}\n")
    for each in found.unreadable:
        sys.stderr.write(f"madod: {escaped(each)}\n")
    return 1 if found.unreadable else 0


def in_json(found: "Findings") -> dict[str, object]:
    """Return the findings in plain words and numbers."""
    confused = [{"class": a, "label": b, "pictures": count} for (a, b), count in found.confused.most_common()]
    return {
        "overall": found.overall._asdict(),
        "by_domain": {name: measures._asdict() for name, measures in found.by_domain.items()},
        "confused": confused,
        "strange": found.strange,
        "unreadable": found.unreadable,
    }


def table(found: "Findings") -> str:
    """Return one line per domain, one for all of them, and the commonest confusions."""
    rows = [HEAD, *(row(name, measures) for name, measures in found.by_domain.items())]
    if len(found.by_domain) > 1:
        rows.append(row("all domains" if "all" in found.by_domain else "all", found.overall))
    lines = aligned(rows, 1)
    worst = [f"{count} {truth} as {label}" for (truth, label), count in found.confused.most_common(MOST)]
    strange = [f"{count:,} {name}" for name, count in found.strange.items()]
    said = {"counted as unknown": strange, "most often confused": worst}
    lines += [escaped(f"{what}: {', '.join(which)}") for what, which in said.items() if which]
    return "\n".join(lines) + "\n"


def lookalikes(model: "Model", found: "Findings") -> Iterator[str]:
    """Say which unknown classes differ from known ones by capitals, blanks and signs alone."""
    known = {bare(name): name for name in model.classes}
    for name in found.strange:
        if other := known.get(bare(name)):
            yield f"the model has no class {name!r}, so that its pictures count as unknown; it has {other!r}"


def bare(name: str) -> str:
    """Return the letters and digits of a name, in lower case."""
    return "".join(filter(str.isalnum, name.casefold()))


def row(name: str, measures: "Measures") -> tuple[str, ...]:
    """Return a line of the table."""
    accuracy, kept, flagged, auroc = (
        "-" if share is None else f"{100 * share:.1f}"
        for share in (measures.accuracy, measures.kept, measures.flagged, measures.auroc)
    )
    return escaped(name), f"{measures.known:,}", accuracy, kept, f"{measures.unknown:,}", flagged, auroc
