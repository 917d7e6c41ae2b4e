"""From a plan to the runs that it asks for."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from pathlib import Path

import numpy as np

from madod.benchmark.agenda import INNER, Agenda, Cell, Entry, checksum
from madod.benchmark.generator import plain
from madod.benchmark.plan import DatasetPlan, Plan, Variant, together
from madod.benchmark.record import RunSpec
from madod.benchmark.settings import config_of, settings
from madod.benchmark.stage import Names, Open, Stage, called, opened, stage_of
from madod.benchmark.toml import Keys, Toml
from madod.benchmark.without import Without, without_name
from madod.benchmark.words import load_plan
from madod.data.base import DATASETS, DomainDataset
from madod.data.opening import own_folder
from madod.errors import InputError, first_few, nearest


@dataclass(frozen=True)
class Job:
    """One run of a sweep, with all that a worker needs to know of it."""

    spec: RunSpec
    folder: str
    """Where among the runs it lies."""
    data: str
    """The dataset as the plan names it."""
    hidden: tuple[tuple[str, ...], tuple[str, ...]]
    """Domains and classes that even the test does not see."""
    pretrained: str
    detectors: tuple[str, ...]
    waive_gate: bool
    keep_model: bool
    compiled: bool = False
    """Have networks compiled however few the steps."""
    skip_bad: bool = False

    @property
    def sees(self) -> tuple[object, ...]:
        """What tells apart the images that the runs of a sweep see."""
        spec = self.spec
        return spec.dataset, spec.size, spec.test_domain, spec.ood_classes, spec.split_seed

    def view(self, dataset: DomainDataset) -> DomainDataset:
        """Return what the run sees of its dataset."""
        return Without(dataset, *self.hidden) if any(self.hidden) else dataset

    @cached_property
    def generator(self) -> tuple[object, ...] | None:
        """What tells apart the generators of a sweep; None where the run has none."""
        spec = self.spec
        if spec.translate != "munit" or not config_of(spec).needs_translate:
            return None
        return (*self.sees, spec.translate_steps, spec.backbone, spec.start, spec.precision)


def expand(
    file: Path, root: Path | None, open_: Open = opened, *, cache: Path | None = None
) -> tuple[Agenda, list[Job]]:
    """Return every run of a plan; runs that several variants share are there once. The cache is for weights by name."""
    plan, toml = load_plan(file)
    jobs: dict[str, Job] = {}
    entries = []
    asked: dict[tuple[object, ...], int] = {}
    for k, dataset in enumerate(plan.datasets):
        stage = stage_of(dataset, toml, k, root, open_, cache)
        _refuse_idle(plan, stage, toml, k)
        _refuse_namesake(plan, toml, k)
        for entry, job in _of_dataset(plan, stage, toml, k):
            if asked.setdefault(entry.told, k) != k:
                first = toml.line(("datasets", asked[entry.told]))
                why = f"{entry.cell.place} is among the runs of the dataset in line {first} too"
                raise toml.refusal(("datasets", k), f"{why}, and would count twice: leave it out of one")
            entries.append(entry)
            jobs.setdefault(job.folder, job)
    agenda = Agenda(file.stem, checksum(file), plan.selection, plan.detectors, tuple(entries))
    return agenda, list(jobs.values())


def _refuse_namesake(plan: Plan, toml: Toml, place: int) -> None:
    """Refuse a dataset that has the name of one before it, and lies elsewhere."""
    name, folder = called(plan.datasets[place]), own_folder(plan.datasets[place].name)
    for other in plan.datasets[:place]:
        there = own_folder(other.name)
        if called(other) == name and (there and there.resolve()) != (folder and folder.resolve()):
            why = f"another dataset of the plan is called {name!r} too, and their runs would be taken for each other's"
            raise toml.refusal(("datasets", place, "name"), f"{why}: rename one of the folders")


def _of_dataset(plan: Plan, stage: Stage, toml: Toml, place: int) -> Iterator[tuple[Entry, Job]]:
    """Yield the runs of every method on one dataset; refuse settings that cannot be together, which shows here."""
    first = -len(plan.algorithms)  # they are compared before the variants, which the file counts from 0
    for number, variant in enumerate(plan.compared, first):
        try:
            found = list(_runs(plan, stage, variant))
        except InputError as error:
            where = ("variants", number) if number >= 0 else ("datasets", place)
            raise toml.refusal(where, f"{variant.label} on {called(stage.entry)}: {error}") from error
        yield from found


def _refuse_idle(plan: Plan, stage: Stage, toml: Toml, place: int) -> None:
    """Refuse exceptions that no run of the dataset meets, or that change nothing."""
    groups = [set(group) for group in chain.from_iterable(stage.unknown(plan.seeds).values())]
    for k, other in enumerate(stage.entry.exceptions):
        at: Keys = ("datasets", place, "exceptions", k)
        for domain in other.test_domains:
            if domain not in stage.unseen:
                there = f"{nearest(domain, tuple(stage.unseen))}; they have {', '.join(stage.unseen)}"
                raise toml.refusal(
                    (*at, "test_domains"), f"no run of the dataset is tested in {domain!r}{there}", domain
                )
        for group in together(other.unknown):
            if set(group) not in groups:
                there = ", ".join(dict.fromkeys("+".join(sorted(names)) for names in groups))
                said = f"{'+'.join(group)!r} is unknown in no run of the dataset; there are {there}"
                raise toml.refusal((*at, "unknown"), said, group[0])
        if not other.lengths and not other.hparams:
            raise toml.refusal(at, "these exceptions change nothing: add hparams.ALGORITHM or lengths.ALGORITHM")


def _runs(plan: Plan, stage: Stage, variant: Variant) -> Iterator[tuple[Entry, Job]]:
    """Yield the runs of one variant on one dataset, those of selection after those that are compared."""
    domains, unknown = stage.unseen, stage.unknown(plan.seeds)
    name = called(stage.entry)
    for draw in range(plan.draws):
        for domain in domains:
            for seed, groups in unknown.items():
                for group in groups:
                    cell = Cell(name, domain, group)
                    spec = replace(_spec(plan, stage, variant, draw, cell), seed=seed)
                    yield _pair(plan, stage, Entry(variant.label, cell, draw, seed, spec.id), spec)
            if plan.selection == "leave_one_domain_out":
                for group in dict.fromkeys(chain.from_iterable(unknown.values())):
                    yield from _folds(plan, stage, Cell(name, domain, group), variant, draw)


def _refuse_plain(spec: RunSpec, entry: DatasetPlan) -> None:
    """Refuse plain augmentation in place of G where the dataset allows none."""
    if spec.translate == "augment" and entry.name in DATASETS and config_of(spec).needs_translate:
        plain(DATASETS[entry.name].augmentation)


def _refuse_few(names: Names, entry: Entry, spec: RunSpec) -> None:
    """Refuse a run that hides so many classes that its method has too few left to know.

    Where units are finer than classes, only pictures tell which classes are left; here one unit is enough.
    """
    hidden = {*entry.cell.unknown, *spec.ood_classes}
    left = [name for name in names.units if name not in hidden]
    least = config_of(spec).least_classes if names.units == names.classes else 1
    if len(left) < least:
        inner = f" and, for selection, {spec.ood_classes[0]}" if entry.fold else ""
        instead = "take another selection" if entry.fold else f"leave {spec.algorithm} out"
        raise InputError(
            f"hiding {first_few(entry.cell.unknown, 3) or 'nothing'}{inner} leaves {len(left)} of {len(names.units)} "
            f"classes known, and {spec.algorithm} needs {least}: hide fewer, add a class, or {instead}"
        )


def _folds(plan: Plan, stage: Stage, cell: Cell, variant: Variant, draw: int) -> Iterator[tuple[Entry, Job]]:
    """Yield the inner runs of a cell: its test domain and unknown classes gone, every source tested in turn.

    Each fold has a pseudo-unknown class of its own, in an order that is drawn once.
    """
    hidden = (cell.test_domain,), cell.unknown
    dataset = without_name(cell.dataset, *hidden)
    left = [name for name in stage.names.units if name not in cell.unknown]
    order = np.random.default_rng(len(left)).permutation(len(left))
    sources = [name for name in stage.names.domains if name != cell.test_domain]
    outer = _spec(plan, stage, variant, draw, cell)
    for k, source in enumerate(sources if len(sources) > 1 else ()):
        pseudo = left[order[k % len(left)]]
        spec = replace(outer, dataset=dataset, test_domain=source, ood_classes=(pseudo,), seed=plan.seeds[0])
        entry = Entry(variant.label, cell, draw, plan.seeds[0], f"{INNER}/{spec.id}", source)
        yield _pair(plan, stage, entry, spec, hidden)


def _spec(plan: Plan, stage: Stage, variant: Variant, draw: int, cell: Cell) -> RunSpec:
    """Return the spec of a variant and a draw in a cell, its seed left open."""
    entry, algorithm = stage.entry.at(cell.test_domain, cell.unknown), variant.algorithm
    given = {**plan.hparams.get(algorithm, {}), **entry.hparams.get(algorithm, {}), **variant.hparams}
    spec = RunSpec(
        dataset=cell.dataset, test_domain=cell.test_domain, ood_classes=cell.unknown, algorithm=algorithm,
        split_seed=plan.split_seed,
        steps=variant.steps or entry.lengths.get(algorithm, entry.steps),
        backbone=entry.backbone,
        translate=variant.translate or entry.translate,
        translate_steps=entry.translate_steps if variant.translate_steps is None else variant.translate_steps,
        hparams=settings(algorithm, draw, given, pretrained=stage.weights is not None),
        pretrained=stage.weights.label if stage.weights else None,
        size=entry.size,
        precision=variant.precision or plan.precision,
    )  # fmt: skip
    _refuse_plain(spec, entry)
    return spec


def _pair(
    plan: Plan, stage: Stage, entry: Entry, spec: RunSpec, hidden: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
) -> tuple[Entry, Job]:
    _refuse_few(stage.names, entry, spec)
    keep = plan.keep_models and entry.fold is None
    job = Job(
        spec=spec,
        folder=entry.folder,
        data=stage.entry.name,
        hidden=hidden,
        pretrained=stage.file,
        detectors=plan.detectors,
        waive_gate=plan.waive_gate,
        keep_model=keep,
        compiled=plan.compiled,
        skip_bad=stage.entry.skip_bad,
    )
    return entry, job
