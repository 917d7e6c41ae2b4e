import pytest
import torch
from torch import nn

from madod.models.optimizers import adam, sgd


def test_adam_takes_one_kernel_only_on_a_gpu():
    assert adam([nn.Parameter(torch.zeros(1))], 0.1).defaults["fused"] is False


@pytest.mark.parametrize("nesterov", [False, True])
def test_sgd_is_the_loop_over_steps(nesterov):
    weight = nn.Parameter(torch.tensor([1.0, -2.0], dtype=torch.float64))
    optimizer = sgd([weight], 0.1, momentum=0.9, weight_decay=0.5, nesterov=nesterov)
    theta, velocity = weight.detach().clone(), torch.zeros(2, dtype=torch.float64)
    for _ in range(3):
        optimizer.zero_grad()
        (3 * weight.square().sum()).backward()
        optimizer.step()
        gradient = 6 * theta + 0.5 * theta
        velocity = 0.9 * velocity + gradient
        theta = theta - 0.1 * (gradient + 0.9 * velocity if nesterov else velocity)
    torch.testing.assert_close(weight.detach(), theta)


def test_without_momentum_nesterovs_steps_are_plain_ones():
    weight = nn.Parameter(torch.tensor([1.0]))
    optimizer = sgd([weight], 0.1, momentum=0.0, weight_decay=0.0, nesterov=True)
    weight.square().sum().backward()
    optimizer.step()
    torch.testing.assert_close(weight.detach(), torch.tensor([0.8]))
