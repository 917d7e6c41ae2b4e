"""What the compared methods draw: pseudo-domains, MEDIC's held domains and units, SCONE's wild images, schedules."""

from itertools import islice

import numpy as np
import pytest
import torch

from madod.algorithms.medic import held_units
from madod.algorithms.pseudo_domains import pseudo_domains
from madod.algorithms.scone import SCONE, SconeConfig
from madod.algorithms.wild import Mixer, roles, turn
from madod.errors import InputError
from madod.tasks import identity

from .toy import toy_algorithm, toy_pool

CPU = torch.device("cpu")


@pytest.mark.parametrize("gathered", [False, True])
@pytest.mark.parametrize(("domains", "needed"), [(1, 2), (1, 3), (2, 3)])
def test_pseudo_domains_share_units_evenly_and_keep_every_image(domains, needed, gathered):
    pool = toy_pool(domains, per_cell=6)
    pool = pool.to(CPU) if gathered else pool
    dealt = pseudo_domains(pool, needed)
    assert dealt.d.unique().tolist() == list(range(needed))
    assert len(dealt.domains) == needed
    everything = torch.arange(len(pool))
    assert torch.equal(dealt.take(everything), pool.take(everything))
    for unit in range(4):
        counts = [int(((dealt.d == d) & (dealt.u == unit)).sum()) for d in range(needed)]
        split = [n for n in counts if n != 6]
        assert sum(counts) == 6 * domains
        assert max(split) - min(split) <= 1
    assert torch.equal(dealt.d, pseudo_domains(pool, needed).d)
    assert pseudo_domains(pool, domains) is pool


@pytest.mark.parametrize("domains", [1, 2, 3])
def test_plain_batches_lie_domain_after_domain(domains):
    algorithm = toy_algorithm("erm", domains, batch=6)
    for batch in islice(algorithm.batches(toy_pool(domains), np.random.default_rng(0)), 3):
        assert [part.tolist() for part in algorithm.per_domain(batch.d)] == [[k] * 6 for k in range(domains)]


@pytest.mark.parametrize("domains", [1, 2, 3, 5])
def test_medic_holds_each_domain_in_turn_and_splits_domains_and_units(domains):
    algorithm = toy_algorithm("medic", domains, batch=6)
    pool, held = toy_pool(domains), []
    everyone = max(3, domains)
    stream = algorithm.batches(pool, np.random.default_rng(0))
    for algorithm.step in range(2 * everyone):
        seen, fresh = next(stream)
        first, second, e = seen.d.view(3, 6)[:, 0].tolist()
        assert seen.d.tolist() == [first] * 6 + [second] * 6 + [e] * 6
        assert fresh.d.tolist() == [first] * 3 + [second] * 3 + [e] * 12
        assert len({first, second, e}) == 3
        g, rest = set(seen.y[12:].tolist()) | set(fresh.y[:6].tolist()), set(seen.y[:12].tolist())
        assert not g & (rest | set(fresh.y[6:].tolist()))
        assert len(g) <= held_units(4)
        held.append(e)
    assert held == [*range(everyone), *range(everyone)]


def test_medic_finds_a_unit_elsewhere_when_the_domain_has_none():
    pool = toy_pool(3)
    pool = pool.subset(((pool.d != 0) | (pool.u == 0)).nonzero()[:, 0])
    stream = toy_algorithm("medic").batches(pool, np.random.default_rng(0))
    for seen, fresh in islice(stream, 20):
        assert len(seen.y) == len(fresh.y) == 12


def test_scone_keeps_the_held_domain_and_unit_out_of_the_labelled_images():
    pool = toy_pool(3).to(CPU)
    domains, units = pool.d.numpy(), pool.u.numpy()
    away, strange = [], []
    for epoch in range(12):
        known, covariate, semantic = roles(domains, units, epoch, seed=5)
        (domain,), (unit,) = np.unique(domains[covariate]), np.unique(units[semantic])
        assert domain not in domains[known]
        assert unit not in units[known]
        assert unit not in units[covariate]
        assert len(known) + len(covariate) + len(semantic) == len(pool)
        away.append(int(domain))
        strange.append(int(unit))
    assert [sorted(away[k : k + 3]) for k in range(0, 12, 3)] == [[0, 1, 2]] * 4  # each once a round
    assert [sorted(strange[k : k + 4]) for k in range(0, 12, 4)] == [[0, 1, 2, 3]] * 3


def test_scone_holds_out_in_an_order_of_the_seed():
    orders = {tuple(turn(np.arange(4), epoch, (seed, 1)) for epoch in range(8)) for seed in range(6)}
    assert len(orders) == 6
    assert any(order[:4] != order[4:] for order in orders)


def test_scone_mixes_wild_images_in_their_shares_and_counts_known_ones_once_an_epoch():
    pool = toy_pool(3).to(CPU)
    mixer, rng = Mixer(pool, 20, (0.5, 0.1), identity), np.random.default_rng(0)
    rows = {pool.take(torch.tensor([row])).numpy().tobytes(): row for row in range(len(pool))}
    assert len(rows) == len(pool)
    assert len(mixer.draw(rng, -1).wild) == 0
    assert mixer.draw(rng, 0).census is pool
    kinds = np.zeros(3)
    for step in range(90):
        batch = mixer.draw(rng, step)
        parts = roles(mixer.domains, mixer.units, step // 3, 0)
        assert {rows[image.numpy().tobytes()] for image in batch.known.x} <= set(parts[0].tolist())
        for image in batch.wild:
            kinds += [rows[image.numpy().tobytes()] in part for part in parts]
        if step % 3 or not step:
            assert (batch.census is None) == (step > 0)
        else:
            assert len(batch.census) == len(roles(mixer.domains, mixer.units, step // 3 - 1, 0)[0])
    assert np.abs(kinds / kinds.sum() - (0.4, 0.5, 0.1)).max() < 0.04


def test_scone_multipliers_are_two():
    algorithm = toy_algorithm("scone")
    algorithm.step = algorithm.warm_steps
    algorithm.take_census(toy_pool())
    assert algorithm.warm_risk > 0
    algorithm.step += 4
    with torch.no_grad():
        algorithm.warm_risk.fill_(100.0)
    algorithm.take_census(toy_pool())
    alarms, risk = algorithm.multipliers.tolist()
    assert alarms > 0
    assert risk == 0
    assert algorithm.weights.tolist() == [1.5, 1.0]


def test_scone_needs_three_classes():
    with pytest.raises(InputError, match="add a class"):
        SCONE.check(SconeConfig(), toy_pool(classes=2))
    SCONE.check(SconeConfig(), toy_pool(classes=3))


def test_irm_weighs_the_penalty_after_annealing_and_adam_and_a_recording_start_afresh():
    algorithm = toy_algorithm("irm", anneal=2, penalty=50.0)
    algorithm.recorded = "a step of the old weight and the old moments"
    stream = algorithm.batches(toy_pool(), np.random.default_rng(0))
    for algorithm.step in range(3):
        terms = algorithm.update(next(stream))
        weight = 1.0 if algorithm.step < 2 else 50.0
        torch.testing.assert_close(terms["loss"], terms["risk"] + weight * terms["penalty"])
        taken = {int(state["step"]) for state in algorithm.optimizer.state.values()}
        assert taken == {algorithm.step + 1 if algorithm.step < 2 else 1}
        assert (algorithm.recorded is not None) == (algorithm.step < 2)


def test_mbdg_dual_climbs_while_answers_move():
    algorithm = toy_algorithm("mbdg", slack=0.0)
    stream = algorithm.batches(toy_pool(), np.random.default_rng(0))
    gaps = [algorithm.update(next(stream))["gap"] for _ in range(3)]
    torch.testing.assert_close(algorithm.dual, 1 + 0.05 * sum(gaps))


@pytest.mark.parametrize(
    ("name", "share", "factor"),
    [("daml", 0.8, 0.1), ("medic", 0.8, 0.1), ("edir_mmd", 0.7, 0.1), ("edst_mmd", 0.9, 0.01)],
)
def test_learning_rates_fall_on_schedule(name, share, factor):
    algorithm = toy_algorithm(name)
    algorithm.step = int(share * algorithm.setting.steps) + 1
    assert algorithm.rate == pytest.approx(factor * algorithm.config.lr)
    algorithm.step = 0
    assert algorithm.rate == algorithm.config.lr


def test_scone_rates():
    algorithm = toy_algorithm("scone", warm=0.5)
    rates = []
    for algorithm.step in (0, 6, 9, 11):
        rates.append(algorithm.rate / (algorithm.config.warm_lr if algorithm.step < 6 else algorithm.config.lr))
    assert rates == pytest.approx([1, 1, 0.5, 0.25])
