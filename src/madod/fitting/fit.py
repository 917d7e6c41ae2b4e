"""From a folder to a model, with everything that a person left open chosen for them."""

import tempfile
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any, get_args

import torch

from madod.algorithms.base import ALGORITHMS
from madod.benchmark.record import RunSpec
from madod.benchmark.run import DETECTORS_OF_THE_PAPER, Outcome, run
from madod.benchmark.run import hparams as with_presets
from madod.data.base import DomainDataset
from madod.data.cache import cache_dir
from madod.data.opening import Opening, open_dataset, own_folder
from madod.detectors.base import DETECTORS
from madod.errors import InputError, nearest
from madod.fitting.check import Fold, best_detector, checked
from madod.fitting.check import fold as fold_of
from madod.fitting.choose import Check, Choice, Wishes, choose
from madod.fitting.doubts import doubts
from madod.fitting.survey import Survey, survey
from madod.models.device import device_named
from madod.models.pretrained import pretrained as read_pretrained
from madod.models.weights import Weights
from madod.predict import Checked, Model, load
from madod.predict.card import note
from madod.training import Progress, silent


@dataclass(frozen=True)
class Look:
    """What was seen before training, and what is chosen from it."""

    survey: Survey | None
    """None of a dataset that is known by name."""
    choice: Choice
    dataset: DomainDataset | None
    """Where it had to be opened to choose."""


@dataclass(frozen=True)
class Fitted:
    """A finished training."""

    spec: RunSpec
    outcome: Outcome
    folds: list[Fold]
    detector: str
    check: Checked
    """What it comes to, and what not to rely on."""


def look(
    data: str,
    opening: Opening,
    wishes: Wishes,
    device: torch.device,
    *,
    fields: Collection[str] = (),
    progress: Progress = silent,
) -> Look:
    """Look at a folder, or open a dataset, and choose what is left open; `fields` are those of `choose`."""
    own = own_folder(data, opening)
    rules = partial(choose, own=own is not None, gpu=device.type == "cuda", fields=fields)
    if own is not None and own.exists():
        found = survey(own, test_domain=wishes.test_domain, ood_classes=wishes.ood_classes)
        return Look(found, rules(wishes, found.side), None)
    dataset = open_dataset(data, opening, progress)
    side = dataset.shape[1]
    return Look(None, rules(replace(wishes, size=side), side), dataset)


def opened(data: str, opening: Opening, seen: Look, progress: Progress = silent) -> DomainDataset:
    """Return the dataset at the chosen size."""
    if seen.dataset is not None:
        return seen.dataset
    return open_dataset(data, replace(opening, size=seen.choice.size), progress)


def spec_of(
    data: str,
    opening: Opening,
    wishes: Wishes,
    choice: Choice,
    *,
    algorithm: str,
    given: Mapping[str, Any],
    weights: Weights | None,
    seed: int = 0,
    split_seed: int = 0,
) -> RunSpec:
    """Return the run that words and choices describe; `given` are all hyper-parameters."""
    for flag, number, least in (("--steps", choice.steps, 1), ("--translate-steps", choice.translate_steps, 0)):
        if number < least:
            raise InputError(f"{flag} {number} is no number of steps: give {least} or more")
    for flag, number in (("--seed", seed), ("--split-seed", split_seed)):
        if number < 0:
            raise InputError(f"{flag} {number} is no seed: give 0 or more")
    own = own_folder(data, opening)
    return RunSpec(
        own.resolve().name if own else data, wishes.test_domain, wishes.ood_classes, algorithm, seed,
        split_seed, choice.steps, choice.backbone, choice.translate, choice.translate_steps, given,
        weights.label if weights else None, choice.size if own else opening.size, choice.precision,
    )  # fmt: skip


def carry_out(
    spec: RunSpec,
    dataset: DomainDataset,
    *,
    out: Path,
    cache: Path,
    device: torch.device,
    weights: Weights | None,
    check: Check,
    detector: str | None = None,
    waive_gate: bool = False,
    progress: Progress = silent,
) -> Fitted:
    """Check, choose the detector from it where none is named, and train; killed, it goes on where it was.

    What the check comes to is noted in the model; without one, what the domain kept apart comes to.
    """
    names = tuple(dict.fromkeys((*DETECTORS_OF_THE_PAPER, *([detector] if detector else []))))

    def carried(plan: RunSpec, folder: Path, ship: str, report: Progress) -> Outcome:
        return run(
            plan, dataset, out=folder, cache=cache, device=device, weights=weights, detectors=names, ship=ship,
            waive_gate=waive_gate, progress=report,
        )  # fmt: skip

    def fold(plan: RunSpec, folder: Path, stage: str) -> Outcome:
        return carried(plan, folder, names[0], lambda _, done, total: progress(stage, done, total))

    folds = checked(spec, dataset, check, out, fold)
    ship = detector or best_detector(folds)
    outcome = carried(spec, out, ship, progress)
    seen = folds or ([fold_of(spec, outcome)] if spec.test_domain else [])
    choices = len(DETECTORS_OF_THE_PAPER) if folds and detector is None else 1
    found = doubts(seen, outcome, ship, choices=choices, short=check == "short")
    note(out / "model", found)
    return Fitted(spec, outcome, folds, ship, found)


def fit(
    folder: Path | str,
    *,
    out: Path | str | None = None,
    algorithm: str = "madod",
    test_domain: str | None = None,
    ood_classes: Sequence[str] = (),
    detector: str | None = None,
    size: int | None = None,
    backbone: str | None = None,
    pretrained: str | None = None,
    steps: int | None = None,
    translate: str | None = None,
    translate_steps: int | None = None,
    check: Check = "none",
    precision: str | None = None,
    hparams: Mapping[str, Any] | None = None,
    seed: int = 0,
    split_seed: int = 0,
    skip_bad: bool = False,
    waive_gate: bool = False,
    device: torch.device | str = "auto",
    cache: Path | str | None = None,
    progress: Progress = silent,
) -> Model:
    """Train on pictures in FOLDER/DOMAIN/CLASS/*.jpg and return the model; what is None is chosen by rule.

    With `out` the model, its record and its history stay there, and the same call after a kill goes on where it was.
    `check` holds every domain out once beforehand and picks the detector by what comes out ("short": a quarter of the
    steps each, without G); without it the detector is the energy.

    >>> model = madod.fit("my_images/", algorithm="erm", steps=20, test_domain="night", ood_classes=["fox"])
    >>> model.classes, model.card.domains, model.card.detector
    (('cat', 'dog'), ('day',), 'energy')
    """
    where = device_named(device)
    one_of("check", [check], get_args(Check))
    one_of("translate", [translate] if translate else [], ("munit", "augment"))
    one_of("hparams", hparams or {}, sorted(fields_of(algorithm)))
    opening = Opening(size=size, skip_bad=skip_bad, cache=Path(cache) if cache else None)
    if detector is not None:
        DETECTORS[detector]  # an unknown name is refused before anything long starts
    wishes = Wishes(
        size, backbone, pretrained, steps, translate, translate_steps, check, precision, test_domain, tuple(ood_classes)
    )
    seen = look(str(folder), opening, wishes, where, fields=fields_of(algorithm), progress=progress)
    choice = seen.choice
    weights = read_pretrained(choice.pretrained, cache=opening.cache or cache_dir(), progress=progress)
    given = with_presets(algorithm, {**choice.preset, **(hparams or {})}, pretrained=weights is not None)
    spec = spec_of(
        str(folder), opening, wishes, choice, algorithm=algorithm, given=given, weights=weights, seed=seed,
        split_seed=split_seed,
    )  # fmt: skip
    dataset = opened(str(folder), opening, seen, progress)
    with tempfile.TemporaryDirectory() if out is None else nullcontext(out) as home:
        carry_out(
            spec, dataset, out=Path(home), cache=opening.cache or cache_dir(), device=where, weights=weights,
            check=choice.check, detector=detector, waive_gate=waive_gate, progress=progress,
        )  # fmt: skip
        return load(home)


def one_of(what: str, given: Iterable[str], allowed: Sequence[str]) -> None:
    """Refuse an argument that holds a word which means nothing."""
    for word in given:
        if word not in allowed:
            close = nearest(word, list(allowed))
            raise InputError(f"{word!r} means nothing in {what}{close}; there are: {', '.join(allowed)}")


def fields_of(algorithm: str) -> set[str]:
    """Return the names of the hyper-parameters that a method has a use for."""
    config = ALGORITHMS[algorithm].Config
    return {each.name for each in fields(config)} - set(config.unused)
