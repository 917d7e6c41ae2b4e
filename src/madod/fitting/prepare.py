"""What will be trained, on what and from what, with everything that a person left open chosen for them."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from madod.algorithms.base import ALGORITHMS, BaseConfig
from madod.benchmark.agenda import FOLDS
from madod.benchmark.claim import LOCK, busy, held
from madod.benchmark.outcome import refuse_another, refuse_other_images
from madod.benchmark.record import GRID, HISTORY, OUTPUTS, RECORD, VERDICTS, RunSpec, refuse_seed
from madod.benchmark.run import divided, fingerprints
from madod.data.base import DomainDataset
from madod.data.cache import cache_dir
from madod.data.folder import Folder, recorded_as, refuse_size
from madod.data.opening import Opening, open_dataset, own_folder
from madod.data.order import LISTED
from madod.data.split import Split, never_held_out
from madod.detectors.base import refuse_scoreless
from madod.errors import InputError, first_few
from madod.fitting.check import CHECKED, begun, offered, standing
from madod.fitting.choose import Choice, Wishes, choose
from madod.fitting.survey import Survey, survey
from madod.models.pretrained import pretrained
from madod.models.weights import Weights
from madod.predict.card import FACTS
from madod.progress import Progress, silent
from madod.storage import refuse_closed, refuse_file
from madod.training import CHECKPOINT

log = logging.getLogger(__name__)

REPORT = "report.html"
"""The page that a training of the command line ends with."""
LEFT = (REPORT, "model", FOLDS, HISTORY, OUTPUTS, VERDICTS, GRID)
"""What a training leaves in its folder, next to what shows that it is one."""

OVER = 10
"""How many times the pictures that there are a minibatch may draw of a domain; more is a slip."""


@dataclass(frozen=True)
class Look:
    """What was seen before training, and what is chosen from it."""

    survey: Survey | None
    """None of a dataset that is known by name."""
    choice: Choice
    dataset: DomainDataset | None
    """Where it had to be opened to choose."""


@dataclass(frozen=True)
class Ready:
    """All that a training starts with."""

    look: Look
    spec: RunSpec
    dataset: DomainDataset
    weights: Weights | None
    detector: str | None
    """The one that was asked for; None is chosen by the check."""
    device: torch.device
    cache: Path
    images: dict[str, str]
    """The hashes of what it sees (`fingerprints`)."""

    @property
    def detectors(self) -> tuple[str, ...]:
        """Those that are measured: those that a check compares, and the one that was asked for."""
        return tuple(dict.fromkeys((*offered(self.spec), *([self.detector] if self.detector else []))))


def prepare(
    data: str,
    opening: Opening,
    wishes: Wishes,
    *,
    hparams: Callable[[Choice], Mapping[str, Any]],
    device: torch.device,
    out: Path | None = None,
    before: Callable[[Look], None] | None = None,
    progress: Progress = silent,
) -> Ready:
    """Look, choose, read weights and decode pictures; what cannot be trained is refused before anything long starts.

    So is a folder `out` that cannot take the model. `hparams` returns every hyper-parameter for what was chosen;
    `before` is told of it before pictures are decoded.
    """
    if out is not None:
        refuse_place(out, own_folder(data, opening.root))
    if wishes.detector is not None:
        refuse_scoreless(wishes.algorithm, [wishes.detector])
    seen = look(data, opening, wishes, device, config=ALGORITHMS[wishes.algorithm].Config, progress=progress)
    choice, cache = seen.choice, opening.cache or cache_dir()
    _refuse_numbers(choice, wishes)
    weights = pretrained(choice.pretrained, cache=cache, progress=progress)
    spec = spec_of(data, opening, wishes, choice, weights, hparams(choice))
    if seen.survey is not None:
        _refuse_batch(spec, sum(seen.survey.classes.values()))
    if out is not None:
        refuse_another(spec, out, wishes.detector)
        refuse_taken(out, () if choice.check == "none" else (CHECKED,))
    if before is not None:
        before(seen)
    dataset = opened(data, opening, seen, progress)
    parts = divided(spec, dataset)
    warn_of_few(parts, dataset.name)
    images = fingerprints(parts)
    ready = Ready(of_kept(seen, dataset, wishes), spec, dataset, weights, wishes.detector, device, cache, images)
    if out is None:
        return ready
    refuse_other_images(spec, images, out)
    check = standing(spec, dataset, choice.check, out, detectors=ready.detectors, images=images)
    return replace(ready, look=replace(ready.look, choice=replace(choice, check=check)))


def spec_of(
    data: str,
    opening: Opening,
    wishes: Wishes,
    choice: Choice,
    weights: Weights | None,
    hparams: Mapping[str, Any],
) -> RunSpec:
    """Return the spec of what a person fixed and what was chosen."""
    own = own_folder(data, opening.root)
    return RunSpec(
        dataset=recorded_as(own) if own else data,
        test_domain=wishes.test_domain,
        ood_classes=wishes.ood_classes,
        algorithm=wishes.algorithm,
        seed=wishes.seed,
        split_seed=wishes.split_seed,
        steps=choice.steps,
        backbone=choice.backbone,
        translate=choice.translate,
        translate_steps=choice.translate_steps,
        hparams=hparams,
        pretrained=weights.label if weights else None,
        size=choice.size if own else opening.size,
        precision=choice.precision,
    )


def refuse_place(out: Path, own: Path | None) -> None:
    """Refuse to write where one cannot, among a person's files, beside others' work or a model that would hide ours."""
    refuse_file(out)
    refuse_closed(out)
    if held(out):
        raise busy(out)
    if own is not None and out.resolve().is_relative_to(own.resolve()):
        raise InputError(f"{out} lies among the pictures in {own}: choose a folder outside of them")
    if (out / FACTS).exists():
        raise InputError(f"{out} holds a model itself, which would be taken for the new one: choose another folder")
    refuse_taken(out, LEFT)


def refuse_taken(out: Path, names: Sequence[str]) -> None:
    """Refuse to write files of these names over a person's own: in a folder that nothing shows to be a training's."""
    ours = begun(out) or any((out / left).exists() for left in (LOCK, CHECKPOINT, RECORD))
    taken = [name for name in names if (out / name).exists() and not ours]
    if taken:
        raise InputError(
            f"{out} holds {first_few(taken, 3)} of somebody else's, which a training would write over: choose another "
            "folder"
        )


def look(
    data: str,
    opening: Opening,
    wishes: Wishes,
    device: torch.device,
    *,
    config: type[BaseConfig] = BaseConfig,
    progress: Progress = silent,
) -> Look:
    """Look at a folder, or open a dataset, and choose what is left open; `config` is that of `choose`."""
    own = own_folder(data, opening.root)
    rules = partial(choose, own=own is not None, gpu=device.type == "cuda", config=config)
    if own is not None and own.exists():
        if wishes.size is not None:
            refuse_size(wishes.size)
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


def of_kept(seen: Look, dataset: DomainDataset, wishes: Wishes) -> Look:
    """Return the look with a survey of what could be read, where that is not all; what is chosen stays."""
    if seen.survey is None or not isinstance(dataset, Folder):
        return seen
    kept = {path for paths in dataset.paths.values() for path in paths}
    if len(kept) == sum(seen.survey.classes.values()):
        return seen
    found = survey(Path(seen.survey.root), test_domain=wishes.test_domain, ood_classes=wishes.ood_classes, only=kept)
    return replace(seen, survey=found)


def warn_of_few(parts: Split, name: str) -> None:
    """Warn of classes with so few pictures in a domain that none is held out, and nothing measured of them there."""
    if few := never_held_out(parts):
        listed = first_few([f"{n} picture{'s' * (n > 1)} of {label} in {domain}" for n, label, domain in few], LISTED)
        log.warning("%s: only %s: none is held out there, so how well they are told is not measured", name, listed)


def _refuse_batch(spec: RunSpec, pictures: int) -> None:
    """Refuse steps that would draw every picture many times over, and take more memory than there may be."""
    batch, most = spec.hparams["batch"], max(OVER * pictures, ALGORITHMS[spec.algorithm].Config.batch)
    if batch > most:
        raise InputError(
            f"batch cannot be {batch:,} where there are {pictures:,} pictures: a step would draw each of them over and "
            f"over; give {most:,} or less"
        )


def _refuse_numbers(choice: Choice, wishes: Wishes) -> None:
    numbers = {"steps": (choice.steps, 1), "translate_steps": (choice.translate_steps, 0)}
    for name, (number, least) in numbers.items():
        if number < least:
            raise InputError(f"{name} cannot be {number}: give {least} or more")
    refuse_seed("seed", wishes.seed)
    refuse_seed("split_seed", wishes.split_seed)
