"""MEDIC: meta-learning that matches gradients between domains and between classes, with one-vs-all pairs."""

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from math import ceil
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.utils import skip_init

from madod.algorithms.base import ALGORITHMS, Algorithm, BaseConfig, Terms
from madod.algorithms.pseudo_domains import pseudo_domains
from madod.data.base import Pool
from madod.meta import Params, rehearse
from madod.models.classifier import Classifier, Outputs, Setting
from madod.models.convolution import differentiated_twice
from madod.search import Above, Between, LogUniform
from madod.tasks import Batch, Rows, gather


def one_vs_all(pairs: Tensor, y: Tensor) -> Tensor:
    """OVA = (mean -log p+_y + mean max_{k != y} -log p-_k) / 2, (p-, p+) = softmax pair k [Wang et al. 2023]."""
    no, yes = (-pairs.log_softmax(2)).unbind(2)
    positive, hardest = yes.gather(1, y[:, None]), no.scatter(1, y[:, None], 0).amax(1)
    return (positive.mean() + hardest.mean()) / 2


def held_units(units: int) -> int:
    """ceil(G / 3) groups of floor((U - 1) / 10) + 1 units each, out of G groups: how many units a step holds.

    With more than ten units the last group can be short; here it counts as a full one.
    """
    size = (units - 1) // 10 + 1
    return size * ceil(ceil(units / size) / 3)


@dataclass(frozen=True)
class MedicConfig(BaseConfig):
    """The published setting; the ranges are ours, about the published values."""

    lr: Annotated[float, LogUniform(10**-4.5, 10**-3.5)] = 1e-4
    """Learning rate of SGD, a tenth of it in the last fifth of the steps."""
    weight_decay: Annotated[float, LogUniform(10**-6, 10**-2)] = 5e-4
    """Weight decay of SGD."""
    batch: Annotated[int, LogUniform(8, 45)] = 8
    """Images in each of the six batches of a step."""
    momentum: Annotated[float, Between(0, 1)] = 0.9
    """Momentum of SGD."""
    inner_lr: Annotated[float, LogUniform(10**-3, 10**-1.5), Above(0)] = 0.01
    """Learning rate of the virtual step."""
    first_order: bool = False
    """Leave out the derivative through the virtual step's gradient."""

    scratch: ClassVar[dict[str, Any]] = BaseConfig.scratch | {"lr": 3e-3}


class Answers(NamedTuple):
    """Features (n, f), logits (n, k) and the logits of every class's (no, yes) pair (n, k, 2)."""

    features: Tensor
    logits: Tensor
    pairs: Tensor


class PairedClassifier(Classifier):
    """A classifier with a second head of one (no, yes) pair a class; its own score is -log p(yes) of the answer."""

    def __init__(self, net: Classifier) -> None:
        nn.Module.__init__(self)  # featurizer and head are there already; making new ones would draw random numbers
        self.featurizer, self.head, self.compute = net.featurizer, net.head, net.compute
        self.pairs: nn.Linear = skip_init(nn.Linear, net.head.in_features, 2 * net.head.out_features)
        nn.init.zeros_(self.pairs.weight)
        nn.init.zeros_(self.pairs.bias)

    def answers(self, images: Tensor) -> Answers:
        """Return what both heads say."""
        features = self.features(images)
        return Answers(features, self.head(features), self.pairs(features).unflatten(1, (-1, 2)))

    def forward(self, images: Tensor) -> Outputs:
        """Return features, logits and own scores."""
        features, logits, pairs = self.answers(images)
        doubt = -F.logsigmoid(pairs[:, :, 1] - pairs[:, :, 0])  # no ties where p(yes) rounds to 1
        return Outputs(features, logits, doubt.gather(1, logits.argmax(1, keepdim=True))[:, 0])


@ALGORITHMS.register("medic")
class MEDIC(Algorithm):
    """Meta-learning over domain and class splits at once, with a one-vs-all pair for every class [Wang et al. 2023]."""

    recordable = record_plain = True  # differentiated twice, a pass of few images is thousands of small kernels
    descent = "sgd"
    falls = (0.8,)
    own_score = True
    Config = MedicConfig
    config: MedicConfig
    net: PairedClassifier

    def build(self, setting: Setting) -> PairedClassifier:
        """Return a paired classifier, its heads Xavier-uniform with gain 0.1 and without bias."""
        net = self.shell(setting)
        for head in (net.head, net.pairs):
            bound = 0.1 * (6 / (head.in_features + head.out_features)) ** 0.5
            drawn = torch.rand(head.weight.shape, generator=self.rng, device=self.rng.device)
            head.load_state_dict({"weight": (2 * drawn - 1) * bound, "bias": torch.zeros_like(head.bias)})
        return net

    @classmethod
    def shell(cls, setting: Setting) -> PairedClassifier:
        """Return an untrained paired classifier."""
        return PairedClassifier(setting.make_net())

    def batches(self, source: Pool, rng: np.random.Generator) -> Iterator[tuple[Batch, Batch]]:
        """Yield meta-training and meta-objective sets of three batches each, for ever; g are the units held in a step.

        Meta-training has the domains i and j without g, and the held domain e with g only; the meta-objective has e
        without g, and half a batch each of i and j with g only. The held domain goes round; i and j are drawn.
        """
        pool = pseudo_domains(source, 3)
        cells = Cells(pool)
        size, half = self.config.batch, self.config.batch // 2
        while True:
            e = cells.domains[self.step % len(cells.domains)]
            i, j = rng.permutation(cells.domains[cells.domains != e])[:2]
            mixed = rng.permutation(cells.units)
            g, rest = np.split(mixed, [held_units(len(mixed))])
            train = [cells.draw(rng, i, rest, size), cells.draw(rng, j, rest, size), cells.draw(rng, e, g, size)]
            meta = [cells.draw(rng, i, g, half), cells.draw(rng, j, g, size - half), cells.draw(rng, e, rest, 2 * size)]
            drawn = gather(pool, np.concatenate(train + meta), self.augment)
            sizes = [sum(map(len, train)), sum(map(len, meta))]
            seen, fresh = (Batch(*part) for part in zip(*(column.split(sizes) for column in drawn), strict=True))
            yield seen, fresh

    def objective(self, batch: tuple[Batch, Batch]) -> Terms:
        """L = L(train; theta) + L(meta; theta'), theta' = theta - lr grad L(train; theta)."""
        (seen, fresh), how = batch, self.config
        theta: Params = {name: value for name, value in self.named_parameters() if value.requires_grad}
        with nullcontext() if how.first_order else differentiated_twice():
            moved, train = rehearse(theta, self.forward(seen), lr=how.inner_lr, first_order=how.first_order)
            meta = functional_call(self, moved, (fresh,))
        return {"loss": train + meta, "train": train, "meta": meta}

    def forward(self, batch: Batch) -> Tensor:
        """L = sum over the three batches of CE + OVA; `functional_call` takes it at other parameters."""
        _, logits, pairs = self.net.answers(batch.x)
        return 3 * (F.cross_entropy(logits, batch.y) + one_vs_all(pairs, batch.y))


class Cells:
    """The rows of every domain's every unit, drawn from as if all units were equally frequent."""

    def __init__(self, pool: Pool) -> None:
        domains, units = pool.d.numpy(force=True), pool.u.numpy(force=True)
        self.domains, self.units = np.unique(domains), np.unique(units)
        self.rows = {(d, u): np.flatnonzero((domains == d) & (units == u)) for d in self.domains for u in self.units}

    def draw(self, rng: np.random.Generator, domain: int, units: Rows, n: int) -> Rows:
        """Draw n rows of these units in a domain, or in any domain where this one has none."""
        full = [self.rows[domain, u] for u in units if len(self.rows[domain, u])]
        full = full or [self.rows[d, u] for d in self.domains for u in units if len(self.rows[d, u])]
        return np.array([rng.choice(full[k]) for k in rng.integers(len(full), size=n)], dtype=np.int64)
