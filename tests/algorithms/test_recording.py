"""Recorded steps of real methods end where the same steps do when their kernels are started one by one."""

from itertools import count

import numpy as np
import pytest
import torch

from madod.algorithms.base import ALGORITHMS
from madod.models.backbones import build
from madod.models.compute import Compute
from tests.algorithms.toy import CLASSES, SMALL, toy_pool, toy_setting

STEPS = 24
RECORDABLE = [name for name, method in ALGORITHMS.items() if method.recordable]


def trained(name: str, monkeypatch: pytest.MonkeyPatch, *, recorded: bool) -> tuple[list[float], torch.Tensor]:
    """Return the losses of some steps on a GPU, and the weights after them."""
    torch._dynamo.reset()
    method, seeds, rng = ALGORITHMS[name], count(), torch.Generator("cuda").manual_seed(0)
    compute = Compute(compiled=not method.record_plain)
    made = lambda: build("small_cnn", channels=3, classes=CLASSES, seed=next(seeds), compute=compute)  # noqa: E731
    config = method.Config.preset(pretrained=False, **{"batch": 4, **SMALL.get(name, {}), "average": 0.5})
    learner = method(config, toy_setting(steps=STEPS)._replace(make_net=made), rng).to("cuda")
    assert learner.records or not recorded
    if not recorded:
        monkeypatch.setattr(method, "records", False)
    batches = learner.batches(toy_pool().to(torch.device("cuda")), np.random.default_rng(0))
    losses = []
    for learner.step in range(STEPS):
        losses.append(learner.update(next(batches))["loss"])
    assert ("_recorded" in vars(learner)) == recorded
    return torch.stack(losses).tolist(), torch.cat([value.flatten() for value in learner.net.parameters()])


@pytest.mark.skipif(not torch.cuda.is_available(), reason="kernels are recorded on a GPU")
@pytest.mark.parametrize("name", RECORDABLE)
def test_recorded_steps_of_a_method_end_where_plain_ones_do(name, monkeypatch):
    losses, weights = trained(name, monkeypatch, recorded=True)
    plain_losses, plain_weights = trained(name, monkeypatch, recorded=False)
    assert losses == pytest.approx(plain_losses, rel=2e-2)
    torch.testing.assert_close(weights, plain_weights, rtol=1e-2, atol=1e-3)
