"""One run: split, G, training, detectors, numbers, a saved model."""

import itertools
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import nn

from madod.algorithms.base import ALGORITHMS, Algorithm, with_head
from madod.benchmark.clock import Clock
from madod.benchmark.examiner import Examiner
from madod.benchmark.generator import Generator, generator, plain
from madod.benchmark.outcome import Outcome, identity, leave, recalled, refuse_begun
from madod.benchmark.provenance import peaks, reset_peaks, versions
from madod.benchmark.record import RECORD, RunRecord, RunSpec
from madod.benchmark.resources import Resources
from madod.benchmark.settings import config_of
from madod.data.base import DomainDataset
from madod.data.split import Split, split
from madod.detectors import THREE
from madod.detectors.base import refuse_scoreless
from madod.errors import InputError
from madod.evaluation.evaluate import Evaluation, evaluate
from madod.evaluation.metrics import accuracy
from madod.evaluation.outputs import extract
from madod.models.backbones import build
from madod.models.classifier import Restyle, Setting, no_translate
from madod.models.compute import Compute, compute
from madod.models.recorded import forget
from madod.models.weights import Weights
from madod.training import CHECKPOINT, History, Logbook, spent, train


@dataclass(frozen=True)
class Material:
    """A run's spec, and what it names: the dataset, divided, and the weights to start with."""

    spec: RunSpec
    dataset: DomainDataset
    parts: Split
    weights: Weights | None


class Equipped(NamedTuple):
    """A learner before its first step, what restyles images for it, and how it computes."""

    learner: Algorithm
    generator: Generator | None
    how: Compute


def run(
    spec: RunSpec,
    dataset: DomainDataset,
    *,
    out: Path,
    resources: Resources,
    weights: Weights | None = None,
    detectors: Sequence[str] = THREE,
    ship: str = "energy",
    data: dict[str, str] | None = None,
) -> Outcome:
    """Carry a run through and leave `record.json`, `history.jsonl`, `outputs.safetensors` and `model/` in `out`.

    Started again after a kill, it goes on where it was; started again when finished, it reads what it left. `weights`
    are those that the spec names; `ship` names the detector that goes with the saved model, measured like the others.
    `data` are the `fingerprints` of its images, where they are known.
    """
    detectors = tuple(dict.fromkeys((*detectors, ship)))
    refuse_misfits(spec, dataset, weights, detectors)
    made_by = versions(resources.device)  # now, while the code on disk is the code that runs
    fastest = compute(dataset.shape, resources.device, spec.precision)
    reset_peaks(resources.device)
    clock = Clock(spent(out / CHECKPOINT))
    with clock.stage("data"):
        parts = divided(spec, dataset, resources.device)
        data = data or fingerprints(parts)
    if (out / RECORD).exists():
        return recalled(spec, parts, data, out, ship)
    refuse_begun(spec, out)
    out.mkdir(parents=True, exist_ok=True)
    learner, made, how = equipped(Material(spec, dataset, parts, weights), resources, fastest, clock)
    net, history = trained(learner, spec, parts, data, resources, out, clock)
    with clock.stage("evaluation"):
        result = measured(learner, net, parts, detectors)
    made_by |= {"compiled": "yes"} if how.compiled else {}
    record = RunRecord(
        spec=spec,
        metrics=result.metrics,
        thresholds=result.thresholds,
        seconds=clock.seconds,
        versions=made_by,
        translation=made.judgement if made else None,
        data=data,
        memory=peaks(resources.device),
        pictures=dataset.contents,
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
        named = f"with {spec.pretrained}: pass those weights" if spec.pretrained else "from scratch: pass no weights"
        raise InputError(f"the run starts {named}")
    build(spec.backbone, channels=dataset.shape[0], classes=1, seed=0, weights=weights)


def divided(spec: RunSpec, dataset: DomainDataset, device: torch.device | None = None) -> Split:
    """Return source, held-out and target images, on a device; refuse a dataset that leaves none to hold out."""
    parts = split(dataset, test_domain=spec.test_domain, ood_classes=spec.ood_classes, split_seed=spec.split_seed)
    if not len(parts.val):
        raise InputError(
            f"{dataset.name} has too few pictures for any to be held out, and the threshold comes from those: "
            "add more pictures, three different ones of a class in a domain at least"
        )
    if device is None or device.type == "cpu":  # images stay in the cache's file, which workers share
        return parts
    return Split(*(pool.to(device) for pool in parts))


def fingerprints(parts: Split) -> dict[str, str]:
    """Return a hash of every part that has images."""
    return {name: pool.fingerprint for name, pool in parts._asdict().items() if len(pool)}


def equipped(material: Material, resources: Resources, fastest: Compute, clock: Clock) -> Equipped:
    """Return the spec's method, ready to be trained; refuse images that it can do nothing with before G is made."""
    spec = material.spec
    method = ALGORITHMS[spec.algorithm]
    config = config_of(spec)
    how = fastest.over(spec.steps, least=config.compile_from, insist=resources.compiled)
    method.check(config, material.parts.source)
    made: Generator | None = None
    if config.needs_translate:
        with clock.stage("generator"):
            made = restyler(material, resources, fastest, how)
        clock.add("generator", made.earlier - made.waited)
    known = setting(material, made.translate if made else no_translate, how)
    learner = method(config, known, torch.Generator(resources.device).manual_seed(spec.seed))
    return Equipped(learner.to(resources.device), made, how)


def restyler(material: Material, resources: Resources, fastest: Compute, how: Compute) -> Generator:
    """Return what the spec restyles images with: plain augmentation, or the G of its split."""
    spec, augmentation = material.spec, material.dataset.augmentation
    if spec.translate == "augment":
        return plain(augmentation)
    examiner = Examiner(spec.backbone, augmentation, material.weights)
    return generator(material.parts, examiner, resources, steps=spec.translate_steps, compute=fastest, restyling=how)


def setting(material: Material, translate: Restyle, how: Compute) -> Setting:
    """Return what the method knows beforehand; every network it makes gets a seed of its own."""
    spec, source, weights = material.spec, material.parts.source, material.weights
    seeds = itertools.count(spec.seed * 1000)
    make_net = partial(build, spec.backbone, channels=source.shape[0], classes=len(source.classes))
    return Setting(
        make_net=lambda: make_net(seed=next(seeds), weights=weights, compute=how),
        domains=len(source.domains),
        translate=translate,
        augment=material.dataset.augmentation,
        steps=spec.steps,
    )


def trained(
    learner: Algorithm, spec: RunSpec, parts: Split, data: dict[str, str], resources: Resources, out: Path, clock: Clock
) -> tuple[nn.Module, History]:
    """Train to the spec's steps and return the network that ships, with the history."""
    rng, before = np.random.default_rng(spec.seed), dict(clock.seconds)
    with clock.stage("training"):
        logbook = Logbook(
            out=out,
            identity=identity(spec, data),
            stage=spec.algorithm,
            progress=resources.progress,
            remedy=resources.remedy,
            settings=json.dumps(asdict(spec), sort_keys=True),
            before=before,
        )
        history = train(learner, parts.source, rng, logbook, steps=spec.steps)
        forget(learner)
        return with_head(learner.deploy(parts.source, rng), f"deploy of {spec.algorithm}"), history


def measured(learner: Algorithm, net: nn.Module, parts: Split, detectors: Sequence[str]) -> Evaluation:
    """Return every number of the network that ships, and the accuracy before `deploy`."""
    if learner.own_score and extract(net, parts.val.subset(torch.arange(1))).own is None:
        raise InputError(
            f"{learner.name} says own_score = True, and its network returns no own score: let it return "
            "Outputs(features, logits, own), or leave own_score out"
        )
    result = evaluate(net, parts, detectors)
    result.metrics["val_accuracy_before_deploy"] = accuracy_before(learner, net, parts, result)
    return result


def accuracy_before(learner: Algorithm, net: nn.Module, parts: Split, result: Evaluation) -> float:
    """Return the accuracy on held-out source images before `deploy` changed the network."""
    if net is learner.net:
        return float(result.metrics["val_accuracy"])
    return accuracy(parts.val.y.cpu(), extract(learner.net, parts.val).logits.argmax(1))
