import math
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from madod.data.augment import LUMINANCE, NONE, Augmentation, crop_and_flip, hue, recolour


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def pictures(n=8, channels=3, height=12, width=16, seed=0):
    return torch.rand(n, channels, height, width, generator=seeded(seed))


def luminance(images):
    return torch.einsum("c,nchw->nhw", torch.tensor(LUMINANCE), images)[:, None]


def turned(images, turns):
    return torch.einsum("nij,njhw->nihw", hue(turns), images)


STRONG = Augmentation(crop=(0.3, 1.0), flip=0.5, jitter=1.0, grey=0.3)


def test_none_is_the_identity():
    images = pictures()
    torch.testing.assert_close(NONE(images, seeded()), images, atol=1e-6, rtol=0)


@pytest.mark.parametrize("how", [Augmentation(), STRONG], ids=["usual", "strong"])
def test_values_stay_in_bounds_and_shapes_stay(how):
    for images in (pictures(64), torch.ones(8, 3, 12, 16), torch.zeros(8, 3, 12, 16)):
        out = how(images, seeded())
        assert out.shape == images.shape
        assert out.dtype == torch.float32
        assert out.min() >= 0
        assert out.max() <= 1


@pytest.mark.parametrize(
    "how",
    [
        replace(NONE, crop=(0.5, 0.9)),
        replace(NONE, ratio=(0.7, 1.4), crop=(0.5, 0.5)),
        replace(NONE, jitter=0.3),
        Augmentation(),
    ],
    ids=["crop", "ratio", "jitter", "usual"],
)
def test_every_image_has_draws_of_its_own(how):
    same = pictures(1).repeat(16, 1, 1, 1)
    out = how(same, seeded())
    assert len({image.numpy().tobytes() for image in out}) == 16


def test_the_generator_decides_everything():
    images = pictures()
    before = torch.get_rng_state()
    one, same, other = (STRONG(images, seeded(seed)) for seed in (0, 0, 1))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
    assert torch.equal(torch.get_rng_state(), before)


def test_the_images_given_are_left_alone():
    images = pictures()
    kept = images.clone()
    STRONG(images, seeded())
    NONE(images, seeded())
    assert torch.equal(images, kept)


def test_flips_mirror_left_and_right():
    images = pictures()
    out = replace(NONE, flip=1.0)(images, seeded())
    torch.testing.assert_close(out, images.flip(-1), atol=1e-5, rtol=0)


def test_half_of_the_images_flip():
    images = pictures(1).repeat(400, 1, 1, 1)
    out = replace(NONE, flip=0.5)(images, seeded())
    flipped = (out - images.flip(-1)).abs().amax((1, 2, 3)) < 1e-5
    still = (out - images).abs().amax((1, 2, 3)) < 1e-5
    assert (flipped ^ still).all()
    assert 150 < int(flipped.sum()) < 250


def test_a_crop_shows_the_share_asked_for():
    across = torch.linspace(0, 1, 64).expand(200, 1, 64, 64).contiguous()
    out = crop_and_flip(across, replace(NONE, crop=(0.25, 0.25)), seeded())
    seen = out[:, 0, 32].amax(1) - out[:, 0, 32].amin(1)  # half of the width
    torch.testing.assert_close(seen, torch.full((200,), 0.5), atol=0.02, rtol=0)
    left = out[:, 0, 32, 0]
    assert left.min() < 0.05
    assert left.max() > 0.45
    assert left.max() < 0.53  # never beyond the border


def test_colours_change_without_moving_anything():
    images = torch.full((32, 3, 12, 16), 0.4)
    images[:, :, 3:6, 4:8] = torch.tensor([0.7, 0.5, 0.3]).view(3, 1, 1)
    out = recolour(images, replace(NONE, jitter=0.3), seeded())
    assert not torch.allclose(out, images)
    inside = torch.zeros(12, 16, dtype=torch.bool)
    inside[3:6, 4:8] = True
    for region in (inside, ~inside):
        pixels = out[:, :, region]
        torch.testing.assert_close(pixels, pixels[..., :1].expand_as(pixels), atol=1e-5, rtol=0)


def test_grey_takes_all_colour_from_its_share_of_images():
    out = replace(NONE, grey=1.0)(pictures(), seeded())
    torch.testing.assert_close(out, luminance(pictures()).expand(-1, 3, -1, -1), atol=1e-5, rtol=0)
    out = replace(NONE, grey=0.25)(pictures(400), seeded())
    lost = (out.amax(1) - out.amin(1)).amax((1, 2)) < 1e-5
    assert 60 < int(lost.sum()) < 140


def test_hue_keeps_grey_and_the_mean_of_the_channels():
    turns = torch.linspace(-0.5, 0.5, 8)
    grey = pictures(8, 1).expand(-1, 3, -1, -1)
    torch.testing.assert_close(turned(grey, turns), grey, atol=1e-6, rtol=0)
    images = pictures()
    torch.testing.assert_close(turned(images, turns).mean(1), images.mean(1), atol=1e-6, rtol=0)
    torch.testing.assert_close(turned(images, turns).norm(dim=1), images.norm(dim=1), atol=1e-5, rtol=0)  # a rotation


def test_a_third_of_a_turn_of_hue_carries_red_to_green():
    red = torch.tensor([1.0, 0.0, 0.0]).view(1, 3, 1, 1)
    out = torch.cat([turned(red, torch.tensor([turns])) for turns in (0.0, 1 / 3, 2 / 3, 1.0)])[..., 0, 0]
    torch.testing.assert_close(out, torch.eye(3)[[0, 1, 2, 0]], atol=1e-6, rtol=0)


def test_images_without_colour_are_cropped_and_not_recoloured():
    images = pictures(channels=1)
    out = replace(STRONG, crop=(1.0, 1.0), ratio=(1.0, 1.0), flip=0.0)(images, seeded())
    torch.testing.assert_close(out, images, atol=1e-5, rtol=0)


def one_by_one(images, how, rng):
    """The same augmentation step by step, as it is usually written."""
    n, span = len(images), how.jitter

    def draw(low, high):
        return (torch.rand(n, generator=rng) * (high - low) + low).view(n, 1, 1, 1)

    area, ratio = draw(*how.crop), draw(*map(math.log, how.ratio)).exp()
    width, height = (area * ratio).sqrt().clamp(max=1), (area / ratio).sqrt().clamp(max=1)
    across, down = draw(-1, 1) * (1 - width), draw(-1, 1) * (1 - height)
    mirror = 1 - 2 * (draw(0, 1) < how.flip).float()
    zero = torch.zeros_like(width)
    theta = torch.cat([width * mirror, zero, across, zero, height, down], 1).view(n, 2, 3)
    grid = F.affine_grid(theta, list(images.shape), align_corners=False)
    images = F.grid_sample(images, grid, padding_mode="reflection", align_corners=False)
    images = images * draw(1 - span, 1 + span)
    mean = images.mean((1, 2, 3), keepdim=True)
    images = mean + (images - mean) * draw(1 - span, 1 + span)
    keep = (draw(0, 1) >= how.grey).float()
    images = luminance(images) + (images - luminance(images)) * draw(1 - span, 1 + span) * keep
    return turned(images, draw(-span, span).flatten()).clamp(0, 1)


@pytest.mark.parametrize("how", [Augmentation(), STRONG, replace(STRONG, crop=(1.0, 1.0), ratio=(1.0, 1.0))])
def test_all_in_one_is_one_by_one_with_the_same_draws(how):
    images, ours, theirs = pictures(64), seeded(), seeded()
    torch.testing.assert_close(how(images, ours), one_by_one(images, how, theirs), atol=1e-5, rtol=0)
    assert torch.equal(ours.get_state(), theirs.get_state())


def test_flips_alone_keep_every_bit():
    images = pictures(64)
    out = replace(NONE, flip=0.5)(images, seeded())
    assert all(torch.equal(a, b) or torch.equal(a, b.flip(-1)) for a, b in zip(out, images, strict=True))
    assert torch.equal(NONE(images, seeded()), images)


def test_the_generator_moves_on_by_as_much_whatever_is_varied():
    states = []
    for how in (NONE, replace(NONE, crop=(0.5, 1.0)), replace(NONE, flip=0.5)):
        rng = seeded()
        how(pictures(), rng)
        states.append(rng.get_state())
    assert all(torch.equal(state, states[0]) for state in states)
