"""One run: split, G, training, detectors, numbers, a saved model."""

import itertools
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from madod.algorithms.base import ALGORITHMS, Algorithm
from madod.benchmark.generator import Generator, generator, plain
from madod.benchmark.record import RunRecord, RunSpec, versions
from madod.data.base import DomainDataset
from madod.data.split import Split, split
from madod.evaluation.evaluate import Evaluation, evaluate
from madod.evaluation.outputs import extract, save_outputs
from madod.models.backbones import build
from madod.models.classifier import Setting
from madod.predict import Card, Model
from madod.training import History, Progress, silent, train, write_history

DETECTORS_OF_THE_PAPER = ("msp", "energy", "ddu")


@dataclass(frozen=True)
class Outcome:
    """A finished run, with what is still in memory."""

    record: RunRecord
    split: Split
    evaluation: Evaluation
    history: History
    grid: Path | None


def hparams(algorithm: str, given: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return every hyper-parameter of an algorithm that starts from scratch, with those given in place."""
    config = ALGORITHMS[algorithm].Config
    return asdict(config(**config.scratch | dict(given or {})))


def run(
    spec: RunSpec,
    dataset: DomainDataset,
    *,
    out: Path,
    cache: Path,
    device: torch.device,
    detectors: Sequence[str] = DETECTORS_OF_THE_PAPER,
    ship: str = "energy",
    waive_gate: bool = False,
    progress: Progress = silent,
) -> Outcome:
    """Carry a run through and leave `record.json`, `history.jsonl`, `outputs.safetensors` and `model/` in `out`.

    Started again after a kill, it goes on where it was. `ship` names the detector that goes with the saved model.
    """
    seconds: dict[str, float] = {}
    with clocked(seconds, "data"):
        parts = split(dataset, test_domain=spec.test_domain, ood_classes=spec.ood_classes, split_seed=spec.split_seed)
        parts = Split(*(pool.to(device) for pool in parts))
    method = ALGORITHMS[spec.algorithm]
    config = method.Config(**spec.hparams)
    made: Generator | None = None
    if method.needs_translate(config):
        with clocked(seconds, "generator"):
            made = translator(spec, dataset, parts, cache=cache, progress=progress, waive=waive_gate)
    learner = method(config, setting(spec, dataset, parts, made), torch.Generator(device).manual_seed(spec.seed))
    learner.to(device)
    rng = np.random.default_rng(spec.seed)
    identity = f"{spec.id} {parts.source.fingerprint()}"
    with clocked(seconds, "training"):
        history = train(
            learner,
            parts.source,
            rng,
            steps=spec.steps,
            out=out,
            identity=identity,
            stage=spec.algorithm,
            progress=progress,
        )
        net = learner.deploy(parts.source, rng)
    with clocked(seconds, "evaluation"):
        result = evaluate(net, parts, detectors)
        result.metrics["val_accuracy_before_deploy"] = accuracy_before(learner, net, parts, result)
    record = RunRecord(
        spec, result.metrics, result.thresholds, seconds, versions(device), None if made is None else made.judgement
    )
    write_history(out / "history.jsonl", history)
    save_outputs(out / "outputs.safetensors", result.stored)
    card = Card(
        classes=parts.source.classes,
        shape=parts.source.shape,
        algorithm=spec.algorithm,
        backbone=spec.backbone,
        domains=parts.source.domains,
        detector=ship,
        threshold=result.thresholds[ship],
        provenance={"spec": asdict(spec), "versions": record.versions, "val_accuracy": result.metrics["val_accuracy"]},
    )
    Model(net.cpu(), result.detectors[ship], card).save(out / "model")
    if made is not None and made.grid is not None:
        shutil.copyfile(made.grid, out / "generator.png")
    record.save(out)
    (out / "checkpoint.safetensors").unlink(missing_ok=True)
    return Outcome(record, parts, result, history, made.grid if made else None)


def setting(spec: RunSpec, dataset: DomainDataset, parts: Split, made: Generator | None) -> Setting:
    """Return what the method knows beforehand; every network it makes gets a seed of its own."""
    source, seeds = parts.source, itertools.count(spec.seed * 1000)
    return Setting(
        make_net=lambda: build(spec.backbone, channels=source.shape[0], classes=len(source.classes), seed=next(seeds)),
        domains=len(source.domains),
        translate=nn.Identity() if made is None else made.translate,
        augment=dataset.augmentation,
        steps=spec.steps,
    )


def translator(
    spec: RunSpec, dataset: DomainDataset, parts: Split, *, cache: Path, progress: Progress, waive: bool
) -> Generator:
    """Return G, or plain augmentation where the spec asks for the control."""
    if spec.translate == "augment":
        return plain(dataset.augmentation)
    return generator(
        parts, steps=spec.translate_steps, backbone=spec.backbone, augment=dataset.augmentation,
        cache=cache, progress=progress, waive=waive,
    )  # fmt: skip


def accuracy_before(learner: Algorithm, net: nn.Module, parts: Split, result: Evaluation) -> float:
    """Return the accuracy on held-out source images before `deploy` changed the network."""
    if net is learner.net:
        return float(result.metrics["val_accuracy"])
    predicted = extract(learner.net, parts.val).logits.argmax(1)
    return float((predicted == parts.val.y.cpu()).double().mean())


@contextmanager
def clocked(seconds: dict[str, float], stage: str) -> Iterator[None]:
    """Note how long a stage took."""
    start = time.perf_counter()
    yield
    seconds[stage] = round(time.perf_counter() - start, 3)
