"""What meta-learning costs: an exact meta-step against one plain forward and backward pass of the same images.

    python benchmarks/meta_step.py

ResNet-18 at 64 px, 4 tasks of 5 classes x 5 shots; G is replaced by the identity, whose time is nothing, since G's own
time stands apart. Both are timed in turns in one run and the ratio is of the medians; the goal is at most 1.25.
"""

import argparse
import statistics
import time
from collections.abc import Callable

import torch
import torch.nn.functional as F

from madod.algorithms.madod import MADOD, MadodConfig
from madod.data.augment import NONE
from madod.models.backbones import build
from madod.models.classifier import Setting
from madod.tasks import Batch, Task


def tasks(device: torch.device, size: int) -> list[Task]:
    def batch(classes: list[int]) -> Batch:
        y = torch.tensor(classes, device=device).repeat_interleave(5)
        return Batch(torch.rand(len(y), 3, size, size, device=device), y, torch.zeros_like(y))

    known = [[k for k in range(6) if k != held] for held in range(4)]
    return [Task(batch(classes), batch(classes), batch([held])) for held, classes in enumerate(known)]


def seconds(work: Callable[[], object], device: torch.device) -> float:
    start = time.perf_counter()
    work()
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - start


def measure(device: torch.device, *, backbone: str = "resnet18", size: int = 64, turns: int = 5) -> dict[str, float]:
    """Return the median seconds of a meta-step and of a plain pass, and their ratio."""
    net = build(backbone, channels=3, classes=6, seed=0)
    setting = Setting(lambda: net, 3, lambda images, rng: images, NONE, turns)
    learner = MADOD(MadodConfig(), setting, torch.Generator(device)).to(device)
    step = tasks(device, size)
    sets = [images for task in step for images in (task.support.x, task.support.x, task.query.x, task.pseudo_ood.x)]
    x = torch.cat(sets)
    y = torch.zeros(len(x), dtype=torch.int64, device=device)

    def plain() -> None:
        learner.zero_grad(set_to_none=True)
        F.cross_entropy(learner.net(x).logits, y).backward()

    for work in (plain, lambda: learner.update(step)):
        seconds(work, device)
    pairs = [(seconds(plain, device), seconds(lambda: learner.update(step), device)) for _ in range(turns)]
    pass_, meta = (statistics.median(column) for column in zip(*pairs, strict=True))
    return {"images": len(x), "plain pass": pass_, "meta-step": meta, "ratio": meta / pass_}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--backbone", default="resnet18")
    parser.add_argument("--size", type=int, default=64)
    how = parser.parse_args()
    for name, value in measure(torch.device(how.device), backbone=how.backbone, size=how.size).items():
        print(f"{name}: {value:.4g}")
