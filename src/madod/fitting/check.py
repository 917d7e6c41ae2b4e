"""How training on this folder does where it cannot look: every domain held out once, with a class hidden."""

import hashlib
import logging
import shutil
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from madod.benchmark.agenda import FOLDS
from madod.benchmark.outcome import Outcome
from madod.benchmark.record import RECORD, RunSpec
from madod.data.augment import NONE
from madod.data.base import DomainDataset, Pool
from madod.data.order import LISTED
from madod.detectors import THREE
from madod.errors import InputError, NoSpaceError, first_few
from madod.evaluation.threshold import threshold
from madod.fitting.choose import Check
from madod.fitting.skill import guessing
from madod.predict.findings import share
from madod.storage import read_json, write_json

log = logging.getLogger(__name__)

CHECKED = "check.json"
"""What came out."""
DIGITS = 16
HOMES = "[0-9a-f]" * DIGITS
"""How the folders of these runs are called."""
LONGEST_FIRST: tuple[Check, ...] = ("full", "short", "none")
KEEPS = (0.8, 0.9, 0.95, 0.98, 0.99)
"""Shares of held-out pictures that a threshold may let pass."""
NEAR = ("knn", "vim")
"""Detectors that look at where training images lie: where the network is pretrained they find more than the paper's
three, on folds inside the sources of PACS (results/pacs/choice)."""
Run = Callable[[RunSpec, Path, str], Outcome]
"""Carries a run through in a folder, under the name of a stage."""


@dataclass(frozen=True)
class Fold:
    """What came out with one domain held out."""

    domain: str
    hidden: str | None
    """The class that training did not see, either; the other numbers are of the other classes."""
    pictures: int
    unknown: int
    """How many of the pictures are of the hidden class, or of one that only this domain has."""
    accuracy: float | None
    guessing: float | None
    """The accuracy of the same answers dealt out at random; None where there is one class only, or none."""
    auroc: dict[str, float]
    """By detector: how well pictures of the hidden class are told from the others."""
    flagged: dict[str, list[tuple[float | None, float | None]]]
    """By detector, for every one of `KEEPS`: the shares of known and of hidden pictures that are called unknown."""
    confused: list[tuple[str, str, int]]
    """How many pictures of the first class were taken for the second, most first."""
    failure: str = ""
    """Why there are no numbers."""
    alone: list[str] = field(default_factory=list)
    """Classes that only this domain has; an older `check.json` does not say."""


def checked(
    spec: RunSpec,
    dataset: DomainDataset,
    how: Check,
    out: Path,
    run: Run,
    *,
    detectors: Sequence[str],
    images: Mapping[str, str],
) -> list[Fold]:
    """Return one fold per domain, from `check.json` where it is of that very run; goes on where it was killed.

    `images` are the hashes of what the training sees that is checked. A fold that failed is tried again, since what
    was in its way may be gone; one that did not measure all of the detectors is done again. What was begun of a check
    that is not asked for any more goes, but for what is noted of a finished training.
    """
    if how == "none":
        _drop_runs(out)
        if not (out / RECORD).exists() and _noted(out / CHECKED):
            (out / CHECKED).unlink()
        return []
    plans, done, folds = _named(spec, dataset, how, images), _done(out / CHECKED, detectors), []
    for k, (name, plan) in enumerate(plans.items(), 1):
        try:
            known = done.get(name)
            folds.append(known or fold_of(plan, run(plan, _home(out, name), f"check {k}/{len(plans)}")))
        except NoSpaceError:
            raise
        except InputError as error:
            log.warning("%s could not be held out for the check: %s", plan.test_domain, error)
            folds.append(failed(str(plan.test_domain), str(error)))
    write_json(out / CHECKED, {"runs": list(plans), "folds": [asdict(fold) for fold in folds]})
    _drop_runs(out)
    return folds


def _drop_runs(out: Path) -> None:
    """Delete the runs of a check."""
    for home in (out / FOLDS).glob(HOMES):
        shutil.rmtree(home, ignore_errors=True)
    with suppress(OSError):  # whatever else is in it is a person's own
        (out / FOLDS).rmdir()


def _noted(file: Path) -> bool:
    """Tell whether a file is what a check left, and no other of a person's own by that name."""
    with suppress(InputError):
        facts = read_json(file)
        return isinstance(facts, dict) and facts.keys() >= {"runs", "folds"}
    return False


def standing(
    spec: RunSpec, dataset: DomainDataset, how: Check, out: Path, *, detectors: Sequence[str], images: Mapping[str, str]
) -> Check:
    """Return the check to go by: a longer one of this very run than is asked for, where `check.json` has it whole."""
    done = _done(out / CHECKED, detectors)
    for longer in LONGEST_FIRST[: LONGEST_FIRST.index(how)] if done else ():
        if done.keys() >= _named(spec, dataset, longer, images).keys():
            return longer
    return how


def awaited(
    spec: RunSpec, dataset: DomainDataset, how: Check, out: Path, *, detectors: Sequence[str], images: Mapping[str, str]
) -> list[RunSpec]:
    """Return the runs of a check that are not done yet: neither noted in `check.json` nor finished before a kill."""
    if how == "none":
        return []
    done = _done(out / CHECKED, detectors)
    if not done and not (out / FOLDS).exists():
        return fold_specs(spec, dataset, how)
    named = _named(spec, dataset, how, images).items()
    return [plan for name, plan in named if name not in done and not (_home(out, name) / RECORD).exists()]


def fold_specs(spec: RunSpec, dataset: DomainDataset, how: Check) -> list[RunSpec]:
    """Return the run of every fold, in the order of the domains."""
    return [fold_spec(spec, dataset, domain, how) for domain in dataset.domains]


def _named(spec: RunSpec, dataset: DomainDataset, how: Check, images: Mapping[str, str]) -> dict[str, RunSpec]:
    """Return the folds' runs by what tells them from others: the training that is checked, settings, its pictures."""
    seen = " ".join(images.values())
    return {f"{spec.id} {plan.id} {seen}": plan for plan in fold_specs(spec, dataset, how)}


def begun(out: Path) -> bool:
    """Tell whether a check was begun in a folder."""
    return _noted(out / CHECKED) or any((out / FOLDS).glob(HOMES))


def _home(out: Path, name: str) -> Path:
    """Return the folder of a fold's run, which no run with other settings or pictures has."""
    return out / FOLDS / hashlib.sha256(name.encode()).hexdigest()[:DIGITS]


def _done(file: Path, detectors: Sequence[str]) -> dict[str, Fold]:
    """Return the finished folds in a file that measured these detectors, by their runs.

    There are none where it is damaged or says less than folds do today.
    """
    with suppress(InputError, LookupError, TypeError, AttributeError):
        facts = read_json(file)
        folds = [*zip(facts["runs"], (Fold(**fold) for fold in facts["folds"]), strict=False)]
        return {name: fold for name, fold in folds if not fold.failure and set(detectors) <= fold.flagged.keys()}
    return {}


def fold_spec(spec: RunSpec, dataset: DomainDataset, domain: str, how: Check) -> RunSpec:
    """Return the run without a domain and, where enough are left there and in all, without one of its classes."""
    present = dataset.read(domain).labels.unique().tolist()
    place = dataset.domains.index(domain)
    enough = len(dataset.classes) > 3 and len(present) > 1
    hidden = (dataset.classes[present[place % len(present)]],) if enough else ()
    apart = replace(spec, test_domain=domain, ood_classes=hidden)
    if how != "short":
        return apart
    translate = spec.translate if dataset.augmentation == NONE else "augment"
    return replace(apart, steps=max(1, spec.steps // 4), translate=translate)


def fold_of(spec: RunSpec, outcome: Outcome) -> Fold:
    """Return what is kept of a finished run."""
    result, record = outcome.evaluation, outcome.record
    y = result.stored.y["target"].numpy()
    said = result.stored.outputs["target"].logits.argmax(1).numpy()
    classes = outcome.split.source.classes
    pairs = Counter((classes[a], classes[b]) for a, b in zip(y.tolist(), said.tolist(), strict=True) if 0 <= a != b)
    return Fold(
        domain=str(spec.test_domain),
        hidden=spec.ood_classes[0] if spec.ood_classes else None,
        pictures=len(y),
        unknown=int((y < 0).sum()),
        accuracy=record.metrics.get("accuracy"),
        guessing=guessing(y[y >= 0], said[y >= 0]),
        auroc={name: record.metrics[name]["auroc"] for name in record.thresholds if record.metrics.get(name)},
        flagged={
            name: list(_flagged(scores.numpy(), result.held[name].numpy(), y < 0))
            for name, scores in result.scores.items()
        },
        confused=[(true, taken, count) for (true, taken), count in pairs.most_common()],
        alone=alone(outcome.split.target, spec.ood_classes),
    )


def alone(target: Pool, hidden: Collection[str]) -> list[str]:
    """Return the classes of a held-out domain that no other domain has, but for those that were hidden on purpose."""
    unknown = [target.units[unit] for unit in target.u[target.y < 0].unique().tolist()]
    return [name for name in unknown if name not in hidden]


def only_there(classes: Sequence[str]) -> str:
    """Name the classes that only a held-out domain has; nothing of none."""
    kind = "class" if len(classes) == 1 else "classes"
    return f"{kind} {first_few(classes, LISTED)}, which only this domain has" if classes else ""


def failed(domain: str, why: str) -> Fold:
    """Return the fold of a domain that could not be held out."""
    return Fold(
        domain, hidden=None, pictures=0, unknown=0, accuracy=None, guessing=None, auroc={}, flagged={}, confused=[],
        failure=why,
    )  # fmt: skip


def _flagged(
    scores: NDArray[np.floating], held: NDArray[np.floating], unknown: NDArray[np.bool_]
) -> Iterator[tuple[float | None, float | None]]:
    for keep in KEEPS:
        above = scores > threshold(held, keep)
        yield share(above[~unknown]), share(above[unknown])


def offered(spec: RunSpec) -> tuple[str, ...]:
    """Return the detectors that a check compares: the paper's, and those of `NEAR` where the network is pretrained."""
    return (*THREE, *NEAR) if spec.pretrained else THREE


def usual(spec: RunSpec) -> str:
    """Return the detector where nothing can be compared."""
    return NEAR[0] if spec.pretrained else "energy"


def best_detector(folds: Sequence[Fold], spec: RunSpec) -> str:
    """Return the detector with the highest AUROC over the folds that have one, or the usual one."""
    means = {
        name: float(np.mean([fold.auroc[name] for fold in folds if name in fold.auroc]))
        for name in offered(spec)
        if any(name in fold.auroc for fold in folds)
    }
    return max(means, key=means.__getitem__) if means else usual(spec)
