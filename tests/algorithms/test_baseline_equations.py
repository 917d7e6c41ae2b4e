"""Every loss of the compared methods against a naive loop, a closed form or a hand-written computation, in float64."""

import itertools
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from madod import equations, meta
from madod.algorithms import aligned_ensemble, coral, irm, mbdg, medic, mixup, scone
from madod.algorithms.base import ALGORITHMS
from madod.data.augment import NONE
from madod.models.classifier import Classifier, Setting
from madod.models.ensemble import Ensemble, Views, pooled, views
from madod.tasks import Batch

from .toy import by_domain

close = torch.testing.assert_close


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def randn(*shape, seed=0):
    return torch.randn(*shape, generator=seeded(seed), dtype=torch.float64)


def labels(*shape, classes=3, seed=1):
    return torch.randint(classes, shape, generator=seeded(seed))


def number(value):
    return torch.tensor(value, dtype=torch.float64)


def cross_entropy(logits, target):
    """-log p_y of one row, or -sum q log p where the target is a distribution."""
    p = [math.exp(v) / sum(math.exp(w) for w in logits.tolist()) for v in logits.tolist()]
    if target.dim() == 0:
        return -math.log(p[int(target)])
    return -sum(float(q) * math.log(v) for q, v in zip(target, p, strict=True))


def test_irm_penalty_is_the_product_of_the_scale_gradients_of_both_halves():
    logits, y = randn(8, 3).requires_grad_(), labels(8)
    scale = torch.ones((), dtype=torch.float64, requires_grad=True)
    halves = [F.cross_entropy(logits[k::2] * scale, y[k::2]) for k in (0, 1)]
    even, odd = (torch.autograd.grad(loss, scale, create_graph=True)[0] for loss in halves)
    close(irm.penalty(logits, y), even * odd)
    ours, theirs = (torch.autograd.grad(value, logits)[0] for value in (irm.penalty(logits, y), even * odd))
    close(ours, theirs)


@pytest.mark.parametrize("domains", [1, 2, 3, 5])
def test_mixup_partners_come_from_the_next_domain_of_the_cycle(domains):
    size = 4
    cycle = torch.randperm(domains, generator=seeded(domains))
    other = mixup.partners(cycle, size).tolist()
    assert sorted(other) == list(range(domains * size))
    following = {int(a): int(b) for a, b in zip(cycle, cycle.roll(-1), strict=True)}
    for image, partner in enumerate(other):
        assert partner // size == following[image // size]
        assert partner != image


def test_mixup_risk():
    logits, y, other, share = randn(6, 3), labels(6), labels(6, seed=2), torch.rand(6, generator=seeded()).double()
    rows = [
        lam * cross_entropy(row, a) + (1 - lam) * cross_entropy(row, b)
        for row, a, b, lam in zip(logits, y, other, share.tolist(), strict=True)
    ]
    close(mixup.mixed_risk(logits, y, other, share), number(sum(rows) / 6))


def kernel(a, b):
    return sum(math.exp(-g * float((a - b).square().sum())) for g in equations.RBF_SCALES)


def test_mmd_is_the_loop_over_kernels():
    x, y = randn(5, 4) / 3, randn(6, 4, seed=1) / 3 + 0.2

    def mean(one, other):
        return sum(kernel(a, b) for a in one for b in other) / (len(one) * len(other))

    close(equations.mmd(x, y), number(mean(x, x) + mean(y, y) - 2 * mean(x, y)))
    close(equations.mmd(x, x), number(0.0))


@pytest.mark.parametrize("spread", [1e-3, 1e-1, 1.0])
def test_mmd_and_its_gradient_in_float32_are_those_of_float64(spread):
    centre = 2.5 * torch.rand(2048, generator=seeded())  # as wide and as far from 0 as features of a ResNet-50
    x, y = (centre + spread * (randn(32, 2048, seed=seed) + seed / 5) for seed in (1, 2))

    def found(dtype):
        ends = [part.float().to(dtype).requires_grad_() for part in (x, y)]
        value = equations.mmd(*ends)
        return value.double(), torch.cat(torch.autograd.grad(value, ends)).double()

    (rough, slope), (exact, truth) = found(torch.float32), found(torch.float64)
    close(rough, exact, rtol=1e-4, atol=0)
    assert (slope - truth).norm() < 1e-4 * truth.norm()


def test_coral_is_the_loop_over_moments():
    x, y = randn(5, 3), randn(7, 3, seed=1)

    def moments(z):
        mean = [float(z[:, i].sum()) / len(z) for i in range(3)]
        covariance = [
            [sum((float(r[i]) - mean[i]) * (float(r[j]) - mean[j]) for r in z) / (len(z) - 1) for j in range(3)]
            for i in range(3)
        ]
        return mean, covariance

    (mx, cx), (my, cy) = moments(x), moments(y)
    means = sum((a - b) ** 2 for a, b in zip(mx, my, strict=True)) / 3
    covariances = sum((cx[i][j] - cy[i][j]) ** 2 for i in range(3) for j in range(3)) / 9
    close(coral.coral(x, y), number(means + covariances))


def test_distances_over_pairs_of_domains_vanish_for_one_domain():
    parts = [randn(4, 3, seed=s) for s in range(4)]
    pairs = [coral.coral(a, b) for a, b in itertools.combinations(parts, 2)]
    close(equations.mean_over_pairs(coral.coral, parts), sum(pairs) / 6)
    close(equations.sum_over_pairs(coral.coral, parts), sum(pairs))
    assert equations.mean_over_pairs(equations.mmd, parts[:1]) == 0


def test_kl_invariance_is_the_loop_and_stays_finite_when_saturated():
    a, b = randn(4, 3), randn(4, 3, seed=1)
    p, q = a.softmax(1), b.softmax(1)
    loop = [sum(float(p[i, k]) * math.log(p[i, k] / q[i, k]) for k in range(3)) for i in range(4)]
    close(mbdg.kl_invariance(a, b), number(loop))
    sure = torch.tensor([[1000.0, -1000.0, 0.0]], requires_grad=True)
    gap = mbdg.kl_invariance(sure, torch.tensor([[-1000.0, 1000.0, 0.0]])).mean()
    assert gap.isfinite()
    assert torch.autograd.grad(gap, sure)[0].isfinite().all()


def test_dual_variable_rises_when_violated_and_stops_at_zero():
    close(mbdg.dual_ascent(number(1.0), number(0.425), 0.05, 0.025), number(1.02))
    close(mbdg.dual_ascent(number(0.001), number(0.0), 0.05, 0.025), number(0.0))


def test_dirichlet_follows_its_generator_and_its_mean():
    alpha = torch.tensor([0.6, 0.2, 0.2]).expand(20_000, 3).contiguous()
    weights = equations.dirichlet(alpha, seeded())
    assert torch.equal(weights, equations.dirichlet(alpha, seeded()))
    close(weights.sum(1), torch.ones(len(weights)))
    close(weights.mean(0), alpha[0], atol=0.01, rtol=0)
    variance = alpha[0] * (1 - alpha[0]) / 2  # alpha_i (a - alpha_i) / (a^2 (a + 1)), a = 1
    close(weights.var(0), variance, atol=0.01, rtol=0)


def test_dir_mixup_is_the_loop_over_networks_rows_and_domains():
    features, y = randn(3, 3, 5, 4), labels(3, 5)
    mixed, soft = equations.dir_mixup(features, y, 3, own=0.6, other=0.2, rng=seeded(7))
    rng = seeded(7)
    order = torch.rand(3, 3, 5, 1, generator=rng).argsort(2)[..., 0]
    alpha = torch.full((3, 5, 3), 0.2, dtype=torch.float64)
    for m in range(3):
        alpha[m, :, m] = 0.6
    weights = equations.dirichlet(alpha, rng)
    for m, n in itertools.product(range(3), range(5)):
        rows = [order[m, d, n] for d in range(3)]
        close(mixed[m, n], sum(weights[m, n, d] * features[m, d, rows[d]] for d in range(3)))
        close(soft[m, n], sum(weights[m, n, d] * torch.eye(3).double()[y[d, rows[d]]] for d in range(3)))
    assert all(sorted(order[m, d].tolist()) == [0, 1, 2, 3, 4] for m in range(3) for d in range(3))


def test_soft_cross_entropy_and_risk_table():
    logits, targets = randn(2, 4, 3), randn(2, 4, 3, seed=1).softmax(-1)
    rows = [cross_entropy(logits[m, n], targets[m, n]) for m in range(2) for n in range(4)]
    close(equations.soft_cross_entropy(logits, targets), number(sum(rows) / 8))
    logits, y = randn(2, 3, 4, 3), labels(3, 4)
    table = equations.risk_table(logits, y)
    for m, d in itertools.product(range(2), range(3)):
        close(table[m, d], number(sum(cross_entropy(logits[m, d, n], y[d, n]) for n in range(4)) / 4))


def distilled(student, teachers, weights, temperature):
    """T^2 KL(teachers' mixture || student) of one row, written out."""
    q = [float(p) for p in (student / temperature).softmax(0)]
    p = sum(w * (t / temperature).softmax(0) for w, t in zip(weights, teachers, strict=True)).tolist()
    return temperature**2 * sum(a * math.log(a / b) for a, b in zip(p, q, strict=True))


def test_distillation_is_the_loop_and_does_not_move_the_teachers():
    student, teachers = randn(4, 3).requires_grad_(), randn(2, 4, 3, seed=1).requires_grad_()
    weights = equations.dirichlet(torch.ones(4, 2, dtype=torch.float64), seeded())
    loss = equations.distillation(student, teachers, weights, 3.0)  # not 2, whose square is its double
    rows = [distilled(student[n].detach(), teachers[:, n].detach(), weights[n], 3.0) for n in range(4)]
    close(loss.detach(), number(sum(rows) / 4))
    loss.backward()
    assert teachers.grad is None
    assert student.grad.abs().sum() > 0


@pytest.mark.parametrize("networks", [2, 3])
def test_mutual_distillation_teaches_each_network_on_its_own_domain(networks):
    logits = randn(networks, networks, 4, 3)
    rng, total = seeded(3), 0.0
    for d in range(networks):
        weights = equations.dirichlet(torch.ones(4, networks - 1, dtype=torch.float64), rng)
        others = [m for m in range(networks) if m != d]
        total += (
            sum(distilled(logits[d, d, n], [logits[m, d, n] for m in others], weights[n], 2.0) for n in range(4)) / 4
        )
    close(equations.mutual_distillation(logits, 2.0, seeded(3)), number(total))


def test_one_vs_all_takes_the_hardest_negative():
    pairs, y = randn(5, 4, 2), labels(5, classes=4)
    positive, negative = [], []
    for n in range(5):
        p = pairs[n].softmax(1)
        positive.append(-math.log(p[y[n], 1]))
        negative.append(max(-math.log(p[k, 0]) for k in range(4) if k != y[n]))
    close(medic.one_vs_all(pairs, y), number((sum(positive) + sum(negative)) / 10))


def test_medic_holds_a_third_of_the_groups():
    assert {units: medic.held_units(units) for units in (2, 3, 4, 6, 7, 9, 10)} == {
        2: 1, 3: 1, 4: 2, 6: 2, 7: 3, 9: 3, 10: 4,
    }  # fmt: skip
    assert medic.held_units(11) == 4  # six groups of two
    assert medic.held_units(54) == 18  # nine groups of six
    assert all(medic.held_units(units) < units for units in range(2, 400))


def tiny_net(seed, classes=3):
    torch.manual_seed(seed)
    return Classifier(nn.Sequential(nn.Flatten(), nn.Linear(12, 4), nn.Tanh()), 4, classes).double()


def tiny(name, domains=3, **fields):
    with torch.random.fork_rng():
        seeds = itertools.count()
        setting = Setting(lambda: tiny_net(next(seeds)), domains, lambda x, rng: x, NONE, 10)
        cls = ALGORITHMS[name]
        return cls(cls.Config(**fields), setting, seeded()).double()


def tiny_batch(n, domains, seed):
    d = torch.arange(domains).repeat_interleave(n)
    return Batch(randn(len(d), 3, 2, 2, seed=seed), labels(len(d), seed=seed), d)


def medic_risk(x, y, w, b, head, head_bias, pairs, pairs_bias):
    """The sum over three equal batches of CE + OVA of the tiny network, written out."""
    z = torch.tanh(x.flatten(1) @ w.T + b)
    log_p = (z @ head.T + head_bias).log_softmax(1)
    log_pair = (z @ pairs.T + pairs_bias).view(len(x), -1, 2).log_softmax(2)
    total = 0
    for rows in torch.arange(len(x)).chunk(3):
        for n in rows:
            hardest = max(-log_pair[n, k, 0] for k in range(log_p.shape[1]) if k != y[n])
            total = total + (-log_p[n, y[n]] + (-log_pair[n, y[n], 1] + hardest) / 2) / len(rows)
    return total


def test_medic_steps_virtually_through_every_parameter_to_second_order():
    algorithm = tiny("medic", inner_lr=0.3, batch=4)
    seen, fresh = tiny_batch(4, 3, seed=5), tiny_batch(4, 3, seed=6)
    params = list(algorithm.net.parameters())
    ours = torch.autograd.grad(algorithm.objective((seen, fresh))["loss"], params)

    def by_hand(first_order=False):
        theta = [p.detach().clone().requires_grad_() for p in params]
        train = medic_risk(seen.x, seen.y, *theta)
        grads = torch.autograd.grad(train, theta, create_graph=True)
        moved = [p - 0.3 * (g.detach() if first_order else g) for p, g in zip(theta, grads, strict=True)]
        return torch.autograd.grad(train + medic_risk(fresh.x, fresh.y, *moved), theta)

    names = [name for name, _ in algorithm.net.named_parameters()]
    assert [n.split(".")[0] for n in names] == ["featurizer"] * 2 + ["head"] * 2 + ["pairs"] * 2
    for one, exact in zip(ours, by_hand(), strict=True):
        close(one, exact)
    assert any(not torch.allclose(one, rough) for one, rough in zip(ours, by_hand(True), strict=True))
    rough = tiny("medic", inner_lr=0.3, batch=4, first_order=True)
    losses = rough.objective((seen, fresh))["loss"]
    for one, first in zip(torch.autograd.grad(losses, list(rough.net.parameters())), by_hand(True), strict=True):
        close(one, first)


def test_medic_gradient_agrees_with_finite_differences():
    algorithm = tiny("medic", inner_lr=0.3, batch=4)
    batch = tiny_batch(4, 3, seed=5), tiny_batch(4, 3, seed=6)
    weight = algorithm.net.head.weight
    (ours,) = torch.autograd.grad(algorithm.objective(batch)["loss"], weight)
    for place in ((0, 1), (2, 3)):
        values = []
        for shift in (1e-6, -2e-6):
            with torch.no_grad():
                weight[place] += shift
            values.append(algorithm.objective(batch)["loss"].detach())
        with torch.no_grad():
            weight[place] += 1e-6
        close((values[0] - values[1]) / 2e-6, ours[place], rtol=1e-5, atol=1e-6)


def test_medic_heads_start_small_and_own_score_is_the_answers_pair():
    net = tiny("medic").net
    bound = 0.1 * math.sqrt(6 / (4 + 6))
    assert 0 < net.pairs.weight.abs().max() <= bound
    assert not net.pairs.bias.any()
    assert not net.head.bias.any()
    x = randn(5, 3, 2, 2)
    features, logits, own = net(x)
    for n in range(5):
        pair = net.pairs(features[n]).view(3, 2)[logits[n].argmax()].softmax(0)
        close(own[n], -pair[1].log())


def test_medic_own_score_keeps_apart_what_rounds_to_one_or_to_zero():
    net = tiny("medic").net.float()
    x = torch.rand(1, 3, 2, 2)
    margins, found = (-60.0, -40.0, 0.0, 40.0, 60.0), []
    for margin in margins:
        nn.init.zeros_(net.pairs.weight)
        net.pairs.bias.data.copy_(torch.tensor([0.0, margin]).repeat(3))
        found.append(net(x).own[0].item())
    assert found == pytest.approx([math.log1p(math.exp(-margin)) for margin in margins], rel=1e-6, abs=0)


def test_daml_losses_are_the_sums_over_networks_and_domains():
    algorithm = tiny("daml", batch=4)
    how = algorithm.config
    batch = tiny_batch(4, 3, seed=5)
    y = batch.y.view(3, 4)
    theta = dict(algorithm.net.named_parameters())
    seen = views(algorithm.net, theta, batch.x)
    table = [
        [F.cross_entropy(net(part.x).logits, part.y) for part in by_domain(batch)] for net in algorithm.net.members
    ]

    def mixed(own, other, rng):
        z, q = equations.dir_mixup(seen.features, y, 3, own=own, other=other, rng=rng)
        heads = [net.head for net in algorithm.net.members]
        return sum(F.cross_entropy(head(z[m]), q[m]) for m, head in enumerate(heads))

    algorithm.rng.manual_seed(4)
    rng = seeded(4)
    lesson = equations.mutual_distillation(seen.logits, 2.0, rng)
    close(algorithm.train_loss(seen, batch.y), sum(table[m][m] for m in range(3)) + lesson + 3 * mixed(0.6, 0.2, rng))
    algorithm.rng.manual_seed(4)
    strangers = sum(table[m][d] for m in range(3) for d in range(3) if d != m)
    close(algorithm.meta_loss(seen, batch.y), strangers + 3 * mixed(0.2, 0.6, seeded(4)))
    assert (how.near, how.far) == (0.6, 0.2)


def test_daml_meta_gradient_is_taken_at_the_virtual_parameters():
    algorithm = tiny("daml", batch=4)
    seen, fresh = tiny_batch(4, 3, seed=5), tiny_batch(4, 3, seed=6)
    params = dict(algorithm.net.named_parameters())
    ours = torch.autograd.grad(algorithm.objective((seen, fresh))["loss"], list(params.values()))
    algorithm.rng.manual_seed(0)
    train = algorithm.train_loss(views(algorithm.net, params, seen.x), seen.y)
    first = torch.autograd.grad(train, list(params.values()))
    moved = {name: (p - 0.01 * g).detach().requires_grad_() for (name, p), g in zip(params.items(), first, strict=True)}
    meta = algorithm.meta_loss(views(algorithm.net, moved, fresh.x), fresh.y)
    second = torch.autograd.grad(meta, list(moved.values()))
    for total, a, b in zip(ours, first, second, strict=True):
        close(total, a + b)


def test_virtual_step_of_a_quadratic():
    theta = {"a": number([1.0, 2.0]).requires_grad_()}
    for first_order, slope in ((True, 1.0), (False, 1 - 0.1 * 6)):
        moved = meta.step(theta, 3 * theta["a"].square().sum(), lr=0.1, first_order=first_order)["a"]
        close(moved.detach(), number([1 - 0.6, 2 - 1.2]))
        close(torch.autograd.grad(moved.sum(), theta["a"])[0], number([slope, slope]))


def test_a_rehearsal_keeps_the_loss_and_its_gradient():
    theta = {"a": number([1.0, 2.0]).requires_grad_(), "b": number(3.0).requires_grad_()}
    both = list(theta.values())
    for first_order in (True, False):
        passes = []
        loss = 3 * theta["a"].square().sum() * theta["b"]
        loss.register_hook(passes.append)
        expected = meta.step(theta, loss, lr=0.1, first_order=first_order)
        moved, kept = meta.rehearse(theta, loss, lr=0.1, first_order=first_order)
        assert kept == loss
        for name, value in moved.items():
            close(value, expected[name])
        passes.clear()
        close(torch.autograd.grad(kept, both, retain_graph=True)[0], number([18.0, 36.0]))
        assert bool(passes) != first_order  # the way back to theta is not gone a second time


def test_scone_losses():
    lse, slope, offset = randn(6), number(-0.7), number(0.3)
    sigma = [1 / (1 + math.exp(-(-0.7 * v + 0.3))) for v in lse.tolist()]
    close(scone.known_loss(lse, slope, offset), number(sum(sigma) / 6))
    sigma = [1 / (1 + math.exp(-0.7 * (v + 10) + 0.3)) for v in lse.tolist()]
    close(scone.wild_loss(lse, slope, offset, -10.0), number(sum(sigma) / 6))


def test_augmented_lagrangian_has_two_branches_that_meet_smoothly():
    weight, multiplier = number(1.5), number(0.6)
    close(scone.augmented(number(0.2), multiplier, weight), number(0.2 * 0.6 + 1.5 * 0.04 / 2))
    close(scone.augmented(number(-0.5), multiplier, weight), number(-0.36 / 3))
    edge = number(-0.4).requires_grad_()
    value = scone.augmented(edge, multiplier, weight)
    close(value.detach(), number(-0.36 / 3))
    close(torch.autograd.grad(value, edge)[0], number(0.0))
    inactive = number(-0.5).requires_grad_()
    assert torch.autograd.grad(scone.augmented(inactive, multiplier, weight), inactive)[0] == 0


def test_multipliers_climb_the_lagrangian_and_weights_grow_where_violated():
    excess, multiplier, weight = number([0.2, -5.0, -0.1]), number([0.6, 0.6, 0.6]), number([1.5, 1.5, 1.5])
    close(scone.raised_multiplier(excess, multiplier, weight, 0.5), number([0.7, 0.6 - 0.5 * 0.4, 0.55]))
    climb = multiplier.clone().requires_grad_()
    (slope,) = torch.autograd.grad(scone.augmented(excess, climb, weight).sum(), climb)
    close(scone.raised_multiplier(excess, multiplier, weight, 0.5), multiplier + 0.5 * slope)
    close(scone.raised_weight(excess, weight, 1.5), number([2.25, 1.5, 1.5]))


def test_aligned_ensemble_weights_its_own_domain_and_sums_over_pairs():
    table = randn(3, 3)
    loop = sum((3 if m == d else 1) * table[m, d] for m in range(3) for d in range(3))
    close(aligned_ensemble.weighted_risk(table, 3.0), loop)
    features = randn(2, 3, 4, 5) / 3
    loop = sum(equations.mmd(member[a], member[b]) for member in features for a, b in ((0, 1), (0, 2), (1, 2)))
    close(aligned_ensemble.alignment(features), loop)


@pytest.mark.parametrize("name", ["edir_mmd", "edst_mmd"])
def test_aligned_ensembles_add_up(name):
    algorithm = tiny(name, batch=4)
    batch = tiny_batch(4, 3, seed=5)
    y, total = batch.y.view(3, 4), 0
    per_net = [[net(part.x) for part in by_domain(batch)] for net in algorithm.net.members]
    for m, d in itertools.product(range(3), range(3)):
        total += (3 if m == d else 1) * F.cross_entropy(per_net[m][d].logits, y[d])
    for outputs in per_net:
        total += sum(equations.mmd(a.features, b.features) for a, b in itertools.combinations(outputs, 2))
    if name == "edir_mmd":
        features = torch.stack([torch.stack([out.features for out in outputs]) for outputs in per_net])
        z, q = equations.dir_mixup(features, y, 3, own=0.6, other=0.2, rng=seeded())
        total += 3 * sum(F.cross_entropy(net.head(z[m]), q[m]) for m, net in enumerate(algorithm.net.members))
    else:
        logits = torch.stack([torch.stack([out.logits for out in outputs]) for outputs in per_net])
        total += equations.mutual_distillation(logits, 2.0, seeded())
    close(algorithm.objective(batch)["loss"], total)


def test_learning_rates_fall_in_steps():
    rates = [equations.stepped(1.0, step / 10, (0.5, 0.8), 0.1) for step in range(10)]
    close(number(rates), number([1.0] * 5 + [0.1] * 3 + [0.01] * 2))


def test_ensemble_answers_with_the_mean():
    members = [tiny_net(seed) for seed in range(3)]
    x = randn(5, 3, 2, 2)
    mean = sum(net(x).logits for net in members) / 3
    joint = Ensemble(members)
    features, logits, own = joint(x)
    close(features, torch.cat([net(x).features for net in members], 1))
    close(logits, mean)
    close(joint.head(features), mean)
    close(own, -mean.max(1).values)
    soft = sum(net(x).logits.softmax(1) for net in members) / 3
    _, logits, own = Ensemble(members, probabilities=True)(x)
    close(logits.softmax(1), soft)
    close(own, -soft.max(1).values.log())


def test_pooled_members_keep_their_mean_softmax_and_mean_energy():
    logits = 3 * randn(4, 5, 3)
    joint = pooled(logits)
    close(joint.softmax(1), logits.softmax(2).mean(0))
    close(equations.energy(joint), equations.energy(logits).mean(0))
    sure = torch.tensor([[0.0, 80.0, 1.0], [0.0, 70.0, 1.0], [0.0, 300.0, 1.0]])  # softmaxes of 0 and 1 in float32
    close(pooled(torch.stack([sure, sure])), sure)


def test_views_classify_with_each_members_own_head():
    members = [tiny_net(seed) for seed in range(2)]
    joint = Ensemble(members)
    batch = tiny_batch(3, 2, seed=1)
    seen = views(joint, dict(joint.named_parameters()), batch.x)
    for m, d in itertools.product(range(2), range(2)):
        out = members[m](by_domain(batch)[d].x)
        close(seen.features[m, d], out.features)
        close(seen.logits[m, d], out.logits)
    assert isinstance(seen, Views)
    assert np.shape(seen.classify(seen.features[:, 0])) == (2, 3, 3)
