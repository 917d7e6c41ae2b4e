"""G's networks and losses, against loops and hand-computed numbers in float64."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from madod.data.augment import NONE
from madod.data.base import Domain, pool
from madod.errors import InputError
from madod.tasks import Batch
from madod.translation import blocks
from madod.translation.blocks import StyledResidual, adain
from madod.translation.munit import Munit, MunitConfig, adversarial_loss, discriminator_loss, distance, preset
from madod.translation.networks import Architecture, ContentEncoder, Decoder, Discriminator, StyleEncoder, architecture
from madod.translation.translate import PlainAugmentation, Translate, freeze, load, save

TINY = Architecture(width=2, residuals=1, outer_kernel=3, up_kernel=3, style=3, style_downs=2, mlp=4, scales=2,
                    discriminator_downs=2)  # fmt: skip


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def tiny(**fields: int) -> Munit:
    return Munit(replace(TINY, **fields), MunitConfig(lr=1e-3), generator(), seed=0)


def images(n: int = 3, size: int = 16, channels: int = 3) -> torch.Tensor:
    return torch.rand(n, channels, size, size, generator=generator(1)) * 2 - 1


def test_on_a_gpu_held_out_images_are_rebuilt_as_many_at_a_time_as_a_step_has(monkeypatch):
    munit, y, passes = tiny(), torch.zeros(40, dtype=torch.int64), []
    held_out = pool([Domain("a", torch.randint(0, 256, (40, 3, 16, 16), dtype=torch.uint8), y, y)], ["k"], ["k"])
    expected = munit.reconstruction(held_out)
    munit.style_encoder.register_forward_hook(lambda _, given, __: passes.append(len(given[0])))
    monkeypatch.setattr("madod.translation.munit.at_once", len)  # all on a GPU
    assert munit.reconstruction(held_out) == pytest.approx(expected, rel=1e-5)
    assert passes == [16, 16, 8]


def test_distance_is_the_mean_of_absolute_differences():
    a, b = (torch.randn(2, 3, 4, generator=generator(k)).double() for k in (0, 1))
    pairs = list(zip(a.flatten().tolist(), b.flatten().tolist(), strict=True))
    assert float(distance(a, b)) == pytest.approx(sum(abs(x - y) for x, y in pairs) / len(pairs), rel=1e-12)


def test_adversarial_losses_against_loops():
    fake, real = ([torch.randn(2, 1, side, side, generator=generator(side + k)).double() for side in (4, 2)]
                  for k in (0, 10))  # fmt: skip

    def mean(values):
        values = list(values)
        return sum(values) / len(values)

    passing = sum(mean((d - 1) ** 2 for d in scale.flatten().tolist()) for scale in fake)
    telling = sum(mean(d**2 for d in scale.flatten().tolist()) for scale in fake)
    telling += sum(mean((d - 1) ** 2 for d in scale.flatten().tolist()) for scale in real)
    assert float(adversarial_loss(fake)) == pytest.approx(passing, rel=1e-12)
    assert float(discriminator_loss(fake, real)) == pytest.approx(telling, rel=1e-12)


def test_a_control_that_varies_nothing_is_refused():
    x = images() / 2 + 0.5
    assert not torch.equal(PlainAugmentation(replace(NONE, flip=1.0))(x, generator()), x)
    with pytest.raises(InputError, match=r"leaves the images of this dataset as they are.*: set translate to munit"):
        PlainAugmentation(NONE)


def test_losses_by_hand():
    assert float(adversarial_loss([torch.tensor([0.0, 2.0]), torch.tensor([4.0])])) == 1 + 9
    assert float(discriminator_loss([torch.tensor([2.0])], [torch.tensor([0.0, 1.0])])) == 4 + 0.5
    perfect = [torch.zeros(3)], [torch.ones(3)]
    assert float(discriminator_loss(*perfect)) == 0


def test_the_generator_s_loss_against_its_equation():
    """Every term from single images, one network call at a time."""
    munit = tiny().double()
    x, v = images().double(), torch.randn(3, 3, generator=generator(2)).double()
    with torch.no_grad():
        terms, moved = munit.generator_terms(x, v)
    encode, style, decode = munit.content_encoder, munit.style_encoder, munit.decoder
    parts = {name: [] for name in ("image", "content", "style", "cycle")}
    judged: list[list[torch.Tensor]] = [[], []]
    for k in range(3):
        one, drawn = x[k : k + 1], v[k : k + 1]
        restyled = decode(encode(one), drawn)
        torch.testing.assert_close(moved[k : k + 1], restyled, rtol=1e-9, atol=1e-9)
        parts["image"].append((decode(encode(one), style(one)) - one).abs().mean())
        parts["content"].append((encode(restyled) - encode(one)).abs().mean())
        parts["style"].append((style(restyled) - drawn).abs().mean())
        parts["cycle"].append((decode(encode(restyled), style(one)) - one).abs().mean())
        for scale, judgement in zip(judged, munit.discriminator(restyled), strict=True):
            scale.append(((judgement - 1) ** 2).mean())
    expected = {name: sum(values) / 3 for name, values in parts.items()}
    expected["adversarial"] = sum(sum(scale) / 3 for scale in judged)
    for name, value in expected.items():
        assert float(terms[name]) == pytest.approx(float(value.detach()), rel=1e-8), name
    total = 10 * expected["image"] + 10 * expected["cycle"]
    total = total + expected["content"] + expected["style"] + expected["adversarial"]
    assert float(terms["loss"]) == pytest.approx(float(total.detach()), rel=1e-8)


def test_a_step_moves_all_four_networks_and_each_optimiser_only_its_own():
    munit = tiny()
    batch = Batch(images() / 2 + 0.5, torch.zeros(3), torch.zeros(3))
    parts = ("content_encoder", "style_encoder", "decoder", "discriminator")
    before = {part: [w.clone() for w in getattr(munit, part).parameters()] for part in parts}
    terms = munit.update(batch)
    assert set(terms) == {"loss", "adversarial", "image", "content", "style", "cycle", "discriminator"}
    assert not any(term.requires_grad for term in terms.values())
    for part in parts:
        assert any(not torch.equal(a, b) for a, b in zip(before[part], getattr(munit, part).parameters(), strict=True))
    held = {id(w) for group in munit.optimizers["discriminator"].param_groups for w in group["params"]}
    assert held == {id(w) for w in munit.discriminator.parameters()}


def test_passes_that_fit_into_memory_make_the_same_step(monkeypatch):
    batch = Batch(torch.rand(7, 3, 16, 16, generator=generator()).double(), torch.zeros(7), torch.zeros(7))
    randn = torch.randn
    monkeypatch.setattr(torch, "randn", lambda *shape, **given: randn(*shape, **given).double())
    whole, parts = tiny().double(), tiny().double()
    terms = whole.update(batch)
    monkeypatch.setattr(blocks, "AT_ONCE", 3 * 256)
    for name, term in parts.update(batch).items():
        torch.testing.assert_close(term, terms[name])
    for (name, one), other in zip(whole.named_parameters(), parts.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad, msg=name)


def test_restylings_do_not_depend_on_how_many_fit_into_memory(monkeypatch):
    x = torch.rand(7, 3, 16, 16, generator=generator())
    translate = freeze(tiny(), TINY)
    whole = translate(x, generator())
    monkeypatch.setattr(blocks, "AT_ONCE", 3 * 256)
    torch.testing.assert_close(translate(x, generator()), whole)


def test_training_reconstructs_better():
    munit = Munit(replace(TINY, width=4), MunitConfig(lr=5e-3), generator(), seed=0)
    slopes = torch.linspace(0, 1, 16).expand(3, 3, 16, 16) * torch.tensor([0.3, 0.6, 1.0])[:, None, None, None]
    batch = Batch(slopes, torch.zeros(3), torch.zeros(3))
    losses = [float(munit.update(batch)["image"]) for _ in range(40)]
    assert np.mean(losses[-5:]) < 0.8 * np.mean(losses[:5])


def test_a_blank_picture_does_not_blow_the_weights_up():
    sizes, config = preset((3, 32, 32))
    x = torch.rand(6, 3, 32, 32, generator=generator())
    x[0] = 1
    munit = Munit(sizes, config, generator(), seed=0)
    munit.update(Batch(x, torch.zeros(6), torch.zeros(6)))
    assert max(float(weight.grad.abs().max()) for weight in munit.content_encoder.parameters()) < 1e4
    for _ in range(3):
        munit.update(Batch(x, torch.zeros(6), torch.zeros(6)))
    assert all(weight.isfinite().all() for weight in munit.parameters())


def test_batches_are_balanced_over_domains():
    y = torch.zeros(40, dtype=torch.int64)
    domains = [Domain(f"d{k}", torch.full((n, 3, 8, 8), k, dtype=torch.uint8), y[:n], y[:n])
               for k, n in enumerate((40, 3))]  # fmt: skip
    batch = next(tiny().batches(pool(domains, ["a"], ["a"]), np.random.default_rng(0)))
    assert batch.d.bincount().tolist() == [8, 8]


def test_adain_against_a_loop():
    x = torch.randn(2, 3, 4, 5, generator=generator()).double()
    scale, shift = (torch.randn(2, 3, generator=generator(k)).double() for k in (1, 2))
    found = adain(x, scale, shift)
    for n in range(2):
        for c in range(3):
            plane = x[n, c]
            mean = plane.sum() / 20
            variance = ((plane - mean) ** 2).sum() / 20
            expected = (1 + scale[n, c]) * (plane - mean) / (variance + 1e-5) ** 0.5 + shift[n, c]
            torch.testing.assert_close(found[n, c], expected, rtol=1e-9, atol=1e-9)


def test_adain_washes_out_brightness_and_contrast():
    x = torch.randn(1, 2, 8, 8, generator=generator()).double()
    same = torch.zeros(1, 2).double()
    torch.testing.assert_close(adain(x * 7 + 3, same, same), adain(x, same, same), rtol=1e-4, atol=1e-4)


def test_a_residual_takes_its_own_scales_and_shifts():
    block = StyledResidual(2).double()
    x, style = torch.randn(1, 2, 6, 6).double(), torch.randn(1, 8).double()
    inner = torch.relu(adain(block.first(x), style[:, :2], style[:, 2:4]))
    torch.testing.assert_close(block(x, style), x + adain(block.second(inner), style[:, 4:6], style[:, 6:]))


@pytest.mark.parametrize(("size", "channels"), [(32, 3), (32, 1), (64, 3), (96, 3), (224, 3), (28, 1)])
def test_shapes(size, channels):
    full = architecture((channels, size, size))
    a = replace(full, width=2, mlp=4)
    x = images(2, size, channels)
    content, style = ContentEncoder(a)(x), StyleEncoder(a)(x)
    assert content.shape == (2, 8, size // 4, size // 4)
    assert style.shape == (2, 8)
    back = Decoder(a)(content, style)
    assert back.shape == x.shape
    assert back.abs().max() <= 1
    judgements = Discriminator(a)(x)
    assert len(judgements) == full.scales
    sides = [judgement.shape[-1] for judgement in judgements]
    assert sides == sorted(sides, reverse=True)
    assert all(judgement.shape[:2] == (2, 1) for judgement in judgements)
    restyled = Translate(a)(x / 2 + 0.5, generator())
    assert restyled.shape == x.shape
    assert 0 <= restyled.min() <= restyled.max() <= 1


@pytest.mark.parametrize("size", [17, 30, 33, 34, 35, 99])
def test_any_size_trains_and_comes_back(size):
    shape = (3, size, size)
    a = replace(architecture(shape), width=2, mlp=4)
    munit = Munit(a, MunitConfig(), generator(), seed=0)
    x = torch.rand(2, *shape, generator=generator(1))
    terms = munit.update(Batch(x, torch.zeros(2), torch.zeros(2)))
    assert all(term.isfinite() for term in terms.values())
    assert freeze(munit, a)(x, generator()).shape == x.shape


def test_larger_pictures_get_larger_networks():
    sizes = [architecture((3, side, side)) for side in (32, 64, 224)]
    assert [a.width for a in sizes] == [16, 32, 64]
    assert sizes[2] == Architecture()  # the paper of the equations
    assert preset((3, 224, 224))[1].lr == 2e-4
    assert preset((1, 32, 32))[0].channels == 1


def test_weights_depend_on_the_seed_alone():
    def weights(seed: int) -> list[torch.Tensor]:
        return list(Munit(TINY, MunitConfig(), generator(), seed=seed).state_dict().values())

    torch.manual_seed(5)
    first = weights(0)
    torch.manual_seed(6)
    assert all(torch.equal(a, b) for a, b in zip(first, weights(0), strict=True))
    assert not all(torch.equal(a, b) for a, b in zip(first, weights(1), strict=True))


def test_g_saved_and_loaded_is_the_same_and_frozen(tmp_path):
    munit = tiny()
    munit.update(Batch(images() / 2 + 0.5, torch.zeros(3), torch.zeros(3)))
    made = freeze(munit, TINY)
    save(made, tmp_path / "g.safetensors")
    again = load(tmp_path / "g.safetensors")
    x = images() / 2 + 0.5
    assert torch.equal(made(x, generator()), again(x, generator()))
    torch.testing.assert_close(made(x, generator()), (munit.decoder(munit.content_encoder(x * 2 - 1), torch.randn(
        3, 3, generator=generator())) + 1) / 2)  # fmt: skip
    assert again.architecture == TINY
    assert not any(weight.requires_grad for weight in again.parameters())
    assert not again(x, generator()).requires_grad
    assert not again.training
    kept = [w.clone() for w in made.parameters()]
    munit.update(Batch(x, torch.zeros(3), torch.zeros(3)))  # training on does not reach what was frozen
    assert all(torch.equal(a, b) for a, b in zip(kept, made.parameters(), strict=True))


def test_styles_differ_between_images_and_draws_and_follow_the_generator():
    made = freeze(tiny(), TINY)
    x = (images(1) / 2 + 0.5).repeat(2, 1, 1, 1)
    rng = generator()
    first, second = made(x, rng), made(x, rng)
    assert not torch.equal(first[0], first[1])
    assert not torch.equal(first, second)
    assert torch.equal(first, made(x, generator()))
