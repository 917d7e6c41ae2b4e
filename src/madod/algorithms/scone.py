"""SCONE: an energy detector trained on unlabelled wild images, under constraints that keep known images known."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from madod.algorithms.base import ALGORITHMS, Algorithm, BaseConfig, Terms
from madod.algorithms.pseudo_domains import pseudo_domains
from madod.algorithms.wild import Mixer, Wild
from madod.data.base import Pool
from madod.equations import energy, stepped
from madod.errors import InputError
from madod.models.classifier import Setting
from madod.models.optimizers import adam
from madod.search import Above, AtLeast, Between, Choice, LogUniform
from madod.tasks import Shelf


def known_loss(lse: Tensor, slope: Tensor, offset: Tensor) -> Tensor:
    """L_in = mean sigma(w lse f(x) + b) on known images, sigma the probability of unknown [Bai et al. 2023, eq. 7]."""
    return torch.sigmoid(slope * lse + offset).mean()


def wild_loss(lse: Tensor, slope: Tensor, offset: Tensor, margin: float) -> Tensor:
    """L_out = mean sigma(-(w (lse f(x) - eta) + b)) on wild images [Bai et al. 2023, eq. 7]."""
    return torch.sigmoid(-(slope * (lse - margin) + offset)).mean()


def augmented(excess: Tensor, multiplier: Tensor, weight: Tensor) -> Tensor:
    """c l + b c^2 / 2 if b c + l >= 0, else -l^2 / (2 b): a constraint c <= 0 as a loss [Katz-Samuels et al. 2022]."""
    active = excess * multiplier + weight * excess.square() / 2
    return torch.where(weight * excess + multiplier >= 0, active, -multiplier.square() / (2 * weight))


def raised_multiplier(excess: Tensor, multiplier: Tensor, weight: Tensor, rate: float) -> Tensor:
    """l + eta c if b c + l >= 0, else l - eta l / b: a step up the augmented Lagrangian [Katz-Samuels et al. 2022]."""
    active = weight * excess + multiplier >= 0
    return torch.where(active, multiplier + rate * excess, multiplier - rate * multiplier / weight)


def raised_weight(excess: Tensor, weight: Tensor, growth: float) -> Tensor:
    """b * growth where c > 0 [Katz-Samuels et al. 2022]."""
    return torch.where(excess > 0, growth * weight, weight)


@dataclass(frozen=True)
class SconeConfig(BaseConfig):
    """The published setting; wild images are made of source images."""

    lr: Annotated[float, LogUniform(10**-4.5, 10**-3.5)] = 1e-4
    """Learning rate of SGD after the warm start, halved at 50, 75 and 90 % of what is left."""
    weight_decay: Annotated[float, LogUniform(10**-6, 10**-2)] = 5e-4
    """Weight decay of SGD."""
    batch: Annotated[int, LogUniform(32, 180)] = 128
    """Known images in a minibatch, of all domains together, and as many wild ones."""
    momentum: Annotated[float, Between(0, 1)] = 0.9
    """Nesterov momentum of SGD."""
    warm: Annotated[float, Between(0, 1)] = 0.5
    """Share of the steps that train by plain risk beforehand."""
    warm_lr: Annotated[float, LogUniform(10**-5, 10**-3.5), Above(0)] = 5e-5
    """Learning rate of Adam in the warm start."""
    covariate: Annotated[float, Between(0, 1)] = 0.5
    """pi_c, share of wild images that come from the domain held in an epoch."""
    semantic: Annotated[float, Between(0, 1)] = 0.1
    """pi_s, share of wild images that come from the unit held in an epoch."""
    margin: Annotated[float, Choice((-10.0, 1.0))] = -10.0
    """eta of the wild loss: the published script's -10, or 1, the default of its argument."""
    slope: Annotated[float, Above(0)] = 0.5
    """-w at the start of the detector g = w lse + b; b starts at 0."""
    false_alarms: Annotated[float, Between(0, 1)] = 0.05
    """alpha, the largest L_in allowed."""
    ceiling: Annotated[float, AtLeast(0)] = 2.0
    """The largest risk allowed, as a multiple of the risk after the warm start."""
    multiplier_rate: Annotated[float, Choice((0.1, 1.0, 2.0)), AtLeast(0)] = 1.0
    """Step size of the multipliers."""
    growth: Annotated[float, Choice((1.1, 1.5)), AtLeast(1)] = 1.5
    """Factor on the weight of a constraint that an epoch leaves violated."""

    scratch: ClassVar[dict[str, Any]] = BaseConfig.scratch | {"warm_lr": 1e-3, "warm": 0.75}
    compile_from = 3000
    least_classes = 3  # one is held out for an epoch

    def __post_init__(self) -> None:
        """Refuse shares of wild images that leave less than none for known ones."""
        super().__post_init__()
        if self.covariate + self.semantic > 1:
            raise InputError(
                f"covariate {self.covariate} and semantic {self.semantic} cannot be together: "
                "they are shares of the wild images, 1 at the most in all"
            )


@ALGORITHMS.register("scone")
class SCONE(Algorithm):
    """An energy detector trained on wild images made of held-out source classes and domains [Bai et al. 2023]."""

    Config = SconeConfig
    config: SconeConfig
    multipliers: Tensor
    weights: Tensor
    warm_risk: Tensor

    def __init__(self, config: SconeConfig, setting: Setting, rng: torch.Generator) -> None:
        super().__init__(config, setting, rng)
        self.log_slope = nn.Parameter(torch.tensor(config.slope).log())
        self.offset = nn.Parameter(torch.zeros(()))
        self.register_buffer("multipliers", torch.zeros(2))
        self.register_buffer("weights", torch.ones(2))
        self.register_buffer("warm_risk", torch.zeros(()))
        self.warm_steps = round(config.warm * setting.steps)
        self.seed = rng.initial_seed()

    @classmethod
    def check(cls, config: SconeConfig, source: Pool) -> None:
        """Two classes have to be left when one is held out for an epoch."""
        Shelf(source).check(1)

    def batches(self, source: Pool, rng: np.random.Generator) -> Iterator[Wild]:
        """Yield known and wild images, for ever; in the warm start known ones alone."""
        pool = pseudo_domains(source, 2)
        held = self.config.covariate, self.config.semantic
        mixer = Mixer(pool, self.config.batch, held, self.augment, self.seed)
        while True:
            yield mixer.draw(rng, self.step - self.warm_steps)

    @property
    def slope(self) -> Tensor:
        """w = -exp(s): kept negative, for with a margin below 0 a positive w pleases both losses at no effort."""
        return -self.log_slope.exp()

    def objective(self, batch: Wild) -> Terms:
        """L = L_out + sum of both augmented constraints; plain risk in the warm start."""
        known, wild = self.net(torch.cat([batch.known.x, batch.wild])).logits.tensor_split([len(batch.known.x)])
        if self.step < self.warm_steps:
            risk = F.cross_entropy(known, batch.known.y)
            return {"loss": risk, "risk": risk}
        out = wild_loss(-energy(wild), self.slope, self.offset, self.config.margin)
        excess = self.excess(known, batch.known.y)
        loss = out + augmented(excess, self.multipliers, self.weights).sum()
        return {"loss": loss, "wild": out, "excess_alarms": excess[0], "excess_risk": excess[1]}

    def excess(self, logits: Tensor, y: Tensor) -> Tensor:
        """c = (L_in - alpha, CE - tau), tau a multiple of the risk after the warm start."""
        alarms = known_loss(-energy(logits), self.slope, self.offset) - self.config.false_alarms
        return torch.stack([alarms, F.cross_entropy(logits, y) - self.config.ceiling * self.warm_risk])

    def update(self, batch: Wild) -> Terms:
        """Take one step; at the end of the warm start and of every epoch look at all known images first."""
        if batch.census is not None:
            self.take_census(batch.census)
        return super().update(batch)

    @torch.no_grad()
    def take_census(self, pool: Pool) -> None:
        """Measure the constraints on a whole set of known images, then raise what they leave violated."""
        rows, how = torch.arange(len(pool), device=pool.device), self.config
        with torch.compiler.set_stance("force_eager"):  # the last batch has another size every time
            logits = torch.cat([self.net(pool.take(some)).logits for some in rows.split(2 * how.batch)])
        if self.step == self.warm_steps:
            self.warm_risk.copy_(F.cross_entropy(logits, pool.y))
            return
        excess = self.excess(logits, pool.y)
        self.multipliers.copy_(raised_multiplier(excess, self.multipliers, self.weights, how.multiplier_rate))
        self.weights.copy_(raised_weight(excess, self.weights, how.growth))

    @property
    def rate(self) -> float:
        """Constant in the warm start; then halved at 50, 75 and 90 % of what is left."""
        if self.step < self.warm_steps:
            return self.config.warm_lr
        done = (self.step - self.warm_steps) / (self.setting.steps - self.warm_steps)
        return stepped(self.config.lr, done, (0.5, 0.75, 0.9), 0.5)

    @property
    def optimizer(self) -> torch.optim.Optimizer:
        """Adam in the warm start, then SGD."""
        return self.adam if self.step < self.warm_steps else self.sgd

    @property
    def optimizers(self) -> dict[str, torch.optim.Optimizer]:
        """Both, for a checkpoint to hold."""
        return {"warm": self.adam, "outer": self.sgd}

    @cached_property
    def adam(self) -> torch.optim.Optimizer:
        """Adam, as for plain risk."""
        return adam(self.parameters(), self.config.warm_lr)

    @cached_property
    def sgd(self) -> torch.optim.Optimizer:
        """SGD with Nesterov's momentum."""
        return self.descending("nesterov")
