"""A folder in an ordinary state, as a new user has it: mixed formats and sizes, damage, copies, imbalance."""

import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import ExifTags, Image, ImageOps

from madod.cli.main import main
from madod.data.images import from_pil, read_image
from madod.predict import load
from tests.journeys.test_user_folder import Said, picture, refused

DOMAINS, CLASSES = ("barn", "field", "road"), ("cow", "dog", "fox", "owl")
KINDS = ("rgb.png", "grey.png", "rgba.png", "cmyk.jpg", "deep.png", "turned.jpg", "web.webp", "moving.gif", "map.bmp")


def write(pixels: np.ndarray, file: Path) -> None:
    """Write a picture in the kind that its name promises."""
    file.parent.mkdir(parents=True, exist_ok=True)
    image, kind = Image.fromarray(pixels), file.name.split(" ")[-1]
    if kind == "deep.png":
        Image.fromarray(pixels.mean(2).astype(np.uint16) * 257).save(file)
    elif kind == "turned.jpg":
        exif = Image.Exif()
        exif[ExifTags.Base.Orientation] = 6
        image.transpose(Image.Transpose.ROTATE_90).save(file, exif=exif, quality=95)
    elif kind == "moving.gif":
        image.save(file, save_all=True, append_images=[image.rotate(90)])
    else:
        image.convert({"grey.png": "L", "rgba.png": "RGBA", "cmyk.jpg": "CMYK"}.get(kind, "RGB")).save(file)


def messy(root: Path) -> Path:
    """Write it: cows in plenty, sizes from 20 to 60 px, two damaged files, a copy in another domain, and litter."""
    for d, domain in enumerate(DOMAINS):
        for k, label in enumerate(CLASSES):
            for serial, kind in enumerate(KINDS * (6 if label == "cow" else 1)):
                write(picture(d, k, serial, side=20 + 2 * (serial % 20)), root / domain / label / f"{serial} {kind}")
    (root / "barn" / "dog" / "cut.jpg").write_bytes((root / "barn" / "dog" / "3 cmyk.jpg").read_bytes()[:200])
    (root / "road" / "owl" / "words.png").write_text("no picture", encoding="utf-8")
    (root / "road" / "owl" / "notes.txt").write_text("mine", encoding="utf-8")
    (root / "road" / "Thumbs.db").write_bytes(b"x")
    shutil.copy(root / "barn" / "fox" / "0 rgb.png", root / "field" / "fox" / "copy.png")
    return root


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("messy")


@pytest.fixture(scope="module")
def trained(home) -> Said:
    """Train as a new user would, only shorter."""
    root = messy(home / "pictures")
    noise = np.random.default_rng(0).integers(0, 256, (6, 40, 30, 3), dtype=np.uint8)
    for serial, pixels in enumerate(noise):
        write(pixels, home / "odd" / f"{serial}.png")
    (home / "odd" / "bad.png").write_bytes(b"bad")
    words = ["train", root, "--out", home / "out", "--cache", home / "cache", "--skip-bad", "--steps", 4, "--translate",
             "augment", "--ood-folder", home / "odd", "--device", "cpu"]  # fmt: skip
    out, err = io.StringIO(), io.StringIO()
    kept = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = out, err
    try:
        code = main([str(word) for word in words])
    finally:
        sys.stdout, sys.stderr = kept
    return Said(code, out.getvalue(), err.getvalue())


@pytest.fixture
def here(capsys):
    def run(*words: object) -> Said:
        capsys.readouterr()
        code = main([str(word) for word in words])
        return Said(code, *capsys.readouterr())

    return run


def test_it_is_looked_at_chosen_for_checked_and_trained(trained, home):
    assert trained.code == 0, trained.err
    for words in (
        "246 files in 3 domains and 4 classes",  # two of which cannot be read
        "classes: cow 162, dog 28, fox 28, owl 28",
        "! uneven: cow has 162 pictures and dog 28",
        "copies of each other in several domains",
        "> size 32 px (--size)",
        "> backbone small_cnn (--backbone)",
        "this will take about ",
        "check 3/3: 1 of 1",
    ):
        assert words in trained.err, words
    for domain in DOMAINS:
        assert f"check without {domain}: " in trained.out
    assert "your unknowns in " in trained.out
    assert re.search(r"of 6 pictures flagged by \w+; AUROC [01]\.\d{3} against held-out pictures; 1 more", trained.out)
    assert "bad.png" not in trained.out  # which a warning named at the start
    assert not (home / "out" / "check").exists()
    model, check = load(home / "out"), json.loads((home / "out" / "check.json").read_text(encoding="utf-8"))
    assert model.classes == CLASSES
    assert [fold["domain"] for fold in check["folds"]] == list(DOMAINS)
    assert len({fold["hidden"] for fold in check["folds"]}) == 3
    assert model.card.detector in ("msp", "energy", "ddu")
    assert model.gallery is not None
    assert len(model.held_scores) > 10
    assert model.check is not None
    assert model.check.domains == 3
    assert model.check.auroc == pytest.approx(np.mean([fold["auroc"][model.card.detector] for fold in check["folds"]]))


def test_what_not_to_rely_on_stands_in_the_last_words_the_page_and_the_model(trained, home):
    """Folds of one step know nothing."""
    model = load(home / "out")
    page = (home / "out" / "report.html").read_text(encoding="utf-8")
    assert model.check is not None
    assert any("do not rely on" in sentence for sentence in model.check.warnings)
    for sentence in model.check.warnings:
        assert f"warning: {sentence}\n" in trained.out
        assert f"<b>Warning</b>: {sentence}." in page


def test_whoever_uses_the_model_is_told_too(trained, home, here, tmp_path):
    model, picture = load(home / "out"), next((home / "pictures" / "road" / "owl").iterdir())
    said = here("predict", home / "out", picture, "--gallery", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert model.check is not None
    assert model.check.warnings
    for sentence in model.check.warnings:
        assert f"own check warns</b>: {sentence}." in page.partition("All pictures")[0]
        assert f"of this model's own check: {sentence}\n" in said.err
    assert "own check" not in here("predict", home / "out", picture, "--quiet").err


def test_the_page_says_it_all(trained, home):
    page = (home / "out" / "report.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    for words in ("What was learned from pictures", "Where it has not looked", "Which classes it confuses",
                  "What would be flagged", "How it was made", "copies of each other", *DOMAINS, *CLASSES):  # fmt: skip
        assert words in page, words
    assert "http://" not in page
    assert "<script" not in page


def test_unknowns_are_never_trained_on(trained, home, here):
    """The same training without them ends with the same weights."""
    words = ("train", home / "pictures", "--out", home / "again", "--cache", home / "cache", "--skip-bad", "--steps", 4)
    said = here(*words, "--translate", "augment", "--device", "cpu", "--quiet")
    assert said.code == 0
    for name in ("model.safetensors", "gallery.safetensors"):
        assert (home / "again" / "model" / name).read_bytes() == (home / "out" / "model" / name).read_bytes()
    inside = home / "pictures" / "road" / "owl"
    refused(here(*words[:3], home / "third", "--ood-folder", inside, "--quiet"), "overlap", str(inside))
    refused(here(*words[:3], home / "third", "--ood-folder", home / "none", "--quiet"), "no folder", "--ood-folder")
    said = here(*words[:3], home / "third", "--ood-folder", home / "odd", "--quiet")
    assert said.code == 2
    assert "1 of 7 pictures in --ood-folder" in said.err
    assert not (home / "third").exists()


def test_a_finished_training_is_read_and_told_again(trained, home, here):
    before = (home / "out" / "model" / "model.json").read_bytes()
    said = here(
        "train", home / "pictures", "--out", home / "out", "--cache", home / "cache", "--skip-bad", "--steps", 4,
        "--translate", "augment", "--device", "cpu",
    )  # fmt: skip
    assert said.code == 0, said.err
    assert "check without barn: " in said.out
    assert "this will take" not in said.err
    assert (home / "out" / "model" / "model.json").read_bytes() == before


def test_a_check_that_does_not_say_enough_is_made_again(home, trained, here):
    """With a detector that looks at the network itself, and `check.json` as an older madod left it."""
    words = ("train", home / "pictures", "--out", home / "odin", "--cache", home / "cache", "--skip-bad", "--steps", 4,
             "--algorithm", "erm", "--detector", "odin", "--device", "cpu", "--quiet")  # fmt: skip
    first, file = here(*words), home / "odin" / "check.json"
    assert first.code == 0, first.err
    assert "check without barn: " in first.out
    whole = json.loads(file.read_text(encoding="utf-8"))
    assert all("odin" in fold["auroc"] for fold in whole["folds"])
    older = [{key: value for key, value in fold.items() if key != "unknown"} for fold in whole["folds"]]
    file.write_text(json.dumps(whole | {"folds": older}), encoding="utf-8")
    assert here(*words) == first
    assert json.loads(file.read_text(encoding="utf-8")) == whole


def test_every_kind_of_file_is_predicted_and_the_damaged_are_listed(trained, home, here):
    said = here("predict", home / "out", home / "pictures", "--format", "json", "--quiet")
    assert said.code == 1
    rows = [json.loads(line) for line in said.out.splitlines()]
    assert len(rows) == 244
    assert {Path(row["path"]).name.split(" ")[-1] for row in rows} >= set(KINDS)
    lines = said.err.splitlines()
    assert len(lines) == 3
    assert "cut.jpg" in lines[0]
    assert "words.png" in lines[1]
    assert lines[2] == "madod: 2 of 246 pictures could not be read; the others are done"


def test_a_turned_picture_is_seen_upright(trained, home):
    file = next((home / "pictures").rglob("*turned.jpg"))
    turned = read_image(file, 32).astype(float)
    upright = from_pil(ImageOps.exif_transpose(Image.open(file)), 32).astype(float)
    assert abs(turned - upright).mean() < 2
    assert abs(turned - np.rot90(upright, axes=(1, 2))).mean() > 10


def test_patterns_and_a_list_on_standard_input(trained, home, here, monkeypatch, tmp_path):
    pattern = home / "pictures" / "*" / "fox" / "*.png"
    said = here("predict", home / "out", pattern, "--format", "csv")
    assert said.code == 0
    assert len(said.out.splitlines()) == 1 + 13
    files = sorted((home / "pictures" / "barn" / "fox").glob("*.png"))
    stdin = io.TextIOWrapper(io.BytesIO(("\n".join(map(str, files)) + "\n\n").encode()))
    monkeypatch.setattr(sys, "stdin", stdin)
    listed = here("predict", home / "out", "-", "--format", "csv")
    assert [line.split(",")[0] for line in listed.out.splitlines()[1:]] == [str(file) for file in files]
    refused(here("predict", home / "out", tmp_path / "*.png"), "nothing is called", "*.png")
    refused(here("predict", home / "out", "-", "-"), "standard input", "once")
    refused(here("predict", home / "out", files[0], ""), "a name is empty", "name a file or a folder")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\n\n")))
    empty = here("predict", home / "out", "-")
    refused(empty, "standard input lists no pictures")
    assert empty.out == ""


def test_another_share_may_be_kept(trained, home, here):
    counts = []
    for keep in (0.05, 1.0):
        said = here("predict", home / "out", home / "pictures" / "barn" / "cow", "--format", "json", "--keep", keep)
        assert said.code == 0
        counts.append(sum(json.loads(line)["unknown"] for line in said.out.splitlines()))
    assert counts[0] > counts[1]
    refused(here("predict", home / "out", home / "pictures", "--keep", "2"), "share")


def test_a_contact_sheet_is_sorted_whole_and_bounded(trained, home, here, tmp_path, monkeypatch):
    page = tmp_path / "deep" / "sheet.html"
    said = here("predict", home / "out", home / "pictures" / "barn" / "cow", "--format", "json", "--gallery", page)
    assert said.code == 0
    text = page.read_text(encoding="utf-8")
    scores = [float(part.split("<")[0]) for part in text.split("<span>score ")[1:]]
    assert scores == sorted(scores, reverse=True)
    assert len(scores) == text.count("data:image/jpeg;base64,") == 54
    assert "http://" not in text
    monkeypatch.setattr("madod.cli.contact.MOST", 5)
    said = here("predict", home / "out", home / "pictures" / "barn" / "cow", "--format", "json", "--gallery", page)
    text = page.read_text(encoding="utf-8")
    rows = sorted((json.loads(line)["score"] for line in said.out.splitlines()), reverse=True)
    shown = [float(part.split("<")[0]) for part in text.split("<span>score ")[1:]]
    assert shown == [float(f"{score:.4g}") for score in (*rows[:5], *rows[-5:])]
    assert "44 pictures in between are not shown" in text
    refused(here("predict", home / "out", home / "pictures", "--gallery", tmp_path), "is a folder")


def test_long_work_says_how_far_it_is(trained, home, here, monkeypatch):
    monkeypatch.setattr("madod.cli.progress.EVERY", 0.0)
    cows = home / "pictures" / "barn" / "cow"
    said = here("predict", home / "out", cows, "--format", "json")
    assert said.code == 0
    assert "54 pictures done, " in said.err
    assert here("predict", home / "out", cows, "--format", "json", "--quiet").err == ""


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_killed_anywhere_it_ends_with_the_same_bits(tmp_path):
    """Three kills at random: in the survey, the check or the training."""
    root = messy(tmp_path / "pictures")
    rng = np.random.default_rng(0)

    def start(name: str) -> subprocess.Popen[bytes]:
        words = ["train", root, "--out", tmp_path / name, "--cache", tmp_path / f"{name} cache", "--skip-bad",
                 "--quiet", "--steps", 24, "--translate", "augment", "--device", "cpu"]  # fmt: skip
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        return subprocess.Popen([sys.executable, "-m", "madod", *map(str, words)], env=environment)

    began = time.monotonic()
    assert start("whole").wait() == 0
    took = time.monotonic() - began
    for _ in range(3):
        process = start("killed")
        time.sleep(rng.uniform(0.2, 0.8) * took)
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert start("killed").wait() == 0
    for name in ("check.json", "model/model.safetensors", "model/gallery.safetensors"):
        assert (tmp_path / "killed" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name
    assert not (tmp_path / "killed" / "check").exists()
