"""What MADOD's losses are made of, the plainest objectives, and G's losses: each against a naive loop in float64."""

import math
from itertools import combinations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from madod.algorithms.base import ALGORITHMS
from madod.algorithms.coral import coral
from madod.algorithms.irm import penalty
from madod.algorithms.madod import energy_margin, l1_invariance
from madod.algorithms.mbdg import kl_invariance
from madod.algorithms.mixup import mixed_risk, partners
from madod.data.augment import NONE
from madod.data.base import Domain, pool
from madod.equations import dirichlet, energy, mmd
from madod.meta import adapt
from madod.models.classifier import Classifier, Setting
from madod.tasks import Batch
from madod.translation.blocks import adain, instance_norm
from madod.translation.judge import diversity, domain_distance, judge, retention
from madod.translation.munit import Munit, MunitConfig, adversarial_loss, discriminator_loss
from madod.translation.networks import architecture, initialise
from madod.translation.translate import freeze

from .algorithms.toy import by_domain

close = torch.testing.assert_close
SHAPE = (3, 16, 16)


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def randn(*shape, seed=0):
    return torch.randn(*shape, generator=seeded(seed), dtype=torch.float64)


def number(value):
    return torch.tensor(value, dtype=torch.float64)


def softmax(row):
    total = sum(math.exp(value) for value in row)
    return [math.exp(value) / total for value in row]


@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
def test_energy_is_the_loop_over_classes(temperature):
    logits = 3 * randn(6, 4)
    loop = [-temperature * math.log(sum(math.exp(f / temperature) for f in row)) for row in logits.tolist()]
    close(energy(logits, temperature), number(loop))
    close(energy(logits[None], temperature)[0], number(loop))


def test_energy_stays_finite_and_tells_sure_from_unsure():
    assert energy(torch.tensor([[2000.0, 0.0]])) == -2000
    sure, unsure = energy(number([[9.0, 0.0, 0.0], [3.0, 3.0, 3.0]]))
    assert sure < unsure


def test_energy_margin_is_the_mean_of_each_set_by_itself():
    known, unknown, margin_in, margin_out = 3 * randn(5) - 9, 3 * randn(6, seed=1) - 9, -10.0, -8.0
    pulled = sum(max(0.0, e - margin_in) ** 2 for e in known.tolist()) / 5
    pushed = sum(max(0.0, margin_out - e) ** 2 for e in unknown.tolist()) / 6
    assert pulled > 0
    assert pushed > 0
    close(energy_margin(known, unknown, margin_in, margin_out), number(pulled + pushed))
    close(energy_margin(known.repeat(2), unknown.repeat(7), margin_in, margin_out), number(pulled + pushed))


def test_energy_margin_is_zero_and_flat_on_the_right_side():
    known, unknown = number([-10.0, -15.0]).requires_grad_(), number([-8.0, 0.0]).requires_grad_()
    loss = energy_margin(known, unknown, -10.0, -8.0)
    assert loss == 0
    assert all(not grad.any() for grad in torch.autograd.grad(loss, (known, unknown)))


def test_l1_invariance_is_the_loop_over_probabilities():
    clean, moved = 2 * randn(5, 4), 2 * randn(5, 4, seed=1)
    rows = zip(clean.tolist(), moved.tolist(), strict=True)
    loop = [sum(abs(p - q) for p, q in zip(softmax(a), softmax(b), strict=True)) for a, b in rows]
    close(l1_invariance(clean, moved), number(loop))
    assert not l1_invariance(clean, clean + 5).gt(1e-12).any()  # probabilities do not feel a shift of all logits


def test_l1_invariance_is_at_most_two_and_keeps_a_gradient_when_saturated():
    clean = number([[1000.0, -1000.0]]).requires_grad_()
    gap = l1_invariance(clean, number([[-1000.0, 1000.0]]))
    close(gap.detach(), number([2.0]))
    assert torch.autograd.grad(gap.sum(), clean)[0].isfinite().all()


def test_adapt_is_gradient_descent_with_a_graph():
    theta = {"w": number([1.0, -2.0]).requires_grad_()}
    moved = adapt(theta, lambda p: (p["w"] ** 2).sum(), lr=0.1, steps=3)["w"]
    close(moved.detach(), number([1.0, -2.0]) * 0.8**3)
    close(torch.autograd.grad(moved.sum(), theta["w"])[0], number([0.8**3] * 2))
    first = adapt(theta, lambda p: (p["w"] ** 2).sum(), lr=0.1, steps=3, first_order=True)["w"]
    close(torch.autograd.grad(first.sum(), theta["w"])[0], number([1.0, 1.0]))


def restyled(images, rng):
    return 0.7 * images.flip(-1) + 0.2


def tiny(name, **fields):
    """An algorithm over three domains with four images of each in a batch, and such a batch."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = Classifier(nn.Sequential(nn.Flatten(), nn.Linear(12, 5), nn.Tanh()), 5, 3).double()
    cls = ALGORITHMS[name]
    learner = cls(cls.Config(batch=4, **fields), Setting(lambda: net, 3, restyled, NONE, 10), seeded()).double()
    y, d = torch.randint(3, (12,), generator=seeded(1)), torch.arange(3).repeat_interleave(4)
    return learner, Batch(randn(12, 3, 2, 2), y, d)


def risk(net, batch):
    rows = zip(net(batch.x).logits.tolist(), batch.y.tolist(), strict=True)
    return number(sum(-math.log(softmax(row)[y]) for row, y in rows) / len(batch.y))


def test_erm_is_the_mean_surprisal():
    learner, batch = tiny("erm")
    close(learner.objective(batch)["loss"].detach(), risk(learner.net, batch))


@pytest.mark.parametrize(("step", "weight"), [(0, 1.0), (5, 40.0)])
def test_irm_averages_risk_and_penalty_over_domains(step, weight):
    learner, batch = tiny("irm", penalty=40.0, anneal=5)
    learner.step = step
    parts = [(learner.net(part.x).logits, part.y) for part in by_domain(batch)]
    loop = sum(F.cross_entropy(*part) + weight * penalty(*part) for part in parts) / 3
    close(learner.objective(batch)["loss"], loop)


def test_mixup_mixes_pixels_and_risks_with_one_share_a_pair_of_domains():
    learner, batch = tiny("mixup", concentration=0.4)
    ours = learner.objective(batch)["loss"]
    rng = seeded()
    other = partners(torch.randperm(3, generator=rng), 4)
    lam = dirichlet(torch.full((3, 2), 0.4), rng)[:, 0]
    x = torch.stack([lam[n // 4] * batch.x[n] + (1 - lam[n // 4]) * batch.x[other[n]] for n in range(12)])
    share = torch.stack([lam[n // 4] for n in range(12)])
    close(ours, mixed_risk(learner.net(x).logits, batch.y, batch.y[other], share))


@pytest.mark.parametrize(("name", "distance"), [("mmd", mmd), ("coral", coral)])
def test_alignment_adds_the_mean_distance_between_domains(name, distance):
    learner, batch = tiny(name, alignment=0.7)
    features = [learner.net(part.x).features for part in by_domain(batch)]
    gaps = [distance(a, b) for a, b in combinations(features, 2)]
    close(learner.objective(batch)["loss"], risk(learner.net, batch) + 0.7 * sum(gaps) / 3)


def test_mbdg_prices_the_gap_by_the_dual_variable():
    learner, batch = tiny("mbdg")
    learner.dual.fill_(0.6)
    moved = learner.net(restyled(batch.x, None)).logits
    gap = kl_invariance(learner.net(batch.x).logits, moved).mean()
    close(learner.objective(batch)["loss"], risk(learner.net, batch) + 0.6 * gap)


def test_adain_gives_every_channel_its_scale_and_shift():
    x, scale, shift = randn(2, 3, 4, 5), randn(2, 3, seed=1), randn(2, 3, seed=2)
    out = adain(x, scale, shift)
    for n in range(2):
        for c in range(3):
            plane = x[n, c]
            flat = (plane - plane.mean()) / (plane.var(unbiased=False) + 1e-5).sqrt()
            close(out[n, c], (1 + scale[n, c]) * flat + shift[n, c])


def test_adversarial_losses_are_least_squares_summed_over_scales():
    fake, real = ([randn(2, 1, size, size, seed=seed + size) for size in (4, 2)] for seed in (0, 9))
    pulled = sum(sum((v - 1) ** 2 for v in m.flatten().tolist()) / m.numel() for m in fake)
    close(adversarial_loss(fake), number(pulled))
    split = sum(sum(v**2 for v in m.flatten().tolist()) / m.numel() for m in fake)
    split += sum(sum((v - 1) ** 2 for v in m.flatten().tolist()) / m.numel() for m in real)
    close(discriminator_loss(fake, real), number(split))


@pytest.fixture(scope="module")
def munit():
    return Munit(architecture(SHAPE), MunitConfig(), seeded(), seed=0).double()


def test_generator_loss_is_its_five_terms(munit):
    x, v = randn(3, *SHAPE).clamp(-1, 1), randn(3, munit.style, seed=1)
    terms, moved = munit.generator_terms(x, v)
    content, style = munit.content_encoder(x), munit.style_encoder(x)
    close(moved, munit.decoder(content, v))

    def l1(a, b):
        return (a - b).abs().sum() / a.numel()

    parts = [
        adversarial_loss(munit.discriminator(moved)),
        10 * l1(munit.decoder(content, style), x),
        l1(munit.content_encoder(moved), content),
        l1(munit.style_encoder(moved), v),
        10 * l1(munit.decoder(munit.content_encoder(moved), style), x),
    ]
    close(terms["loss"], sum(parts))


def test_translate_decodes_content_with_a_drawn_style(munit):
    translate = freeze(munit, architecture(SHAPE))
    images = torch.rand(4, *SHAPE, generator=seeded())
    v = torch.randn(4, munit.style, generator=seeded(3))
    ours = translate(images, seeded(3))
    close(ours, (translate.decoder(translate.content_encoder(images * 2 - 1), v) + 1) / 2)
    assert not ours.requires_grad
    assert ours.min() >= 0
    assert ours.max() <= 1
    assert not torch.equal(ours, translate(images, seeded(4)))


def test_networks_of_g_start_at_the_he_variance():
    net = nn.Sequential(nn.Conv2d(16, 64, 5), nn.Linear(400, 300))
    initialise(net, seeded())
    for layer in net:
        fan_in = layer.weight[0].numel()
        close(layer.weight.detach().var(), torch.tensor(2 / fan_in), rtol=0.05, atol=0)
        assert not layer.bias.any()


def flat_pool():
    """Two domains of two classes; every pixel of class k in domain d is 40 k + 100 d."""
    y = torch.tensor([0, 0, 1, 1])
    parts = [
        Domain(f"d{d}", (40 * y + 100 * d).view(-1, 1, 1, 1).expand(-1, *SHAPE).to(torch.uint8), y, y) for d in (0, 1)
    ]
    return pool(parts, ["a", "b"], ["a", "b"])


def test_retention_and_diversity_by_hand():
    held_out = flat_pool()

    def verdict(images):  # right for d0, always class 0 for d1
        return ((images.mean((1, 2, 3)) * 255).round() == 40).long()

    assert domain_distance(held_out) == pytest.approx(100 / 255)
    how = {"most": 512, "reconstruction": 0.1, "steps": 10}
    copying = judge(lambda images, rng: images, verdict, held_out, seeded(), **how)
    assert (copying.retention, copying.diversity, copying.images, copying.clean) == (1.0, 0.0, 8, pytest.approx(0.75))
    shifts = iter([0.0, 0.1])
    moving = judge(lambda images, rng: images + next(shifts), verdict, held_out, seeded(), **how)
    assert moving.diversity == pytest.approx(0.1 * 255 / 100, rel=1e-5)
    assert diversity(torch.tensor([0.1, 0.3]), 0.4) == pytest.approx(0.5)
    y, said, restyled = torch.tensor([[0, 0, 1, 1, 1], [0, 1, 1, 1, 0], [0, 0, 1, 0, 1]])
    assert retention(said, restyled, y) == pytest.approx(2 / 3)  # what was wrong before counts neither way
    assert retention(1 - y, y, y) == 0.0


def test_instance_norm_by_hand():
    x = torch.randn(2, 3, 4, 5, dtype=torch.float64)
    wanted = torch.stack(
        [torch.stack([(c - c.mean()) / (((c - c.mean()) ** 2).mean() + 1e-5).sqrt() for c in i]) for i in x]
    )
    torch.testing.assert_close(instance_norm(x), wanted)
    torch.testing.assert_close(torch.compile(instance_norm, backend="eager")(x), wanted, atol=1e-6, rtol=1e-6)
