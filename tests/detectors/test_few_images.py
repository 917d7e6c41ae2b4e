"""However many images there are for so many features, what is plain to see stays plain."""

from functools import partial

import pytest
import torch

from madod.detectors.base import Fit
from madod.detectors.mahalanobis import Mahalanobis
from madod.detectors.rmds import RMDS
from madod.detectors.vim import ViM
from madod.evaluation.metrics import auroc
from madod.models.classifier import Outputs

CLASSES, FEATURES, QUERIES = 6, 64, 200
COUNTS = [12, 40, 57, 62, 64, 66, 68, 70, 72, 80, 96, 110, 200, 600]
"""Images to fit on: fewer than features, as many less or more the classes, more, and many more."""


def seen(images: int) -> tuple[Fit, Outputs, Outputs]:
    """Round classes far apart; fresh images of them; unknown ones between and beyond the classes."""
    rng = torch.Generator().manual_seed(images)
    centres = torch.zeros(CLASSES, FEATURES)
    centres[:, :CLASSES] = 8 * torch.eye(CLASSES)
    head = centres - centres.mean(0)
    beyond = torch.zeros(FEATURES)
    beyond[:CLASSES] = 8 / CLASSES
    beyond[CLASSES : CLASSES + 4] = 4

    def draw(around: torch.Tensor) -> Outputs:
        features = around + torch.randn(len(around), FEATURES, generator=rng)
        return Outputs(features, features @ head.T)

    y, fresh_y = (torch.arange(n) % CLASSES for n in (images, QUERIES))
    fit = Fit(draw(centres[y]), y, draw(centres[fresh_y]), fresh_y, head, torch.zeros(CLASSES))
    return fit, draw(centres[fresh_y]), draw(beyond.expand(QUERIES, -1))


@pytest.mark.parametrize("images", COUNTS)
@pytest.mark.parametrize("make", [Mahalanobis, RMDS, ViM, partial(ViM, dimensions=FEATURES - 2)])
def test_unknown_images_are_told_from_known_ones(make, images):
    fit, known, unknown = seen(images)
    scores = make().fit(fit).score(Outputs(*(torch.cat(pair) for pair in zip(known[:2], unknown[:2], strict=True))))
    assert auroc(scores, torch.arange(2 * QUERIES) >= QUERIES) > 0.9


@pytest.mark.parametrize("spread", [0.1, 0.03, 0.01])
def test_classes_that_have_collapsed_to_points_far_apart_can_be_fitted(spread):
    """The covariance of all images, as a sum, would be singular by rounding."""
    rng = torch.Generator().manual_seed(0)
    y = torch.arange(2000) % 7
    turned = torch.linalg.qr(torch.randn(FEATURES, FEATURES, generator=rng))[0]
    within = spread * torch.logspace(0, -5, FEATURES) * torch.randn(2000, FEATURES, generator=rng)
    features = 100 * torch.randn(7, FEATURES, generator=rng)[y] + within @ turned
    head = torch.randn(7, FEATURES, generator=rng)
    outputs = Outputs(features, features @ head.T)
    scores = RMDS().fit(Fit(outputs, y, outputs, y, head, torch.zeros(7))).score(outputs)
    assert scores.isfinite().all()
