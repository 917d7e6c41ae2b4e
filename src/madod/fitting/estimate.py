"""How long a training will take, from a few of its own steps."""

import time
from collections.abc import Callable
from dataclasses import replace
from statistics import median
from typing import NamedTuple

import numpy as np
import torch

from madod.algorithms.base import ALGORITHMS
from madod.benchmark.examiner import JUDGE_STEPS
from madod.benchmark.generator import MOST, plain
from madod.benchmark.record import RunSpec
from madod.benchmark.run import Material, divided, setting
from madod.benchmark.settings import config_of
from madod.data.base import DomainDataset, Pool
from madod.models.classifier import Restyle, no_translate
from madod.models.compute import compute
from madod.models.weights import Weights
from madod.training import Learner
from madod.translation.munit import Munit, preset
from madod.translation.translate import freeze

TIMED = 3
"""Steps that are timed, after one that is not."""


class Pace(NamedTuple):
    """Seconds that one step takes, and a step of G where there is one."""

    step: float
    generator_step: float

    def seconds(self, spec: RunSpec) -> float:
        """Return about how long the steps of a run take: longer once the machine is busier than while it was timed.

        Reading pictures and the last measurements come on top; a G that another run left, or that is done early, saves
        its part.
        """
        training = spec.steps * self.step
        if not self.generator_step or spec.translate != "munit":
            return training
        return training + (spec.translate_steps or MOST) * self.generator_step + JUDGE_STEPS * self.step


def estimate(spec: RunSpec, dataset: DomainDataset, weights: Weights | None, device: torch.device) -> Pace:
    """Take a few steps, which leave nothing behind."""
    parts = divided(spec, dataset)
    source, how = parts.source.to(device), replace(compute(dataset.shape, device, spec.precision), compiled=False)
    method = ALGORITHMS[spec.algorithm]
    config = config_of(spec)
    method.check(config, source)
    translate: Restyle = no_translate
    generator_step = 0.0
    if config.needs_translate and spec.translate == "augment":
        translate = plain(dataset.augmentation).translate
    elif config.needs_translate:
        architecture, sizes = preset(source.shape)
        munit = Munit(architecture, sizes, torch.Generator(device).manual_seed(0), seed=0, compute=how).to(device)
        generator_step = _seconds_a_step(munit, source, device)
        translate = freeze(munit, architecture, how).to(device)
    known = setting(Material(spec, dataset, parts, weights), translate, how)
    learner = method(config, known, torch.Generator(device).manual_seed(0)).to(device)
    return Pace(_seconds_a_step(learner, source, device), generator_step)


def _seconds_a_step(learner: Learner, source: Pool, device: torch.device) -> float:
    """Return the seconds of a step, the median of a few."""
    batches = learner.batches(source, np.random.default_rng(0))

    def step() -> None:
        learner.update(next(batches))
        if device.type == "cuda":
            torch.cuda.synchronize(device)

    step()
    return median(_clocked(step) for _ in range(TIMED))


def _clocked(act: Callable[[], None]) -> float:
    start = time.perf_counter()
    act()
    return time.perf_counter() - start


def told(seconds: float) -> str:
    """Return a length of time in words that claim no more than is known."""
    if seconds < 1.5:
        return "about a second"
    if seconds < 90:
        return f"about {round(seconds, -1 if seconds >= 10 else 0):.0f} seconds"
    if seconds < 90 * 60:
        return f"about {round(seconds / 60)} minutes"
    return f"about {seconds / 3600:.1f} hours"
