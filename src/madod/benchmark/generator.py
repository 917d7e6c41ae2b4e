"""G for a split: trained once, judged, kept under a key that names all that decides it."""

import hashlib
import json
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from filelock import FileLock
from PIL import Image
from torch import Tensor, nn

from madod.algorithms.base import ALGORITHMS
from madod.data.augment import Augmentation
from madod.data.base import Pool
from madod.data.split import Split
from madod.errors import InputError
from madod.models.backbones import build
from madod.models.classifier import Classifier, Setting, no_translate
from madod.models.compute import PLAIN, Compute
from madod.models.weights import Weights
from madod.storage import read_json, whole, write_json
from madod.training import CHECKPOINT, Progress, spent, train
from madod.translation.judge import Bounds, Judgement, gate, grid, judge
from madod.translation.munit import Munit, preset
from madod.translation.translate import PlainAugmentation, freeze, load, save

log = logging.getLogger(__name__)

FORM, JUDGEMENT = 2, 3
"""Versions of G's layers and of how it is judged: one made by others is not taken from the cache."""
SEED = 0
"""G belongs to a split, not to a run: all seeds of a split share it."""
JUDGE_STEPS = 150
"""Steps of the source-trained ERM that judges retention."""
LARGE, JUDGE_BATCH, JUDGED, SHRUNK = 128, 8, 128, 32
"""From this side in pixels on a CPU needs relief: the images of a domain in the judge's batches, those that G is judged
on, and the side at which they are judged where the backbone starts from scratch."""
LEG, LEAST, MOST = 100, 300, 3000
"""Steps between two looks at held-out images, and the fewest and the most, where a criterion ends G's training."""
WORTH_STEPS = 2500
"""Steps of G from which compiling its training pays."""
WORTH_RESTYLING = 700
"""Steps of a method from which compiling the restyling pays."""
GAIN, PATIENCE = 0.02, 3
"""It ends when the last legs rebuilt held-out images no better than the ones before, by this share."""
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
    """Seconds that it took before it was killed, up to the last checkpoint."""


def generator(
    split: Split,
    *,
    steps: int,
    backbone: str,
    augment: Augmentation,
    cache: Path,
    progress: Progress,
    waive: bool,
    weights: Weights | None = None,
    compute: Compute = PLAIN,
    restyling: Compute | None = None,
    compiled: bool = False,
) -> Generator:
    """Return the split's G, trained now or found in the cache; refuse one outside its bounds unless waived.

    With 0 steps it is trained until it rebuilds held-out source images no better (`settled`). Two processes never
    train the same one: the second waits for the first, and goes on where it was killed. `restyling` is how it computes
    afterwards, if not as in training; `compiled` has its training compiled however few the steps.
    """
    large = min(split.source.shape[1:]) >= LARGE
    small = large and weights is None
    examiner = _judge_config(weights, JUDGE_BATCH if large and not small else None)
    start = [] if weights is None else [weights.sha256]
    judged_by = ["small_cnn" if small else backbone, JUDGE_STEPS, examiner, asdict(augment), *start]
    key = _key(split, steps, compute.precision, judged_by)
    folder = cache / "generators" / key[:20]
    folder.mkdir(parents=True, exist_ok=True)
    asked = time.perf_counter()
    with FileLock(folder / "lock"):
        waited, earlier = time.perf_counter() - asked, 0.0
        verdict = _kept(folder)
        if verdict is None:
            earlier = sum(spent(place / CHECKPOINT).get("training", 0.0) for place in (folder, folder / "judge"))
            brief = replace(compute, compiled=False)
            long = compute.over(steps or MOST, least=WORTH_STEPS, insist=compiled)
            munit = _trained(split, steps, folder, key, progress, long)
            frozen = freeze(munit, preset(split.source.shape)[0], brief).to(split.source.device)
            save(frozen, folder / "generator.safetensors")
            net = small_judge if small else partial(build, backbone, weights=weights, compute=brief)
            label = _source_classifier(split.source, net, examiner, augment, folder, key, progress)
            verdict = _judge(munit, frozen, label, split.val, folder, JUDGED if large else 512)
        translate = load(folder / "generator.safetensors", restyling or compute).to(split.source.device)
        grid = (folder / "grid.png").read_bytes()
    bounds = Bounds()
    if not waive:
        gate(verdict, bounds)
    outcome = {**asdict(verdict), "bounds": asdict(bounds), "waived": bool(verdict.failures(bounds)), "key": key}
    return Generator(translate, outcome, grid, waited, earlier)


def _kept(folder: Path) -> Judgement | None:
    """Return the judgement of a G that is in the cache; nothing where there is none, or it is damaged."""
    file = folder / "judgement.json"
    if not all(there.exists() for there in (file, folder / "generator.safetensors", folder / "grid.png")):
        return None
    try:
        return Judgement(**read_json(file))
    except (InputError, TypeError):
        log.warning("making G again, since %s is damaged", file)
        return None


def _key(split: Split, steps: int, precision: str, judged_by: list[Any]) -> str:
    """Return a hash of all that decides a G and its judgement."""
    architecture, config = preset(split.source.shape)
    facts = {"images": split.source.fingerprint(), "held": split.val.fingerprint(), "seed": SEED, "steps": steps}
    facts |= {"architecture": asdict(architecture), "config": asdict(config), "judged": JUDGEMENT, "form": FORM}
    facts |= {"judge": judged_by} | ({"precision": precision} if precision != "float32" else {})
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def settled(curve: Sequence[float]) -> bool:
    """Tell whether G has stopped learning: the last legs' best is hardly below the best before them.

    min(r_k-2 .. r_k) > 0.98 min(r_1 .. r_k-3), r the reconstruction error on held-out source images after each leg.
    """
    if len(curve) * LEG < LEAST or len(curve) <= PATIENCE:
        return False
    return len(curve) * LEG >= MOST or min(curve[-PATIENCE:]) > (1 - GAIN) * min(curve[:-PATIENCE])


def _trained(split: Split, steps: int, folder: Path, identity: str, progress: Progress, compute: Compute) -> Munit:
    source = split.source
    architecture, config = preset(source.shape)
    munit = Munit(architecture, config, torch.Generator(source.device).manual_seed(SEED), seed=SEED, compute=compute)
    munit.to(source.device)
    rng = np.random.default_rng(SEED)

    def to(step: int) -> None:
        train(
            munit, source, rng,
            steps=step, out=folder, identity=identity, stage="generator", progress=progress, remedy=REMEDY,
        )  # fmt: skip

    if steps:
        to(steps)
        return munit
    file = folder / "reconstruction.json"
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


def _judge(munit: Munit, translate: nn.Module, label: Any, held_out: Pool, folder: Path, most: int) -> Judgement:
    """Measure G and leave its picture grid, its judgement last; then checkpoints are no longer needed."""
    device = held_out.device
    verdict = judge(translate, label, held_out, torch.Generator(device).manual_seed(SEED), most=most)
    verdict = replace(verdict, reconstruction=munit.reconstruction(held_out, most=most // 2), steps=munit.step)
    _save_grid(grid(translate, held_out, torch.Generator(device).manual_seed(SEED)), folder / "grid.png")
    write_json(folder / "judgement.json", asdict(verdict))
    for checkpoint in folder.rglob(CHECKPOINT):
        checkpoint.unlink()
    return verdict


def plain(augmentation: Augmentation) -> Generator:
    """Return the control without G: the dataset's augmentation with twice the colour."""
    control = replace(augmentation, jitter=min(1.0, 2 * augmentation.jitter), grey=min(1.0, 2 * augmentation.grey))
    return Generator(PlainAugmentation(control), {"control": asdict(control)}, None)


def _judge_config(weights: Weights | None, batch: int | None) -> dict[str, Any]:
    given = {"batch": batch} if batch else {}
    return asdict(ALGORITHMS["erm"].Config.preset(pretrained=weights is not None, **given))


def small_judge(*, channels: int, classes: int, seed: int) -> Classifier:
    """Return the small network behind a shrinking of large images: from scratch, few steps teach a deep one little."""
    net = build("small_cnn", channels=channels, classes=classes, seed=seed)
    net.featurizer = nn.Sequential(nn.AdaptiveAvgPool2d(SHRUNK), net.featurizer)
    return net


def _source_classifier(
    source: Pool,
    build_net: Callable[..., Classifier],
    config: dict[str, Any],
    augment: Augmentation,
    folder: Path,
    identity: str,
    progress: Progress,
) -> Any:
    """Return the verdict (n,) of an ERM trained on the source images."""
    method = ALGORITHMS["erm"]
    make_net = partial(build_net, channels=source.shape[0], classes=len(source.classes), seed=SEED)
    setting = Setting(make_net, len(source.domains), no_translate, augment, JUDGE_STEPS)
    learner = method(method.Config(**config), setting, torch.Generator(source.device).manual_seed(SEED))
    learner.to(source.device)
    rng = np.random.default_rng(SEED)
    train(
        learner, source, rng,
        steps=JUDGE_STEPS, out=folder / "judge", identity=identity,
        stage="judge of G", progress=progress, remedy=REMEDY,
    )  # fmt: skip
    net = learner.deploy(source, rng).eval()
    return lambda images: net(images).logits.argmax(1)


def _save_grid(picture: Tensor, file: Path) -> None:
    with whole(file) as part:
        Image.fromarray(picture.permute(1, 2, 0).numpy()).save(part, format="PNG")
