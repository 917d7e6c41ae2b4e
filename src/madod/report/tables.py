"""The paper's tables with our numbers: summary, per domain, dataset statistics."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal, get_args

import pandas as pd

from madod.errors import InputError, nearest
from madod.report import words
from madod.report.broken import broken
from madod.report.forms import Form, written
from madod.report.measured import KEYS, base_rates, measured
from madod.report.order import ALONE, BESIDE, detectors_in_order, in_order, methods_in_order
from madod.report.paper import METRICS, UNKNOWN_CLASSES, caveat, lookup
from madod.report.planned import asked_in, detectors_asked, detectors_due, of_dataset
from madod.report.significance import REFERENCE, comparisons
from madod.report.statistics import span, statistics
from madod.report.table import MISSING, Entry, Item, Row, Table, marked
from madod.report.variants import mixed, usual

Shape = Literal["summary", "per-domain", "statistics", "significance"]
SHAPES: tuple[Shape, ...] = get_args(Shape)
Group = tuple[str, str]
"""Dataset and unseen domain; the domain is empty where all are taken together."""
Rates = tuple[float, float, float]
TITLES = {"auroc": "AUROC", "aupr": "AUPR", "accuracy": "accuracy"}
SUMMED = (
    "percent, mean ± standard error over runs: a run is one unseen domain, unknown class and seed (cells with several "
    "seeds count once a seed)"
)
RANKED = "best and second best are marked among single detectors with all runs there"
ASIDE = (
    "; 'declared beforehand', 'mean of 3' and 'best of 3 *' stand beside them, the last picked after the fact, metric "
    "by metric, as the paper's starred rows are"
)


def render(
    frame: pd.DataFrame,
    shape: Shape = "summary",
    form: Form = "text",
    *,
    dataset: str | None = None,
    detectors: Sequence[str] = (),
    paper: bool = True,
    reference: str = REFERENCE,
) -> str:
    """Return one of the tables of runs, written out; several datasets' tables follow each other."""
    if dataset is not None and dataset not in set(frame["dataset"]):
        there = sorted(set(frame["dataset"]))
        raise InputError(f"no run on {dataset!r}{nearest(dataset, there)}; there are runs on: {', '.join(there)}")
    refuse_method(frame, reference)
    frame = frame if dataset is None else of_dataset(frame, dataset)
    there = detectors_in_order([*frame["detector"].dropna(), *detectors_asked(frame)])
    for name in detectors:
        if name not in there:
            seen = ", ".join(there) or "none"
            raise InputError(
                f"no run was measured with {name!r}{nearest(name, there)}; there are: {seen}; detectors in the plan, "
                "then bench run, or madod rescore for a single run add others"
            )
    return written(tables_of(frame, shape, paper=paper, reference=reference, detectors=detectors), form)


def refuse_method(frame: pd.DataFrame, reference: str) -> None:
    """Refuse to compare with a method that no run is of; the usual one may be missing, which tables say themselves."""
    there = methods_in_order([*frame["method"], *(key[2] for key in asked_in(frame))])
    if reference not in (REFERENCE, *there):
        raise InputError(f"no run is of {reference!r}{nearest(reference, there)}; there are: {'; '.join(there)}")


def tables_of(
    frame: pd.DataFrame,
    shape: Shape,
    *,
    paper: bool = True,
    reference: str = REFERENCE,
    detectors: Sequence[str] = (),
) -> list[Table]:
    """Return the tables of a shape; paired differences, by the detectors named, are the reference less the others."""
    if shape == "summary":
        return [summary(frame, paper=paper, detectors=detectors)]
    if shape == "per-domain":
        return per_domain(frame, paper=paper, detectors=detectors)
    return [comparisons(frame, reference, detectors)] if shape == "significance" else [statistics(frame)]


def summary(frame: pd.DataFrame, *, paper: bool = True, detectors: Sequence[str] = ()) -> Table:
    """Return one row per method and detector, three columns per dataset."""
    asked = asked_in(frame)
    heads = {(name, ""): words.dataset(name) for name in in_order([*frame["dataset"], *(key[0] for key in asked)])}
    found = measured(frame, detectors=detectors)
    due = detectors_due(frame, detectors)
    table = build("All unseen domains together", found, heads, base_rates(frame), asked, due, paper=paper)
    return replace(table, notes=(*table.notes, *broken(frame), *mixed(frame), *usual(frame)))


def per_domain(frame: pd.DataFrame, *, paper: bool = True, detectors: Sequence[str] = ()) -> list[Table]:
    """Return one table per dataset: one row per method and detector, three columns per unseen domain."""
    found, rates = measured(frame, by_domain=True, detectors=detectors), base_rates(frame, by_domain=True)
    asked = asked_in(frame, by_domain=True)
    tables = []
    for name in in_order([*frame["dataset"], *(key[0] for key in asked)]):
        mine = frame.loc[frame["dataset"] == name, "test_domain"].dropna()
        heads = {(name, domain): domain for domain in in_order([*mine, *(k[1] for k in asked if k[0] == name)], name)}
        if heads:
            title = f"{words.dataset(name)}, by unseen domain"
            due = detectors_due(frame[frame["dataset"] == name], detectors)
            tables.append(build(title, found[found["dataset"] == name], heads, rates, asked, due, paper=paper))
    return tables


def build(
    title: str,
    found: pd.DataFrame,
    heads: Mapping[Group, str],
    rates: Mapping[Group, Rates],
    asked: Counter[tuple[str, str, str, bool]],
    due: Mapping[str, Sequence[str]],
    *,
    paper: bool,
) -> Table:
    """Lay measured numbers out under groups of columns, one for every dataset and domain in `heads`.

    `rates` are the base rates of the runs; where none had unknowns there are none, and runs are counted against a plan
    alone. A method that was `asked` for and has no run yet has a row that says so, and so has every detector that is
    `due` of a method.
    """
    wanted = Counter({key: runs for key, runs in asked.items() if key[:2] in heads})
    numbers = Numbers(found, paper, wanted)
    rows, counted = [], bool(rates or wanted)
    for method in methods_in_order([*found["method"], *(key[2] for key in wanted)]):
        mine = found.loc[found["method"] == method, "detector"]
        planned = {hides for _, _, name, hides in wanted if name == method}
        for detector in _detectors([*mine, *due.get(method, ())], planned):
            items = [item for group in heads for item in numbers.items(group, method, detector, counted=counted)]
            names = (words.method(method), words.detector(detector).title)
            aside = detector in BESIDE or (detector == ALONE and bool(rates))  # whose accuracy is of other runs
            rows.append(Row(names, tuple(items), ranked=not aside))
    if rates:
        rows.append(
            Row(("guessing", ""), tuple(item for group in heads for item in _guessing(rates.get(group))), False)
        )
    columns = tuple((head, name) for head in heads.values() for name in (*["runs"][:counted], *TITLES.values()))
    return Table(title, ("method", "detector"), columns, marked(rows), tuple(_notes(numbers, heads, rates)))


def _detectors(there: Iterable[str], planned: Collection[bool]) -> list[str]:
    """Return a method's rows; one without a name where runs with unknowns are planned and none has begun."""
    names = detectors_in_order([*there, *([ALONE] if False in planned else [])])
    return names if set(names) - {ALONE} or True not in planned else ["", *names]


def _notes(numbers: "Numbers", heads: Mapping[Group, str], rates: Mapping[Group, Rates]) -> Iterator[str]:
    """Say how to read a table: what its numbers and marks are, and which of the paper's are not like for like."""
    if rates:
        spans = (f"{heads[group]} {span(low, high)}" for group, (_, low, high) in rates.items() if group in heads)
        yield from (
            SUMMED,
            RANKED + (ASIDE if numbers.aside else ""),
            f"guessing has the base rate as its AUPR, over cells: {', '.join(spans)}",
        )
    if numbers.beside:
        yield (
            "behind or below a number: the paper's, then ours less the paper's where no run is missing; "
            f"{UNKNOWN_CLASSES}"
        )
    yield from (f"{sign} {why}" for sign, why in numbers.signs.items())


class Numbers:
    """Measured numbers by place, with the paper's beside them; notes which of those are not like for like."""

    def __init__(self, found: pd.DataFrame, paper: bool, asked: Counter[tuple[str, str, str, bool]]) -> None:
        keys = zip(*(found[key] for key in KEYS), strict=True)
        self.found = dict(zip(keys, zip(found["value"], found["error"], found["runs"], strict=True), strict=True))
        self.asked = asked
        self.most: dict[tuple[str, str, bool], int] = {}
        counts = zip(found["dataset"], found["domain"], found["detector"] != ALONE, found["runs"], strict=True)
        for dataset, domain, hides, runs in (*counts, *((*key[:2], key[3], runs) for key, runs in asked.items())):
            self.most[dataset, domain, hides] = max(runs, self.most.get((dataset, domain, hides), 0))
        self.paper = lookup() if paper else {}
        self.signs: dict[str, str] = {}
        self.beside = False
        self.aside = bool(set(BESIDE) & set(found["detector"]))

    def items(self, group: Group, method: str, detector: str, *, counted: bool) -> list[Item]:
        """Return a row's items in one group of columns: the number of runs where they are counted, then the metrics."""
        entries = [self.entry(group, method, detector, metric) for metric in METRICS]
        runs, most = max(entry.runs for entry in entries), max(entry.of for entry in entries)
        unasked = not runs and not self.asked[*group, method, detector != ALONE]
        said = MISSING if unasked else str(runs) if runs >= most else f"{runs} of {most}"
        return [said, *entries] if counted else [*entries]

    def entry(self, group: Group, method: str, detector: str, metric: str) -> Entry:
        """Return one number, as missing where there is none."""
        place = (*group, method, detector, metric)
        value, error, runs = self.found.get(place, (None, None, 0))
        theirs, their_error = self.paper.get(place, (None, None))
        known = caveat(*place) if theirs is not None else None
        self.signs |= {known.sign: known.why} if known else {}
        self.beside = self.beside or theirs is not None
        return Entry(
            value=value,
            error=None if error is None or error != error else error,
            runs=int(runs),
            of=int(self.most.get((*group, detector != ALONE), 0)),
            paper=theirs,
            paper_error=their_error,
            sign=known.sign if known else "",
        )


def _guessing(rates: Rates | None) -> list[Item]:
    chance = {"auroc": 50.0, "aupr": rates[0] if rates else None}
    return [MISSING, *(Entry(chance.get(metric)) for metric in METRICS)]
