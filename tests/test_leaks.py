"""Nothing of the unseen domain and nothing of an unknown class reaches weights, G, thresholds or held-out numbers."""

from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from madod.algorithms.base import ALGORITHMS
from madod.benchmark import examiner
from madod.benchmark.outcome import Outcome
from madod.benchmark.record import RunSpec
from madod.benchmark.resources import Resources
from madod.benchmark.run import run
from madod.benchmark.settings import hparams
from madod.data.base import Domain, DomainDataset
from madod.data.split import split
from madod.storage import read_tensors

TEST_DOMAIN, UNKNOWN = "night", "square"
SIDES = ("clean", "noised")
DETECTORS = ("msp", "energy", "ddu", "knn")
SMALL = {"irm": {"anneal": 2}, "madod": {"shots": 1, "adapt_shots": 2}, "scone": {"warm": 0.25}}
"""Where a few steps of the scratch setting do not reach every term."""


class Quarters(DomainDataset):
    """A bright quarter a class, on a ground of each domain's own brightness."""

    name = "quarters"
    domains = ("day", "dusk", "night", "fog")
    classes = ("circle", "cross", "square", "star")
    shape = (3, 16, 16)

    def read(self, domain: str) -> Domain:
        place = self.domains.index(domain)
        rng = torch.Generator().manual_seed(place)
        y = torch.arange(4).repeat_interleave(10)
        images = torch.randint(0, 60, (len(y), *self.shape), generator=rng) + 25 * place
        for image, label in zip(images, y.tolist(), strict=True):
            row, column = divmod(label, 2)
            image[:, 8 * row : 8 * row + 8, 8 * column : 8 * column + 8] += 90
        return Domain(domain, images.to(torch.uint8), y, y)


class Noised(Quarters):
    """The same, with noise in place of all that training must not see, and some of that missing or there twice."""

    def read(self, domain: str) -> Domain:
        true = super().read(domain)
        noise = torch.randint(0, 256, true.images.shape, generator=torch.Generator().manual_seed(9)).byte()
        hidden = (true.labels == self.classes.index(UNKNOWN)) | (domain == TEST_DOMAIN)
        images = torch.where(hidden[:, None, None, None], noise, true.images)
        rows, place = torch.arange(len(images)), self.domains.index(domain)
        first, second, *_ = rows[hidden].tolist()
        rows = rows[rows != first] if place % 2 else torch.where(rows == first, second, rows)
        return Domain(domain, images[rows], true.labels[rows], true.units[rows])


def spec_of(algorithm: str, translate: str) -> RunSpec:
    given = hparams(algorithm, {"batch": 8, **SMALL.get(algorithm, {})})
    return RunSpec("quarters", TEST_DOMAIN, (UNKNOWN,), algorithm, 0, 0, 4, "small_cnn", translate, 3, given)


def carry_out(dataset: DomainDataset, folder: Path, algorithm: str, translate: str) -> Outcome:
    resources = Resources(folder / "cache", torch.device("cpu"), waive_gate=True)
    return run(spec_of(algorithm, translate), dataset, out=folder, resources=resources, detectors=DETECTORS, ship="ddu")


def same_tensors(one: Path, other: Path) -> None:
    a, b = read_tensors(one)[0], read_tensors(other)[0]
    assert a.keys() == b.keys()
    assert a
    for name in a:
        assert torch.equal(a[name], b[name]), name


def same_but_for_the_target(clean: Outcome, noised: Outcome, tmp_path: Path) -> None:
    same_tensors(tmp_path / "clean/model/model.safetensors", tmp_path / "noised/model/model.safetensors")
    weights = read_tensors(tmp_path / "clean/model/model.safetensors")[0]
    assert {"net", "detector", "held"} == {name.split(".")[0] for name in weights}
    assert clean.record.thresholds == noised.record.thresholds
    assert clean.history == noised.history
    for name in ("val_accuracy", "val_accuracy_before_deploy"):
        assert clean.record.metrics[name] == noised.record.metrics[name]
    clean_outputs, noised_outputs = (read_tensors(tmp_path / side / "outputs.safetensors")[0] for side in SIDES)
    assert torch.equal(clean_outputs["source.logits"], noised_outputs["source.logits"])
    assert torch.equal(clean_outputs["val.logits"], noised_outputs["val.logits"])
    # The target itself was replaced, so the test above could have failed.
    assert not torch.equal(clean_outputs["target.logits"], noised_outputs["target.logits"])
    for detector in DETECTORS:
        assert not torch.equal(clean.evaluation.scores[detector], noised.evaluation.scores[detector])


def test_g_weights_threshold_and_held_out_numbers_do_not_depend_on_hidden_images(tmp_path, monkeypatch):
    monkeypatch.setattr(examiner, "JUDGE_STEPS", 12)
    clean = carry_out(Quarters(), tmp_path / "clean", "madod", "munit")
    noised = carry_out(Noised(), tmp_path / "noised", "madod", "munit")
    same_but_for_the_target(clean, noised, tmp_path)
    assert clean.record.metrics != noised.record.metrics
    assert clean.record.translation == noised.record.translation
    assert {"retention", "diversity", "images"} <= clean.record.translation.keys()
    made = [next((tmp_path / side / "cache/generators").iterdir()) for side in SIDES]
    assert made[0].name == made[1].name  # the key names the images that G saw
    same_tensors(*(folder / "generator.safetensors" for folder in made))
    assert (made[0] / "judgement.json").read_bytes() == (made[1] / "judgement.json").read_bytes()
    assert (made[0] / "grid.png").read_bytes() == (made[1] / "grid.png").read_bytes()


def test_noise_in_a_visible_image_is_noticed(tmp_path, monkeypatch):
    """The same comparison fails where a single image that training may see differs."""
    monkeypatch.setattr(examiner, "JUDGE_STEPS", 2)

    class OneLeak(Quarters):
        def read(self, domain: str) -> Domain:
            true = super().read(domain)
            if domain == "day":
                true.images[0] = 255 - true.images[0]
            return true

    clean = carry_out(Quarters(), tmp_path / "clean", "madod", "munit")
    leaking = carry_out(OneLeak(), tmp_path / "noised", "madod", "munit")
    assert clean.record.translation["key"] != leaking.record.translation["key"]
    with pytest.raises(AssertionError):
        same_tensors(*(tmp_path / side / "model/model.safetensors" for side in SIDES))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_no_method_sees_hidden_images(algorithm, tmp_path):
    clean = carry_out(Quarters(), tmp_path / "clean", algorithm, "augment")
    noised = carry_out(Noised(), tmp_path / "noised", algorithm, "augment")
    same_but_for_the_target(clean, noised, tmp_path)


class Numbered(DomainDataset):
    """Images that say who they are: domain, unit and a running number in the three channels."""

    name = "numbered"
    shape = (3, 1, 1)

    def __init__(self, counts: list[list[int]], per_class: int = 1) -> None:
        """Take the number of images by domain and unit; a class spans `per_class` units."""
        self.counts = counts
        self.per_class = per_class
        self.domains = tuple(f"d{k}" for k in range(len(counts)))
        self.classes = tuple(f"c{k}" for k in range(len(counts[0]) // per_class))

    @property
    def units(self) -> tuple[str, ...]:
        if self.per_class == 1:
            return self.classes
        return tuple(f"u{k}" for k in range(len(self.counts[0])))

    def read(self, domain: str) -> Domain:
        place = self.domains.index(domain)
        rows = [(place, unit, k) for unit, n in enumerate(self.counts[place]) for k in range(n)]
        facts = torch.tensor(rows, dtype=torch.int64).reshape(-1, 3)
        units = facts[:, 1]
        return Domain(domain, facts.to(torch.uint8)[:, :, None, None], units // self.per_class, units)


@st.composite
def cases(draw):
    """Draw a dataset, a domain to leave out (or none) and units to hide that leave two classes known."""
    domains, classes, per_class = draw(st.integers(2, 4)), draw(st.integers(3, 5)), draw(st.integers(1, 2))
    row = st.lists(st.integers(1, 13), min_size=classes * per_class, max_size=classes * per_class)
    dataset = Numbered(draw(st.lists(row, min_size=domains, max_size=domains)), per_class)
    hidden = draw(st.lists(st.sampled_from(dataset.units), unique=True, max_size=classes - 2))
    return dataset, draw(st.sampled_from((None, *dataset.domains))), tuple(hidden), draw(st.integers(0, 5))


def members(pool) -> list[tuple[int, ...]]:
    return [tuple(image.flatten().tolist()) for image in pool.stored(torch.arange(len(pool)))]


@settings(max_examples=80, deadline=None)
@given(cases())
def test_split_keeps_unknowns_and_the_left_out_domain_apart(case):
    dataset, test_domain, hidden, seed = case
    parts = split(dataset, test_domain=test_domain, ood_classes=hidden, split_seed=seed)
    source, val, target = (members(pool) for pool in parts)
    for domain, unit, _ in source + val:
        assert dataset.domains[domain] != test_domain
        assert dataset.units[unit] not in hidden
    everything = {tuple(m) for name in dataset.domains for m in members_of(dataset, name)}
    expected = {m for m in everything if dataset.domains[m[0]] != test_domain and dataset.units[m[1]] not in hidden}
    assert sorted(source + val) == sorted(expected)  # every image once, in one of the two
    assert sorted(target) == sorted(m for m in everything if dataset.domains[m[0]] == test_domain)
    for pool, rows in zip(parts, (source, val, target), strict=True):
        for (_, unit, _), label in zip(rows, pool.y.tolist(), strict=True):
            known = dataset.units[unit] not in hidden
            assert (pool.classes[label] if label >= 0 else None) == (
                dataset.classes[unit // dataset.per_class] if known else None
            )
    for domain, counts in enumerate(dataset.counts):
        for unit, n in enumerate(counts):
            kept, held = (sum(m[:2] == (domain, unit) for m in rows) for rows in (source, val))
            assert kept + held in (0, n)
            assert abs(held - 0.2 * (kept + held)) <= 0.5


def members_of(dataset: Numbered, domain: str) -> list[tuple[int, ...]]:
    return [tuple(image.flatten().tolist()) for image in dataset.read(domain).images]


@settings(max_examples=40, deadline=None)
@given(cases())
def test_a_domains_division_is_the_same_whatever_is_left_out_or_hidden(case):
    dataset, _, hidden, seed = case
    whole = split(dataset, test_domain=None, split_seed=seed)
    for left_out in dataset.domains:
        parts = split(dataset, test_domain=left_out, ood_classes=hidden, split_seed=seed)
        for some, every in ((parts.source, whole.source), (parts.val, whole.val)):
            visible = [
                m for m in members(every)
                if dataset.domains[m[0]] != left_out and dataset.units[m[1]] not in hidden
            ]  # fmt: skip
            assert members(some) == visible


def test_the_split_seed_changes_who_is_held_out_and_nothing_else():
    dataset = Numbered([[20, 20, 20], [20, 20, 20]])
    held = [members(split(dataset, test_domain="d1", split_seed=seed).val) for seed in (0, 0, 1)]
    assert held[0] == held[1]
    assert held[0] != held[2]
    assert [m[:2] for m in held[0]] == [m[:2] for m in held[2]] == [(0, unit) for unit in range(3) for _ in range(4)]


def test_a_class_of_the_test_domain_alone_is_unknown(caplog):
    dataset = Numbered([[4, 4, 0], [4, 4, 0], [4, 4, 4]])
    parts = split(dataset, test_domain="d2")
    assert parts.source.classes == dataset.classes[:2]
    assert (parts.target.y < 0).sum() == 4
    assert caplog.messages == ["c2: in no domain to train on while 'd2' is held out, so unknown here"]
    caplog.clear()
    split(dataset, test_domain="d2", ood_classes=("c2",))  # hidden by wish
    assert split(dataset, test_domain=None).source.classes == dataset.classes
    assert not caplog.messages
