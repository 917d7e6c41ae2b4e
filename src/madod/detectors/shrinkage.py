"""Covariances made definite: oracle-approximating shrinkage, or a ridge."""

import torch
from torch import Tensor

from madod.detectors.gaussian import RESOLUTION


def oas_intensity(covariance: Tensor, degrees: int) -> float:
    """rho = min(1, ((1-2/p) tr S^2 + tr^2 S) / ((n+1-2/p)(tr S^2 - tr^2 S / p))) [Chen et al. 2010, eq. 23].

    n is the degrees of freedom of S (p, p): images less estimated means.
    """
    p, square, trace = len(covariance), float(covariance.square().sum()), float(covariance.trace())
    spread = (degrees + 1 - 2 / p) * (square - trace**2 / p)
    return min(1.0, ((1 - 2 / p) * square + trace**2) / spread) if spread > 0 else 1.0


def oas(covariance: Tensor, degrees: int, least: float = 0.0) -> Tensor:
    """(1 - rho) S + rho (tr S / p) I: S shrunk to a scaled identity, definite unless S = 0 [Chen et al. 2010].

    rho is the oracle-approximating intensity, or `least` where that is more.
    """
    rho = max(least, oas_intensity(covariance, degrees))
    return add_ridge(covariance * (1 - rho), rho * float(covariance.trace()) / len(covariance))


def add_ridge(covariance: Tensor, ridge: float) -> Tensor:
    """S + ridge I, in place."""
    covariance.diagonal().add_(ridge)
    return covariance


ENOUGH = 1.5
"""Degrees of freedom a feature from which a covariance is inverted as it is; with few more than one, the directions in
which it happens to be small would drown all others."""


def factorise(covariance: Tensor, degrees: int) -> Tensor:
    """Return L (p, p) with L L' = S, or `oas` of S where images are few or S is singular to their precision."""
    factor, failed = torch.linalg.cholesky_ex(covariance)
    pivots = factor.diagonal().square()
    if degrees < ENOUGH * len(covariance) or failed or pivots.min() <= RESOLUTION * pivots.max():
        factor = torch.linalg.cholesky(oas(covariance, degrees))
    return factor.contiguous()
