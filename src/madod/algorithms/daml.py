"""DAML: one network per domain, taught by mixtures of domains and by each other, rehearsed where they are strangers."""

import math
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
from torch import Tensor

from madod.algorithms.base import ALGORITHMS, Algorithm, BaseConfig, Terms
from madod.algorithms.domain_mixtures import mixture_risk
from madod.algorithms.pseudo_domains import pseudo_domains
from madod.data.base import Pool
from madod.equations import mutual_distillation, risk_table
from madod.meta import Params, rehearse
from madod.models.classifier import Setting
from madod.models.convolution import differentiated_twice
from madod.models.ensemble import Ensemble, Views, one_per_domain, views
from madod.search import Above, AtLeast, Between, LogUniform
from madod.tasks import Batch, minibatches


@dataclass(frozen=True)
class DamlConfig(BaseConfig):
    """The published setting for PACS; the ranges are ours, about the published values."""

    lr: Annotated[float, LogUniform(10**-4, 10**-2.5)] = 1e-3
    """Learning rate of SGD, a tenth of it in the last fifth of the steps."""
    weight_decay: Annotated[float, LogUniform(10**-6, 10**-2)] = 1e-4
    """Weight decay of SGD."""
    batch: Annotated[int, LogUniform(8, 45)] = 24
    """Images of every source domain in a minibatch."""
    momentum: Annotated[float, Between(0, 1)] = 0.9
    """Momentum of SGD."""
    inner_lr: Annotated[float, LogUniform(10**-3, 10**-1.5), Above(0)] = 0.01
    """Learning rate of the virtual step."""
    first_order: bool = True
    """Leave out the derivative through the virtual step's gradient."""
    mixup: Annotated[float, AtLeast(0)] = 3.0
    """Weight of Dir-mixup in meta-training."""
    distill: Annotated[float, AtLeast(0)] = 1.0
    """Weight of distillation in meta-training."""
    meta_risk: Annotated[float, AtLeast(0)] = 1.0
    """Weight of the risk in the domains of the others in the meta-objective."""
    meta_mixup: Annotated[float, AtLeast(0)] = 3.0
    """Weight of Dir-mixup in the meta-objective."""
    near: Annotated[float, Above(0)] = 0.6
    """Dirichlet concentration of a network's own domain in meta-training, of the others in the meta-objective."""
    far: Annotated[float, Above(0)] = 0.2
    """Dirichlet concentration of the other domains in meta-training, of its own in the meta-objective."""
    temperature: Annotated[float, Above(0)] = 2.0
    """T of distillation."""

    scratch: ClassVar[dict[str, Any]] = BaseConfig.scratch | {"lr": 3e-3}

    @property
    def compile_from(self) -> float:
        """Compiled passes are differentiated once, so that those of second order never pay."""
        return 700 if self.first_order else math.inf


@ALGORITHMS.register("daml")
class DAML(Algorithm):
    """A network for every domain, meta-learned with Dirichlet mixup and distillation between them [Shu et al. 2021]."""

    descent = "sgd"
    falls = (0.8,)
    own_score = True
    Config = DamlConfig
    config: DamlConfig
    net: Ensemble

    @classmethod
    def shell(cls, setting: Setting) -> Ensemble:
        """Return a network for every source domain, their softmaxes averaged."""
        return one_per_domain(setting, probabilities=True)

    def batches(self, source: Pool, rng: np.random.Generator) -> Iterator[tuple[Batch, Batch]]:
        """Yield a meta-training and a meta-objective batch of every domain; a single domain is dealt into two."""
        pool = pseudo_domains(source, len(self.net.members))
        stream = minibatches(pool, rng, per_domain=self.config.batch, transform=self.augment)
        return zip(stream, stream, strict=False)

    def objective(self, batch: tuple[Batch, Batch]) -> Terms:
        """L = L_train(theta) + L_meta(theta'), theta' = theta - lr grad L_train(theta) [Shu et al. 2021, alg. 1]."""
        (seen, fresh), how = batch, self.config
        theta: Params = {name: value for name, value in self.net.named_parameters() if value.requires_grad}
        with nullcontext() if how.first_order else differentiated_twice():
            train = self.train_loss(views(self.net, theta, seen.x), seen.y)
            moved, train = rehearse(theta, train, lr=how.inner_lr, first_order=how.first_order)
            meta = self.meta_loss(views(self.net, moved, fresh.x), fresh.y)
        return {"loss": train + meta, "train": train, "meta": meta}

    def train_loss(self, seen: Views, y: Tensor) -> Tensor:
        """sum_m [CE_mm + w_distill distillation_m + w_mixup Dir-mixup_m(own near, others far)]."""
        how, y = self.config, y.view(len(seen.features), -1)
        risk = risk_table(seen.logits, y).trace()
        lesson = mutual_distillation(seen.logits, how.temperature, self.rng)
        mixed = mixture_risk(seen, y, own=how.near, other=how.far, rng=self.rng)
        return risk + how.distill * lesson + how.mixup * mixed

    def meta_loss(self, fresh: Views, y: Tensor) -> Tensor:
        """sum_m [w_risk sum_{d != m} CE_md + w_mixup Dir-mixup_m(own far, others near)]."""
        how, y = self.config, y.view(len(fresh.features), -1)
        table = risk_table(fresh.logits, y)
        stranger = table.sum() - table.trace()
        mixed = mixture_risk(fresh, y, own=how.far, other=how.near, rng=self.rng)
        return how.meta_risk * stranger + how.meta_mixup * mixed
