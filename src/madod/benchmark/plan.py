"""A plan: what a sweep compares, on what, and how often; the fields below are the keys of its TOML file."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from madod.benchmark.record import RunSpec
from madod.detectors import THREE

Unknown = str | tuple[str | tuple[str, ...], ...]
Settings = Mapping[str, Mapping[str, Any]]
"""Hyper-parameters by algorithm: values, or ranges such as { uniform = [-9, -7] } to draw them from."""


def together(groups: Iterable[str | tuple[str, ...]]) -> tuple[tuple[str, ...], ...]:
    """Return the classes that are unknown in each run, one by itself or several at once."""
    return tuple((group,) if isinstance(group, str) else group for group in groups)


@dataclass(frozen=True)
class Exceptions:
    """Cells of a dataset where algorithms train longer, shorter or with other hyper-parameters than elsewhere on it."""

    test_domains: tuple[str, ...] = ()
    """Their unseen domains; all of the dataset's runs, if none is named."""
    unknown: tuple[str | tuple[str, ...], ...] = ()
    """Their unknown classes; all of the dataset's runs, if none is named."""
    lengths: Mapping[str, int] = field(default_factory=dict)
    hparams: Settings = field(default_factory=dict)

    def hold(self, test_domain: str, unknown: tuple[str, ...]) -> bool:
        """Tell whether a cell is one of them."""
        here = not self.test_domains or test_domain in self.test_domains
        return here and (not self.unknown or set(unknown) in map(set, together(self.unknown)))


@dataclass(frozen=True)
class DatasetPlan:
    """A dataset and how it is run; what is left out is as in `RunSpec`."""

    name: str
    """A dataset's name, or a folder of one's own; one that is called like a dataset is `./NAME`."""
    test_domains: str | tuple[str, ...] = "all"
    """Unseen domains, one after the other; "all" takes each in turn."""
    unknown: Unknown = "rotate"
    """Unknown classes, one run each (a list inside the list: several at once); "all" takes each in turn, "rotate" deals
    them to the seeds until 40 % of the classes had their turn."""
    steps: int = RunSpec.steps
    lengths: Mapping[str, int] = field(default_factory=dict)
    """Steps of algorithms that train longer or shorter than the others; a variant's own steps come first."""
    backbone: str = RunSpec.backbone
    pretrained: str = "none"
    """Weights that the backbone starts with: a file, sought here and under the root, or a name."""
    size: int | None = None
    skip_bad: bool = False
    """Leave out pictures that cannot be read."""
    translate: Literal["munit", "augment"] = "munit"
    translate_steps: int = RunSpec.translate_steps
    hparams: Settings = field(default_factory=dict)
    """Hyper-parameters of algorithms on this dataset."""
    exceptions: tuple[Exceptions, ...] = ()
    """Cells where lengths or hyper-parameters differ; where several hold, the last of them has the last word."""

    def at(self, test_domain: str, unknown: tuple[str, ...]) -> "DatasetPlan":
        """Return what is planned for one cell, its exceptions made the rule."""
        lengths, hparams = dict(self.lengths), dict(self.hparams)
        for other in self.exceptions:
            if other.hold(test_domain, unknown):
                lengths |= other.lengths
                hparams |= {name: {**hparams.get(name, {}), **given} for name, given in other.hparams.items()}
        return replace(self, lengths=lengths, hparams=hparams, exceptions=())


@dataclass(frozen=True)
class Variant:
    """An algorithm under a name of its own, with what sets it apart."""

    name: str
    algorithm: str
    hparams: Mapping[str, Any] = field(default_factory=dict)
    translate: Literal["munit", "augment"] | None = None
    translate_steps: int | None = None
    steps: int | None = None
    precision: Literal["float32", "bfloat16"] | None = None

    @property
    def label(self) -> str:
        """What tables call it: the algorithm, and behind it what sets it apart."""
        return self.name if self.name == self.algorithm else f"{self.algorithm}, {self.name}"


@dataclass(frozen=True)
class Plan:
    """Every dataset x unseen domain x unknown class x seed x algorithm or variant x draw of its hyper-parameters."""

    datasets: tuple[DatasetPlan, ...]
    algorithms: tuple[str, ...] = ()
    variants: tuple[Variant, ...] = ()
    detectors: tuple[str, ...] = THREE
    seeds: tuple[int, ...] = (0,)
    split_seed: int = 0
    draws: int = 1
    """Draws of a random search over the ranges that methods declare and those in `hparams`; draw 0 is the published
    setting, and the middle of a plan's own range."""
    selection: Literal["training_domain", "leave_one_domain_out"] = "training_domain"
    """The rule that picks among the draws; the oracle's, a leak, is for `bench select` to show and never for tables."""
    precision: Literal["float32", "bfloat16"] = "float32"
    compiled: bool = False
    """Have networks compiled on a GPU however few the steps: minutes at the start of each worker, then faster runs."""
    waive_gate: bool = False
    """Go on with a G that misses its bounds; the records say so."""
    keep_models: bool = True
    """Leave every run's model in its folder."""
    hparams: Settings = field(default_factory=dict)
    """Hyper-parameters of algorithms on every dataset."""

    @property
    def compared(self) -> tuple[Variant, ...]:
        """The algorithms as they are, then the variants."""
        return (*(Variant(name, name) for name in self.algorithms), *self.variants)
