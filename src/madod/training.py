"""The training loop, written once for every method and for G: history, checkpoints, resume."""

import json
import logging
import math
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from madod.data.base import Pool
from madod.data.threads import cores
from madod.errors import InputError, is_out_of_memory
from madod.interrupts import held_back
from madod.progress import Progress, silent
from madod.storage import read_tensors, read_texts, under, whole, write_tensors

log = logging.getLogger(__name__)

History = list[dict[str, float]]
Seconds = Mapping[str, float]
"""By stage."""
CHECKPOINT = "checkpoint.safetensors"


class Learner(Protocol):
    """Whatever can be trained: an algorithm, or G."""

    rng: torch.Generator
    step: int

    @property
    def optimizers(self) -> dict[str, torch.optim.Optimizer]:
        """Every optimiser whose state a checkpoint must hold."""
        ...

    def batches(self, source: Pool, rng: np.random.Generator) -> Iterator[Any]:
        """Yield batches for ever."""
        ...

    def update(self, batch: Any) -> dict[str, Tensor]:
        """Take one step."""
        ...

    def state_dict(self) -> dict[str, Tensor]:
        """Return all weights and buffers."""
        ...

    def load_state_dict(self, state: dict[str, Tensor]) -> Any:
        """Take weights and buffers back."""
        ...


class Cadence(NamedTuple):
    """How often the loop looks up, in steps; and how much of the time it may spend on checkpoints."""

    log: int = 10
    checkpoint: int = 50
    share: float = 0.05


LOOK = 1.0
"""Seconds between two looks at the numbers: each look makes a GPU wait."""
USUAL = Cadence()
SLOWER = "lower the learning rate (lr) and start again in a fresh folder"
"""What to do about a training that broke down."""


@dataclass(frozen=True)
class Logbook:
    """What a training keeps of itself and tells people; nothing of it changes a number."""

    out: Path
    """Folder of its checkpoint."""
    identity: str
    """Names all that decides the outcome; a checkpoint of another is refused."""
    stage: str = "training"
    """What people know it as."""
    progress: Progress = silent
    remedy: str = SLOWER
    """What to do where it breaks down."""
    settings: str = ""
    """What checkpoints tell people that they are of (`settings_of`)."""
    before: Seconds = field(default_factory=dict)
    """Seconds of earlier stages, kept in checkpoints with those of the training for the next start (`spent`)."""
    cadence: Cadence = USUAL

    @property
    def file(self) -> Path:
        """The checkpoint."""
        return self.out / CHECKPOINT

    def breakdown(self, step: int, name: str, *, beside: bool = False) -> InputError:
        """Return the error of a training that no longer computes with numbers; `beside` a loss that still is one."""
        remedy = self.remedy
        if beside:
            remedy = f"the loss is one there, so look at how {name} is computed, or else {remedy}"
        elif step == 1:
            remedy = f"no step came before, so look at the settings and at how {name} is computed"
        return InputError(f"{self.stage} broke down by step {step}: {name} is not a finite number; {remedy}")


def train(learner: Learner, source: Pool, rng: np.random.Generator, logbook: Logbook, *, steps: int) -> History:
    """Train to `steps` and return the history; a fresh learner resumes from the logbook's checkpoint, if any.

    Killed at any moment and started again, it ends with the same bits: a checkpoint holds weights, optimisers, both
    generators and the history, and batches depend on the generators alone; on a CPU the process goes on with as many
    threads as the training began with. Asked to end by Ctrl-C or SIGTERM, it ends its step first and saves it.
    """
    start, cadence = time.monotonic(), logbook.cadence
    earlier = spent(logbook.file).get("training", 0.0)
    history = load_checkpoint(logbook, learner, rng) if logbook.file.exists() and learner.step == 0 else []
    batches = endless(learner, source, rng)
    waiting: dict[int, dict[str, Tensor]] = {}
    looked = saved = time.monotonic()
    cost, leaving = 0.0, False  # cost: seconds that the last checkpoint took
    with held_back() as came:
        while learner.step < steps and not leaving:
            terms = learner.update(next(batches))
            learner.step += 1
            last, leaving = learner.step == steps, bool(came)
            due = last or leaving or learner.step % cadence.checkpoint == 0
            waiting[learner.step] = terms
            logged = learner.step % cadence.log == 0 or last
            if logged:
                logbook.progress(logbook.stage, learner.step, steps)
            if due or (logged and time.monotonic() - looked >= LOOK):
                history += look(waiting, logbook, every=cadence.log, last=steps)
                looked, waiting = time.monotonic(), {}
            begun = time.monotonic()
            if last or leaving or (due and cost <= cadence.share * (begun - saved)):
                check_weights(learner, logbook)
                save_checkpoint(logbook, learner, rng, history, earlier + time.monotonic() - start)
                saved = time.monotonic()
                cost = saved - begun
    return history


def endless(learner: Learner, source: Pool, rng: np.random.Generator) -> Iterator[Any]:
    """Yield a learner's batches; refuse what are none, or come to an end."""
    batches: object = learner.batches(source, rng)
    whose = f"batches of {type(learner).__name__}"
    if not isinstance(batches, Iterator):
        raise InputError(f"{whose} returns {type(batches).__name__}: let it yield batches, for ever")
    yield from batches
    raise InputError(f"{whose} come to an end before the training does: let it yield them for ever, in while True")


def look(waiting: dict[int, dict[str, Tensor]], logbook: Logbook, *, every: int, last: int) -> History:
    """Return the logged ones of these steps, terms as floats, with one wait for the device; refuse what is not finite.

    A term in a step that is not logged may be so; it tells where one that is logged began to.
    """
    values = iter(
        torch.stack([term.detach().float() for terms in waiting.values() for term in terms.values()]).tolist()
    )
    rows = [{"step": step, **{name: next(values) for name in terms}} for step, terms in waiting.items()]
    logged = [row for row in rows if row["step"] % every == 0 or row["step"] == last]
    for name in (name for row in logged for name, value in row.items() if not math.isfinite(value)):
        first = next(row for row in rows if not math.isfinite(row.get(name, 0.0)))
        beside = name != "loss" and math.isfinite(first.get("loss", math.nan))
        raise logbook.breakdown(int(first["step"]), name, beside=beside)
    return logged


def check_weights(learner: Learner, logbook: Logbook) -> None:
    """Stop at a weight that is no number, before it is saved."""
    weights = learner.state_dict()
    finite = torch.stack([value.isfinite().all() for value in weights.values()])
    if not finite.all():
        broken = [name for name, fine in zip(weights, finite.tolist(), strict=True) if not fine]
        raise logbook.breakdown(learner.step, broken[0])


def save_checkpoint(
    logbook: Logbook, learner: Learner, rng: np.random.Generator, history: History, seconds: float
) -> None:
    """Write everything that the next step depends on into one file, whole or absent; and the seconds spent so far."""
    tensors = {f"weights.{name}": value for name, value in learner.state_dict().items()}
    groups = {}
    for name, optimizer in learner.optimizers.items():
        state = optimizer.state_dict()
        groups[name] = [{k: v for k, v in group.items() if k != "params"} for group in state["param_groups"]]
        for index, slots in state["state"].items():
            tensors |= {f"optimizer.{name}.{index}.{slot}": value for slot, value in slots.items() if value is not None}
    tensors["rng"] = learner.rng.get_state()
    facts = {"identity": logbook.identity, "step": learner.step, "rng": rng.bit_generator.state, "groups": groups}
    facts["threads"] = torch.get_num_threads()
    texts = {"facts": facts, "history": history, "seconds": {**logbook.before, "training": seconds}}
    dumped = {name: json.dumps(text) for name, text in texts.items()}
    write_tensors(logbook.file, tensors, dumped | {"settings": logbook.settings}, sealed=True)


MACHINE = ("fused", "capturable", "foreach")
"""What an optimiser does for its device's sake: never taken from a checkpoint, which another device may have left."""
FROM_THE_START = "delete it, and the same command begins from the start"
"""What to do about a checkpoint that is none."""


@contextmanager
def reading(file: Path) -> Iterator[None]:
    """Say that a file is no whole checkpoint, wherever taking from it fails: it may be older than checksums."""
    try:
        yield
    except Exception as error:
        if isinstance(error, InputError) or is_out_of_memory(error):
            raise
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        raise InputError(f"{file} is not a whole checkpoint ({reason}): {FROM_THE_START}") from error


def load_checkpoint(logbook: Logbook, learner: Learner, rng: np.random.Generator) -> History:
    """Put learner and generators back to where a checkpoint left them."""
    file = logbook.file
    tensors, texts = read_tensors(file, learner.rng.device, FROM_THE_START)
    with reading(file):
        facts, history = json.loads(texts["facts"]), json.loads(texts["history"])
        if facts["identity"] != logbook.identity:
            same = logbook.settings and texts.get("settings") == logbook.settings
            raise another(file, "pictures" if same else "settings or pictures")
        if tensors["rng"].shape != learner.rng.get_state().shape:
            raise InputError(
                f"{file} was not begun on the {learner.rng.device.type}, and a generator of random numbers goes on "
                f"only on the kind of device where it began: name that, or {FROM_THE_START}"
            )
        put_back(tensors, facts, learner, rng)
        if learner.rng.device.type == "cpu":
            compute_with(int(facts.get("threads", torch.get_num_threads())), file)
        return history


def put_back(tensors: dict[str, Tensor], facts: dict[str, Any], learner: Learner, rng: np.random.Generator) -> None:
    """Give learner and generators the state that a checkpoint holds."""
    rng.bit_generator.state = facts["rng"]
    learner.load_state_dict(under(tensors, "weights."))
    for name, optimizer in learner.optimizers.items():
        weights = [weight for group in optimizer.param_groups for weight in group["params"]]
        state: dict[int, dict[str, Tensor]] = {}
        for key, value in under(tensors, f"optimizer.{name}.").items():
            index, slot = key.split(".")
            state.setdefault(int(index), {})[slot] = as_laid_out(value, weights[int(index)])
        fresh = optimizer.state_dict()["param_groups"]
        saved = [{k: v for k, v in group.items() if k not in MACHINE} for group in facts["groups"][name]]
        groups = [old | new for old, new in zip(fresh, saved, strict=True)]
        optimizer.load_state_dict({"state": state, "param_groups": groups})
    learner.rng.set_state(tensors["rng"].cpu())
    learner.step = facts["step"]


def compute_with(threads: int, file: Path) -> None:
    """Take as many threads as a checkpoint was begun with, whose sums have its last bits; warn where cores lack."""
    if threads == torch.get_num_threads():
        return
    if threads > cores():
        log.warning(
            "%s was begun with %d threads, and %d go on with it: the last bits will differ",
            file, threads, torch.get_num_threads(),
        )  # fmt: skip
        return
    torch.set_num_threads(threads)


@contextmanager
def own_threads() -> Iterator[None]:
    """Give back the number of threads that there was, whatever a checkpoint asks for in between."""
    threads = torch.get_num_threads()
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def as_laid_out(value: Tensor, weight: Tensor) -> Tensor:
    """Return an optimiser's numbers laid out in memory as the weights they belong to are: files know no layouts."""
    alike = value.dim() and value.shape == weight.shape  # Adam counts its steps in a number without dimensions
    return torch.empty_like(weight, dtype=value.dtype).copy_(value) if alike else value


def another(file: Path, what: str) -> InputError:
    """Return the refusal of a checkpoint of a run with something other."""
    return InputError(f"{file} belongs to a run with other {what}: delete its folder, or choose another")


def settings_of(file: Path) -> str:
    """Return the settings that a checkpoint was saved with; nothing without one, or where it is too old to say."""
    return read_texts(file).get("settings", "")


def identity_of(file: Path) -> str:
    """Return the identity of the run that a checkpoint is of; nothing without one."""
    with reading(file):
        identity: str = json.loads(read_texts(file).get("facts", "{}")).get("identity", "")
        return identity


def reached(file: Path) -> int:
    """Return the step that a checkpoint holds; 0 without one."""
    with reading(file):
        return int(json.loads(read_texts(file).get("facts", "{}")).get("step", 0))


def spent(file: Path) -> dict[str, float]:
    """Return the seconds by stage up to a checkpoint; none without one, or where it is too old to say."""
    with reading(file):
        seconds = json.loads(read_texts(file).get("seconds", "{}"))
        return {stage: float(count) for stage, count in seconds.items()}


def write_history(file: Path, history: History) -> None:
    """Write one JSON object a line."""
    with whole(file) as part:
        part.write_text("".join(json.dumps(row) + "\n" for row in history), encoding="utf-8")
