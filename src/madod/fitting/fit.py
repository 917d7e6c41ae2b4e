"""From a folder to a model, with everything that a person left open chosen for them."""

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import torch

from madod.algorithms.base import ALGORITHMS
from madod.benchmark.claim import alone
from madod.benchmark.outcome import Outcome
from madod.benchmark.record import RECORD, RunSpec
from madod.benchmark.resources import Resources
from madod.benchmark.run import run
from madod.data.opening import Opening
from madod.errors import InputError, nearest
from madod.fitting.check import Fold, best_detector, checked, fold_of, offered
from madod.fitting.choose import Check, Wishes, useful
from madod.fitting.doubts import doubts
from madod.fitting.prepare import Ready, prepare
from madod.fitting.strangers import Strangers, scored
from madod.kinds import filled
from madod.models.device import device_named
from madod.predict import Checked, Model, load
from madod.predict.card import note
from madod.predict.saved import card_of
from madod.progress import Progress, silent


@dataclass(frozen=True)
class Fitted:
    """A finished training."""

    spec: RunSpec
    outcome: Outcome
    folds: list[Fold]
    detector: str
    check: Checked
    """What it comes to, and what not to rely on."""
    strangers: Strangers | None
    """What the finished model says of a person's own unknowns, where there are any."""


def carry_out(
    ready: Ready,
    *,
    out: Path,
    unknowns: Path | None = None,
    waive_gate: bool = False,
    progress: Progress = silent,
) -> Fitted:
    """Check, choose the detector from it where none is named, and train; killed, it goes on where it was.

    What the check comes to is noted in the model; without one, what the domain kept apart comes to. `unknowns` is a
    folder of pictures that show nothing known: they are only scored, by the finished model.
    """
    spec, check, detector = ready.spec, ready.look.choice.check, ready.detector
    names = ready.detectors

    def carried(
        plan: RunSpec, folder: Path, ship: str, report: Progress, images: dict[str, str] | None = None
    ) -> Outcome:
        resources = Resources(ready.cache, ready.device, waive_gate=waive_gate, progress=report)
        return run(
            plan, ready.dataset, out=folder, resources=resources, weights=ready.weights, detectors=names, ship=ship,
            data=images,
        )  # fmt: skip

    def fold(plan: RunSpec, folder: Path, stage: str) -> Outcome:
        return carried(plan, folder, names[0], lambda _, done, total: progress(stage, done, total))

    with alone(out):
        there = card_of(out) if (out / RECORD).exists() else None
        folds = checked(spec, ready.dataset, check, out, fold, detectors=names, images=ready.images)
        ship = detector or (there.detector if there else best_detector(folds, spec))
        outcome = carried(spec, out, ship, progress, ready.images)
        seen = folds or ([fold_of(spec, outcome)] if spec.test_domain else [])
        choices = len(offered(spec)) if folds and detector is None else 1
        strangers = scored(load(out), unknowns) if unknowns else None
        if there and there.check and not (seen or strangers):
            found = there.check  # nothing was measured now, and what was stays true
        else:
            found = doubts(seen, outcome, ship, choices=choices, short=check == "short", strangers=strangers)
        note(out / "model", found)
    return Fitted(spec, outcome, folds, ship, found, strangers)


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
    pretrained: Path | str | None = None,
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

    The name "digits" means the dataset that comes along; a folder of that name is "./digits", or a `Path`.

    With `out` the model, its record and its history stay there, and the same call after a kill goes on where it was.
    `check` holds every domain out once beforehand and picks the detector by what comes out ("short": a quarter of the
    steps each, without G); without it the detector is the energy, or 50-NN where the network is pretrained.

    >>> model = madod.fit("my_images/", algorithm="erm", steps=20, test_domain="night", ood_classes=["fox"])
    >>> model.classes, model.card.domains, model.card.detector
    (('cat', 'dog'), ('day',), 'energy')
    """
    where = device_named(device)
    one_of("check", [check], get_args(Check))
    one_of("translate", [translate] if translate else [], ("munit", "augment"))
    several = isinstance(ood_classes, Iterable) and not isinstance(ood_classes, str)
    wishes = filled(
        Wishes, size=size, backbone=backbone, steps=steps, translate=translate, translate_steps=translate_steps,
        pretrained=str(pretrained) if isinstance(pretrained, Path) else pretrained, check=check, precision=precision,
        test_domain=test_domain, ood_classes=tuple(ood_classes) if several else ood_classes,
        algorithm=algorithm, detector=detector, seed=seed, split_seed=split_seed,
    )  # fmt: skip
    one_of("hparams", hparams or {}, sorted(useful(ALGORITHMS[wishes.algorithm].Config)))
    own = folder if isinstance(folder, Path) else None  # "digits" is the dataset, Path("digits") the folder
    ready = prepare(
        "folder" if own else str(folder),
        Opening(own, wishes.size, skip_bad, Path(cache) if cache else None),
        wishes,
        hparams=lambda choice: choice.hparams(wishes.algorithm, hparams),
        device=where,
        out=None if out is None else Path(out),
        progress=progress,
    )
    with tempfile.TemporaryDirectory() if out is None else nullcontext(out) as home:
        carry_out(ready, out=Path(home), waive_gate=waive_gate, progress=progress)
        return load(home)


def one_of(what: str, given: Iterable[str], allowed: Sequence[str]) -> None:
    """Refuse an argument that holds a word which means nothing."""
    for word in given:
        if word not in allowed:
            close = nearest(str(word), list(allowed))
            raise InputError(f"{word!r} means nothing in {what}{close}; there are: {', '.join(allowed)}")
