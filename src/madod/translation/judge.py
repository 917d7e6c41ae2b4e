"""Is G any good? Measured on held-out source images, and gated."""

from collections.abc import Callable
from dataclasses import asdict, dataclass

import torch
from torch import Tensor

from madod.data.base import Pool
from madod.errors import InputError
from madod.models.classifier import Restyle

Label = Callable[[Tensor], Tensor]
PAIRS = 512
"""Pairs of images, at most, that domains' distance is measured by."""
COLUMNS, ROWS = 12, 4
"""Originals in a picture grid, at most, and restylings of each."""


def retention(said: Tensor, restyled: Tensor, y: Tensor) -> float:
    """P(f(x~) = y | f(x) = y): of the images that f labels right, the share still labelled right restyled [ours]."""
    right = said == y
    return float((right & (restyled == y)).sum()) / max(float(right.sum()), 1.0)


def diversity(apart: Tensor, between: float) -> float:
    """mean |x~ - x~'| / mean |x - x'|: distances of two restylings (n,) over that of a class in two domains [ours]."""
    return float(apart.mean()) / between


@dataclass(frozen=True)
class Bounds:
    """The least of both that a usable G has."""

    retention: float = 0.7
    diversity: float = 0.2


@dataclass(frozen=True)
class Judgement:
    """What was measured, and on how many images."""

    retention: float
    diversity: float
    images: int
    clean: float
    """Share of the original images that the judging classifier labels right."""
    reconstruction: float
    """Mean distance between images in [-1, 1] and what content and style rebuild of them."""
    steps: int
    """Steps that G was trained for."""

    def failures(self, bounds: Bounds) -> list[str]:
        """Return a clause for every bound that is missed."""
        measured, wanted = asdict(self), asdict(bounds)
        return [
            f"{name} is {measured[name]:.2f} and should be at least {limit:.2f}"
            for name, limit in wanted.items()
            if not measured[name] >= limit
        ]


@torch.no_grad()
def judge(
    translate: Restyle,
    label: Label,
    held_out: Pool,
    rng: torch.Generator,
    *,
    most: int,
    reconstruction: float,
    steps: int,
) -> Judgement:
    """Measure G on so many held-out source images; `label` is a source-trained classifier's verdict (n,)."""
    order = held_out.sample(most)
    seen = []
    for rows in order.split(128):  # restylings of all at once would not fit
        images = held_out.take(rows)
        first, second = translate(images, rng), translate(images, rng)
        seen.append((label(images), label(first), (first - second).abs().mean((1, 2, 3))))
    said, restyled, apart = map(torch.cat, zip(*seen, strict=True))
    y = held_out.y[order]
    between = domain_distance(held_out.subset(order))
    return Judgement(
        retention=retention(said, restyled, y),
        diversity=diversity(apart, between),
        images=len(order),
        clean=float((said == y).sum()) / len(order),
        reconstruction=reconstruction,
        steps=steps,
    )


def domain_distance(pool: Pool) -> float:
    """Return the mean l1 pixel distance between two images of one class from two domains."""
    rng = torch.Generator().manual_seed(0)
    a, b = torch.randint(len(pool), (2, 64 * PAIRS), generator=rng).to(pool.device)
    alike = (pool.y[a] == pool.y[b]) & (a != b)
    apart = alike & (pool.d[a] != pool.d[b])
    both = (apart if apart.any() else alike).nonzero()[:PAIRS, 0]
    distance = float((pool.take(a[both]) - pool.take(b[both])).abs().mean()) if len(both) else 0.0
    if distance == 0:
        raise InputError(
            f"the {len(pool)} held-out source images are too few or too alike to judge a generator by: "
            'add images, or do without it with --translate augment (in a plan: translate = "augment")'
        )
    return distance


def gate(judgement: Judgement, bounds: Bounds) -> None:
    """Refuse a G outside its bounds: a copying or a wrecking G would make every later number meaningless."""
    failures = judgement.failures(bounds)
    if failures:
        raise InputError(
            f"the generator is not usable: {' and '.join(failures)} on held-out source images; "
            "train it longer (--translate-steps N), do without it (--translate augment), or accept it (--waive-gate); "
            'in a plan: translate_steps = N, translate = "augment", waive_gate = true'
        )


@torch.no_grad()
def grid(translate: Restyle, held_out: Pool, rng: torch.Generator) -> Tensor:
    """Return a picture uint8 (3, h, w): held-out originals of every domain above their restylings."""
    each = max(1, COLUMNS // len(held_out.domains))
    chosen = torch.cat([(held_out.d == k).nonzero()[:each, 0] for k in range(len(held_out.domains))])
    images = held_out.take(chosen)
    lines = [images, *(translate(images, rng) for _ in range(ROWS))]
    picture = torch.cat([torch.cat(list(line), dim=2) for line in lines], dim=1)
    return (picture.clamp(0, 1) * 255).round().byte().cpu().expand(3, -1, -1)
