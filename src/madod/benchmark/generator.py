"""G for a split: trained once, judged, kept under a key that names all that decides it."""

import hashlib
import json
import logging
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from filelock import FileLock
from PIL import Image
from torch import Tensor, nn

from madod.benchmark.examiner import JUDGED, SEED, Examiner
from madod.benchmark.resources import Resources
from madod.data.augment import Augmentation
from madod.data.base import Pool
from madod.data.split import Split
from madod.errors import InputError
from madod.models.compute import PLAIN, Compute
from madod.models.recorded import forget
from madod.storage import ordinary, read_json, whole, write_json
from madod.training import CHECKPOINT, Logbook, own_threads, spent, train
from madod.translation.judge import Bounds, Judgement, Label, gate, grid, judge
from madod.translation.munit import Munit, preset
from madod.translation.translate import PlainAugmentation, Translate, freeze, load, save

log = logging.getLogger(__name__)

WEIGHTS, GRID, VERDICT = "generator.safetensors", "grid.png", "judgement.json"
"""The files of a G in the cache."""
CHECKSUM = "sha256"
"""Of all three, beside the judgement."""
FORM, JUDGEMENT = 2, 3
"""Versions of G's layers and of how it is judged: one made by others is not taken from the cache."""
LEG, MOST = 100, 3000
"""Steps between two looks at held-out images, and the most of all, where a criterion ends G's training."""
WORTH_STEPS = 2500
"""Steps of G from which compiling its training pays."""
GAIN, PATIENCE = 0.02, 3
"""It ends when so many legs rebuilt held-out images no better than those before them, by this share."""
REMEDY = "look at the images for anything extreme, or do without G (translate augment)"


@dataclass(frozen=True)
class Generator:
    """G, ready to use, and what is known of it."""

    translate: nn.Module
    judgement: dict[str, Any]
    grid: bytes | None
    """A picture of restylings (PNG)."""
    waited: float = 0.0
    """Seconds that another process took to make it."""
    earlier: float = 0.0
    """Seconds that it took before it was killed, up to the last checkpoint; 0 of one that is found finished."""


def generator(
    split: Split,
    examiner: Examiner,
    resources: Resources,
    *,
    steps: int,
    compute: Compute = PLAIN,
    restyling: Compute | None = None,
) -> Generator:
    """Return the split's G, trained now or found in the cache; refuse one outside its bounds unless waived.

    With 0 steps it is trained until it rebuilds held-out source images no better (`settled`). Two processes never
    train the same one: the second waits for the first, and goes on where it was killed. `restyling` is how it computes
    afterwards, if not as in training.
    """
    key = _key(split, steps, compute.precision, examiner.facts(split.source))
    folder = resources.cache / "generators" / key[:20]
    folder.mkdir(parents=True, exist_ok=True)
    asked = time.perf_counter()
    with FileLock(folder / "lock"), own_threads():
        waited, earlier = time.perf_counter() - asked, 0.0
        kept = _kept(folder, restyling or compute)
        if kept is None:
            earlier = sum(spent(place / CHECKPOINT).get("training", 0.0) for place in (folder, folder / "judge"))
            logbook = Logbook(folder, key, "generator", resources.progress, REMEDY)
            long = compute.over(steps or MOST, least=WORTH_STEPS, insist=resources.compiled)
            _make(split, examiner, steps, logbook, long)
            torch.cuda.empty_cache()  # of G's training: others may share the GPU
            kept = _read(folder, restyling or compute)
    translate, known = kept.translate.to(split.source.device), _admitted(kept.verdict, resources.waive_gate)
    return Generator(translate, known | {"key": key}, kept.picture, waited, earlier)


def _make(split: Split, examiner: Examiner, steps: int, logbook: Logbook, compute: Compute) -> None:
    """Train G, freeze it and have it judged; all that came out is in the folder then."""
    source, folder, brief = split.source, logbook.out, replace(compute, compiled=False)
    munit = _trained(split, steps, logbook, compute)
    forget(munit)
    frozen = freeze(munit, preset(source.shape)[0], brief).to(source.device)
    save(frozen, folder / WEIGHTS)
    label = examiner.trained(source, replace(logbook, out=folder / "judge", stage="judge of G"), brief)
    _judge(munit, frozen, label, split.val, folder, examiner.images(source))


def _admitted(verdict: Judgement, waive: bool) -> dict[str, Any]:
    """Return what a record says of a G; refuse one outside its bounds unless waived."""
    bounds = Bounds()
    if not waive:
        gate(verdict, bounds)
    return {**asdict(verdict), "bounds": asdict(bounds), "waived": bool(verdict.failures(bounds))}


class _Kept(NamedTuple):
    """What the cache holds of a G."""

    translate: Translate
    verdict: Judgement
    picture: bytes


def _kept(folder: Path, compute: Compute) -> _Kept | None:
    """Return a G that is in the cache; nothing where there is none, or it is damaged."""
    if not all((folder / name).exists() for name in (VERDICT, WEIGHTS, GRID)):
        return None
    try:
        return _read(folder, compute)
    except (InputError, OSError) as error:
        log.warning("making G again, since it is damaged: %s", error)
        (folder / VERDICT).unlink(missing_ok=True)  # it goes with the files that were there
        return None


def _read(folder: Path, compute: Compute) -> _Kept:
    """Return the G of a folder; refuse one that is not what was written."""
    facts = read_json(folder / VERDICT)
    try:
        checksum = facts.pop(CHECKSUM, None)  # older ones have none
        verdict = Judgement(**facts)
    except (AttributeError, TypeError) as error:
        raise InputError(f"{folder / VERDICT} does not hold a judgement ({error})") from error
    if not all(isinstance(value, int | float) for value in facts.values()):
        raise InputError(f"{folder / VERDICT} holds other things than numbers")
    if checksum not in (None, _checksum(folder, verdict)):
        raise InputError(f"{folder} holds other things than its checksum was made of")
    return _Kept(load(folder / WEIGHTS, compute), verdict, (folder / GRID).read_bytes())


def _checksum(folder: Path, verdict: Judgement) -> str:
    """Return a hash of G's weights, its picture grid and its judgement."""
    digest = hashlib.sha256(json.dumps(asdict(verdict), sort_keys=True).encode())
    for name in (WEIGHTS, GRID):
        digest.update(ordinary(folder / name).read_bytes())
    return digest.hexdigest()


def _key(split: Split, steps: int, precision: str, judged_by: list[Any]) -> str:
    """Return a hash of all that decides a G and its judgement."""
    architecture, config = preset(split.source.shape)
    facts = {"images": split.source.fingerprint, "held": split.val.fingerprint, "seed": SEED, "steps": steps}
    facts |= {"architecture": asdict(architecture), "config": asdict(config), "judged": JUDGEMENT, "form": FORM}
    facts |= {"judge": judged_by} | ({"precision": precision} if precision != "float32" else {})
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def settled(curve: Sequence[float]) -> bool:
    """Tell whether G has stopped learning: the last legs' best is hardly below the best before them.

    min(r_k-2 .. r_k) > 0.98 min(r_1 .. r_k-3), r the reconstruction error on held-out source images after each leg.
    """
    if len(curve) <= PATIENCE:
        return False
    return len(curve) * LEG >= MOST or min(curve[-PATIENCE:]) > (1 - GAIN) * min(curve[:-PATIENCE])


def _trained(split: Split, steps: int, logbook: Logbook, compute: Compute) -> Munit:
    source = split.source
    architecture, config = preset(source.shape)
    munit = Munit(architecture, config, torch.Generator(source.device).manual_seed(SEED), seed=SEED, compute=compute)
    munit.to(source.device)
    rng = np.random.default_rng(SEED)

    def to(step: int) -> None:
        train(munit, source, rng, logbook, steps=step)

    if steps:
        to(steps)
        return munit
    file = logbook.out / "reconstruction.json"
    curve = _curve(file)
    to(LEG * max(1, len(curve)))
    while not settled(curve):
        to(LEG * (len(curve) + 1))
        curve.append(munit.reconstruction(split.val, most=JUDGED))
        write_json(file, curve)
    return munit


def _curve(file: Path) -> list[float]:
    """Return the errors after G's legs so far; where the file is damaged, its training starts again."""
    if not file.exists():
        return []
    try:
        return [float(error) for error in read_json(file)]
    except (ValueError, TypeError):
        log.warning("training G again, since %s is damaged", file)
        (file.parent / CHECKPOINT).unlink(missing_ok=True)
        return []


def _judge(munit: Munit, translate: nn.Module, label: Label, held_out: Pool, folder: Path, most: int) -> None:
    """Measure G and leave its picture grid, its judgement last; then checkpoints are no longer needed."""
    device = held_out.device
    rebuilt = munit.reconstruction(held_out, most=most // 2)
    rng = torch.Generator(device).manual_seed(SEED)
    verdict = judge(translate, label, held_out, rng, most=most, reconstruction=rebuilt, steps=munit.step)
    _save_grid(grid(translate, held_out, torch.Generator(device).manual_seed(SEED)), folder / GRID)
    write_json(folder / VERDICT, {**asdict(verdict), CHECKSUM: _checksum(folder, verdict)})
    for checkpoint in folder.rglob(CHECKPOINT):
        checkpoint.unlink()


def plain(augmentation: Augmentation) -> Generator:
    """Return the control without G: the dataset's augmentation with twice the colour."""
    control = replace(augmentation, jitter=min(1.0, 2 * augmentation.jitter), grey=min(1.0, 2 * augmentation.grey))
    return Generator(PlainAugmentation(control), {"control": asdict(control)}, None)


def _save_grid(picture: Tensor, file: Path) -> None:
    with whole(file) as part:
        Image.fromarray(picture.permute(1, 2, 0).numpy()).save(part, format="PNG")
