"""Is G any good: retention, diversity, the gate, and the grid that shows it."""

from dataclasses import replace
from functools import partial

import pytest
import torch

from madod.benchmark import examiner
from madod.benchmark import generator as making
from madod.benchmark.resources import Resources
from madod.data.augment import NONE
from madod.data.base import Domain, pool
from madod.data.split import Split
from madod.errors import InputError
from madod.translation.judge import Bounds, Judgement, domain_distance, gate, grid, judge

SIZE = 8


def held_out(per_cell=6, domains=3, classes=2, channels=3):
    """Return classes by brightness of the upper half, domains by brightness of the lower."""
    parts = []
    for d in range(domains):
        y = torch.arange(classes).repeat_interleave(per_cell)
        images = torch.full((len(y), channels, SIZE, SIZE), 40 * d, dtype=torch.uint8)
        images[:, :, : SIZE // 2] = (200 * y)[:, None, None, None].byte()
        parts.append(Domain(f"d{d}", images, y, y))
    names = [f"c{k}" for k in range(classes)]
    return pool(parts, names, names)


def label(images):
    return (images[:, :, : SIZE // 2].mean((1, 2, 3)) > 0.3).long()


def copying(images, rng):
    return images


def noise(images, rng):
    return torch.rand(images.shape, generator=rng)


def restyling(images, rng):
    """Keep the upper half, redraw the lower."""
    moved = images.clone()
    moved[:, :, SIZE // 2 :] = torch.rand(len(images), 1, 1, 1, generator=rng)
    return moved


def verdict(translate):
    rng = torch.Generator().manual_seed(0)
    return judge(translate, label, held_out(), rng, most=512, reconstruction=0.1, steps=10)


def test_a_copying_g_keeps_labels_has_no_diversity_and_is_refused():
    found = verdict(copying)
    assert found == Judgement(retention=1.0, diversity=0.0, images=36, clean=1.0, reconstruction=0.1, steps=10)
    with pytest.raises(InputError, match=r"diversity is 0\.00 and should be at least 0\.20") as refusal:
        gate(found, Bounds())
    assert "retention is" not in str(refusal.value)


def test_a_g_that_returns_noise_loses_labels_and_is_refused():
    found = verdict(noise)
    assert found.retention == pytest.approx(0.5, abs=0.2)
    assert found.diversity > 1
    with pytest.raises(InputError, match=r"retention is 0\.\d\d and should be at least 0\.70") as refusal:
        gate(found, Bounds())
    assert "diversity is" not in str(refusal.value)


def test_a_g_that_restyles_passes():
    found = verdict(restyling)
    assert found.retention == 1
    assert found.diversity > 0.2
    gate(found, Bounds())


def measured(retention, diversity):
    return Judgement(retention, diversity, images=10, clean=1.0, reconstruction=0.1, steps=10)


def test_the_refusal_names_both_and_what_to_type():
    with pytest.raises(InputError) as refusal:
        gate(measured(0.1, 0.05), Bounds())
    said = str(refusal.value)
    for word in ("retention is 0.10", "diversity is 0.05", "(--translate-steps N)", "(--translate augment)"):
        assert word in said
    for word in ("(--waive-gate)", "translate_steps = N", 'translate = "augment"', "waive_gate = true"):
        assert word in said
    assert "\n" not in said


@pytest.mark.parametrize("numbers", [(float("nan"), 1.0), (1.0, float("nan"))])
def test_what_is_no_number_does_not_pass(numbers):
    with pytest.raises(InputError):
        gate(measured(*numbers), Bounds())


def test_bounds_themselves_pass():
    gate(measured(0.7, 0.2), Bounds())


def test_retention_and_diversity_against_loops():
    p = held_out()
    rng = torch.Generator().manual_seed(3)
    calls = []

    def recorded(images, rng):
        calls.append(noise(images, rng))
        return calls[-1]

    found = judge(recorded, label, p, rng, most=512, reconstruction=0.1, steps=10)
    first, second = calls
    order = torch.randperm(len(p), generator=torch.Generator().manual_seed(0))
    right = sum(int(label(first[k : k + 1])) == int(p.y[row]) for k, row in enumerate(order))
    apart = sum(float((a - b).abs().mean()) for a, b in zip(first, second, strict=True)) / len(p)
    assert found.retention == pytest.approx(right / len(p))
    between = domain_distance(p.subset(order))
    assert found.diversity == pytest.approx(apart / between, rel=1e-5)
    assert 20 / 255 < between < 40 / 255  # lower halves of domains are 40 or 80 apart, upper halves of a class alike


def test_distance_of_domains_by_hand():
    assert domain_distance(held_out(domains=2)) == pytest.approx(0.5 * 40 / 255, rel=1e-5)
    with pytest.raises(InputError, match="too few or too alike"):
        domain_distance(held_out(domains=1))  # one domain: between images of a class, here all alike


@pytest.mark.parametrize(("domains", "channels"), [(3, 3), (2, 1), (5, 3)])
def test_the_grid_shows_originals_above_restylings(domains, channels):
    p = held_out(domains=domains, channels=channels)
    picture = grid(copying, p, torch.Generator())
    columns = 12 // domains * domains
    assert picture.dtype == torch.uint8
    assert picture.shape == (3, 5 * SIZE, columns * SIZE)
    originals = picture[:, :SIZE]
    for row in range(1, 5):
        assert torch.equal(picture[:, row * SIZE : (row + 1) * SIZE], originals)
    shades = {int(originals[0, -1, column * SIZE]) for column in range(columns)}
    assert shades == {40 * d for d in range(domains)}  # every domain is there


def test_a_made_g_is_gated_kept_and_waived(tmp_path, monkeypatch):
    """The whole of it: refused outside its bounds also when it comes from the cache, and recorded when waived."""
    monkeypatch.setattr(examiner, "JUDGE_STEPS", 3)
    p = held_out(per_cell=4)
    parts = Split(p, p, p.subset(torch.arange(0)))
    told = []
    resources = Resources(tmp_path, torch.device("cpu"), progress=lambda stage, done, total: told.append(stage))
    made = partial(making.generator, parts, examiner.Examiner("small_cnn", NONE), steps=2)
    monkeypatch.setattr(making, "Bounds", lambda: Bounds(retention=1.1))
    for _ in range(2):
        with pytest.raises(InputError, match="the generator is not usable: retention"):
            made(resources=resources)
    assert told.count("generator") == 1  # the second came from the cache
    judgement = made(resources=replace(resources, waive_gate=True)).judgement
    assert judgement["waived"] is True
    assert judgement["bounds"]["retention"] == 1.1
    monkeypatch.setattr(making, "Bounds", lambda: Bounds(0.0, 0.0))
    assert made(resources=resources).judgement["waived"] is False
    folder = next((tmp_path / "generators").iterdir())
    assert not list(folder.rglob("checkpoint.safetensors"))
    assert (folder / "grid.png").read_bytes()[:4] == b"\x89PNG"
