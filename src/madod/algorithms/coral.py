"""CORAL: features whose means and covariances agree across domains."""

from dataclasses import dataclass
from typing import Annotated

import torch.nn.functional as F
from torch import Tensor

from madod.algorithms.aligned_features import AlignedFeatures, AlignmentConfig
from madod.algorithms.base import ALGORITHMS
from madod.search import AtLeast, LogUniform


def covariance(x: Tensor) -> Tensor:
    """C = (x - mu)' (x - mu) / (n - 1) of features (n, f); torch's own waits for the GPU to see that n is above 1."""
    centred = x - x.mean(0)
    return centred.mT @ centred / (len(x) - 1)


def coral(x: Tensor, y: Tensor) -> Tensor:
    """mean (mu_x - mu_y)^2 + mean (C_x - C_y)^2, the means over all entries [Sun & Saenko 2016; DomainBed]."""
    return F.mse_loss(x.mean(0), y.mean(0)) + F.mse_loss(covariance(x), covariance(y))


@dataclass(frozen=True)
class CoralConfig(AlignmentConfig):
    """DomainBed's setting and ranges."""

    batch: Annotated[int, LogUniform(8, 45), AtLeast(2)] = 32
    """Images of every source domain in a minibatch; a covariance needs two."""


@ALGORITHMS.register("coral")
class CORAL(AlignedFeatures):
    """Risk plus the difference of the features' means and covariances between source domains [Sun & Saenko 2016]."""

    recordable = True
    Config = CoralConfig
    config: CoralConfig
    distance = staticmethod(coral)
