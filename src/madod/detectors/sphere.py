"""Features of length 1: what is left of them where only their direction counts."""

from madod.detectors.base import Fit
from madod.detectors.neighbours import unit
from madod.models.classifier import Outputs


def on_sphere(outputs: Outputs) -> Outputs:
    """Return the same outputs with z / ||z|| in the place of z."""
    return outputs._replace(features=unit(outputs.features))


def fit_on_sphere(fit: Fit) -> Fit:
    """Return the same with the features of training images scaled to length 1."""
    return fit._replace(train=on_sphere(fit.train))
