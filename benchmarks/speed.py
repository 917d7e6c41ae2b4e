"""How fast the heavy stages are, and what each way of computing gains: the table of docs/performance.md.

    python benchmarks/speed.py --out speed.json

On a GPU: ResNet-50 at 224 px, 4 tasks of 5 classes x 5 shots (support, query) and 5 pseudo-unknowns, a fresh style from
a full-size G for every support image, drawing and augmenting images included. Without one, ResNet-18 at 64 px, where
only ratios mean anything: how many times as fast every way is as the first one. Images are random: no stage looks at
what they show.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch

from madod.algorithms.base import ALGORITHMS
from madod.data.augment import Augmentation
from madod.data.base import Domain, Pool, pool
from madod.evaluation.outputs import extract
from madod.models.backbones import build
from madod.models.classifier import Setting
from madod.models.compute import PLAIN, Compute
from madod.translation.munit import Munit, preset
from madod.translation.translate import Translate

WAYS = {
    "float32": PLAIN,
    "float32, channels last": Compute(channels_last=True),
    "bfloat16": Compute("bfloat16"),
    "bfloat16, channels last": Compute("bfloat16", channels_last=True),
    "bfloat16, channels last, compiled": Compute("bfloat16", channels_last=True, compiled=True),
}
ON_GPU = ("float32", "bfloat16", "bfloat16, channels last", "bfloat16, channels last, compiled")
ON_CPU = ("float32", "float32, channels last")


def images(device: torch.device, size: int, each: int) -> Pool:
    """Return three domains of six classes, random pixels."""
    rng, labels = torch.Generator().manual_seed(0), torch.arange(6).repeat_interleave(each)
    names = ("a", "b", "c", "d", "e", "f")
    domains = [
        Domain(name, torch.randint(256, (len(labels), 3, size, size), generator=rng, dtype=torch.uint8), labels, labels)
        for name in ("first", "second", "third")
    ]
    return pool(domains, names, names).to(device)


def seconds(work: Callable[[], object], device: torch.device, *, turns: int, warm: int = 6) -> float:
    """Return the mean time of a turn, the device's work included; first turns compile and record."""
    for _ in range(warm):
        work()
    if device.type == "cuda":
        torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(turns):
        work()
    if device.type == "cuda":
        torch.cuda.synchronize()
    return (time.perf_counter() - start) / turns


@contextmanager
def peak(device: torch.device, row: dict[str, float], stage: str) -> Iterator[None]:
    """Note the GPU memory that a stage took at the most."""
    if device.type != "cuda":
        yield
        return
    torch.cuda.reset_peak_memory_stats()
    yield
    row[f"{stage.split(',')[0]}, GiB"] = torch.cuda.max_memory_allocated() / 2**30


def step(algorithm: str, source: Pool, way: Compute, backbone: str, turns: int) -> float:
    """Return the seconds of a training step, drawing and augmenting its images included."""
    method, device = ALGORITHMS[algorithm], source.device
    config = method.Config()
    way = way.over(turns, least=config.compile_from, insist=True)  # MEDIC cannot be compiled
    translate = Translate(preset(source.shape)[0], way).to(device)
    setting = Setting(
        lambda: build(backbone, channels=3, classes=6, seed=0, norm="frozen", compute=way),
        3, translate, Augmentation(), turns,
    )  # fmt: skip
    learner = method(config, setting, torch.Generator(device).manual_seed(0)).to(device)
    batches = learner.batches(source, np.random.default_rng(0))
    return seconds(lambda: learner.update(next(batches)), device, turns=turns)


def generator(source: Pool, way: Compute, turns: int) -> float:
    """Return the images a second of G's training."""
    device = source.device
    sizes, config = preset(source.shape)
    munit = Munit(sizes, config, torch.Generator(device).manual_seed(0), seed=0, compute=way).to(device)
    batches = munit.batches(source, np.random.default_rng(0))
    drawn = len(next(batches).y)
    return drawn / seconds(lambda: munit.update(next(batches)), device, turns=turns)


def extraction(source: Pool, way: Compute, backbone: str) -> float:
    """Return the images a second of a pass over a whole pool."""
    net = build(backbone, channels=3, classes=6, seed=0, norm="frozen", compute=way).to(source.device)
    return len(source) / seconds(lambda: extract(net, source), source.device, turns=2, warm=1)


def floor(device: torch.device) -> dict[str, float]:
    """Return the measured peaks: products of bfloat16 matrices, and copies in memory."""
    a = torch.randn(8192, 8192, device=device, dtype=torch.bfloat16)
    b = torch.empty(2**30, device=device, dtype=torch.uint8)
    product, copy = seconds(lambda: a @ a, device, turns=20), seconds(b.clone, device, turns=20)
    return {"bfloat16 TFLOP/s": 2 * 8192**3 / product / 1e12, "GB/s": 2 * 2**30 / copy / 1e9}


def ratios(table: dict[str, dict[str, float]]) -> str:
    """Return how many times as fast every way is as the first, stage by stage, as Markdown."""
    rows = {name: row for name, row in table.items() if name in WAYS}
    first = next(iter(rows.values()))
    stages = [stage for stage in first if not stage.endswith("GiB")]
    lines = ["| times as fast as the first | " + " | ".join(stages) + " |", "|---" * (len(stages) + 1) + "|"]
    for name, row in rows.items():
        found = [row[stage] / first[stage] for stage in stages]
        gains = [1 / ratio if stage.endswith(", s") else ratio for stage, ratio in zip(stages, found, strict=True)]
        lines.append(f"| {name} | " + " | ".join(f"{gain:.2f}" for gain in gains) + " |")
    return "\n".join(lines)


def measure(device: torch.device, out: Path | None, ways: list[str], only: list[str]) -> dict[str, dict[str, float]]:
    """Time stages, all of them or those whose names begin so, in every way; write the table as it grows."""
    cuda = device.type == "cuda"
    backbone, size, turns = ("resnet50_v1", 224, 30) if cuda else ("resnet18", 64, 3)
    source = images(device, size, 100 if cuda else 20)
    table: dict[str, dict[str, float]] = {"peak": floor(device)} if cuda else {}
    for name in ways:
        way, row = WAYS[name], {}
        table[name] = row
        stages: dict[str, Callable[[], float]] = {
            "meta-step, s": lambda way=way: step("madod", source, way, backbone, turns),  # type: ignore[misc]
            "ERM step, s": lambda way=way: step("erm", source, way, backbone, turns),  # type: ignore[misc]
            "MEDIC step, s": lambda way=way: step("medic", source, way, backbone, turns),  # type: ignore[misc]
            "G, images/s": lambda way=way: generator(source, way, turns),  # type: ignore[misc]
            "extraction, images/s": lambda way=way: extraction(source, way, backbone),  # type: ignore[misc]
        }
        for stage, work in stages.items():
            if not stage.startswith(tuple(only)):
                continue
            began = time.perf_counter()
            with peak(device, row, stage):
                row[stage] = work()
            print(f"{name}: {stage} {row[stage]:.4g} (whole stage {time.perf_counter() - began:.0f} s)", flush=True)
            if out is not None:
                out.write_text(json.dumps(table, indent=1))
    return table


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--ways", nargs="*", default=None, choices=list(WAYS))
    parser.add_argument("--stages", nargs="+", default=[""], help="beginnings of their names, such as MEDIC")
    how = parser.parse_args()
    usable = ON_GPU if how.device.startswith("cuda") else ON_CPU
    print(ratios(measure(torch.device(how.device), how.out, how.ways or list(usable), how.stages)))
