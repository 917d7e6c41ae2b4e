"""A pool of small images in any number of domains, and every algorithm in a size that trains on it in a moment."""

from itertools import count

import numpy as np
import torch

from madod.algorithms.base import ALGORITHMS
from madod.data.augment import NONE, Augmentation
from madod.data.base import Domain, pool
from madod.models.backbones import build
from madod.models.classifier import Setting
from madod.tasks import Batch
from madod.training import Cadence, Logbook, train
from madod.translation.translate import PlainAugmentation

CLASSES = 4
STEPS = 12
SMALL = {
    "irm": {"anneal": 3},
    "madod": {"shots": 1, "tasks": 2, "adapt_shots": 2},
    "scone": {"batch": 16, "warm": 0.25},
}
"""Where the fields of every small configuration do not do."""
ALIKE = {"madod": {"margin_warmup": 0.0}, "irm": {"anneal": 0}}
"""Settings in which every step does the same; at the end of IRM's annealing a new recording begins."""


def toy_pool(domains=3, per_cell=5, size=16, classes=CLASSES):
    """Return a bright quarter a class on a ground of each domain's own colour."""
    rng = torch.Generator().manual_seed(0)
    parts = []
    for d in range(domains):
        y = torch.arange(classes).repeat_interleave(per_cell)
        images = torch.randint(0, 60, (len(y), 3, size, size), generator=rng) + 20 * d
        for image, label in zip(images, y.tolist(), strict=True):
            row, column = divmod(label % 4, 2)
            image[:, row * size // 2 :, column * size // 2 :][:, : size // 2, : size // 2] += 90
        parts.append(Domain(f"domain {d}", images.to(torch.uint8), y, y))
    names = [f"class {k}" for k in range(classes)]
    return pool(parts, names, names)


def by_domain(batch):
    """Return one batch a domain, told apart by the domains' indices alone."""
    return [Batch(*(column[batch.d == k] for column in batch)) for k in batch.d.unique()]


def toy_setting(domains=3, seed=0, steps=STEPS):
    seeds = count(1000 * seed)
    return Setting(
        make_net=lambda: build("small_cnn", channels=3, classes=CLASSES, seed=next(seeds)),
        domains=domains,
        translate=PlainAugmentation(Augmentation()),
        augment=NONE,
        steps=steps,
    )


def toy_algorithm(name, domains=3, seed=0, **fields):
    cls = ALGORITHMS[name]
    config = cls.Config.preset(pretrained=False, **{"batch": 4, **SMALL.get(name, {}), **fields})
    return cls(config, toy_setting(domains, seed), torch.Generator().manual_seed(seed))


def toy_train(name, out, domains=3, seed=0, stops=(STEPS,), every=5):
    """Return an algorithm trained to the last stop, made anew and resumed after each of the others."""
    source = toy_pool(domains)
    for stop in stops:
        algorithm, rng = toy_algorithm(name, domains, seed), np.random.default_rng(seed)
        train(algorithm, source, rng, Logbook(out, name, cadence=Cadence(1, every)), steps=stop)
    return algorithm, rng
