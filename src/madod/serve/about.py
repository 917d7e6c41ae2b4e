"""The model that is served, described; and its training pictures, shown."""

from dataclasses import asdict

from madod.evaluation.threshold import threshold
from madod.predict import Model
from madod.report.pictures import png
from madod.serve.answers import About, Bounds
from madod.serve.limits import Limits


def about(model: Model, limits: Limits) -> About:
    """Return what there is to know about a model."""
    card, bounds = model.card, asdict(limits)
    return About(
        classes=list(card.classes),
        domains=list(card.domains),
        algorithm=card.algorithm,
        backbone=card.backbone,
        detector=card.detector,
        threshold=card.threshold,
        kept=kept(model),
        size=model.size,
        warnings=list(card.warnings),
        gallery=0 if model.gallery is None else len(model.gallery.thumbnails),
        limits=Bounds(**{name: bounds[name] for name in Bounds.model_fields}),
        provenance=card.provenance,
    )


def kept(model: Model) -> list[float]:
    """Return the thresholds that keep 1 %, 2 %, ... 100 % of held-out known pictures."""
    return [threshold(model.held_scores, percent / 100) for percent in range(1, 101)]


def thumbnail(model: Model, index: int) -> bytes | None:
    """Return a picture of the model's gallery as a PNG file, if there is one."""
    shown = model.gallery
    if shown is None or not 0 <= index < len(shown.thumbnails):
        return None
    return png(shown.thumbnails[index].permute(1, 2, 0).numpy())
