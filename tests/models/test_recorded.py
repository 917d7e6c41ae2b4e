"""A recorded step does what the same step does when its kernels are started one by one."""

from functools import partial

import pytest
import torch
from torch import nn

from madod.models.optimizers import adam
from madod.models.recorded import WARM, Recorded

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="kernels are recorded on a GPU")


def losses(*, recorded: bool) -> list[float]:
    torch.manual_seed(0)
    net = nn.Linear(4, 3).cuda()
    optimizer = adam(net.parameters(), 0.1, capturable=True)

    def step(x: torch.Tensor) -> dict[str, torch.Tensor]:
        optimizer.zero_grad(set_to_none=True)
        loss = net(x).square().mean()
        loss.backward()
        optimizer.step()
        return {"loss": loss.detach()}

    work = partial(Recorded(), step) if recorded else step
    rng = torch.Generator("cuda").manual_seed(1)
    terms = [work(torch.rand(5, 4, generator=rng, device="cuda"))["loss"] for _ in range(WARM + 4)]
    return torch.stack(terms).tolist()  # looked at in the end: no turn may overwrite an earlier one's outcome


def test_a_recorded_step_learns_what_a_plain_one_does():
    assert losses(recorded=True) == pytest.approx(losses(recorded=False), rel=1e-5)


def test_a_batch_of_another_shape_is_refused():
    work = Recorded()
    for _ in range(WARM + 1):
        work(lambda x: {"sum": x.sum()}, torch.ones(2, 3, device="cuda"))
    with pytest.raises(ValueError, match="recorded for shapes"):
        work(lambda x: {"sum": x.sum()}, torch.ones(1, 3, device="cuda"))
