"""A small model of the embedded digits, and the server of it in this process and in one of its own."""

import io
import warnings
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from PIL import Image

from madod.benchmark.record import RunSpec
from madod.benchmark.resources import Resources
from madod.benchmark.run import run
from madod.benchmark.settings import hparams
from madod.data.digits import Digits
from madod.predict import Checked, Model, load
from madod.serve.app import application
from madod.serve.front import Front
from madod.serve.limits import Limits
from tests.serve.process import Served

WARNED = Checked(
    1, 0.9, 0.555, ("do not <b>rely</b> on its labels",), ("do not rely on it to find unknowns (AUROC 0.555)",)
)
"""What a model's own check may say of it."""

with warnings.catch_warnings():  # it would rather have another client than the one that everybody has
    warnings.simplefilter("ignore")
    from fastapi.testclient import TestClient


@pytest.fixture(scope="session")
def folder(tmp_path_factory) -> Path:
    """A model that has seen everything but fours."""
    out = tmp_path_factory.mktemp("served") / "model"
    spec = RunSpec("digits", None, ("4",), "erm", 0, 0, 20, "small_cnn", "augment", 1, hparams("erm"))
    run(spec, Digits(), out=out, resources=Resources(out, torch.device("cpu")), detectors=("energy",))
    return out


@pytest.fixture(scope="session")
def model(folder):
    return load(folder)


@pytest.fixture(scope="session")
def warned(model) -> Model:
    """The same, with doubts."""
    return Model(model.net, model.detector, replace(model.card, check=WARNED), model.held_scores, model.gallery)


@pytest.fixture(scope="session")
def digits() -> list[bytes]:
    """Pictures of every digit and domain, as PNG files."""
    found = []
    for name in Digits.domains:
        images = Digits().read(name).images[:12].permute(0, 2, 3, 1).numpy()
        found += [written(Image.fromarray(pixels)) for pixels in images]
    return found


def written(image: Image.Image, kind: str = "PNG") -> bytes:
    """Return an image as a file's content."""
    file = io.BytesIO()
    image.save(file, kind)
    return file.getvalue()


def fronted(model: Model, limits: Limits) -> Front:
    """Return the whole server but for its socket."""
    app = application(model, limits)
    return Front(app, app.state.service.metrics, limits, None)


@pytest.fixture
def make_client(model):
    """Open a server in this process, with other limits where asked."""
    opened = []

    def make(served=model, **limits) -> TestClient:
        opened.append(TestClient(fronted(served, Limits(**{"decoders": 1} | limits))))
        return opened[-1].__enter__()

    yield make
    for client in opened:
        client.__exit__(None, None, None)


@pytest.fixture(scope="module")
def client(model):
    with TestClient(fronted(model, Limits(decoders=1))) as opened:
        yield opened


@pytest.fixture(scope="session")
def server(folder):
    """The server as a person starts it."""
    with Served(folder, "--patience", 3) as running:
        yield running
