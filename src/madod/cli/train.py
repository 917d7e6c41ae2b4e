"""`madod train`: a folder of pictures, or a known dataset, to a saved model."""

import dataclasses
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from madod.cli.arguments import Switch, left_open, parse, torch_device
from madod.cli.datasets import warn_of_differences
from madod.cli.escaped import escaped
from madod.cli.once import once_each
from madod.cli.progress import shown
from madod.data.opening import Opening, own_folder
from madod.errors import InputError, typed

if TYPE_CHECKING:
    from madod.algorithms.base import BaseConfig
    from madod.fitting.choose import Choice
    from madod.fitting.fit import Fitted
    from madod.fitting.prepare import Look, Ready
    from madod.progress import Progress

ABOUT = """Train a classifier on several domains.

DATA is a folder of your own, DATA/DOMAIN/CLASS/*.jpg, or the name of a dataset (madod list datasets). All domains are
used for training unless --test-domain keeps one apart to test on; --ood-class hides a class from training, so that the
test shows whether it is flagged. A fifth of the training domains' images is held out for the threshold.
Killed at any moment, the same command goes on where it was.

Of a folder of your own it first says what is in it, what it chooses and why, and how long it will take; then it holds
every domain out once for a short training (--check), trains, and leaves report.html in --out: how it does in a domain
that it has not seen, which classes it confuses, and what would be flagged at which threshold.

The last group of options belongs to the algorithm; `madod train --algorithm NAME --help` shows those of another. Its
defaults are shown for a network from scratch; --pretrained NAME --help shows those for a pretrained one."""


@dataclass(frozen=True)
class Train:
    """What to train on, with what, and where to put it."""

    data: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="DATA")]
    """Your folder (DATA/DOMAIN/CLASS/*.jpg), or a dataset's name such as digits; a folder of that name is ./digits."""
    out: Annotated[Path, tyro.conf.arg(metavar="DIR")]
    """Folder for the model, its record, its history and report.html."""
    root: Annotated[Path | None, left_open("DIR")] = None
    """Folder that a known dataset lies in; `madod data NAME --root DIR` fetches or checks it."""
    algorithm: Annotated[str, tyro.conf.arg(metavar="NAME")] = "madod"
    """Training method; `madod list algorithms` lists them."""
    test_domain: Annotated[str | None, left_open("DOMAIN")] = None
    """Domain that training never sees and the test is done on."""
    ood_class: Annotated[tuple[str, ...], left_open("CLASS ...")] = ()
    """Classes that training never sees and the test should flag."""
    ood_folder: Annotated[Path | None, left_open("DIR")] = None
    """Pictures of your own that show nothing known: never trained on, only scored in the end."""
    check: Annotated[Literal["short", "full", "none"] | None, left_open("short|full|none")] = None
    """Hold every domain out once, with a class hidden: short takes a quarter of the steps a domain, and plain
    augmentation for G where it can stand in, full as long as the training itself; short for a folder of your own
    without --test-domain and --ood-class, else none."""
    detector: Annotated[str | None, left_open("NAME")] = None
    """Detector that ships with the model (`madod list detectors`); the best of msp, energy and ddu in the check, and of
    knn and vim where the network is pretrained; without a check energy, or knn."""
    steps: Annotated[int | None, left_open("N")] = None
    """Training steps; 500 for small_cnn, 1000 for others; your own pictures with a pretrained network
    get 1200, on a CPU 300."""
    backbone: Annotated[str | None, left_open("NAME")] = None
    """small_cnn, wrn_16_2, efficientnet_lite0, resnet18, resnet50, resnet50_v1, or timm:NAME where timm is installed;
    small_cnn up to 48 px, else efficientnet_lite0 where its weights are installed, else resnet18. Pretrained files of
    ResNet-50 do not show by their shapes which they are for: resnet50 is v1.5 (3x3 convolutions carry the strides:
    torchvision's weights), resnet50_v1 v1 (the first 1x1 do)."""
    pretrained: Annotated[str | None, left_open("FILE|NAME|none")] = None
    """Weights that the backbone starts with: a .safetensors, .pth or .pt file, efficientnet_lite0 (a package),
    resnet18, resnet50 or resnet50_imagenet1k_v2 (torchvision's, fetched once), or none; efficientnet_lite0's own where
    that is the backbone and they are installed."""
    translate: Annotated[Literal["munit", "augment"] | None, left_open("munit|augment")] = None
    """What restyles pictures for the methods that ask for it: munit, a generator G that is trained for it first, or
    augment, plain augmentation; munit, but for your own pictures above 64 px on a CPU."""
    translate_steps: Annotated[int | None, left_open("N")] = None
    """Training steps of G; 200 below 128 px, and from there on 0: until G rebuilds held-out images of the training
    domains no better, at most 3,000."""
    precision: Annotated[Literal["float32", "bfloat16"] | None, left_open("float32|bfloat16")] = None
    """What networks compute in; bfloat16 from 128 px on a GPU that has it, else float32."""
    waive_gate: Switch = False
    """Go on with a G that loses what pictures show, or hardly restyles them; the record says so."""
    seed: int = 0
    """Seed of weights and batches."""
    split_seed: int = 0
    """Seed of the division into training and held-out images."""
    size: Annotated[int | None, left_open("PIXELS")] = None
    """Side of the square that pictures are squeezed to; 224 in known datasets of photographs. In a folder 32 where the
    median shorter side is at most 48 px; else 64 from scratch, and for a pretrained network 96 on a CPU, up to
    224 on a GPU."""
    skip_bad: Switch = False
    """Leave out files that cannot be read instead of stopping."""
    device: str = "auto"
    """cpu, cuda, or auto."""
    cache: Annotated[Path | None, left_open("DIR")] = None
    """Where decoded pictures and generators are kept; by default in your cache folder."""
    quiet: Switch = False
    """Print nothing but the result."""


def main(arguments: Sequence[str]) -> int:
    """Look, choose, check, train, save, and say how it did."""
    with once_each():
        return carried_out(arguments)


def carried_out(arguments: Sequence[str]) -> int:
    """Do what the words behind the verb say."""
    how, _ = arguments_of(arguments)
    if how.ood_folder is not None:
        from madod.fitting.strangers import kept_apart, warn_of_copies

        own = own_folder(how.data, how.root)
        kept_apart(how.ood_folder, own, skip_bad=how.skip_bad)
        if own is not None and own.is_dir():
            warn_of_copies(how.ood_folder, own, test_domain=how.test_domain, ood_classes=how.ood_class)
    with shown(how.quiet) as progress:
        made, look = trained(how, arguments, progress)
    from madod.fitting.page import write_page

    write_page(how.out, look, made)
    sys.stdout.write(summary(how, made))
    return 0


def arguments_of(arguments: Sequence[str], choice: "Choice | None" = None) -> tuple[Train, dict[str, Any]]:
    """Return the common arguments, and all hyper-parameters of the algorithm: those named, the others by its presets.

    The presets depend on what the network starts with, which is a choice where the command leaves it open.
    """
    from madod.algorithms.base import ALGORITHMS
    from madod.benchmark.settings import hparams

    algorithm = _wanted(arguments, "--algorithm", Train.algorithm)
    _refuse_shared(ALGORITHMS[algorithm].Config, algorithm)
    start = _wanted(arguments, "--pretrained", "none")
    default = choice.hparams(algorithm) if choice else hparams(algorithm, pretrained=start != "none")
    method = offered(ALGORITHMS[algorithm].Config, whole=choice is not None)
    form = dataclasses.make_dataclass(
        "TrainWithConfig", [("common", Train), ("method", method, dataclasses.field(default=method(**default)))],
        frozen=True,
    )  # fmt: skip
    try:
        both: Any = parse(form, arguments, "train", ABOUT)
    except InputError:
        _refuse_foreign(arguments, algorithm)
        raise
    return both.common, dataclasses.asdict(both.method)


def _refuse_shared(config: "type[BaseConfig]", algorithm: str) -> None:
    """Refuse a hyper-parameter that is called as something that every training is told: no flag could mean both."""
    taken = {each.name for each in dataclasses.fields(Train)}
    if shared := [each.name for each in dataclasses.fields(config) if each.name in taken]:
        raise InputError(
            f"{algorithm} has a hyper-parameter {shared[0]!r}, which madod train takes for something else: "
            "call the field of its Config by another name"
        )


def _refuse_foreign(arguments: Sequence[str], algorithm: str) -> None:
    """Refuse an option that only other algorithms have, and name them."""
    from madod.algorithms.base import ALGORITHMS

    owners: dict[str, list[str]] = {}
    for name in ALGORITHMS:
        for each in dataclasses.fields(ALGORITHMS[name].Config):
            owners.setdefault(f"--{each.name.replace('_', '-')}", []).append(name)
    for flag in (word.partition("=")[0] for word in arguments):
        if algorithm not in owners.get(flag, [algorithm]):
            raise InputError(
                f"{flag} is an option of {', '.join(owners[flag])}, not of {algorithm}: "
                f"madod train --algorithm {algorithm} --help says what there is"
            )


def offered(config: "type[BaseConfig]", *, whole: bool) -> "type[BaseConfig]":
    """Return a method's configuration with flags for those fields only that it has a use for.

    While presets are open it is not whole, and what fields have to be to each other does not show yet.
    """
    from madod.algorithms.base import BaseConfig

    hidden: list[Any] = [
        (each.name, Annotated[Any, tyro.conf.Suppress], dataclasses.field(default=each.default))
        for each in dataclasses.fields(config)
        if each.name in config.unused
    ]
    each_alone = {} if whole else {"__post_init__": BaseConfig.__post_init__}
    return dataclasses.make_dataclass(config.__name__, hidden, bases=(config,), namespace=each_alone, frozen=True)


def _wanted(arguments: Sequence[str], flag: str, wanted: str) -> str:
    """Return the word behind a flag that decides what other flags there are or start with."""
    for word, following in zip(arguments, [*arguments[1:], ""], strict=False):
        if word == flag:
            wanted = following
        elif word.startswith(f"{flag}="):
            wanted = word.partition("=")[2]
    return wanted


def trained(how: Train, arguments: Sequence[str], progress: "Progress") -> "tuple[Fitted, Look]":
    """Carry it all through, and say beforehand what will be done."""
    from madod.benchmark.record import RECORD
    from madod.fitting.choose import Wishes
    from madod.fitting.fit import carry_out
    from madod.fitting.prepare import prepare
    from madod.training import CHECKPOINT, reached

    ready = prepare(
        how.data,
        Opening(how.root, how.size, how.skip_bad, how.cache),
        Wishes(
            size=how.size, backbone=how.backbone, pretrained=how.pretrained, steps=how.steps, translate=how.translate,
            translate_steps=how.translate_steps, check=how.check, precision=how.precision, test_domain=how.test_domain,
            ood_classes=how.ood_class, algorithm=how.algorithm, detector=how.detector, seed=how.seed,
            split_seed=how.split_seed,
        ),
        hparams=lambda choice: arguments_of(arguments, choice)[1],
        device=torch_device(how.device),
        out=how.out,
        before=lambda look: say(how, noticed(look, unread=how.skip_bad)),
        progress=progress,
    )  # fmt: skip
    warn_of_differences(ready.dataset)
    if done := reached(how.out / CHECKPOINT):
        say(how, [f"going on from step {done} of {ready.spec.steps}"])
    elif ready.look.survey is not None and not (how.out / RECORD).exists():
        say(how, [foreseen(ready, how.out)])
    made = carry_out(ready, out=how.out, unknowns=how.ood_folder, waive_gate=how.waive_gate, progress=progress)
    return made, ready.look


def noticed(look: "Look", *, unread: bool) -> list[str]:
    """Say what is in a folder of a person's own, and what is chosen and why; `unread` as in `Survey.lines`."""
    said = [] if look.survey is None else look.survey.lines(missing=False, unread=unread)
    return [*said, *(f"> {reason}" for reason in look.choice.reasons if said)]


def say(how: Train, lines: Sequence[str]) -> None:
    """Tell a person something beforehand."""
    if not how.quiet:
        sys.stderr.write("".join(f"{escaped(line)}\n" for line in lines))
        sys.stderr.flush()


def foreseen(ready: "Ready", out: Path) -> str:
    """Say how long it will take, from a few steps; what is done of the check already takes none."""
    from madod.fitting.check import awaited
    from madod.fitting.estimate import estimate, told

    spec, dataset, check = ready.spec, ready.dataset, ready.look.choice.check
    pace = estimate(spec, dataset, ready.weights, ready.device)
    whole = pace.seconds(spec)
    folds = sum(map(pace.seconds, awaited(spec, dataset, check, out, detectors=ready.detectors, images=ready.images)))
    apart = f" and {told(folds)} for the check" if folds else ""
    return f"this will take {told(whole)}{apart} ({spec.steps} steps of {pace.step:.2g} s here); --steps shortens it"


def summary(how: Train, made: "Fitted") -> str:
    """Say in a few lines how well it does, and what to type next."""
    from madod.fitting.prepare import REPORT

    lines = [*of_labels(made), *of_unknowns(made)]
    lines += [f"warning: {sentence}" for sentence in made.check.warnings]
    lines.append(f"report: {how.out / REPORT}")
    lines.append(f"model: {how.out}; try: madod predict {typed(how.out)} PICTURES")
    return "\n".join(map(escaped, lines)) + "\n"


def of_labels(made: "Fitted") -> Iterator[str]:
    """Say how many labels are right: of held-out pictures, in every domain that was held out, and in the unseen one."""
    from madod.fitting.check import only_there

    metrics = made.outcome.record.metrics
    yield f"held-out images of the training domains: {metrics['val_accuracy']:.1%} right"
    for fold in made.folds:
        if fold.accuracy is not None:
            auroc = fold.auroc.get(made.detector)
            hidden = f"hidden class {fold.hidden}" if fold.hidden else ""
            what = " and ".join(filter(None, (hidden, only_there(fold.alone)))) or "classes that only this domain has"
            apart = "" if auroc is None else f"; {what}: AUROC {auroc:.3f}"
            yield f"check without {fold.domain}: {fold.accuracy:.1%} right there{apart}"
        elif not fold.failure:
            yield f"check without {fold.domain}: no class there that another domain has, so nothing to label"
    if "accuracy" in metrics:
        yield f"unseen domain {made.spec.test_domain}: {metrics['accuracy']:.1%} right"


def of_unknowns(made: "Fitted") -> Iterator[str]:
    """Say how well every detector tells unknown classes apart, and what is said of a person's own unknowns."""
    record, strangers = made.outcome.record, made.strangers
    for name in made.outcome.evaluation.detectors:
        if found := record.metrics.get(name):
            yield (
                f"unknown classes by {name}: AUROC {found['auroc']:.3f}, "
                f"AUPR {found['aupr']:.3f} (guessing {found['base_rate']:.3f})"
            )
    if strangers is not None:
        share = strangers.flagged(record.thresholds[made.detector]) or 0
        flagged = f"{share:.1%} of {len(strangers.scores):,} pictures flagged by {made.detector}"
        apart = "" if strangers.auroc is None else f"; AUROC {strangers.auroc:.3f} against held-out pictures"
        left = f"; {len(strangers.unreadable):,} more cannot be read" if strangers.unreadable else ""
        yield f"your unknowns in {strangers.folder}: {flagged}{apart}{left}"
