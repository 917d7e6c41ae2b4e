"""How G is trained: adversarial restyling with reconstruction of image, content and style."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from madod.data.base import Pool
from madod.models.compute import PLAIN, Compute
from madod.models.optimizers import adam
from madod.models.recorded import Recorded
from madod.tasks import Batch, minibatches
from madod.translation.blocks import at_once, whole_quarters
from madod.translation.networks import (
    Architecture,
    ContentEncoder,
    Decoder,
    Discriminator,
    StyleEncoder,
    architecture,
    for_g,
    initialise,
)

Terms = dict[str, Tensor]

LIMIT = 200.0
"""Longest gradient that is followed; usual ones are 20 to 60, but a blank picture's, through instance norm after
instance norm, can be 1e27."""


@dataclass(frozen=True)
class MunitConfig:
    """Weights and rates of G's training."""

    lr: float = 2e-4
    """Learning rate of both Adams; the smaller networks below 128 px take 1e-3."""
    batch: int = 16
    """Images in a step, as evenly from the source domains as it goes."""
    image: float = 10.0
    """Weight of both image reconstructions."""


def preset(shape: tuple[int, int, int]) -> tuple[Architecture, MunitConfig]:
    """Return networks and rates fit for images of a shape."""
    sizes = architecture(shape)
    return sizes, MunitConfig() if sizes.width >= Architecture.width else MunitConfig(lr=1e-3)


def wide(x: Tensor) -> Tensor:
    """Return x in float32 at the least: losses are not added up in half precision."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def distance(a: Tensor, b: Tensor) -> Tensor:
    """|a - b|, the l1 mean."""
    return (wide(a) - wide(b)).abs().mean()


def adversarial_loss(judgements: list[Tensor]) -> Tensor:
    """adv(x~) = mean (C(x~) - 1)^2, summed over scales, C the discriminator [Mao et al. 2017, eq. 9]."""
    return torch.stack([(wide(judgement) - 1).square().mean() for judgement in judgements]).sum()


def discriminator_loss(fake: list[Tensor], real: list[Tensor]) -> Tensor:
    """L_C = mean C(x~)^2 + mean (C(x) - 1)^2, summed over scales [Mao et al. 2017, eq. 9]."""
    return torch.stack([wide(judgement).square().mean() for judgement in fake]).sum() + adversarial_loss(real)


class Pass(NamedTuple):
    """Images and styles that go through the networks together, and their share of the step's images."""

    x: Tensor
    v: Tensor
    share: float


class Munit(nn.Module):
    """Trains one G for all source domains [after Huang et al. 2018, from the equations]."""

    recorded: Recorded | None = None
    """Starts both steps as one: where passes are compiled, starting kernels is what takes the time."""

    def __init__(
        self,
        architecture: Architecture,
        config: MunitConfig,
        rng: torch.Generator,
        *,
        seed: int,
        compute: Compute = PLAIN,
    ) -> None:
        """Build the four networks from the seed; `rng`, on the device of the images, draws styles."""
        super().__init__()
        self.config = config
        self.rng = rng
        self.step = 0
        self.style = architecture.style
        self.content_encoder = ContentEncoder(architecture)
        self.style_encoder = StyleEncoder(architecture)
        self.decoder = Decoder(architecture)
        self.discriminator = Discriminator(architecture)
        initialise(self, torch.Generator().manual_seed(seed))
        self.compute = for_g(compute)
        self.compute.prepare(self.content_encoder, self.style_encoder, self.decoder, self.discriminator)

    def batches(self, source: Pool, rng: np.random.Generator) -> Iterator[Batch]:
        """Yield batches balanced over the source domains."""
        return minibatches(source, rng, per_domain=max(1, round(self.config.batch / len(source.domains))))

    @cached_property
    def optimizers(self) -> dict[str, torch.optim.Optimizer]:
        """One Adam for encoders and decoder, one for the discriminator."""
        makers = [self.content_encoder, self.style_encoder, self.decoder]
        generator = [weight for maker in makers for weight in maker.parameters()]
        how: dict[str, Any] = {"betas": (0.5, 0.999), "capturable": self.compute.compiled}
        return {
            "generator": adam(generator, self.config.lr, **how),
            "discriminator": adam(self.discriminator.parameters(), self.config.lr, **how),
        }

    def generator_terms(self, x: Tensor, v: Tensor) -> tuple[Terms, Tensor]:
        """L_G and its parts, with the restyled images [after Huang et al. 2018, from the equations].

        L_G = adv(x~) + w |D(E_s(x), E_v(x)) - x| + |E_s(x~) - E_s(x)| + |E_v(x~) - v| + w |D(E_s(x~), E_v(x)) - x|,
        x~ = D(E_s(x), v), D the decoder.
        """
        run = self.compute
        content, style = run(self.content_encoder, x), run(self.style_encoder, x)
        same, moved = run(self.decoder, content, style), run(self.decoder, content, v)
        content_again, style_again = run(self.content_encoder, moved), run(self.style_encoder, moved)
        terms = {
            "adversarial": adversarial_loss(run(self.discriminator, moved)),
            "image": distance(same, x),
            "content": distance(content_again, content),
            "style": distance(style_again, v),
            "cycle": distance(run(self.decoder, content_again, style), x),
        }
        weight = {"image": self.config.image, "cycle": self.config.image}
        loss = torch.stack([weight.get(name, 1.0) * term for name, term in terms.items()]).sum()
        return {"loss": loss, **terms}, moved

    def update(self, batch: Batch) -> Terms:
        """Step generator and discriminator once, on the same restylings."""
        x = self.compute.laid_out(whole_quarters(batch.x * 2 - 1))  # as restylings are: one compilation does for both
        v = torch.randn(len(x), self.style, generator=self.rng, device=x.device)
        if not self.compute.compiled:
            return self.both_steps(x, v)
        self.recorded = self.recorded or Recorded()
        return self.recorded(self.both_steps, x, v)

    def both_steps(self, x: Tensor, v: Tensor) -> Terms:
        """Step the generator down L_G, then the discriminator down L_C; return their terms."""
        passes = [
            Pass(*part, len(part[0]) / len(x)) for part in zip(x.split(at_once(x)), v.split(at_once(x)), strict=True)
        ]
        noted: list[Terms] = []
        restyled: list[Tensor] = []

        def generator_losses() -> Iterator[Tensor]:
            for images, styles, share in passes:
                terms, moved = self.generator_terms(images, styles)
                restyled.append(moved.detach())
                noted.append({name: term.detach() * share for name, term in terms.items()})
                yield terms["loss"] * share

        def discriminator_losses() -> Iterator[Tensor]:
            for (images, _, share), moved in zip(passes, restyled, strict=True):
                fake, real = (self.compute(self.discriminator, seen) for seen in (moved, images))
                loss = discriminator_loss(fake, real) * share
                noted.append({"discriminator": loss.detach()})
                yield loss

        self.discriminator.requires_grad_(False)
        self._step("generator", generator_losses())
        self.discriminator.requires_grad_(True)
        self._step("discriminator", discriminator_losses())
        names = dict.fromkeys(name for terms in noted for name in terms)
        return {name: torch.stack([terms[name] for terms in noted if name in terms]).sum() for name in names}

    @torch.no_grad()
    def reconstruction(self, held_out: Pool, *, most: int = 256) -> float:
        """Return |D(E_s(x), E_v(x)) - x|, the l1 mean over held-out images in [-1, 1]."""
        order = held_out.sample(most)
        gaps, run = [], self.compute
        with torch.compiler.set_stance("force_eager"):  # these passes are few
            for rows in order.split(at_once(held_out.take(order[: self.config.batch]))):
                x = whole_quarters(held_out.take(rows) * 2 - 1)
                same = run(self.decoder, run(self.content_encoder, x), run(self.style_encoder, x))
                gaps.append((wide(same) - x).abs().mean((1, 2, 3)))
        return float(torch.cat(gaps).mean())

    def _step(self, name: str, losses: Iterator[Tensor]) -> None:
        """Descend the sum of losses, each of which is forgotten before the next is made."""
        optimizer = self.optimizers[name]
        optimizer.zero_grad(set_to_none=True)
        for loss in losses:
            loss.backward()
        nn.utils.clip_grad_norm_([weight for group in optimizer.param_groups for weight in group["params"]], LIMIT)
        optimizer.step()
