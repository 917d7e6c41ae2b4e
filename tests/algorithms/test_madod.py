"""MADOD's meta-gradient: exact, against an independent computation and finite differences."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from madod.algorithms.madod import MADOD, MadodConfig, invariance
from madod.data.augment import NONE
from madod.errors import InputError
from madod.models.classifier import Classifier, Setting, no_translate
from madod.tasks import Batch, Task, all_units
from tests.test_tasks import numbered_pool

CLASSES, SHAPE = 4, (1, 3, 3)


@pytest.fixture(autouse=True)
def double_precision():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def shifted(images, rng):
    """A stand-in for G: deterministic, and different from the identity."""
    return 0.7 * images.flip(-1) + 0.2


def make(**fields) -> MADOD:
    torch.manual_seed(0)
    net = Classifier(nn.Sequential(nn.Flatten(), nn.Linear(9, 6), nn.Tanh()), 6, CLASSES)
    config = replace(
        MadodConfig(inner_lr=0.3, inner_steps=3, tasks=3, shots=2, invariance=0.5, margin=0.4, margin_in=-1.5,
                    margin_out=-1.0, temperature=1.3), **fields)  # fmt: skip
    return MADOD(config, Setting(lambda: net, 2, shifted, NONE, 10), torch.Generator().manual_seed(0))


def tasks() -> list[Task]:
    """Two tasks of one shape and one of another; each holds out a class of its own; Q of the last lacks one of S."""
    rng = torch.Generator().manual_seed(1)

    def batch(size: int, *classes: int) -> Batch:
        y = torch.tensor(classes)[torch.arange(size) % len(classes)]
        return Batch(torch.rand(size, *SHAPE, generator=rng), y, torch.zeros(size, dtype=torch.int64))

    return [
        Task(batch(5, 0, 1, 2), batch(5, 2, 1, 0), batch(2, 3)),
        Task(batch(5, 0, 2, 3), batch(5, 3, 0, 2), batch(2, 1)),
        Task(batch(7, 1, 2, 3), batch(4, 1, 3), batch(3, 0)),
    ]


def own(learner: MADOD, task: Task) -> torch.Tensor:
    """The outputs that a task's head has."""
    held = torch.cat([task.support.y, task.query.y]).unique()
    return held if learner.config.own_outputs else torch.arange(CLASSES)


def by_hand(learner: MADOD, batch: list[Task]) -> torch.Tensor:
    """The outer loss task by task, each set through the network by itself, with nothing but autograd."""
    how, total = learner.config, torch.zeros(())
    for task in batch:
        kept, weight, bias = own(learner, task), learner.net.head.weight, learner.net.head.bias
        for _ in range(how.inner_steps):
            z, z_moved = (learner.net.featurizer(x) for x in (task.support.x, shifted(task.support.x, None)))
            clean, moved = ((part @ weight.T + bias)[:, kept] for part in (z, z_moved))
            log_p = clean - clean.exp().sum(1, keepdim=True).log()
            inner = -log_p[torch.arange(len(clean)), torch.searchsorted(kept, task.support.y)].mean()
            gap = (torch.softmax(clean, 1) - torch.softmax(moved, 1)).abs().sum(1).mean()
            inner = inner + how.invariance * gap
            grad_w, grad_b = torch.autograd.grad(inner, (weight, bias), create_graph=not how.first_order)
            weight, bias = weight - how.inner_lr * grad_w, bias - how.inner_lr * grad_b
        query = (learner.net.featurizer(task.query.x) @ weight.T + bias)[:, kept]
        pseudo = (learner.net.featurizer(task.pseudo_ood.x) @ weight.T + bias)[:, kept]
        t = how.temperature
        e_in, e_out = (-t * (f / t).exp().sum(1).log() for f in (query, pseudo))
        margin = (e_in - how.margin_in).clamp(min=0).pow(2).mean() + (how.margin_out - e_out).clamp(min=0).pow(2).mean()
        total = total + F.cross_entropy(query, torch.searchsorted(kept, task.query.y)) + how.margin * margin
        if how.outer_invariance:
            moved = (learner.net.featurizer(shifted(task.query.x, None)) @ weight.T + bias)[:, kept]
            gap = (torch.softmax(query, 1) - torch.softmax(moved, 1)).abs().sum(1).mean()
            total = total + how.outer_invariance * gap
    return total


def gradient(learner: MADOD, loss: torch.Tensor) -> torch.Tensor:
    grads = torch.autograd.grad(loss, list(learner.parameters()))
    return torch.cat([grad.flatten() for grad in grads])


def restylings(how: MadodConfig, task: Task) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """The restyled images that the plain risk sees, each with its label."""
    return [(shifted(part.x, None), part.y) for part in [task.support] * how.views + [task.query] if how.restyled_risk]


@pytest.mark.parametrize(
    "fields",
    [{}, {"first_order": True}, {"invariance": 0.0}, {"margin": 0.0}, {"invariance": 0.0, "margin": 0.0},
     {"outer_invariance": 0.8}, {"inner_steps": 1}, {"own_outputs": True, "outer_invariance": 0.8},
     {"own_outputs": True}, {"views": 2, "outer_invariance": 0.8}, {"invariance": 0.0, "outer_invariance": 0.8},
     {"all_class": 0.7}, {"all_class": 0.7, "own_outputs": True},
     {"all_class": 0.7, "restyled_risk": True}, {"all_class": 0.7, "restyled_risk": True, "invariance": 0.0},
     {"all_class": 0.7, "restyled_risk": True, "views": 2, "outer_invariance": 0.8}],
    ids=lambda fields: ",".join(fields) or "default",
)  # fmt: skip
def test_meta_gradient_equals_an_independent_loop(fields):
    learner, batch = make(**fields), tasks()
    ours, theirs = learner.objective(batch)["loss"], by_hand(learner, batch)
    for task in batch:
        parts = [(part.x, part.y) for part in task] + restylings(learner.config, task)
        plain = [F.cross_entropy(learner.net(x).logits, y, reduction="sum") for x, y in parts]
        theirs = theirs + learner.config.all_class * sum(plain) / sum(len(x) for x, _ in parts)
    assert torch.allclose(ours, theirs, rtol=1e-12)
    a, b = gradient(learner, ours), gradient(learner, theirs)
    assert (a - b).norm() / b.norm() < 1e-8


def test_views_average_over_restylings():
    rng = torch.Generator().manual_seed(2)
    clean, *views = (torch.randn(2, 5, CLASSES, generator=rng) for _ in range(4))
    gaps = [(view.softmax(-1)[t, i] - clean.softmax(-1)[t, i]).abs().sum() for view in views
            for t in range(2) for i in range(5)]  # fmt: skip
    assert torch.allclose(invariance(clean, torch.cat(views, dim=1)), torch.stack(gaps).mean(), rtol=1e-12)


def test_every_view_is_a_restyling_of_its_own():
    def numbered(images, rng):
        return images + torch.arange(len(images))[:, None, None, None]  # no two restylings alike

    learner, (task, *_) = make(views=3, outer_invariance=0.5), tasks()
    learner.setting = learner.setting._replace(translate=numbered)
    (sets,) = learner.featurize([task])
    n = len(task.support.x)
    for view in range(3):
        moved = learner.net.featurizer(task.support.x + torch.arange(view * n, view * n + n)[:, None, None, None])
        assert torch.allclose(sets.support_moved[0, view * n : view * n + n], moved)
    assert sets.query_moved.shape[1] == len(task.query.x)


def test_meta_gradient_equals_finite_differences():
    learner, batch, step = make(outer_invariance=0.3), tasks(), 1e-6
    exact = gradient(learner, learner.objective(batch)["loss"])
    weights = list(learner.parameters())
    rng = np.random.default_rng(0)
    for _ in range(5):
        direction = [torch.from_numpy(rng.normal(size=tuple(weight.shape))) for weight in weights]
        losses = []
        for sign in (1, -1):
            moved = copy.deepcopy(learner)
            with torch.no_grad():
                for weight, d in zip(moved.parameters(), direction, strict=True):
                    weight += sign * step * d
            losses.append(float(moved.objective(batch)["loss"].detach()))
        numeric = (losses[0] - losses[1]) / (2 * step)
        analytic = float(exact @ torch.cat([d.flatten() for d in direction]))
        assert numeric == pytest.approx(analytic, rel=1e-6)


def test_second_order_differs_from_first_order():
    batch = tasks()
    exact, first = (gradient(m, m.objective(batch)["loss"]) for m in (make(), make(first_order=True)))
    assert (exact - first).norm() / exact.norm() > 1e-3


def test_invariance_reaches_the_featurizer_and_only_through_the_inner_loop():
    batch = tasks()
    with_gi, without = make(), make(invariance=0.0)
    phi = list(with_gi.net.featurizer.parameters())
    a = torch.autograd.grad(with_gi.objective(batch)["loss"], phi)
    b = torch.autograd.grad(without.objective(batch)["loss"], list(without.net.featurizer.parameters()))
    assert max(float((x - y).abs().max()) for x, y in zip(a, b, strict=True)) > 1e-6
    first = make(first_order=True)
    cut = make(first_order=True, invariance=0.0)
    shift = [
        float((x - y).abs().max())
        for x, y in zip(
            torch.autograd.grad(first.objective(batch)["loss"], list(first.net.featurizer.parameters())),
            torch.autograd.grad(cut.objective(batch)["loss"], list(cut.net.featurizer.parameters())),
            strict=True,
        )
    ]
    assert max(shift) > 0  # psi' moved, so the outer gradient is taken elsewhere, though no derivative flows through it


def test_an_update_moves_featurizer_and_head():
    learner = make(lr=1e-2)
    before = copy.deepcopy(learner.net.state_dict())
    learner.update(tasks())
    assert all(not torch.equal(before[name], value) for name, value in learner.net.state_dict().items())


@pytest.mark.parametrize("fields", [{}, {"own_outputs": True}], ids=["default", "own outputs"])
def test_deploy_adapts_the_head_alone_and_ships_it(fields):
    torch.set_default_dtype(torch.float32)  # images arrive from a pool as float32
    learner = make(inner_steps=5, adapt_steps=2, adapt_shots=2, **fields)
    learner.net.featurizer[1] = nn.Linear(4, 6)
    source = numbered_pool([[4, 4, 4, 4], [4, 4, 4, 4]])
    shipped = learner.deploy(source, np.random.default_rng(0))
    assert torch.equal(shipped.featurizer[1].weight, learner.net.featurizer[1].weight)
    assert not torch.equal(shipped.head.weight, learner.net.head.weight)

    batch = all_units(source, np.random.default_rng(0), shots=2)
    weight, bias = learner.net.head.weight, learner.net.head.bias
    for _ in range(2):
        clean, moved = (learner.net.featurizer(x) @ weight.T + bias for x in (batch.x, shifted(batch.x, None)))
        gap = (torch.softmax(clean, 1) - torch.softmax(moved, 1)).abs().sum(1).mean()
        loss = F.cross_entropy(clean, batch.y) + learner.config.invariance * gap
        grads = torch.autograd.grad(loss, (weight, bias))
        weight, bias = (
            value - learner.config.inner_lr * grad for value, grad in zip((weight, bias), grads, strict=True)
        )
    assert torch.allclose(shipped.head.weight, weight, atol=1e-5)


@pytest.mark.parametrize("views", [1, 2])
def test_the_adaptation_sees_many_images_part_by_part(views, monkeypatch):
    torch.set_default_dtype(torch.float32)
    source, seen = numbered_pool([[4, 4, 4, 4], [4, 4, 4, 4]]), []

    def shipped() -> torch.Tensor:
        learner = make(adapt_shots=4, views=views)
        learner.net.featurizer[1] = nn.Linear(4, 6)
        learner.net.featurizer.register_forward_hook(lambda net, given, out: seen.append(len(out)))
        torch.nn.init.constant_(learner.net.featurizer[1].weight, 0.1)
        return learner.deploy(source, np.random.default_rng(0)).head.weight

    whole = shipped()
    monkeypatch.setattr("madod.algorithms.madod.AT_ONCE", 5)
    torch.testing.assert_close(shipped(), whole)
    assert seen[0] == 32 * (1 + views)
    assert max(seen[1:]) == 5
    assert sum(seen[1:]) == seen[0]


def test_without_invariance_nothing_is_restyled():
    learner = make(invariance=0.0)
    learner.setting = learner.setting._replace(translate=None)  # calling it would raise
    learner.objective(tasks())
    assert not learner.config.needs_translate
    assert make().config.needs_translate
    assert make(invariance=0.0, outer_invariance=1.0).config.needs_translate


def test_the_margin_grows_in_over_its_warm_up():
    learner = make(margin=0.4, margin_warmup=0.5)  # the setting has ten steps
    found = {}
    for learner.step in (0, 1, 4, 5, 9):
        found[learner.step] = learner.margin_weight
    assert found == {0: 0.0, 1: pytest.approx(0.08), 4: pytest.approx(0.32), 5: 0.4, 9: 0.4}
    assert make(margin=0.4).margin_weight == 0.4
    learner.step = 0
    terms = learner.objective(tasks())
    assert torch.allclose(terms["loss"], terms["risk"])


def test_a_method_that_restyles_without_having_asked_for_g_is_told_so():
    learner = make()
    learner.setting = learner.setting._replace(translate=no_translate)
    with pytest.raises(InputError, match="set needs_translate = True in its Config"):
        learner.objective(tasks())


def test_compiling_pays_after_as_many_tasks_however_they_are_spread_over_steps():
    assert MadodConfig(tasks=4).compile_from == 700
    assert MadodConfig(tasks=1).compile_from == 2800
