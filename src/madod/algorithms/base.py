"""What a method is: its objective. The base class draws batches, steps and ships."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cached_property, partial
from inspect import get_annotations
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
import torch
from torch import Tensor, nn

from madod.data.base import Pool
from madod.equations import stepped
from madod.errors import InputError, nearest
from madod.kinds import hints, taken
from madod.models.average import MeanWeights
from madod.models.classifier import Setting
from madod.models.compute import PLAIN
from madod.models.optimizers import adam, sgd
from madod.models.recorded import Recorded, forget
from madod.registry import Registry
from madod.search import Above, AtLeast, Between, LogUniform, bounds
from madod.tasks import Transform, minibatches

Terms = dict[str, Tensor]
"""Named scalars of a step; "loss" is the one descended."""
Descent = Literal["adam", "sgd", "nesterov"]
"""How weights descend: by Adam, by SGD, or by SGD with Nesterov's momentum."""


@dataclass(frozen=True)
class BaseConfig:
    """Hyper-parameters that every method has [DomainBed's defaults and ranges]."""

    lr: Annotated[float, LogUniform(10**-5, 10**-3.5), Above(0)] = 5e-5
    """Learning rate of the outer optimiser (1e-3 where the backbone starts from scratch)."""
    weight_decay: Annotated[float, LogUniform(10**-6, 10**-2), AtLeast(0)] = 0.0
    """Weight decay of the outer optimiser."""
    batch: Annotated[int, LogUniform(8, 45), AtLeast(1)] = 32
    """Images of every source domain in a minibatch."""
    average: Annotated[float, Between(0, 1)] = 0.0
    """Share of the steps, the last ones, whose mean weights ship; 0 ships the weights of the last step."""

    scratch: ClassVar[dict[str, Any]] = {"lr": 1e-3, "average": 0.5}
    """What changes where the backbone starts without pretrained weights."""
    advised: ClassVar[dict[str, Any]] = {"average": 0.5}
    """What did better than the published setting where the backbone is pretrained, on folds inside the sources of PACS
    (results/pacs/choice): a person's own pictures are trained with it."""
    unused: ClassVar[tuple[str, ...]] = ()
    """Fields of all methods that this one has no use for; the command line does not offer them."""

    @property
    def needs_translate(self) -> bool:
        """Whether the method, so configured, restyles images; then a G is made for it."""
        return False

    @property
    def least_classes(self) -> int:
        """How many known classes the method, so configured, needs."""
        return 2

    @property
    def compile_from(self) -> float:
        """Steps from which compiling backbone passes pays: all of one shape, differentiated once (performance.md)."""
        return math.inf

    @classmethod
    def preset(cls, *, pretrained: bool, **given: Any) -> Self:
        """Return the setting for a backbone with pretrained weights or from scratch, with what is given in place."""
        return cls(**({} if pretrained else cls.scratch) | given)

    def __post_init__(self) -> None:
        """Refuse what no training can start with; a method adds what its fields have to be to each other."""
        for field in fields(self):
            self.admit(field.name, getattr(self, field.name))

    @classmethod
    def admit(cls, name: str, value: Any) -> None:
        """Refuse a value that a field cannot have, whatever the others are."""
        config: Any = cls  # mypy takes no class of dataclasses for hashable, which a cache asks for
        whole, bound = taken(name, hints(config)[name], value), bounds(config).get(name)
        if type(whole) in (int, float) and not (bound.admits(whole) if bound else math.isfinite(whole)):
            wanted = bound if bound and math.isfinite(whole) else "a finite number"
            raise InputError(f"{name} cannot be {value!r}: it has to be {wanted}")


class Algorithm(nn.Module, ABC):
    """A training method; a subclass writes `objective` and whatever else differs."""

    name: ClassVar[str]
    recordable: ClassVar[bool] = False
    """Whether all steps do the same on a GPU, so that one can be recorded (`madod.models.recorded`): `objective`
    then draws from `rng` alone, waits for nothing, and knows no number that changes from step to step (where one does,
    `update` calls `forget` first). A class says it for itself: those that inherit from it may do more."""
    record_plain: ClassVar[bool] = False
    """Whether steps are recorded even where they are not compiled: their many kernels take less than a start."""
    descent: ClassVar[Descent] = "adam"
    """Its outer optimiser; SGD has the `momentum` of the configuration, or 0.9 where that has none."""
    falls: ClassVar[tuple[float, ...]] = ()
    """Shares of the steps at each of which the learning rate falls to a tenth."""
    own_score: ClassVar[bool] = False
    """Whether its network brings along an unknown score of its own (`Outputs.own`)."""
    Config: ClassVar[type[BaseConfig]] = BaseConfig
    recorded: Recorded | None = None
    """The step as it was recorded, where steps are."""

    def __init_subclass__(cls) -> None:
        """Refuse a `Config` some of whose fields would be no hyper-parameters, and a `descent` that there is not."""
        super().__init_subclass__()
        taken("descent", Descent, cls.descent)
        config = cls.Config
        derived = isinstance(config, type) and issubclass(config, BaseConfig)
        if not derived or "__dataclass_fields__" not in vars(config):  # its own, not its parent's
            raise InputError(
                f"Config of {cls.__name__} has to be a class that inherits from BaseConfig and has "
                f"@dataclass(frozen=True) above it: not so is {config!r}"
            )
        _refuse_untyped(config)

    def __init__(self, config: BaseConfig, setting: Setting, rng: torch.Generator) -> None:
        """Keep what the method knows; `rng`, on the device of the images, feeds every draw of a step."""
        super().__init__()
        self.config = config
        self.setting = setting
        self.rng = rng
        self.step = 0  # steps taken so far, kept up by training, also across a resume
        self.net = self.build(setting)
        self.mean = MeanWeights(self.net) if config.average else None

    def build(self, setting: Setting) -> nn.Module:
        """Return what is trained: a network of the shape that ships, unless the method wants another."""
        return with_head(self.shell(setting), f"shell of {type(self).__name__}")

    @classmethod
    def check(cls, config: Any, source: Pool) -> None:
        """Refuse images that the method cannot learn from."""

    @property
    def augment(self) -> Transform:
        """The setting's augmentation, fed from the method's generator."""
        return partial(self.setting.augment, rng=self.rng)

    def batches(self, source: Pool, rng: np.random.Generator) -> Iterator[Any]:
        """Yield what `objective` takes, for ever; nothing but the generators may carry over between batches."""
        return minibatches(source, rng, per_domain=self.config.batch, transform=self.augment)

    def per_domain(self, values: Tensor) -> tuple[Tensor, ...]:
        """Return each domain's part of what belongs to the images of a batch.

        `batches`, unless overridden, lays images domain after domain, `config.batch` of each.
        """
        return values.split(self.config.batch)

    @abstractmethod
    def objective(self, batch: Any) -> Terms:
        """Return the named terms of a step; "loss" is descended."""

    @cached_property
    def optimizer(self) -> torch.optim.Optimizer:
        """The outer optimiser, built when first needed, when all parameters exist."""
        return self.descending(self.descent)

    def descending(self, descent: Descent) -> torch.optim.Optimizer:
        """Return an optimiser of all parameters, with the rate and the decay of the configuration."""
        weights, lr, decay = self.parameters(), self.config.lr, self.config.weight_decay
        if descent == "adam":
            return adam(weights, lr, weight_decay=decay, capturable=self.records)
        momentum = getattr(self.config, "momentum", 0.9)
        return sgd(weights, lr, momentum=momentum, weight_decay=decay, nesterov=descent == "nesterov")

    @property
    def optimizers(self) -> dict[str, torch.optim.Optimizer]:
        """Everything whose state a checkpoint must hold."""
        return {"outer": self.optimizer}

    @property
    def rate(self) -> float:
        """The learning rate of the coming step: constant, but for a fall to a tenth at each of `falls`."""
        return stepped(self.config.lr, self.step / self.setting.steps, self.falls, 0.1)

    def update(self, batch: Any) -> Terms:
        """Take one step down the objective and return its terms, detached, still on the device."""
        rate = self.rate
        if any(group["lr"] != rate for group in self.optimizer.param_groups):
            forget(self)  # a recording knows one rate
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        if self.records:
            self.recorded = self.recorded or Recorded(self.rng)
            terms = self.recorded(self._descend, batch)
        else:
            terms = self._descend(batch)
        self._average()
        return terms

    def _descend(self, batch: Any) -> Terms:
        terms = self.objective(batch)
        self._refuse_unnamed(terms)
        self.optimizer.zero_grad(set_to_none=True)
        if terms["loss"].requires_grad:
            terms["loss"].backward()
        self._refuse_cut_off()
        self.optimizer.step()
        return {name: term.detach() for name, term in terms.items()}

    @property
    def records(self) -> bool:
        """Whether steps are recorded: on a GPU, where the class says of itself that they can be, and mostly compiled.

        Kernels that are not compiled mostly take longer than their start, and a recording of them much memory.
        """
        pays = self.record_plain or getattr(self.net, "compute", PLAIN).compiled
        return pays and self.rng.device.type == "cuda" and "recordable" in vars(type(self)) and self.recordable

    def _refuse_unnamed(self, terms: object) -> None:
        """Refuse an objective's terms that are not named scalars with a loss among them."""
        named = terms if isinstance(terms, dict) else {}
        wrong = [name for name, term in named.items() if not isinstance(term, Tensor) or term.dim()]
        if "loss" not in named or wrong:
            returned = ", ".join(map(repr, wrong or named)) or type(terms).__name__
            raise InputError(
                f"objective of {type(self).__name__} has to return a dict of tensors without dimensions, one of them "
                f"called 'loss': {'not so is' if wrong else 'it returns'} {returned}"
            )
        if misnamed := [name for name in named if not isinstance(name, str) or name == "step"]:
            raise InputError(
                f"objective of {type(self).__name__} calls a term {misnamed[0]!r}: let its name be a text, and another "
                "than 'step', under which the history counts steps"
            )

    def _refuse_cut_off(self) -> None:
        """Refuse a loss that left no weight a gradient."""
        if all(weight.grad is None for group in self.optimizer.param_groups for weight in group["params"]):
            raise InputError(
                f"the loss that objective of {type(self).__name__} returns does not depend on the weights, so that it "
                "cannot be learned from: remove what cuts it off from self.net, such as detach, item or no_grad"
            )

    def _average(self) -> None:
        """Take the step's weights into their mean, which takes the network's place after the last step."""
        done, steps = self.step + 1, self.setting.steps
        n = done - round((1 - self.config.average) * steps)
        if self.mean is None or n <= 0:
            return
        self.mean.add(self.net, n)
        if done == steps:
            self.mean.give(self.net)

    @classmethod
    def shell(cls, setting: Setting) -> nn.Module:
        """Return an untrained network of the shape that `deploy` ships, for saved weights to be loaded into."""
        return setting.make_net()

    def deploy(self, source: Pool, rng: np.random.Generator) -> nn.Module:
        """Return the network that ships: images to `Outputs`, its `head` the linear map from features to logits."""
        return self.net


def _refuse_untyped(config: type[BaseConfig]) -> None:
    """Refuse a value without a type, which no plan or command reaches, unless `BaseConfig` declares such a fact."""
    facts = set(vars(BaseConfig)) - {field.name for field in fields(BaseConfig)}
    for cls in config.__mro__[: config.__mro__.index(BaseConfig)]:
        for name, value in vars(cls).items():
            written = not name.startswith("_") and name not in get_annotations(cls)
            if written and name not in facts and not hasattr(value, "__get__"):
                raise InputError(
                    f"{name} in {cls.__name__} has no type, so that it is no hyper-parameter: write it as "
                    f"{name}: {type(value).__name__} = {value!r}, or as a ClassVar where it is none"
                )


ALGORITHMS: Registry[Algorithm] = Registry("algorithm", Algorithm)


def with_head(net: object, whose: str) -> nn.Module:
    """Return a network that may ship; refuse what is none, or lacks the head that detectors need."""
    head = getattr(net, "head", None)
    parts = [getattr(head, name, None) for name in ("weight", "bias")]
    if not isinstance(net, nn.Module) or not all(isinstance(part, Tensor) for part in parts):
        raise InputError(
            f"{whose} returns {type(net).__name__}{' without a head' * isinstance(net, nn.Module)}: let it return a "
            "network (torch.nn.Module) with a head, the linear layer, with a bias, from features to logits"
        )
    return net


def refuse_unknown(algorithm: str, hparam: str) -> None:
    """Refuse a hyper-parameter that an algorithm does not have, with the nearest that it has."""
    own = tuple(field.name for field in fields(ALGORITHMS[algorithm].Config))
    if hparam not in own:
        raise InputError(
            f"{algorithm} has no hyper-parameter {hparam!r}{nearest(hparam, own)}; it has {', '.join(own)}"
        )
