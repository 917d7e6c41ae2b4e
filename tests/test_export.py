"""An exported model answers as the model does, for every network and detector, and without madod."""

import json
import re
import runpy
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from madod.algorithms.base import ALGORITHMS
from madod.cli.main import main
from madod.data.augment import NONE
from madod.data.digits import Digits
from madod.detectors.base import DETECTORS, Detector, Fit
from madod.errors import InputError
from madod.export import check, write
from madod.export.answer import Answer
from madod.export.check import apart, difference, made_up
from madod.export.write import converted, export
from madod.models.backbones import build
from madod.models.classifier import Outputs, Setting
from madod.models.layers import NormName
from madod.predict import Card, Checked, Model

onnxruntime = pytest.importorskip("onnxruntime")
EXAMPLES = Path(__file__).parent.parent / "examples"
PORTABLE = sorted(name for name in DETECTORS if not DETECTORS[name].needs_model)
CLASSES = tuple("0123456789")
WARNED = Checked(1, 0.9, 0.555, ("train it on “é”",), ("do not rely on it to find unknowns (AUROC 0.555)",))


@pytest.fixture(scope="module")
def pixels() -> np.ndarray:
    """500 pictures of four domains, every third one spoilt with noise so that some are unknown."""
    digits, rng = Digits(), np.random.default_rng(0)
    images = np.concatenate([digits.read(domain).images[:125].numpy() for domain in digits.domains])
    noise = rng.integers(0, 256, images.shape, dtype=np.uint8)
    return np.where(np.arange(len(images))[:, None, None, None] % 3 == 0, images // 2 + noise // 2, images)


@pytest.fixture(scope="module")
def labels() -> torch.Tensor:
    return torch.cat([Digits().read(domain).labels[:125] for domain in Digits.domains])


def network(algorithm: str, backbone: str, images: np.ndarray, y: torch.Tensor, norm: NormName = "group") -> nn.Module:
    """A network as `deploy` ships it, its heads fitted by least squares so that it tells classes apart."""
    make = partial(build, backbone, channels=3, classes=10, seed=0, norm=norm)
    net = ALGORITHMS[algorithm].shell(Setting(make, 2, nn.Identity(), NONE, 0)).eval()
    wanted = 8 * nn.functional.one_hot(y, 10).float()
    with torch.no_grad():
        for each in getattr(net, "members", [net]):
            features = each(torch.from_numpy(images).float() / 255).features
            gram = features.T @ features
            ridge = gram + 1e-3 * gram.trace() / len(gram) * torch.eye(len(gram))
            each.head.weight.copy_(torch.linalg.solve(ridge, features.T @ wanted).T)
    return net


def fitted(net: nn.Module, images: np.ndarray, y: torch.Tensor, name: str) -> Detector:
    with torch.no_grad():
        outputs = net(torch.from_numpy(images).float() / 255)
    mixed = torch.where(torch.arange(len(y)) % 5 == 0, (y + 1) % 10, y)  # so that it is not always right
    return DETECTORS[name]().fit(Fit(outputs, y, outputs, mixed, net.head.weight.detach(), net.head.bias.detach()))


def model_of(net: nn.Module, detector: Detector, images: np.ndarray, **facts: Checked) -> Model:
    """A model whose threshold splits the given images."""
    card = Card(CLASSES, images.shape[1:], "erm", "small_cnn", ("a", "b"), detector.name, 0.0, {}, **facts)
    model = Model(net, detector, card, torch.zeros(1))
    model.threshold = float(model.judge(list(images))[1].quantile(0.7))
    return model


def session(file: Path) -> "onnxruntime.InferenceSession":
    return onnxruntime.InferenceSession(file.read_bytes(), providers=["CPUExecutionProvider"])


def ask(file: Path, images: np.ndarray) -> Answer:
    return Answer(*session(file).run(Answer._fields, {"pixels": images}))


@pytest.fixture(scope="module")
def plain(pixels, labels) -> nn.Module:
    return network("erm", "small_cnn", pixels[:200], labels[:200])


@pytest.fixture(scope="module")
def exported(plain, pixels, labels, tmp_path_factory) -> tuple[Path, Model]:
    """A model with DDU, saved, and its file."""
    folder = tmp_path_factory.mktemp("exported")
    model = model_of(plain, fitted(plain, pixels[:200], labels[:200], "ddu"), pixels, check=WARNED)
    model.save(folder / "model")
    assert export(model, folder / "model.onnx")
    return folder, model


def scoring(images: np.ndarray, y: torch.Tensor) -> nn.Module:
    """A network that has a score of its own too."""
    net = network("medic", "small_cnn", images[:200], y[:200])
    nn.init.normal_(net.pairs.weight, generator=torch.Generator().manual_seed(0))
    return net


class Scores(nn.Module):
    """The scores of many detectors."""

    def __init__(self, net: nn.Module, detectors: list[Detector]) -> None:
        super().__init__()
        self.net, self.detectors = net, detectors

    def forward(self, pixels: torch.Tensor) -> list[torch.Tensor]:
        outputs = self.net(pixels.float() / 255)
        return [detector.score(outputs) for detector in self.detectors]


@pytest.fixture(scope="module")
def scores(pixels: np.ndarray, labels: torch.Tensor) -> tuple[Scores, Any]:
    """All in one graph, since making one costs seconds; one file each is for `test_a_file_for_every_detector`."""
    net = scoring(pixels, labels)
    all_of_them = Scores(net, [fitted(net, pixels[:200], labels[:200], name) for name in PORTABLE])
    return all_of_them, converted(all_of_them, (3, 32, 32), PORTABLE)


def test_every_score_without_gradients_is_the_same_over_500_images(scores, pixels, tmp_path):
    assert len(PORTABLE) >= 21
    mine, program = scores
    file = tmp_path / "scores.onnx"
    file.write_bytes(program.model_proto.SerializeToString())
    assert len(pixels) == 500
    with torch.no_grad():
        ours = mine(torch.from_numpy(pixels))
    for name, found, expected in zip(PORTABLE, session(file).run(None, {"pixels": pixels}), ours, strict=True):
        assert len(np.unique(found)) > 250, name
        assert apart(found, expected.numpy()) < 1e-4, name


def test_old_runtimes_find_nothing_that_they_cannot_compute(scores):
    """ONNX Runtime 1.18 to 1.25 has no product in float64 of something transposed, unless it is constant and folded."""
    graph = scores[1].model.graph
    varying = {value.name for value in graph.inputs}
    for node in graph:
        if any(value is not None and value.name in varying for value in node.inputs):
            varying |= {value.name for value in node.outputs}
    products = [node for node in graph if node.op_type == "MatMul"]
    assert len(products) > 10
    for value in [value for node in products for value in node.inputs]:
        node = value.producer()
        assert node is None or node.op_type != "Transpose" or value.name not in varying, node
    assert not {"Split", "SplitToSequence"} & {node.op_type for node in graph}  # which keep constants from being folded


@pytest.mark.long
@pytest.mark.parametrize("name", PORTABLE)
def test_a_file_for_every_detector(name, pixels, labels, tmp_path):
    net = scoring(pixels, labels)
    same_answers(model_of(net, fitted(net, pixels[:200], labels[:200], name), pixels), pixels, tmp_path)


def same_answers(model: Model, images: np.ndarray, folder: Path) -> Answer:
    assert export(model, folder / "model.onnx")
    answer = ask(folder / "model.onnx", images)
    probabilities, scores = (part.numpy() for part in model.judge(list(images)))
    assert np.abs(answer.probabilities - probabilities).max() < 1e-4
    assert np.abs(answer.confidence - probabilities.max(1)).max() < 1e-4
    assert apart(answer.score, scores) < 1e-4
    sure = np.abs(scores - model.threshold) > 1e-4 * np.maximum(1, np.abs(scores))
    assert np.array_equal(answer.unknown[sure], (scores > model.threshold)[sure])
    best = np.sort(probabilities, 1)
    clear = best[:, -1] - best[:, -2] > 1e-4
    assert np.array_equal(answer.label[clear], probabilities.argmax(1)[clear])
    assert clear.mean() > 0.9
    assert sure.mean() > 0.9
    return answer


@pytest.mark.parametrize(
    ("algorithm", "backbone", "norm", "detector", "size", "count"),
    [
        ("daml", "small_cnn", "group", "energy", 32, 500),
        pytest.param("daml", "small_cnn", "group", "own", 32, 500, marks=pytest.mark.long),
        pytest.param("erm", "wrn_16_2", "group", "mahalanobis", 32, 500, marks=pytest.mark.long),
        pytest.param("erm", "resnet18", "group", "energy", 64, 60, marks=pytest.mark.long),
        pytest.param("erm", "resnet18", "frozen", "rmds", 64, 500, marks=pytest.mark.long),
        pytest.param("erm", "resnet50", "frozen", "vim", 64, 60, marks=pytest.mark.long),
        pytest.param("erm", "efficientnet_lite0", "frozen", "ddu", 64, 500, marks=pytest.mark.long),
        pytest.param("edst_mmd", "small_cnn", "group", "own", 32, 500, marks=pytest.mark.long),
    ],
)
def test_every_network_answers_the_same(algorithm, backbone, norm, detector, size, count, pixels, labels, tmp_path):
    larger = pixels[:count].repeat(size // 32, 2).repeat(size // 32, 3)
    net = network(algorithm, backbone, larger[:60], labels[:60], norm)
    model = model_of(net, fitted(net, larger[:60], labels[:60], detector), larger)
    answer = same_answers(model, larger, tmp_path)
    assert len(set(answer.label.tolist())) > 3
    assert 0 < answer.unknown.mean() < 1


@pytest.mark.parametrize("count", [1, 2, 7, 2100])
def test_any_number_of_pictures(count, exported, pixels):
    folder, model = exported
    many = np.concatenate([pixels] * 5)[:count]
    answer = ask(folder / "model.onnx", many)
    assert [len(part) for part in answer] == [count] * 5
    assert [part.dtype.name for part in answer] == ["int64", "float32", "float32", "float64", "bool"]
    assert difference(model, many, *answer) < 1e-4


def test_the_file_says_what_it_holds_and_nothing_of_where_it_was_made(exported):
    folder, model = exported
    facts = session(folder / "model.onnx").get_modelmeta().custom_metadata_map
    assert json.loads(facts["classes"]) == list(CLASSES)
    assert float(facts["threshold"]) == model.threshold
    assert (facts["detector"], facts["size"], facts["channels"]) == ("ddu", "32", "3")
    assert json.loads(facts["warnings"]) == list(WARNED.warnings)
    content = (folder / "model.onnx").read_bytes()
    assert not re.findall(rb"\.py\b", content)
    for place in (Path.home(), Path(__file__).parent.parent, Path(torch.__file__).parent):
        assert str(place).encode() not in content
    assert [path.name for path in folder.iterdir() if path.is_file()] == ["model.onnx"]  # one file, no parts
    assert len(content) < 1.1 * (folder / "model" / "model.safetensors").stat().st_size  # nothing is in it twice


def test_the_command_says_what_it_wrote(exported, quick, tmp_path, capsys):
    folder, model = exported
    assert main(["export", str(folder / "model"), str(tmp_path / "out" / "m.onnx")]) == 0
    said = capsys.readouterr()
    assert f"10 classes, 32 px, ddu, threshold {model.threshold:.4g}" in said.out
    assert "equal within 0.0001" in said.out
    assert said.err == ""
    assert ask(tmp_path / "out" / "m.onnx", made_up((3, 32, 32))).score.std() > 1


@pytest.mark.long
def test_the_command_in_a_process_of_its_own_is_silent_and_makes_the_same_file(exported, tmp_path):
    folder, _ = exported
    command = [sys.executable, "-m", "madod", "export", folder / "model", tmp_path / "m.onnx"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert (tmp_path / "m.onnx").read_bytes() == (folder / "model.onnx").read_bytes()


def test_a_detector_that_takes_gradients_is_refused(plain, pixels, tmp_path):
    with pytest.raises(InputError, match=r"odin takes gradients .* --detector energy"):
        export(model_of(plain, DETECTORS["odin"](), pixels[:20]), tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())


@pytest.fixture
def quick(monkeypatch, exported) -> Model:
    """A model whose conversion is the file that was made already."""
    import onnx_ir

    folder, model = exported

    class Program:
        model = onnx_ir.load(folder / "model.onnx")
        model_proto = onnx_ir.serde.serialize_model(model)

    monkeypatch.setattr(write, "converted", lambda *_: Program)
    return model


def test_a_file_that_answers_otherwise_is_not_kept(quick, monkeypatch, tmp_path):
    file = tmp_path / "model.onnx"
    file.write_bytes(b"an older one")
    other = Model(quick.net, quick.detector, quick.card, quick.held_scores)
    monkeypatch.setattr(other, "judge", lambda pixels: tuple(part + 2e-2 for part in quick.judge(pixels)))
    with pytest.raises(InputError, match="answers otherwise"):
        export(other, file)
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"an older one"]


class Rounding(nn.Module):
    """A network that rounds as on a GPU until it is on a CPU."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net, self.places = net, 1

    def cpu(self) -> "Rounding":
        self.places = 9
        return self

    def forward(self, images: torch.Tensor) -> Outputs:
        features, logits, _ = self.net(images)
        return Outputs(features.round(decimals=self.places), logits.round(decimals=self.places))


def test_a_model_on_a_gpu_is_compared_as_a_cpu_has_it(quick, tmp_path):
    model = Model(Rounding(quick.net), quick.detector, quick.card, quick.held_scores)
    assert export(model, tmp_path / "model.onnx")
    assert model.net.places == 1  # and the model stays where it is


def test_a_verdict_against_the_threshold_is_a_difference(exported, pixels):
    folder, model = exported
    answer = ask(folder / "model.onnx", pixels[:9])
    assert difference(model, pixels[:9], *answer) < 1e-4
    assert difference(model, pixels[:9], *answer._replace(unknown=~answer.unknown)) == np.inf
    assert difference(model, pixels[:9], *answer._replace(label=(answer.label + 1) % 10)) == np.inf
    lost = answer._replace(score=answer.score * np.nan, unknown=np.zeros(9, bool))
    assert not difference(model, pixels[:9], *lost) <= 1e-4


def test_without_onnxruntime_it_is_written_and_not_compared(quick, monkeypatch, tmp_path):
    monkeypatch.setattr(check, "find_spec", lambda name: None)
    assert export(quick, tmp_path / "model.onnx") is False
    assert (tmp_path / "model.onnx").exists()


@pytest.mark.parametrize(
    ("change", "said"),
    [("find_spec", r"not installed \(onnx, onnxscript\): pip install"), ("LIMIT", "an ONNX file at most 1,000")],
)
def test_what_cannot_be_is_refused_in_a_sentence(change, said, quick, monkeypatch, tmp_path):
    monkeypatch.setattr(write, change, {"find_spec": lambda name: None, "LIMIT": 1000}[change])
    with pytest.raises(InputError, match=said):
        export(quick, tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())


def test_a_folder_is_no_file(quick, tmp_path):
    with pytest.raises(InputError, match="is a folder"):
        export(quick, tmp_path)


@pytest.mark.parametrize("name", ["photo.jpg", "model.safetensors", "model"])
def test_what_is_no_onnx_file_is_not_written_over(name, quick, tmp_path):
    (tmp_path / name).write_bytes(b"not to be lost")
    with pytest.raises(InputError, match=r"is no name for an ONNX file: let it end in \.onnx, as in .*\.onnx$"):
        export(quick, str(tmp_path / name))
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"not to be lost"]


@pytest.fixture(scope="module")
def pictures(pixels, tmp_path_factory) -> list[Path]:
    """Files at the model's size, so that all who read them see the same pixels: plain, grey and half transparent."""
    folder = tmp_path_factory.mktemp("pictures")
    for k, image in enumerate(pixels[::25]):
        Image.fromarray(image.transpose(1, 2, 0)).save(folder / f"{k:02}.png")
    Image.open(folder / "03.png").convert("L").save(folder / "20.png")
    clear = Image.open(folder / "04.png").convert("RGBA")
    clear.putalpha(200)
    clear.save(folder / "21.png")
    return sorted(folder.iterdir())


def told(text: str) -> list[tuple[str, ...]]:
    return [tuple(line.split("\t")) for line in text.splitlines()]


def assert_as_the_model(rows: list[tuple[str, ...]], model: Model, pictures: list[Path]) -> None:
    for row, answer in zip(rows, model.predict(pictures), strict=True):
        assert row[:2] == (answer.path, answer.label)
        assert float(row[2]) == pytest.approx(answer.confidence, abs=2e-4)
        assert float(row[3]) == pytest.approx(answer.score, abs=2e-4, rel=1e-4)
        assert row[4] == ("unknown" if answer.unknown else "known")
    assert {row[4] for row in rows} == {"known", "unknown"}


def example(*words: object) -> subprocess.CompletedProcess[str]:
    """Run the Python example where neither madod nor torch can be imported."""
    code = "import sys, runpy; sys.argv.pop(0); sys.modules.update(madod=None, torch=None)"
    code = f"{code}; runpy.run_path(sys.argv[0], run_name='__main__')"
    command = [sys.executable, "-c", code, EXAMPLES / "onnx_predict.py", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_python_example_answers_as_the_model_without_madod(exported, pictures):
    folder, model = exported
    done = example(folder / "model.onnx", *pictures)
    assert done.returncode == 0
    assert_as_the_model(told(done.stdout), model, pictures)
    assert done.stderr.splitlines() == [f"of this model's own check: {warning}" for warning in WARNED.warnings]


def test_the_python_example_reads_sixteen_bits_as_the_model_does_and_no_floating_point(exported, pictures, tmp_path):
    folder, model = exported
    grey = np.asarray(Image.open(pictures[0]).convert("L"))
    files = [tmp_path / "deep.png", tmp_path / "flat.png", tmp_path / "float.tif"]
    for file, pixels in zip(files, (grey.astype(np.uint16) * 257, grey, grey.astype(np.float32)), strict=True):
        Image.fromarray(pixels).save(file)
    done = example(folder / "model.onnx", *files)
    deep, flat = told(done.stdout)
    assert deep[1:] == flat[1:]
    assert deep[1] == model.predict(files[:1])[0].label
    assert "floating-point" in done.stderr


def test_the_python_example_goes_on_past_what_it_cannot_read(exported, pictures, tmp_path):
    folder, _ = exported
    (tmp_path / "no.png").write_text("no picture")
    (tmp_path / "half.png").write_bytes(pictures[0].read_bytes()[:200])
    bad = [tmp_path / "no.png", tmp_path / "gone.png", tmp_path / "half.png", tmp_path]
    done = example(folder / "model.onnx", *bad, pictures[0])
    assert done.returncode == 1
    assert [row[0] for row in told(done.stdout)] == [str(pictures[0])]
    said = done.stderr.splitlines()[len(WARNED.warnings) :]
    assert [line.startswith(f"cannot read {path}: ") for line, path in zip(said, bad, strict=True)] == [True] * 4


@pytest.mark.parametrize("words", [[], ["model.onnx"]])
def test_the_python_example_says_what_it_wants(words):
    done = example(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "usage: python onnx_predict.py model.onnx PICTURE [PICTURE ...]\n"


def test_the_python_example_says_when_there_is_no_model(pictures):
    done = example(pictures[0], pictures[1])
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"{pictures[0]} is not a model that madod exported: ")
    assert "Traceback" not in done.stderr


def test_the_examples_are_all_introduced():
    text = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    names = set(re.findall(r"\]\((\w+\.\w+)\)", text))
    assert names == {path.name for path in EXAMPLES.iterdir() if path.is_file()} - {"README.md"}
    for file in re.findall(r"\]\(([^)]+)\)", text):
        assert (EXAMPLES / file).exists(), file


@pytest.fixture(scope="module")
def packages(tmp_path_factory) -> Path:
    """A folder with the JavaScript example and what it needs, where these are to be had."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("there is no node here")
    folder = tmp_path_factory.mktemp("javascript")
    install = ["npm", "install", "--prefer-offline", "--no-audit", "--no-fund", "--ignore-scripts", "--fetch-retries=0"]
    try:
        done = subprocess.run([*install, "onnxruntime-web@1", "sharp@0"], cwd=folder, capture_output=True, timeout=120)
    except subprocess.TimeoutExpired:
        pytest.skip("npm takes too long")
    if done.returncode:
        pytest.skip(f"npm does not find the packages: {done.stderr.decode(errors='replace')[-300:]}")
    shutil.copy(EXAMPLES / "onnx_predict.mjs", folder)
    return folder


def in_node(packages: Path, *words: object) -> subprocess.CompletedProcess[str]:
    command = ["node", "onnx_predict.mjs", *words]
    return subprocess.run(command, cwd=packages, capture_output=True, text=True, check=False, timeout=120)


def test_the_javascript_example_answers_as_the_model(exported, pictures, packages, tmp_path):
    folder, model = exported
    opaque = pictures[:-1]  # sharp rounds what lies over white by other rules than Pillow
    done = in_node(packages, folder / "model.onnx", tmp_path / "gone.png", *opaque)
    assert_as_the_model(told(done.stdout), model, opaque)
    *warnings, bad = done.stderr.splitlines()
    assert warnings == [f"of this model's own check: {warning}" for warning in WARNED.warnings]
    assert bad.startswith(f"cannot read {tmp_path / 'gone.png'}: ")
    assert done.returncode == 1
    nothing = in_node(packages, folder / "model.onnx")
    assert (nothing.returncode, nothing.stderr.split(":")[0]) == (2, "usage")


def test_pictures_at_the_model_s_size_need_no_resizing(exported, pictures, monkeypatch, capsys):
    folder, _ = exported
    monkeypatch.setattr(sys, "argv", ["resizing.py", str(folder / "model"), str(pictures[0].parent)])
    benchmark = runpy.run_path(str(EXAMPLES.parent / "benchmarks" / "resizing.py"))
    assert benchmark["main"]() == 0
    bicubic = next(line for line in capsys.readouterr().out.splitlines() if "bicubic" in line)
    assert bicubic.split("|")[2].strip() in ("0.0%", "4.5%")  # of the half transparent one it takes the colours alone
    ours = np.array([0, 1, 1, 0]), np.array([0.5, 0.6, 0.7, 0.8]), np.array([1.0, 2.0, 3.0, 4.0])
    theirs = np.array([0, 1, 0, 0]), np.array([0.5, 0.6, 0.7, 0.9]), np.array([1.0, 2.0, 1.0, 4.0])
    cells = benchmark["line"]("x", ours, theirs, 2.5).split("|")
    assert [cell.strip() for cell in cells[2:5]] == ["25.0%", "25.0%", "2.5%"]


def test_a_place_that_cannot_be_written_is_refused_before_the_work(exported, tmp_path, capsys, monkeypatch):
    folder, _ = exported
    monkeypatch.setattr("madod.export.write.converted", lambda *_: pytest.fail("it went to work"))
    monkeypatch.setattr("os.access", lambda place, mode: Path(place) != tmp_path)
    out = tmp_path / "m.onnx"
    assert main(["export", str(folder / "model"), str(out)]) == 2
    said = f"madod: {out} cannot be written, since {tmp_path} does not let you: name a file somewhere else\n"
    assert capsys.readouterr().err == said
    (tmp_path / "notes.txt").touch()
    assert main(["export", str(folder / "model"), str(tmp_path / "notes.txt" / "m.onnx")]) == 2
    assert capsys.readouterr().err == f"madod: {tmp_path / 'notes.txt'} is a file: name a folder to write into\n"
