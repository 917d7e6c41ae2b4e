"""`madod train`: a folder of pictures, or a known dataset, to a saved model."""

import dataclasses
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from madod.cli.arguments import Switch, cache_folder, parse, torch_device
from madod.cli.datasets import warn_of_differences
from madod.cli.progress import shown
from madod.data.opening import Opening, open_dataset
from madod.errors import InputError

if TYPE_CHECKING:
    from madod.benchmark.record import RunSpec
    from madod.benchmark.run import Outcome
    from madod.data.base import DomainDataset
    from madod.models.weights import Weights
    from madod.training import Progress

ABOUT = """Train a classifier on several domains.

DATA is a folder of your own, DATA/DOMAIN/CLASS/*.jpg, or the name of a dataset (madod list datasets). All domains are
used for training unless --test-domain keeps one apart to test on; --ood-class hides a class from training, so that the
test shows whether it is flagged. A fifth of the training domains' images is held out for the threshold.
Killed at any moment, the same command goes on where it was.

The last group of options belongs to the algorithm; `madod train --algorithm NAME --help` shows those of another."""


@dataclass(frozen=True)
class Train:
    """What to train on, with what, and where to put it."""

    data: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="DATA")]
    """Your folder (DATA/DOMAIN/CLASS/*.jpg), or a dataset's name such as digits."""
    out: Annotated[Path, tyro.conf.arg(metavar="DIR")]
    """Folder for the model, its record and its history."""
    root: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """Folder that a known dataset lies in; `madod data NAME --root DIR` fetches or checks it."""
    algorithm: Annotated[str, tyro.conf.arg(metavar="NAME")] = "madod"
    """Training method; `madod list algorithms` lists them."""
    test_domain: Annotated[str | None, tyro.conf.arg(metavar="DOMAIN")] = None
    """Domain that training never sees and the test is done on."""
    ood_class: Annotated[tuple[str, ...], tyro.conf.arg(metavar="CLASS ...")] = ()
    """Classes that training never sees and the test should flag."""
    detector: Annotated[str, tyro.conf.arg(metavar="NAME")] = "energy"
    """Detector that ships with the model; `madod list detectors` lists them."""
    steps: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    """Training steps; 500 for small_cnn, 1000 for others."""
    backbone: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None
    """small_cnn, wrn_16_2, efficientnet_lite0, resnet18, resnet50, resnet50_v1, or timm:NAME where timm is installed;
    small_cnn up to 48 px, else resnet18. Pretrained files of ResNet-50 do not show by their shapes which they are for:
    resnet50 is v1.5 (3x3 convolutions carry the strides: torchvision's weights), resnet50_v1 v1 (the first 1x1 do)."""
    pretrained: Annotated[str, tyro.conf.arg(metavar="FILE|NAME|none")] = "none"
    """Weights that the backbone starts with: a .safetensors, .pth or .pt file, or efficientnet_lite0 (a package)."""
    translate: Literal["munit", "augment"] = "munit"
    """G, or plain augmentation in its place."""
    translate_steps: int = 200
    """Training steps of G."""
    waive_gate: Switch = False
    """Go on with a G that misses its bounds; the record says so."""
    seed: int = 0
    """Seed of weights and batches."""
    split_seed: int = 0
    """Seed of the division into training and held-out images."""
    size: Annotated[int | None, tyro.conf.arg(metavar="PIXELS")] = None
    """Side of the square that pictures are squeezed to; 224 in known datasets, 32 or 64 by a folder's own pictures."""
    skip_bad: Switch = False
    """Leave out files that cannot be read instead of stopping."""
    device: str = "auto"
    """cpu, cuda, or auto."""
    cache: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """Where decoded pictures and generators are kept; by default in your cache folder."""
    quiet: Switch = False
    """Print nothing but the result."""


def main(arguments: Sequence[str]) -> int:
    """Train, save, and say how it did."""
    how, given = arguments_of(arguments)
    with shown(how.quiet) as progress:
        opening = Opening(how.root, how.size, how.skip_bad, how.cache, how.test_domain, how.ood_class)
        dataset = open_dataset(how.data, opening, progress)
        warn_of_differences(dataset)
        outcome = trained(how, given, dataset, progress)
    sys.stdout.write(summary(how, outcome))
    return 0


def arguments_of(arguments: Sequence[str]) -> tuple[Train, dict[str, Any]]:
    """Return the common arguments, and the hyper-parameters of the algorithm that differ from its presets."""
    from madod.algorithms.base import ALGORITHMS
    from madod.benchmark.run import hparams

    algorithm = _wanted(arguments, "--algorithm", Train.algorithm)
    config, pretrained = ALGORITHMS[algorithm].Config, _wanted(arguments, "--pretrained", Train.pretrained) != "none"
    default = config(**hparams(algorithm, pretrained=pretrained))
    form = dataclasses.make_dataclass(
        "TrainWithConfig", [("common", Train), ("method", config, dataclasses.field(default=default))], frozen=True
    )
    both: Any = parse(form, arguments, "train", ABOUT)
    return both.common, dataclasses.asdict(both.method)


def _wanted(arguments: Sequence[str], flag: str, wanted: str) -> str:
    """Return the word behind a flag that decides what other flags there are or start with."""
    for word, following in zip(arguments, [*arguments[1:], ""], strict=False):
        if word == flag:
            wanted = following
        elif word.startswith(f"{flag}="):
            wanted = word.partition("=")[2]
    return wanted


def trained(how: Train, hparams: dict[str, Any], dataset: "DomainDataset", progress: "Progress") -> "Outcome":
    """Carry the run through."""
    from madod.benchmark.run import DETECTORS_OF_THE_PAPER, run
    from madod.detectors.base import DETECTORS
    from madod.models.pretrained import pretrained

    DETECTORS[how.detector]  # an unknown name is refused before anything long starts
    weights = pretrained(how.pretrained)
    return run(
        spec_of(how, hparams, dataset, weights),
        dataset,
        out=how.out,
        cache=cache_folder(how.cache),
        device=torch_device(how.device),
        weights=weights,
        detectors=tuple(dict.fromkeys((*DETECTORS_OF_THE_PAPER, how.detector))),
        ship=how.detector,
        waive_gate=how.waive_gate,
        progress=progress,
    )


def spec_of(
    how: Train, hparams: dict[str, Any], dataset: "DomainDataset", weights: "Weights | None" = None
) -> "RunSpec":
    """Return the run that the arguments describe, with what was left open filled in."""
    from madod.benchmark.record import RunSpec
    from madod.models.backbones import check_backbone
    from madod.models.pretrained import PACKAGED

    if weights is not None and how.backbone is None and how.pretrained not in PACKAGED:
        raise InputError(f"--pretrained {how.pretrained} needs the network that it is for: give --backbone too")
    usual = "small_cnn" if dataset.shape[1] <= 48 else "resnet18"
    packaged = PACKAGED.get(how.pretrained)
    backbone = check_backbone(how.backbone or (packaged.backbone if packaged else usual))
    steps = how.steps if how.steps is not None else 500 if backbone == "small_cnn" else 1000
    for flag, number in (("--steps", steps), ("--translate-steps", how.translate_steps)):
        if number < 1:
            raise InputError(f"{flag} {number} is no number of steps: give 1 or more")
    for flag, number in (("--seed", how.seed), ("--split-seed", how.split_seed)):
        if number < 0:
            raise InputError(f"{flag} {number} is no seed: give 0 or more")
    name = Path(how.data).resolve().name if dataset.name == how.data and Path(how.data).is_dir() else how.data
    return RunSpec(
        name, how.test_domain, how.ood_class, how.algorithm, how.seed, how.split_seed, steps, backbone,
        how.translate, how.translate_steps, hparams, weights.label if weights else None,
    )  # fmt: skip


def summary(how: Train, outcome: "Outcome") -> str:
    """Say in a few lines how well it does, and what to type next."""
    metrics, lines = outcome.record.metrics, []
    lines.append(f"held-out images of the training domains: {metrics['val_accuracy']:.1%} right")
    if metrics["val_accuracy"] * len(outcome.split.source.classes) < 1.5:
        lines.append("that is hardly better than guessing: train longer (--steps) or add pictures before you trust it")
    if "accuracy" in metrics:
        lines.append(f"unseen domain {how.test_domain}: {metrics['accuracy']:.1%} right")
    for name in outcome.evaluation.detectors:
        if found := metrics.get(name):
            lines.append(
                f"unknown classes by {name}: AUROC {found['auroc']:.3f}, "
                f"AUPR {found['aupr']:.3f} (guessing {found['base_rate']:.3f})"
            )
    lines.append(f"model: {how.out}; try: madod predict {how.out} PICTURES")
    return "\n".join(lines) + "\n"
