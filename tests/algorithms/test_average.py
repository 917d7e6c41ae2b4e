"""The mean of the last steps' weights, in every method alike, and across a kill."""

import numpy as np
import pytest
import torch

from madod.algorithms.base import ALGORITHMS, Algorithm
from madod.errors import InputError
from madod.models.average import MeanWeights
from madod.training import Cadence, Logbook, train
from tests.algorithms.toy import STEPS, toy_algorithm, toy_pool


def last_weights(method: Algorithm) -> torch.Tensor:
    return list(method.net.parameters())[-2].detach().clone()


def walked(method: Algorithm) -> list[torch.Tensor]:
    """Train, and return some weights as each step's optimiser left them."""
    seen: list[torch.Tensor] = []
    method.optimizer.register_step_post_hook(lambda *_: seen.append(last_weights(method)))
    batches = method.batches(toy_pool(), np.random.default_rng(0))
    while method.step < STEPS:
        method.update(next(batches))
        method.step += 1
    return seen


@pytest.mark.parametrize(("average", "last"), [(0.5, 6), (1.0, 12), (0.1, 1), (0.0, 1)])
def test_the_mean_of_the_last_steps_ships(average, last):
    method = toy_algorithm("erm", average=average)
    seen = walked(method)
    torch.testing.assert_close(last_weights(method), torch.stack(seen[-last:]).mean(0))


@pytest.mark.parametrize("name", list(ALGORITHMS))
def test_averaging_changes_nothing_on_the_way(name):
    with_mean, without = (walked(toy_algorithm(name, average=share)) for share in (0.5, 0.0))
    assert all(torch.equal(a, b) for a, b in zip(with_mean, without, strict=True))
    assert not torch.equal(with_mean[0], with_mean[-1])


def test_a_killed_run_ends_with_the_same_mean(tmp_path):
    def trained(steps: int, folder: str) -> torch.Tensor:
        method, out = toy_algorithm("madod", average=0.75), tmp_path / folder
        out.mkdir(exist_ok=True)
        logbook = Logbook(out, "a", cadence=Cadence(checkpoint=1, share=9.0))
        train(method, toy_pool(), np.random.default_rng(0), logbook, steps=steps)
        return last_weights(method)

    whole = trained(STEPS, "whole")
    trained(7, "killed")
    assert torch.equal(trained(STEPS, "killed"), whole)


def test_a_share_above_one_is_refused():
    with pytest.raises(InputError, match="average cannot be 2: it has to be from 0 to 1"):
        toy_algorithm("erm", average=2)


def test_running_statistics_stay_those_of_the_last_step():
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    mean = MeanWeights(net)
    net(torch.randn(8, 3))
    moved = net[1].running_mean.clone()
    mean.give(net)
    assert torch.equal(net[1].running_mean, moved)
