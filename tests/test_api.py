"""The public names: light to import, typed, and every example in their docstrings runs as it stands."""

import doctest
import importlib
import pathlib
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

import madod
from tests.predict.toy import toy_model

HEAVY = {"torch", "numpy", "PIL", "sklearn", "pandas", "matplotlib", "tyro"}


def test_importing_it_imports_nothing_heavy():
    script = f"import sys, madod; dir(madod); print(sorted({HEAVY!r} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_public_name_is_there_and_no_other():
    for name in madod.__all__:
        assert getattr(madod, name) is not None
        assert name in dir(madod)
    assert callable(madod.fit)
    importlib.import_module("madod.fitting.fit")
    assert callable(madod.fit)  # no module of the same name gets in its way
    with pytest.raises(AttributeError, match="no attribute 'trian'"):
        madod.trian  # noqa: B018


@pytest.mark.parametrize("words", [["--help"], ["list", "detectors"]])
def test_quick_answers_take_a_moment(words):
    """0.3 s by the clock on an idle machine; processor time here, since tests share theirs."""
    script = "import sys, time; from madod.cli.main import main; main(sys.argv[1:]); print(time.process_time())"
    spent = [
        float(
            subprocess.run([sys.executable, "-c", script, *words], capture_output=True, check=True).stdout.split()[-1]
        )
        for _ in range(3)
    ]
    assert min(spent) < 0.3


def test_a_first_answer_comes_soon(tmp_path):
    """From a cold start, in processor time."""
    toy_model().save(tmp_path / "model")
    Image.new("RGB", (40, 40)).save(tmp_path / "a.png")
    script = "import sys, time; from madod.cli.main import main; main(sys.argv[1:]); print(time.process_time())"
    words = ["predict", str(tmp_path / "model"), str(tmp_path / "a.png")]
    done = subprocess.run([sys.executable, "-c", script, *words], capture_output=True, text=True, check=True)
    assert float(done.stdout.split()[-1]) < 3


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> pathlib.Path:
    """A folder as the examples have it: a bright third a class, by day and by night."""
    home = tmp_path_factory.mktemp("examples")
    rng = np.random.default_rng(0)
    for d, domain in enumerate(("day", "night")):
        for k, label in enumerate(("cat", "dog", "fox")):
            (home / "my_images" / domain / label).mkdir(parents=True)
            for serial in range(6):
                pixels = rng.integers(0, 40, (24, 24, 3)) + 60 * (1 - d)
                pixels[8 * k : 8 * k + 8] += 120
                file = home / "my_images" / domain / label / f"{serial}.jpg"
                Image.fromarray(pixels.astype(np.uint8)).save(file, quality=95)
    (home / "photo.jpg").write_bytes((home / "my_images" / "day" / "dog" / "0.jpg").read_bytes())
    return home


def examples() -> list[doctest.DocTest]:
    """Return the public examples, the module's own first: it trains the model that the others load."""
    finder = doctest.DocTestFinder(recurse=True, exclude_empty=True)
    found = [*finder.find(madod.Model, "Model"), *finder.find(madod.fit, "fit")]
    return [test for test in [*finder.find(madod, "madod")[:1], *found] if test.examples]


def test_every_example_runs_as_it_stands(place, monkeypatch):
    monkeypatch.chdir(place)
    monkeypatch.setenv("MADOD_CACHE", str(place / "cache"))
    tests = examples()
    assert len(tests) >= 6
    for test in tests:
        test.globs = {"madod": madod}
        said: list[str] = []
        runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
        runner.run(test, out=said.append)
        assert runner.summarize(verbose=False).failed == 0, f"{test.name}\n{''.join(said)}"
