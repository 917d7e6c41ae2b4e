"""One run: split, G, training, detectors, numbers, a saved model."""

import itertools
import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import nn

from madod.algorithms.base import ALGORITHMS, Algorithm
from madod.benchmark.examiner import Examiner
from madod.benchmark.generator import Generator, generator, plain
from madod.benchmark.outcome import Outcome, identity, leave, recalled, refuse_begun
from madod.benchmark.provenance import peaks, reset_peaks, versions
from madod.benchmark.record import RECORD, RunRecord, RunSpec
from madod.data.base import DomainDataset
from madod.data.split import Split, split
from madod.detectors import THREE
from madod.detectors.base import refuse_scoreless
from madod.errors import InputError
from madod.evaluation.evaluate import Evaluation, evaluate
from madod.evaluation.outputs import extract
from madod.models.backbones import build
from madod.models.classifier import Restyle, Setting, no_translate
from madod.models.compute import Compute, compute
from madod.models.recorded import forget
from madod.models.weights import Weights
from madod.progress import Progress, silent
from madod.training import CHECKPOINT, SLOWER, Seconds, spent, train


def run(
    spec: RunSpec,
    dataset: DomainDataset,
    *,
    out: Path,
    cache: Path,
    device: torch.device,
    weights: Weights | None = None,
    detectors: Sequence[str] = THREE,
    ship: str = "energy",
    waive_gate: bool = False,
    compiled: bool = False,
    remedy: str = SLOWER,
    progress: Progress = silent,
) -> Outcome:
    """Carry a run through and leave `record.json`, `history.jsonl`, `outputs.safetensors` and `model/` in `out`.

    Started again after a kill, it goes on where it was; started again when finished, it reads what it left. `weights`
    are those that the spec names; `ship` names the detector that goes with the saved model, measured like the others;
    `compiled` has networks compiled however few the steps, for processes that do many such runs; `remedy` is what a
    person is told to do where the training breaks down.
    """
    detectors = tuple(dict.fromkeys((*detectors, ship)))
    refuse_misfits(spec, dataset, weights, detectors)
    made_by = versions(device)  # now, while the code on disk is the code that runs
    fastest = compute(dataset.shape, device, spec.precision)
    reset_peaks(device)
    seconds: dict[str, float] = {}
    past = spent(out / CHECKPOINT)
    with clocked(seconds, "data", past):
        parts = divided(spec, dataset, device)
        data = fingerprints(parts)
    if (out / RECORD).exists():
        return recalled(spec, parts, data, out, ship)
    refuse_begun(spec, out)
    out.mkdir(parents=True, exist_ok=True)
    method = ALGORITHMS[spec.algorithm]
    config = method.Config(**spec.hparams)
    how = fastest.over(spec.steps, least=method.compiling_pays(config), insist=compiled)
    method.check(config, parts.source)
    made: Generator | None = None
    if method.needs_translate(config):
        with clocked(seconds, "generator", past):
            made = plain(dataset.augmentation) if spec.translate == "augment" else generator(
                parts, Examiner(spec.backbone, dataset.augmentation, weights), steps=spec.translate_steps,
                cache=cache, progress=progress, waive=waive_gate, compute=fastest, restyling=how, compiled=compiled,
            )  # fmt: skip
        seconds["generator"] = round(seconds["generator"] + made.earlier - made.waited, 3)
    known = setting(spec, dataset, parts, made.translate if made else no_translate, weights, how)
    learner = method(config, known, torch.Generator(device).manual_seed(spec.seed))
    learner.to(device)
    rng = np.random.default_rng(spec.seed)
    with clocked(seconds, "training", past):
        history = train(
            learner, parts.source, rng,
            steps=spec.steps, out=out, identity=identity(spec, data), stage=spec.algorithm, progress=progress,
            before=dict(seconds), remedy=remedy, settings=json.dumps(asdict(spec), sort_keys=True),
        )  # fmt: skip
        forget(learner)
        net = learner.deploy(parts.source, rng)
    with clocked(seconds, "evaluation", past):
        result = evaluate(net, parts, detectors)
        result.metrics["val_accuracy_before_deploy"] = accuracy_before(learner, net, parts, result)
    judgement = made.judgement if made else None
    made_by |= {"compiled": "yes"} if how.compiled else {}
    record = RunRecord(
        spec, result.metrics, result.thresholds, seconds, made_by, judgement, data, peaks(device), dataset.contents
    )
    outcome = Outcome(record, parts, result, history, made.grid if made else None)
    leave(outcome, net, out, ship)
    return outcome


def refuse_misfits(spec: RunSpec, dataset: DomainDataset, weights: Weights | None, detectors: Sequence[str]) -> None:
    """Refuse what is not for the spec, before anything long starts: another dataset, weights, or detectors."""
    name = getattr(dataset, "name", spec.dataset)  # one that is registered nowhere may have none
    if spec.dataset != name and spec.dataset != dataset.short_name:
        raise InputError(f"the run is on {spec.dataset!r}, not on {dataset.short_name!r}: give it the dataset it names")
    refuse_scoreless(spec.algorithm, detectors)
    if spec.start != (weights.sha256 if weights else ""):
        raise InputError(f"the run starts with {spec.pretrained or 'no pretrained weights'}: give it these")
    build(spec.backbone, channels=dataset.shape[0], classes=1, seed=0, weights=weights)


def divided(spec: RunSpec, dataset: DomainDataset, device: torch.device | None = None) -> Split:
    """Return source, held-out and target images, on a device; refuse a dataset that leaves none to hold out."""
    parts = split(dataset, test_domain=spec.test_domain, ood_classes=spec.ood_classes, split_seed=spec.split_seed)
    if not len(parts.val):
        raise InputError(
            f"{dataset.name} has too few pictures for any to be held out, and the threshold comes from those: "
            "add more pictures, three different ones of a class in a domain at least"
        )
    return parts if device is None else Split(*(pool.to(device) for pool in parts))


def fingerprints(parts: Split) -> dict[str, str]:
    """Return a hash of every part that has images."""
    return {name: pool.fingerprint for name, pool in parts._asdict().items() if len(pool)}


def setting(
    spec: RunSpec,
    dataset: DomainDataset,
    parts: Split,
    translate: Restyle,
    weights: Weights | None,
    how: Compute,
) -> Setting:
    """Return what the method knows beforehand; every network it makes gets a seed of its own."""
    source, seeds = parts.source, itertools.count(spec.seed * 1000)
    make_net = partial(build, spec.backbone, channels=source.shape[0], classes=len(source.classes))
    return Setting(
        make_net=lambda: make_net(seed=next(seeds), weights=weights, compute=how),
        domains=len(source.domains),
        translate=translate,
        augment=dataset.augmentation,
        steps=spec.steps,
    )


def accuracy_before(learner: Algorithm, net: nn.Module, parts: Split, result: Evaluation) -> float:
    """Return the accuracy on held-out source images before `deploy` changed the network."""
    if net is learner.net:
        return float(result.metrics["val_accuracy"])
    predicted = extract(learner.net, parts.val).logits.argmax(1)
    return float((predicted == parts.val.y.cpu()).double().mean())


@contextmanager
def clocked(seconds: dict[str, float], stage: str, past: Seconds) -> Iterator[None]:
    """Note how long a stage took, with what it took before the run was killed."""
    start = time.perf_counter()
    yield
    seconds[stage] = round(past.get(stage, 0.0) + time.perf_counter() - start, 3)
