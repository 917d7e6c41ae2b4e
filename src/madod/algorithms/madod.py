"""MADOD: meta-learning over tasks with pseudo-unknown classes, invariance to G, an energy margin."""

from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from madod.algorithms.base import ALGORITHMS, Algorithm, BaseConfig, Terms
from madod.data.base import Pool
from madod.equations import energy
from madod.errors import InputError
from madod.meta import Params, adapt
from madod.models.classifier import Classifier
from madod.search import Above, AtLeast, Between, LogUniform, Uniform
from madod.tasks import Batch, Shelf, Task, all_units, episodes


@dataclass(frozen=True)
class MadodConfig(BaseConfig):
    """The paper's setting; ranges are those of its random search."""

    lr: Annotated[float, LogUniform(10**-5.5, 10**-4)] = 3e-5
    """eta_2, the outer learning rate."""
    inner_lr: Annotated[float, LogUniform(10**-4.5, 10**-2.5), Above(0)] = 10**-2.5
    """eta_1, the inner learning rate."""
    inner_steps: Annotated[int, AtLeast(1)] = 3
    """Gradient steps of the inner loop."""
    tasks: Annotated[int, AtLeast(1)] = 4
    """L, tasks in a meta-step."""
    shots: Annotated[int, AtLeast(1)] = 5
    """Images of every class in support and in query."""
    pseudo_units: Annotated[int, AtLeast(1)] = 1
    """Classes that a task holds out as pseudo-unknown."""
    own_outputs: bool = False
    """Leave a task's head the outputs of its own classes alone, so that R_OOD asks no class to deny itself."""
    invariance: Annotated[float, AtLeast(0)] = 0.1
    """lambda_1, weight of R_GI in the inner loss; 0 leaves G out."""
    margin: Annotated[float, AtLeast(0)] = 0.1
    """lambda_2, weight of R_OOD in the outer loss; with invariance 0 too, cross-entropy alone is left."""
    margin_warmup: Annotated[float, Between(0, 1)] = 0.0
    """Share of the steps over which the weight of R_OOD grows from 0 to lambda_2; 0 is the paper."""
    outer_invariance: Annotated[float, AtLeast(0)] = 0.0
    """Weight of R_GI on the query in the outer loss; 0 is the paper."""
    all_class: Annotated[float, AtLeast(0)] = 0.0
    """Weight in the outer loss of the risk over all known classes before any inner step; 0 is the paper."""
    restyled_risk: bool = False
    """Take restylings of support and query into the risk over all known classes too."""
    margin_in: Annotated[float, Uniform(-11, -9)] = -10.0
    """m_I: energies of known images above it are pulled down."""
    margin_out: Annotated[float, Uniform(-9, -7)] = -8.0
    """m_O: energies of pseudo-unknown images below it are pushed up."""
    temperature: Annotated[float, Above(0)] = 1.0
    """T of the energy."""
    views: Annotated[int, AtLeast(1)] = 1
    """Restylings of every support image."""
    first_order: bool = False
    """Leave out the derivative through the inner gradient."""
    outer: Literal["adam", "sgd"] = "adam"
    """The outer optimiser."""
    adapt_shots: Annotated[int, AtLeast(1)] = 5
    """Images of every class and domain in the all-class adaptation."""
    adapt_steps: Annotated[int, AtLeast(0)] = 0
    """Gradient steps of the all-class adaptation; 0 takes as many as the inner loop."""

    ours: ClassVar[dict[str, Any]] = {
        "own_outputs": True,
        "outer_invariance": 1.0,
        "all_class": 3.0,
        "restyled_risk": True,
        "margin_in": -6.0,
        "margin_out": -3.0,
    }
    """Chosen on folds inside the sources, of PACS (results/pacs/choice) and of the digits (results/digits/choice); how
    settings came to be on offer there, docs/fidelity.md says."""
    scratch: ClassVar[dict[str, Any]] = (
        BaseConfig.scratch | ours | {"inner_lr": 1e-1, "tasks": 2, "shots": 2, "margin_warmup": 0.5}
    )
    advised: ClassVar[dict[str, Any]] = BaseConfig.advised | ours | {"lr": 5e-5, "tasks": 1}
    unused = ("batch",)

    def __post_init__(self) -> None:
        """Refuse an m_I that does not lie below m_O."""
        super().__post_init__()
        if self.margin_in >= self.margin_out:
            raise InputError(
                f"margin_in {self.margin_in:g} is not below margin_out {self.margin_out:g}: known images are to "
                "have the lower energies, so give a lower margin_in or a higher margin_out"
            )

    @property
    def restyled(self) -> bool:
        """Whether the risk over all known classes asks for restylings, whatever R_GI does."""
        return bool(self.all_class) and self.restyled_risk

    @property
    def restylings(self) -> tuple[int, int]:
        """How many restylings an image of support gets, and one of query."""
        support = self.views if self.invariance or self.restyled else 0
        query = 1 if self.outer_invariance or self.restyled else 0
        return support, query

    @property
    def needs_translate(self) -> bool:
        """R_GI restyles, and the risk over all known classes where it is to."""
        return any(self.restylings)

    @property
    def least_classes(self) -> int:
        """Two, and those that are held out as pseudo-unknown."""
        return 2 + self.pseudo_units

    @property
    def compile_from(self) -> float:
        """A step takes as long as its tasks, of which there were four when 700 steps were measured."""
        return 4 * 700 / self.tasks


AT_ONCE = 256
"""Images of the all-class adaptation in one pass: of many classes and domains they are thousands."""


class Sets(NamedTuple):
    """The sets of t tasks of one shape: features (t, n, f), labels (t, n); restyled ones are empty where not needed.

    Means are over the images of all tasks, so that t times a mean is the sum of the tasks' own means.
    """

    support: Tensor
    query: Tensor
    pseudo_ood: Tensor
    support_moved: Tensor
    query_moved: Tensor
    support_y: Tensor
    query_y: Tensor
    pseudo_y: Tensor

    @property
    def tasks(self) -> int:
        """How many tasks there are."""
        return len(self.support)


def side_by_side(tasks: Sequence[tuple[Tensor, ...]]) -> list[Sets]:
    """Return tasks, each a tuple of the fields of `Sets` without their first axis, those of one shape stacked."""
    alike: dict[tuple[int, ...], list[tuple[Tensor, ...]]] = {}
    for task in tasks:
        alike.setdefault(tuple(map(len, task)), []).append(task)
    return [Sets(*map(torch.stack, zip(*group, strict=True))) for group in alike.values()]


def logits(psi: Params, features: Tensor) -> Tensor:
    """h_psi(z) = W z + b, every task through a head of its own: features (t, n, f) to logits (t, n, k)."""
    return torch.baddbmm(psi["bias"][:, None], features, psi["weight"].mT)


def risk(logits: Tensor, y: Tensor) -> Tensor:
    """CE, the mean over the images of all tasks."""
    return F.cross_entropy(logits.flatten(0, 1), y.flatten())


def l1_invariance(logits: Tensor, moved: Tensor) -> Tensor:
    """d(x, x~) = || softmax f(x) - softmax f(x~) ||_1 of every image [MADOD, eq. gi-reg]."""
    return (logits.softmax(-1) - moved.softmax(-1)).abs().sum(-1)


def invariance(clean: Tensor, moved: Tensor) -> Tensor:
    """R_GI = mean d(x, x~) over images and their restylings, both through the task's head [MADOD, eq. gi-reg]."""
    views = moved.shape[1] // clean.shape[1]
    return l1_invariance(clean.repeat(1, views, 1), moved).mean()


def energy_margin(known: Tensor, unknown: Tensor, margin_in: float, margin_out: float) -> Tensor:
    """R_OOD = mean relu(E_in - m_I)^2 + mean relu(m_O - E_out)^2 [MADOD, eq. ood-reg; Liu et al. 2020, eq. 8]."""
    return torch.relu(known - margin_in).square().mean() + torch.relu(margin_out - unknown).square().mean()


def narrowed(psi: Params, sets: Sets) -> Params:
    """Return heads of t tasks without the outputs of classes that neither a task's support nor its query holds."""
    held = torch.cat([sets.support_y, sets.query_y], dim=1)
    absent = torch.ones_like(psi["bias"], dtype=torch.bool).scatter(1, held, False)
    return {**psi, "bias": psi["bias"].masked_fill(absent, -torch.inf)}


def inner_loss(psi: Params, sets: Sets, weight: float) -> Tensor:
    """L_inner = CE(S; psi) + lambda_1 R_GI(S; psi), summed over the tasks [MADOD, eq. inner-loss]."""
    clean = logits(psi, sets.support)
    loss = risk(clean, sets.support_y)
    loss = loss + weight * invariance(clean, logits(psi, sets.support_moved)) if weight else loss
    return sets.tasks * loss


def in_parts(work: Callable[[Tensor], Tensor], images: Tensor, most: int | None) -> Tensor:
    """Return what work makes of images, of `most` at a time."""
    return work(images) if most is None else torch.cat([work(part) for part in images.split(most)])


def all_class_risk(psi: Params, sets: Sets, *, restyled: bool) -> Tensor:
    """CE(S + Q + O; psi) over all known classes, a task's pseudo-unknown ones too, summed over the tasks [ours].

    With `restyled` the restylings of S and Q are among the images, under the same labels.
    """
    images = [(sets.support, sets.support_y), (sets.query, sets.query_y), (sets.pseudo_ood, sets.pseudo_y)]
    if restyled:
        for moved, y in ((sets.support_moved, sets.support_y), (sets.query_moved, sets.query_y)):
            images.append((moved, y.repeat(1, moved.shape[1] // y.shape[1])))
    features, y = (torch.cat(part, dim=1) for part in zip(*images, strict=True))
    return sets.tasks * risk(logits(psi, features), y)


@ALGORITHMS.register("madod")
class MADOD(Algorithm):
    """Meta-learning over pseudo-unknown classes, invariance to a generator G, an energy margin [Wang et al. 2024]."""

    recordable = True
    Config = MadodConfig
    config: MadodConfig
    net: Classifier

    @classmethod
    def check(cls, config: MadodConfig, source: Pool) -> None:
        """Two classes, and one with two images, have to be left when pseudo-unknown ones are held out."""
        Shelf(source).check_tasks(config.pseudo_units)

    def batches(self, source: Pool, rng: np.random.Generator) -> Iterator[list[Task]]:
        """Yield the tasks of a meta-step."""
        how = self.config
        return episodes(
            source, rng, tasks=how.tasks, shots=how.shots, pseudo_units=how.pseudo_units, transform=self.augment
        )

    def objective(self, batch: Sequence[Task]) -> Terms:
        """L = sum_i L_outer(T_i), the sum over the tasks of the step [MADOD, eq. outer-update].

        Ours, and 0 in the paper: + w CE over all known classes by psi as it is, w the weight `all_class`.
        """
        how, tasks = self.config, self.featurize(batch)
        each = [self.outer_terms(sets) for sets in tasks]
        terms = {name: torch.stack([term[name] for term in each]).sum() for name in each[0]}
        if how.all_class:
            plain = [all_class_risk(self.heads(sets.tasks), sets, restyled=how.restyled) for sets in tasks]
            terms["all_class"] = torch.stack(plain).sum()
            terms["loss"] = terms["loss"] + how.all_class * terms["all_class"]
        return terms

    def outer_terms(self, sets: Sets) -> Terms:
        """L_outer = CE(Q; psi') + lambda_2 R_OOD(Q, O; psi'), summed over the tasks [MADOD, eq. outer-loss].

        Ours, and 0 in the paper: + w R_GI(Q; psi'), w the outer invariance; lambda_2 may grow (`margin_weight`).
        """
        how = self.config
        psi = narrowed(self.heads(sets.tasks), sets) if how.own_outputs else self.heads(sets.tasks)
        psi = self.adapted(psi, sets, steps=how.inner_steps, first_order=how.first_order)
        query, pseudo = logits(psi, sets.query), logits(psi, sets.pseudo_ood)
        known, unknown = (energy(part.flatten(0, 1), how.temperature) for part in (query, pseudo))
        error, margin = risk(query, sets.query_y), energy_margin(known, unknown, how.margin_in, how.margin_out)
        terms = {"loss": error + self.margin_weight * margin, "risk": error, "margin": margin}
        if how.outer_invariance:
            gap = invariance(query, logits(psi, sets.query_moved))
            terms |= {"loss": terms["loss"] + how.outer_invariance * gap, "invariance": gap}
        return {name: sets.tasks * term for name, term in terms.items()}

    @property
    def records(self) -> bool:
        """Steps are alike unless the weight of R_OOD grows."""
        return super().records and not self.config.margin_warmup

    @property
    def margin_weight(self) -> float:
        """lambda_2 min(1, t / (w T)) at step t of T, w the share of the warm-up: features come before margins."""
        growing = self.config.margin_warmup * self.setting.steps
        return self.config.margin * (min(1.0, self.step / growing) if growing else 1.0)

    def heads(self, tasks: int) -> Params:
        """Return psi once for every task."""
        return {name: value.expand(tasks, *value.shape) for name, value in self.net.head.named_parameters()}

    def adapted(self, psi: Params, sets: Sets, *, steps: int, first_order: bool) -> Params:
        """psi' = psi - eta_1 grad_psi L_inner(S; psi), one or more steps [MADOD, eq. inner-update]."""
        how = self.config
        return adapt(
            psi,
            lambda psi: inner_loss(psi, sets, how.invariance),
            lr=how.inner_lr,
            steps=steps,
            first_order=first_order,
        )

    def featurize(self, tasks: Sequence[Task], *, most: int | None = None) -> list[Sets]:
        """Return the features of every set of every task, tasks of one shape side by side, from one backbone pass.

        One pass is exact because no image sees another: BatchNorm is frozen, or GroupNorm stands in its place. For the
        same reason so are several, of `most` images each.
        """
        still = [images for task in tasks for images in (task.support.x, task.query.x, task.pseudo_ood.x)]
        to_move = [
            images.repeat(times, 1, 1, 1)
            for task in tasks
            for images, times in zip((task.support.x, task.query.x), self.config.restylings, strict=True)
        ]
        moved = in_parts(self.restyle, torch.cat(to_move), most)
        features = in_parts(self.net.features, torch.cat([*still, moved]), most)
        parts = features.split([len(images) for images in still + to_move])
        s, q, o = (parts[: len(still)][i::3] for i in range(3))
        s_moved, q_moved = (parts[len(still) :][i::2] for i in range(2))
        s_y, q_y, o_y = zip(*((task.support.y, task.query.y, task.pseudo_ood.y) for task in tasks), strict=True)
        return side_by_side(list(zip(s, q, o, s_moved, q_moved, s_y, q_y, o_y, strict=True)))

    def restyle(self, images: Tensor) -> Tensor:
        """x~ = G(x, v), v ~ N(0, I): the same content in a style drawn anew for every image."""
        with torch.no_grad():
            return self.setting.translate(images, self.rng) if len(images) else images

    @cached_property
    def optimizer(self) -> torch.optim.Optimizer:
        """Adam, or the SGD of the paper's text."""
        return self.descending(self.config.outer)

    def deploy(self, source: Pool, rng: np.random.Generator) -> Classifier:
        """Adapt the head to all known classes, phi frozen; the adapted head ships [MADOD, eq. adapt-update]."""
        support = all_units(source, rng, shots=self.config.adapt_shots, transform=self.augment)
        nothing = Batch(support.x[:0], support.y[:0], support.d[:0])
        with torch.no_grad(), torch.compiler.set_stance("force_eager"):  # compiling for one batch would not pay
            (sets,) = self.featurize([Task(support, nothing, nothing)], most=AT_ONCE)
        steps = self.config.adapt_steps or self.config.inner_steps
        psi = self.adapted(self.heads(1), sets, steps=steps, first_order=True)
        net = deepcopy(self.net)
        net.head.load_state_dict({name: value[0].detach() for name, value in psi.items()})
        return net
