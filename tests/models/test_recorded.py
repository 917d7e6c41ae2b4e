"""A recorded step does what the same step does when its kernels are started one by one."""

from functools import partial

import pytest
import torch
from torch import Tensor, nn

from madod.models.optimizers import adam
from madod.models.recorded import WARM, Recorded, filled, tensors
from madod.tasks import Batch

on_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="kernels are recorded on a GPU")


def losses(*, recorded: bool, batches: tuple[int, ...] = (5,) * (WARM + 4)) -> list[float]:
    """A few steps of a small network on images with noise, in batches of these sizes."""
    torch.manual_seed(0)
    net = nn.Linear(4, 3).cuda()
    optimizer = adam(net.parameters(), 0.1, capturable=True)
    rng = torch.Generator("cuda").manual_seed(1)

    def step(batch: list[Batch]) -> dict[str, Tensor]:
        optimizer.zero_grad(set_to_none=True)
        noise = torch.rand(batch[0].x.shape, generator=rng, device="cuda")
        loss = nn.functional.cross_entropy(net(batch[0].x + noise), batch[0].y)
        loss.backward()
        optimizer.step()
        return {"loss": loss.detach()}

    work = partial(Recorded(rng), step) if recorded else step
    terms = []
    for n in batches:
        y = torch.arange(n, device="cuda") % 3
        terms.append(work([Batch(torch.rand(n, 4, generator=rng, device="cuda"), y, y)])["loss"])
    return torch.stack(terms).tolist()  # looked at in the end: no turn may overwrite an earlier one's outcome


@on_gpu
def test_a_recorded_step_learns_what_a_plain_one_does():
    assert losses(recorded=True) == pytest.approx(losses(recorded=False), rel=1e-5)


@on_gpu
def test_a_batch_of_another_shape_is_no_trouble():
    sizes = (5,) * (WARM + 2) + (3, 5, 4, 5)
    assert losses(recorded=True, batches=sizes) == pytest.approx(losses(recorded=False, batches=sizes), rel=1e-5)


def test_tensors_take_the_places_of_those_they_stand_for():
    nest = ([Batch(*torch.arange(3)), Batch(*torch.arange(3, 6))], torch.tensor(6))
    assert [int(part) for part in tensors(nest)] == list(range(7))
    assert filled(nest, iter(torch.arange(7) + 10)) == ([Batch(10, 11, 12), Batch(13, 14, 15)], 16)
