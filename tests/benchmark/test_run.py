"""A run is of the dataset that its spec names, however a person's own folder is come to."""

import weakref
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from madod import benchmark
from madod.algorithms.base import ALGORITHMS
from madod.algorithms.erm import ERM
from madod.benchmark import work
from madod.benchmark.jobs import expand
from madod.benchmark.messages import Places
from madod.benchmark.record import RunSpec, read_record
from madod.benchmark.resources import Resources
from madod.benchmark.run import refuse_misfits, run
from madod.benchmark.settings import hparams
from madod.benchmark.stage import opened
from madod.benchmark.without import Without
from madod.data.base import Domain, DomainDataset
from madod.data.digits import Digits
from madod.data.folder import Folder
from madod.errors import InputError
from madod.evaluation.evaluate import evaluate
from madod.models.classifier import Classifier, Setting
from madod.training import train
from madod.translation.translate import freeze
from tests.benchmark.plans import written
from tests.data.miniatures import picture

SPEC = RunSpec("animals", "night", ("fox",), "erm", steps=1, hparams=hparams("erm"))
PLAN = """
algorithms = ["erm"]
detectors = ["msp"]
[[datasets]]
name = "{}"
size = 16
steps = 1
test_domains = ["night"]
unknown = ["fox"]
"""


@pytest.fixture
def animals(tmp_path) -> Path:
    for domain, light in (("day", 200), ("dusk", 90), ("night", 30)):
        for k, label in enumerate(("cat", "dog", "fox")):
            for n in range(6):
                picture(tmp_path / "animals" / domain / label / f"{n}.png", (light, 60 * k, 9 * n))
    (tmp_path / "link").symlink_to(tmp_path / "animals")
    return tmp_path / "animals"


def test_another_dataset_than_the_spec_names_is_refused(animals, tmp_path):
    mine = Folder(animals, size=16, cache=tmp_path / "cache")
    resources = Resources(tmp_path / "cache", torch.device("cpu"))
    with pytest.raises(InputError, match="the run is on 'digits', not on 'animals': give it the dataset it names"):
        run(replace(SPEC, dataset="digits"), mine, out=tmp_path / "out", resources=resources)
    assert not (tmp_path / "out").exists()
    refuse_misfits(replace(SPEC, dataset=str(animals)), mine, None, ["msp"])


def test_what_follows_a_training_has_the_memory_of_its_recorded_steps(animals, tmp_path, monkeypatch):
    kept: list[tuple[weakref.ref[object], object]] = []

    def recorded(learner, *given, **named):
        history = train(learner, *given, **named)
        learner.recorded = recording = Recording()
        kept.append((weakref.ref(recording), learner))
        return history

    def forgotten(act, *given, **named):
        recording, learner = kept.pop()
        assert recording() is None
        assert all(weight.grad is None for weight in learner.parameters())
        return act(*given, **named)

    class Recording:
        pass

    for module in (benchmark.run, benchmark.generator):
        monkeypatch.setattr(module, "train", recorded)
    monkeypatch.setattr(benchmark.run, "evaluate", partial(forgotten, evaluate))
    monkeypatch.setattr(benchmark.generator, "freeze", partial(forgotten, freeze))
    spec = replace(SPEC, algorithm="mbdg", hparams=hparams("mbdg"), translate_steps=1)
    mine = Folder(animals, size=16, cache=tmp_path / "cache")
    resources = Resources(tmp_path / "cache", torch.device("cpu"), waive_gate=True)
    run(spec, mine, out=tmp_path / "out", resources=resources)
    assert not kept


@pytest.mark.parametrize("name", [".", "../link", "../animals/"])
def test_a_folder_is_recorded_by_its_own_name_however_a_plan_comes_to_it(animals, tmp_path, monkeypatch, name):
    monkeypatch.chdir(animals)
    work.at_hand.cache_clear()  # a relative name may have meant another folder before
    places = Places(tmp_path / "runs", tmp_path / "cache")
    (job,) = expand(written(tmp_path, PLAN.replace("{}", name)), None, partial(opened, cache=places.cache))[1]
    assert work.perform(job, places).outcome == "done"
    assert read_record(places.runs / job.folder)["spec"]["dataset"] == "animals"
    left = Without(opened(name, 16, False, cache=places.cache), ("night",), ("fox",))
    refuse_misfits(replace(SPEC, dataset="animals~night~fox"), left, None, ["msp"])


def headless(_: Setting) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(3072, 9))


class Bare(Classifier):
    """A network that returns logits alone."""

    def forward(self, images: Tensor) -> Tensor:
        """Return logits (n, k)."""
        return super().forward(images).logits


def widened(learner: ERM, *_: object) -> nn.Module:
    learner.net.extra = nn.Linear(2, 2)
    return learner.net


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ({"deploy": lambda *_: None}, r"^deploy of mine returns NoneType: let it return a network \(torch.nn.Module\)"),
        ({"shell": headless}, "^shell of Mine returns Sequential without a head: let it return a network"),
        ({"deploy": lambda *_: Bare(nn.Flatten(), 3072, 9)}, "^the network returns Tensor: let its forward return Out"),
        (
            {"deploy": widened},
            "^what deploy of mine returns is not .* its shell .* extra.bias, extra.weight.*: let she",
        ),
        ({"own_score": True}, "^mine says own_score = True, and its network returns no own score: let it return Outp"),
        ({"batches": lambda *_: None}, "^batches of Mine returns NoneType: let it yield batches, for ever"),
        ({"batches": lambda *_: iter([])}, "^batches of Mine come to an end before the training does: let it yield"),
    ],
)
def test_a_method_whose_parts_do_not_fit_is_refused_and_leaves_no_run(monkeypatch, tmp_path, written, said):
    monkeypatch.setattr(ALGORITHMS, "_classes", dict(ALGORITHMS._classes))
    if "shell" in written:
        written = {"shell": staticmethod(written["shell"])}
    ALGORITHMS.register("mine")(type("Mine", (ERM,), written))
    spec = RunSpec("digits", "ink", ("7",), "mine", steps=1, hparams=hparams("mine"))
    with pytest.raises(InputError, match=said):
        run(spec, Digits(), out=tmp_path / "out", resources=Resources(tmp_path / "cache", torch.device("cpu")))
    assert not {"record.json", "model", "outputs.safetensors"} & {file.name for file in (tmp_path / "out").iterdir()}


def test_a_dataset_without_a_name_goes_by_the_spec_s():
    class Nameless(DomainDataset):
        domains, classes, shape = ("day", "night"), ("cat", "dog", "fox"), (3, 16, 16)

        def read(self, domain: str) -> Domain:
            raise NotImplementedError

    refuse_misfits(SPEC, Nameless(), None, ["msp"])
