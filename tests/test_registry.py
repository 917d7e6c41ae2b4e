import importlib
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from madod import registry as module
from madod.algorithms.base import ALGORITHMS, Algorithm
from madod.data.base import DATASETS, DomainDataset
from madod.data.split import split
from madod.detectors.base import DETECTORS, Detector
from madod.errors import InputError
from madod.evaluation.evaluate import evaluate
from madod.models.backbones import build
from madod.predict import load
from madod.registry import Registry
from madod.report.order import BESIDE
from tests.predict.toy import files, toy_model

everything = pytest.mark.parametrize("registry", [ALGORITHMS, DETECTORS, DATASETS], ids=lambda registry: registry.kind)


@pytest.fixture
def registry():
    """A registry of detectors apart from the one that everybody uses."""
    return Registry("detector")


@everything
def test_every_name_leads_to_a_class_that_knows_it(registry):
    assert list(registry) == sorted(registry)
    assert len(registry) == len(list(registry)) > 0
    for name in registry:
        assert registry[name].name == name
        assert name in registry


@everything
def test_every_summary_is_one_sentence(registry):
    for name in registry.entries:
        summary = registry.summary(name)
        assert summary.endswith(".")
        assert len(summary) < 120
        assert (registry[name].__doc__ or "").startswith(summary)


@pytest.mark.parametrize(
    ("registry", "typo", "meant"),
    [(ALGORITHMS, "maodd", "madod"), (ALGORITHMS, "edir-mmd", "edir_mmd"), (DETECTORS, "energi", "energy"),
     (DATASETS, "digit", "digits")],
    ids=lambda value: value if isinstance(value, str) else value.kind,
)  # fmt: skip
def test_a_typo_names_the_nearest_and_what_there_is(registry, typo, meant):
    with pytest.raises(InputError) as refused:
        registry[typo]
    sentence = str(refused.value)
    assert f"no {registry.kind} {typo!r} (did you mean {meant!r}?)" in sentence
    assert all(name in sentence for name in registry)
    assert typo not in registry


def test_a_name_like_no_other_gets_no_suggestion(registry):
    with pytest.raises(InputError) as refused:
        registry["qqqqqqqq"]
    assert "did you mean" not in str(refused.value)


def test_a_class_registers_from_anywhere(registry):
    @registry.register("mine")
    class Mine:
        """What I thought of.

        At length.
        """

    assert registry["mine"] is Mine
    assert Mine.name == "mine"
    assert "mine" in registry
    assert "mine" in list(registry)
    assert len(registry) == len(registry.entries) + 1
    assert registry.summary("mine") == "What I thought of."
    with pytest.raises(InputError, match="did you mean 'mine'"):
        registry["mime"]


def test_a_class_registered_from_outside_reaches_everyone(monkeypatch):
    monkeypatch.setattr(ALGORITHMS, "_classes", dict(ALGORITHMS._classes))

    @ALGORITHMS.register("outside")
    class Outside(Algorithm):
        """Not in the package."""

        def objective(self, batch):
            raise NotImplementedError

    assert ALGORITHMS["outside"] is Outside
    assert ALGORITHMS["erm"] is not Outside


def test_another_class_under_a_taken_name_is_refused_and_the_same_one_again_is_not(registry, tmp_path, monkeypatch):
    loaded = ModuleType("mine")
    loaded.__file__ = str(tmp_path / "mine.py")
    monkeypatch.setitem(sys.modules, "mine", loaded)

    def written(cls: str) -> type:
        return type(cls, (), {"__module__": "mine"})

    first, again = written("Mine"), written("Mine")
    registry.register("mine")(first)
    registry.register("mine")(again)
    assert registry["mine"] is again
    for name, theirs in (("mine", f"Mine in {tmp_path / 'mine.py'}"), ("energy", "Energy in .*energy.py")):
        with pytest.raises(
            InputError, match=f"detector '{name}', {theirs} and Copy in {tmp_path / 'mine.py'}: give one another name"
        ):
            registry.register(name)(written("Copy"))
    assert registry["energy"] is DETECTORS["energy"]
    registry.register("energy")(DETECTORS["energy"])


@pytest.mark.parametrize(
    ("registry", "base", "missing"),
    [(ALGORITHMS, Algorithm, "objective"), (DETECTORS, Detector, "score"), (DATASETS, DomainDataset, "read")],
    ids=["algorithm", "detector", "dataset"],
)
def test_a_class_that_is_not_of_its_kind_or_lacks_what_that_has_to_write_is_refused(registry, base, missing):
    with pytest.raises(InputError, match=rf"'mine', but has no method {missing}: write it, as every {registry.kind}"):
        registry.register("mine")(type("Mine", (base,), {}))
    kind = base.__name__
    with pytest.raises(InputError, match=rf"'mine', but is no {kind}: write class Mine\({kind}\)"):
        registry.register("mine")(type("Mine", (), {}))
    assert "mine" not in registry


@pytest.mark.parametrize("name", ["/../../out", "", "x y", "x,y", "_x", "-x", "x/y", "x\n", "."])
def test_a_name_that_is_none_of_a_folder_is_refused(registry, plugin, tmp_path, monkeypatch, name):
    said = re.escape(f"is registered as the detector {name!r}, and folders are called by its name: let that be letters")
    with pytest.raises(InputError, match=said):
        registry.register(name)(type("Mine", (), {}))
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "an_outsider.py").write_text(PLUGIN.replace('"suspicion"', repr(name)), encoding="utf-8")
    with pytest.raises(InputError, match=rf"^Suspicion in {tmp_path / 'an_outsider.py'} {said}"):
        list(Registry("detector"))


@pytest.mark.parametrize("name", ["x", "7", "größe", "fdbd-2_b"])
def test_letters_digits_and_what_joins_them_make_a_name(registry, name):
    registry.register(name)(type("Mine", (), {}))


def test_a_detector_cannot_be_called_as_something_else_in_a_record_or_a_table(registry, toy_metrics):
    taken = {*toy_metrics, "val_accuracy_before_deploy", *BESIDE, "detector"}
    assert taken == set(module.RESERVED["detector"])
    for name in taken:
        with pytest.raises(InputError, match=rf"detector '{name}', which means something else .*: give it another"):
            registry.register(name)(type("Mine", (), {}))
    Registry("algorithm").register("best")(type("Mine", (), {}))


@pytest.fixture
def toy_metrics():
    """The metrics of an evaluation without detectors."""
    parts = split(DATASETS["digits"](), test_domain="ink", ood_classes=("2",))
    return evaluate(build("small_cnn", channels=3, classes=9, seed=0), parts, []).metrics


@pytest.mark.parametrize(
    ("registry", "base", "method", "wanted"),
    [(ALGORITHMS, Algorithm, "__init__", "self, config, setting, rng"), (ALGORITHMS, Algorithm, "shell", "setting"),
     (ALGORITHMS, Algorithm, "deploy", "self, source, rng"), (DETECTORS, Detector, "__init__", "self"),
     (DATASETS, DomainDataset, "read", "self, domain")],
)  # fmt: skip
def test_a_method_that_cannot_be_called_as_all_others_are_is_refused(registry, base, method, wanted):
    def other(self, k, *, more):
        raise NotImplementedError

    cls = type("Mine", (base,), dict.fromkeys([*base.__abstractmethods__, method], lambda *_: None) | {method: other})
    said = re.escape(f"takes (self, k, *, more), but is called with ({wanted}), as that of every {registry.kind}: let")
    with pytest.raises(InputError, match=rf"^{method} of Mine in .* {said}"):
        registry.register("mine")(cls)
    assert "mine" not in registry


def test_a_method_may_take_more_where_it_has_a_default(monkeypatch):
    monkeypatch.setattr(DETECTORS, "_classes", dict(DETECTORS._classes))

    @DETECTORS.register("mine")
    class Mine(Detector):
        def __init__(self, k=3, **more):
            self.k = k

        def fit(self, *all_of_it):
            return self

        def score(self, seen, scale=1.0):
            return seen.logits[:, 0]


def test_two_files_of_the_package_under_one_name_are_refused(registry, tmp_path, monkeypatch):
    shutil.copytree(Path(module.__file__).parent / "detectors", tmp_path / "detectors")
    shutil.copy(tmp_path / "detectors" / "energy.py", tmp_path / "detectors" / "mine.py")
    monkeypatch.setattr(module, "__file__", str(tmp_path / "registry.py"))
    with pytest.raises(InputError, match=r"'energy', Energy in .*/energy.py and Energy in .*/mine.py: give one"):
        registry["msp"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def x(:\n", "mine.py, line 1, is no Python: "),
        ("NAME = 'x'\n@DETECTORS.register(NAME)\nclass X: ...\n", 'line 2: write the name itself .* register("erm")'),
        ("@DETECTORS.register()\nclass X: ...\n", "mine.py, line 1: write the name itself"),
    ],
)
def test_a_file_whose_names_cannot_be_read_is_named_with_its_line(registry, tmp_path, monkeypatch, text, said):
    monkeypatch.setattr(module, "__file__", str(tmp_path / "registry.py"))
    (tmp_path / "detectors").mkdir()
    (tmp_path / "detectors" / "mine.py").write_text(text)
    with pytest.raises(InputError, match=said.replace("(", r"\(").replace(")", r"\)")):
        list(registry)


def test_names_and_summaries_need_no_import():
    code = """
import sys
from madod.registry import PACKAGES, Registry
for kind in PACKAGES:
    registry = Registry(kind)
    assert all(registry.summary(name) for name in registry)
heavy = {"torch", "numpy", "sklearn", "PIL"} & sys.modules.keys()
assert not heavy, heavy
"""
    subprocess.run([sys.executable, "-c", code], check=True)


PLUGIN = '''
from madod.algorithms.base import ALGORITHMS
from madod.algorithms.erm import ERM
from madod.detectors import base
from madod.detectors.msp import MSP

@ALGORITHMS.register("outsider")
class Outsider(ERM):
    """What ERM does."""

@base.DETECTORS.register("suspicion")
class Suspicion(MSP):
    """What MSP says."""
'''


@pytest.fixture
def plugin(tmp_path, monkeypatch):
    """A module outside the package that registers a method and a detector."""
    (tmp_path / "an_outsider.py").write_text(PLUGIN, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setenv(module.PLUGINS, " an_outsider ,")


def test_plugins_are_found_by_their_text_and_imported_when_asked_for(plugin, tmp_path, monkeypatch, registry):
    monkeypatch.syspath_prepend(str(tmp_path))
    assert "suspicion" in registry
    assert "outsider" not in registry
    assert registry.summary("suspicion") == "What MSP says."
    assert "an_outsider" not in sys.modules
    monkeypatch.setenv(module.PLUGINS, "an_outsider, an_outsider")
    assert Registry("detector").entries == registry.entries


def test_two_plugins_under_one_name_are_refused(plugin, tmp_path, monkeypatch, registry):
    monkeypatch.syspath_prepend(str(tmp_path))
    shutil.copy(tmp_path / "an_outsider.py", tmp_path / "a_copy.py")
    monkeypatch.setenv(module.PLUGINS, "an_outsider, a_copy")
    with pytest.raises(InputError, match="two classes are registered as the detector 'suspicion'"):
        list(registry)


@pytest.mark.parametrize("name", ["no_such_thing", "no_such.thing", "..", "json.scanner.x", "itertools"])
def test_a_plugin_that_is_not_there_is_named(name, monkeypatch, registry):
    monkeypatch.setenv(module.PLUGINS, name)
    with pytest.raises(InputError, match=f"^MADOD_PLUGINS names '{re.escape(name)}', but no such module is found"):
        list(registry)


def test_what_other_libraries_register_in_a_plugin_is_no_concern_of_ours(plugin, tmp_path, monkeypatch, registry):
    monkeypatch.syspath_prepend(str(tmp_path))
    foreign = "# coding: latin-1\n@HOOKS.register(name='caf\xe9')\nclass Hook: ...\n"
    (tmp_path / "an_outsider.py").write_text(foreign + PLUGIN, encoding="latin-1")
    assert "suspicion" in registry


OTHERWISE = "from madod.detectors.base import DETECTORS as D, Detector\n@D.register('x')\nclass X(Detector): ...\n"


@pytest.mark.parametrize("text", ["from an_outsider import Outsider\n", "", OTHERWISE])
def test_a_plugin_without_a_class_of_its_own_is_refused(plugin, tmp_path, monkeypatch, registry, text):
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "a_front.py").write_text(text)
    monkeypatch.setenv(module.PLUGINS, "a_front")
    with pytest.raises(InputError, match=r"MADOD_PLUGINS names 'a_front', but .*a_front.py registers no class: name"):
        list(registry)


def test_a_plugin_that_is_no_text_is_named(plugin, tmp_path, monkeypatch, registry):
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "an_outsider.py").write_bytes(b"x = '\xe9'\n")
    with pytest.raises(InputError, match=r"an_outsider.py, line 1, is no Python: "):
        list(registry)


LOOSE = """from dataclasses import dataclass
from madod.algorithms.base import BaseConfig

@dataclass
class Config(BaseConfig): ...
"""


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        ({"an_outsider": LOOSE}, "/an_outsider.py, line 4, .*; write @dataclass[(]frozen=True[)] there"),
        ({"an_outsider": "import loose\n", "loose": LOOSE}, "/loose.py, line 4, .*; write @dataclass"),
        (
            {"all.an_outsider": LOOSE, "all.__init__": "import all.an_outsider"},
            "/all/an_outsider.py, line 4, .*; write",
        ),
        ({"an_outsider": "import nobody\n"}, "/an_outsider.py, line 1, .* No module named 'nobody'; mend it there"),
        ({"an_outsider": "import torch\ntorch.nobody\n"}, "/an_outsider.py, line 2, .* no attribute 'nobody'; mend"),
    ],
    ids=["config", "beside", "package", "missing", "library"],
)
def test_a_plugin_that_cannot_be_imported_is_named_with_its_line(texts, said, tmp_path, monkeypatch):
    plugin, *_ = texts
    for name, text in (texts | {plugin: texts[plugin] + PLUGIN}).items():
        file = tmp_path.joinpath(*name.split(".")).with_suffix(".py")
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv(module.PLUGINS, plugin)
    with pytest.raises(InputError, match=said):
        Registry("algorithm")["outsider"]


@pytest.mark.parametrize("error", [MemoryError, OSError(24, "Too many open files")], ids=["memory", "system"])
def test_what_is_no_fault_of_a_plugin_is_not_laid_to_it(error, monkeypatch):
    def full(_: str) -> None:
        raise error

    monkeypatch.setattr(importlib, "import_module", full)
    with pytest.raises(error if isinstance(error, type) else type(error)):
        Registry("detector")["energy"]


def test_a_fault_of_the_packages_own_is_not_laid_to_people(monkeypatch):
    monkeypatch.delitem(sys.modules, "madod.detectors.energy", raising=False)
    monkeypatch.setitem(sys.modules, "madod.equations", None)
    with pytest.raises(ImportError):
        Registry("detector")["energy"]


def test_a_plugin_that_is_not_there_is_said_so_without_frozen_modules():
    words = [sys.executable, "-X", "frozen_modules=off", "-m", "madod", "list", "algorithms"]
    ended = subprocess.run(words, env=os.environ | {module.PLUGINS: "nobody.here"}, capture_output=True, text=True)
    assert "names 'nobody.here', but no such module is found" in ended.stderr


def test_a_config_that_is_not_frozen_ends_in_one_line_on_the_command_line(plugin, tmp_path):
    (tmp_path / "an_outsider.py").write_text(LOOSE + PLUGIN, encoding="utf-8")
    words = ["train", "digits", "--out", str(tmp_path / "out"), "--algorithm", "outsider"]
    ended = subprocess.run([sys.executable, "-m", "madod", *words], capture_output=True, text=True)
    assert ended.returncode == 2
    assert re.fullmatch(r"madod: .*/an_outsider.py, line 4, .*; write @dataclass\(frozen=True\) .*\n", ended.stderr)


@pytest.fixture
def outsiders_model(tmp_path):
    """The folder of a model whose method is not madod's own."""
    model = toy_model()
    model.card = replace(model.card, algorithm="outsider")
    model.save(tmp_path / "model")
    return tmp_path / "model"


BACKBONE = """
from torch import nn
from madod.models.backbones import BACKBONES
from madod.models.layers import Featurizer

def tiny(channels, norm):
    return Featurizer(nn.Sequential(nn.Conv2d(channels, 8, 8), nn.AdaptiveAvgPool2d(1), nn.Flatten()), 8)

BACKBONES["tiny"] = tiny
"""


def test_a_plugin_reaches_workers_and_saved_models(outsiders_model, plugin, tmp_path):
    """The verbs are processes of their own, and so are the workers of a sweep."""

    def madod(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, "-m", "madod", *words], capture_output=True, text=True)

    (tmp_path / "an_outsider.py").write_text(PLUGIN + BACKBONE, encoding="utf-8")
    plan = tmp_path / "plan.toml"
    plan.write_text(
        'algorithms = ["outsider"]\ndetectors = ["suspicion"]\nseeds = [0]\n[[datasets]]\nname = "digits"\n'
        'test_domains = ["neon"]\nunknown = ["4"]\nsteps = 2\nbackbone = "tiny"\n',
        encoding="utf-8",
    )
    swept = madod("bench", "run", str(plan), "--runs", str(tmp_path / "runs"), "--workers", "2", "--quiet")
    assert swept.returncode == 0, swept.stderr
    assert "outsider" in madod("list", "algorithms").stdout
    assert "outsider" not in madod("list", "detectors").stdout
    [record] = (tmp_path / "runs").glob("*/record.json")
    assert "suspicion" in record.read_text(encoding="utf-8")
    [picture] = files(tmp_path / "pictures", 1)
    answered = madod("predict", str(outsiders_model), str(picture), "--quiet")
    assert answered.returncode == 0, answered.stderr


def test_a_model_of_a_method_that_is_not_there_says_what_to_do(outsiders_model):
    with pytest.raises(InputError, match="has the algorithm 'outsider', which is not madod's own: import the module"):
        load(outsiders_model)
