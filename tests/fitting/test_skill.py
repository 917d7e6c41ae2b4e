"""How far above guessing: by hand, and by how often guessing itself would pass."""

import math

import numpy as np
import pytest

from madod.evaluation.metrics import auroc
from madod.fitting.skill import USUAL, WORTH, Measured, guessing, of_accuracy, of_auroc, skill


def test_guessing_by_hand():
    assert guessing([0, 0, 0, 1], [0, 0, 1, 1]) == pytest.approx(3 / 4 * 1 / 2 + 1 / 4 * 1 / 2)
    assert guessing([0, 0, 0, 1], [0, 0, 0, 0]) == pytest.approx(3 / 4)  # the commonest class is no skill
    assert guessing([0, 1, 2, 3], [0, 1, 2, 3]) == pytest.approx(1 / 4)
    assert guessing([0, 1], [2, 2]) == 0
    assert guessing([1, 1], [1, 0]) is None
    assert guessing([], []) is None


def test_the_variance_of_an_auroc_is_that_of_scores_that_mean_nothing():
    rng = np.random.default_rng(0)
    unknown = np.arange(15) < 4
    drawn = [auroc(rng.random(15), unknown) for _ in range(4000)]
    assert of_auroc(0.7, 11, 4).variance == pytest.approx(16 / (12 * 44))
    assert np.var(drawn) == pytest.approx(16 / (12 * 44), rel=0.1)


def test_one_domain_by_hand():
    found = skill([of_accuracy(0.7, 0.25, 30)])
    assert found.way == pytest.approx(0.6)
    assert found.margin == pytest.approx(1.959964 * math.sqrt(0.25 * 0.75 / 30) / 0.75, rel=1e-5)
    assert (found.value, found.guess, found.domains, found.doubt) == (0.7, 0.25, 1, "")


def test_domains_that_differ_count_as_noise_where_pictures_do_not():
    many = [of_auroc(value, 10_000, 10_000) for value in (0.6, 0.7, 0.8)]
    found = skill(many)
    assert found.way == pytest.approx(0.4)
    spread = (WORTH * USUAL**2 + 2 * 0.2**2) / (WORTH + 2)
    assert found.margin == pytest.approx(2.776445 * math.sqrt(spread / 3), rel=1e-5)  # Student's, four degrees
    few = [of_auroc(value, 4, 1) for value in (0.6, 0.7, 0.8)]
    assert skill(few).margin == pytest.approx(1.959964 * 2 * math.sqrt(3 * 6 / (12 * 4)) / 3, rel=1e-5)
    assert (found.doubt, skill(few).doubt) == ("", "chance")


@pytest.mark.parametrize("domains", [2, 3, 4, 5])
@pytest.mark.parametrize("deviation", [0.1, 0.2, 0.3])
def test_the_mean_over_all_domains_is_seldom_outside_of_the_margin(domains, deviation):
    """A twentieth, though the domains are few; normal quantiles missed it in 30, 19, 14 and 12 % of such draws."""
    ways = np.random.default_rng(domains).normal(0.5, deviation, (1000, domains))
    found = [skill([Measured(each, 0.0, 0.0) for each in row]) for row in ways.tolist()]
    assert np.mean([abs(each.way - 0.5) > each.margin for each in found]) <= 0.06


def test_two_domains_are_enough_where_both_are_far_above_guessing_and_not_where_they_only_agree():
    apart, agreed = ([Measured(value, 0.0, 0.0) for value in both] for both in ((0.85, 0.7), (0.4, 0.4)))
    assert (skill(apart).doubt, skill(agreed).doubt) == ("", "chance")


def test_the_best_of_several_has_to_do_better():
    one = [Measured(0.76, 0.5, 0.0144)]
    assert skill(one).doubt == ""
    assert skill(one, choices=3).doubt == "chance"
    assert skill([]) is None


@pytest.mark.parametrize(("value", "doubt"), [(0.4, "weak"), (0.59, "weak"), (0.61, "")])
def test_a_little_above_guessing_is_not_enough_however_many_pictures(value, doubt):
    assert skill([of_auroc(value, 100_000, 100_000)]).doubt == doubt


@pytest.mark.parametrize(("known", "unknown"), [(6, 2), (40, 10), (400, 100)])
def test_scores_that_mean_nothing_seldom_pass(known, unknown):
    rng = np.random.default_rng(1)
    marks = np.arange(known + unknown) < unknown

    def passes() -> bool:
        detectors = [[auroc(rng.random(len(marks)), marks) for _ in range(3)] for _ in range(3)]
        found = skill([of_auroc(value, known, unknown) for value in max(detectors, key=sum)], choices=3)
        return found.way > found.margin

    assert np.mean([passes() for _ in range(300)]) < 0.05


def test_scores_that_mean_something_mostly_pass():
    """Normal scores one standard deviation apart: an AUROC of 0.76."""
    rng = np.random.default_rng(2)
    marks = np.arange(100) < 20

    def passes() -> bool:
        values = [auroc(rng.normal(size=100) + marks, marks) for _ in range(4)]
        return skill([of_auroc(value, 80, 20) for value in values], choices=3).doubt == ""

    assert np.mean([passes() for _ in range(300)]) > 0.95
