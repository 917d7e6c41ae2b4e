"""Who judges G: an ERM trained on the same source images, which says what a restyled one still shows."""

from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn

from madod.algorithms.base import ALGORITHMS
from madod.data.augment import Augmentation
from madod.data.base import Pool
from madod.models.backbones import build
from madod.models.classifier import Classifier, Setting, no_translate
from madod.models.compute import Compute
from madod.models.weights import Weights
from madod.training import Logbook, train
from madod.translation.judge import Label

SEED = 0
"""G and its judge belong to a split, not to a run: all seeds of a split share them."""
JUDGE_STEPS = 150
LARGE, JUDGE_BATCH, JUDGED, SHRUNK = 128, 8, 128, 32
"""From this side in pixels on a CPU needs relief: the images of a domain in the judge's batches, those that G is judged
on, and the side at which they are judged where the backbone starts from scratch."""


@dataclass(frozen=True)
class Examiner:
    """An ERM with the backbone that methods have; a small one where that would start from scratch on large images."""

    backbone: str
    augment: Augmentation
    weights: Weights | None = None

    def facts(self, source: Pool) -> list[Any]:
        """Return all that decides its verdict, beside the images."""
        name = "small_cnn" if self._small(source) else self.backbone
        start = [] if self.weights is None else [self.weights.sha256]
        return [name, JUDGE_STEPS, self._config(source), asdict(self.augment), *start]

    def images(self, source: Pool) -> int:
        """Return how many held-out images it looks at, at most."""
        return JUDGED if _large(source) else 512

    def trained(self, source: Pool, logbook: Logbook, compute: Compute) -> Label:
        """Return its verdict (n,), trained on the source images."""
        full = partial(build, self.backbone, weights=self.weights, compute=compute)
        make_net = partial(
            small_judge if self._small(source) else full,
            channels=source.shape[0], classes=len(source.classes), seed=SEED,
        )  # fmt: skip
        method = ALGORITHMS["erm"]
        setting = Setting(make_net, len(source.domains), no_translate, self.augment, JUDGE_STEPS)
        config = method.Config(**self._config(source))
        learner = method(config, setting, torch.Generator(source.device).manual_seed(SEED)).to(source.device)
        rng = np.random.default_rng(SEED)
        train(learner, source, rng, logbook, steps=JUDGE_STEPS)
        net = learner.deploy(source, rng).eval()
        return lambda images: net(images).logits.argmax(1)

    def _small(self, source: Pool) -> bool:
        return _large(source) and self.weights is None

    def _config(self, source: Pool) -> dict[str, Any]:
        given = {"batch": JUDGE_BATCH} if _large(source) and not self._small(source) else {}
        return asdict(ALGORITHMS["erm"].Config.preset(pretrained=self.weights is not None, average=0.0, **given))


def _large(source: Pool) -> bool:
    return min(source.shape[1:]) >= LARGE


def small_judge(*, channels: int, classes: int, seed: int) -> Classifier:
    """Return the small network behind a shrinking of large images: from scratch, few steps teach a deep one little."""
    net = build("small_cnn", channels=channels, classes=classes, seed=seed)
    net.featurizer = nn.Sequential(nn.AdaptiveAvgPool2d(SHRUNK), net.featurizer)
    return net
