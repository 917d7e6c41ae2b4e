"""A recorded step does what the same step does when its kernels are started one by one."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn

from madod.errors import InputError
from madod.models.optimizers import adam
from madod.models.recorded import WARM, Recorded, filled, shapes, tensors
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
    sizes = (5, 3) * (WARM + 2) + (4, 5, 3, 5)
    assert losses(recorded=True, batches=sizes) == pytest.approx(losses(recorded=False, batches=sizes), rel=1e-5)


def test_what_a_recording_cannot_hold_is_refused():
    with pytest.raises(TypeError, match="takes tensors, in tuples and lists, and not str"):
        list(tensors(([torch.zeros(1)], "word")))


def test_shapes_are_recorded_that_come_often_enough():
    """A rare one is compiled by the time that it is recorded, if it ever is."""
    often, rare = (shapes([torch.zeros(n)]) for n in (5, 3))
    warm = Recorded.__new__(Recorded)
    warm.turns = Counter()
    assert [warm._warm(now) for now in (often, rare, often, often, rare, often)] == [False] * 5 + [True]
    assert shapes([torch.zeros(5)]) != shapes([torch.zeros(5, dtype=torch.int64)])


class Pretence:
    """A GPU that records nothing, but knows what was done where."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.noting, self.current, self.registered = False, "cuda:0", ""
        self.streams = self.replays = 0
        for name, stand_in in {
            "CUDAGraph": lambda: self, "graph": self.recording, "device": self.device,
            "Stream": self.stream, "stream": lambda _: nullcontext(), "current_stream": lambda: self,
        }.items():  # fmt: skip
            monkeypatch.setattr(torch.cuda, name, stand_in)

    @contextmanager
    def recording(self, _: object) -> Iterator[None]:
        self.noting = True
        yield
        self.noting = False

    @contextmanager
    def device(self, device: object) -> Iterator[None]:
        before, self.current = self.current, str(device)
        yield
        self.current = before

    def register_generator_state(self, rng: object) -> None:
        self.registered = self.current

    def stream(self) -> "Pretence":
        self.streams += 1
        return self

    def replay(self) -> None:
        self.replays += 1

    def wait_stream(self, _: object) -> None:
        pass


def test_a_generator_is_registered_on_its_own_gpu(monkeypatch):
    pretence = Pretence(monkeypatch)
    Recorded(SimpleNamespace(device=torch.device("cuda:1")))
    assert pretence.registered == "cuda:1"


def test_what_is_recorded_was_done_in_its_shape_before(monkeypatch):
    pretence, done, noted = Pretence(monkeypatch), Counter(), []

    def work(x: Tensor) -> dict[str, Tensor]:
        if pretence.noting:
            noted.append((len(x), done[len(x)]))
        done[len(x)] += 1
        return {"loss": x.sum()}

    recorded = Recorded()
    for n in (5,) * WARM + (3,) + (5, 3) * 4:
        recorded(work, torch.ones(n))
    assert noted == [(5, WARM)]  # compiling for the 3, while kernels are noted, would break the recording
    assert pretence.replays == 4
    assert done[3] == 5


def test_all_turns_that_are_not_recorded_share_the_memory_of_one_stream(monkeypatch):
    pretence, recorded = Pretence(monkeypatch), Recorded()
    for n in range(1, 40):
        recorded(lambda x: {"loss": x.sum()}, torch.ones(n))
    assert pretence.streams == 1


@pytest.mark.parametrize(
    ("raised", "ends", "said"),
    [
        (RuntimeError, InputError, r"\(not permitted\): train with another backbone"),
        (torch.OutOfMemoryError, torch.OutOfMemoryError, "not permitted"),
    ],
)
def test_a_recording_that_fails_ends_in_a_sentence(raised, ends, said, monkeypatch):
    pretence, recorded = Pretence(monkeypatch), Recorded()

    def work(x: Tensor) -> dict[str, Tensor]:
        if pretence.noting:
            raise raised("not permitted\nand more of torch's advice")
        return {"loss": x.sum()}

    for _ in range(WARM):
        recorded(work, torch.ones(5))
    with pytest.raises(ends, match=said):
        recorded(work, torch.ones(5))


def test_tensors_take_the_places_of_those_they_stand_for():
    nest = ([Batch(*torch.arange(3)), Batch(*torch.arange(3, 6))], torch.tensor(6))
    assert [int(part) for part in tensors(nest)] == list(range(7))
    assert filled(nest, iter(torch.arange(7) + 10)) == ([Batch(10, 11, 12), Batch(13, 14, 15)], 16)
