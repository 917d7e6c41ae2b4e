"""A person's own pictures, from the folder to the verdicts, and everything that can be wrong with them."""

import csv
import io
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from PIL import Image

from madod.cli.main import main
from madod.cli.predict import written
from madod.predict import Prediction

DOMAINS = ("night shots", "рисунки", "写真")
CLASSES = ("big dog", "star", "кот", "魚")
KINDS = ("rgb.jpg", "grey.png", "palette.png", "rgba.png", "cmyk.jpg", "deep.png", "web.webp", "map.bmp")
FIELDS = ["path", "label", "confidence", "score", "threshold", "unknown"]
QUICK = ("--size", "16", "--steps", "4", "--tasks", "1", "--shots", "1", "--device", "cpu")


class Said(NamedTuple):
    code: int
    out: str
    err: str


def picture(domain: int, label: int, serial: int, side: int = 24) -> np.ndarray:
    """Return a bright quarter a class, on a ground of the domain's own brightness."""
    half, (row, column) = side // 2, divmod(label, 2)
    pixels = np.random.default_rng(serial).integers(0, 60, (side, side, 3)) + 40 * domain
    pixels[half * row :, half * column :][:half, :half] += 80
    return pixels.astype(np.uint8)


def save(pixels: np.ndarray, file: Path) -> Path:
    """Write a picture in the mode that its name promises."""
    file.parent.mkdir(parents=True, exist_ok=True)
    image, kind = Image.fromarray(pixels), file.name.split(" ")[-1]
    if kind == "deep.png":
        image = Image.fromarray(pixels.mean(2).astype(np.uint16) * 257)
    elif mode := {"grey.png": "L", "palette.png": "P", "rgba.png": "RGBA", "cmyk.jpg": "CMYK"}.get(kind):
        image = image.convert(mode)
    image.save(file)
    return file


def folder(root: Path, domains=DOMAINS, classes=CLASSES, kinds=KINDS) -> Path:
    for d, domain in enumerate(domains):
        for k, name in enumerate(classes):
            for serial, kind in enumerate(kinds):
                save(picture(d, k, serial), root / domain / name / f"bild {serial} ü {kind}")
    return root


def madod(*words: object) -> Said:
    """Run the command line in a process of its own."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONUTF8": "1"}
    process = subprocess.run(
        [sys.executable, "-m", "madod", *map(str, words)], env=environment, capture_output=True, text=True,
        encoding="utf-8", check=False,
    )  # fmt: skip
    return Said(process.returncode, process.stdout, process.stderr)


@pytest.fixture(scope="module")
def pictures(tmp_path_factory) -> Path:
    return folder(tmp_path_factory.mktemp("user") / "my pictures")


@pytest.fixture(scope="module")
def trained(pictures, tmp_path_factory) -> tuple[Path, Said]:
    """Train the way a person would, G included, in a moment."""
    home = tmp_path_factory.mktemp("run")
    said = madod(
        "train", pictures, "--out", home / "out", "--cache", home / "cache", "--test-domain", "рисунки", "--ood-class",
        "魚", *QUICK, "--translate-steps", 2, "--waive-gate",
    )  # fmt: skip
    return home / "out", said


@pytest.fixture
def here(capsys):
    """Run the command line in this process."""

    def run(*words: object) -> Said:
        capsys.readouterr()
        code = main([str(word) for word in words])
        return Said(code, *capsys.readouterr())

    return run


def refused(said: Said, *words: str) -> None:
    """Check that it ended with code 2 and one sentence that holds these words."""
    assert said.code == 2, said.err
    assert said.out == ""
    assert said.err.startswith("madod: ")
    assert said.err.count("\n") == 1, said.err
    for word in words:
        assert word in said.err, said.err


def test_training_leaves_a_model_a_record_and_plain_lines(trained):
    out, said = trained
    assert said.code == 0, said.err
    names = {file.name for file in out.iterdir()}
    tensors = {"outputs.safetensors", "verdicts.safetensors"}
    assert names == {"model", "record.json", "history.jsonl", "generator.png", "report.html", "lock", *tensors}
    assert {file.name for file in (out / "model").iterdir()} == {
        "model.json", "model.safetensors", "gallery.safetensors",
    }  # fmt: skip
    record = json.loads((out / "record.json").read_text(encoding="utf-8"))
    assert record["spec"]["test_domain"] == "рисунки"
    assert record["spec"]["ood_classes"] == ["魚"]
    assert record["translation"]["images"] > 0
    assert "unseen domain рисунки: " in said.out
    assert "AUROC" in said.out
    assert f"madod predict {out}" in said.out
    lines = said.err.splitlines()
    assert {"decoding: 96 of 96", "generator: 2 of 2", "judge of G: 150 of 150", "madod: 4 of 4"} <= set(lines)
    assert "\x1b" not in said.err
    assert "\r" not in said.err


def test_predictions_as_json_lines(trained, pictures, here):
    files = sorted((pictures / "写真" / "кот").iterdir())
    said = here("predict", trained[0], *files, "--format", "json", "--quiet")
    assert (said.code, said.err) == (0, "")
    rows = [json.loads(line) for line in said.out.splitlines()]
    assert [list(row) for row in rows] == [FIELDS] * len(files)
    assert [row["path"] for row in rows] == [str(file) for file in files]
    for row in rows:
        assert row["label"] in ("big dog", "star", "кот")
        assert 1 / 3 <= row["confidence"] <= 1
        assert row["unknown"] is (row["score"] > row["threshold"])
    assert len({row["threshold"] for row in rows}) == 1
    assert len({row["score"] for row in rows}) > 1


def test_a_folder_as_csv_and_as_a_table_says_the_same(trained, pictures, here):
    expected = [json.loads(line) for line in here("predict", trained[0], pictures, "--format", "json").out.splitlines()]
    assert len(expected) == 96
    assert [row["path"] for row in expected] == sorted(row["path"] for row in expected)
    rows = list(csv.DictReader(io.StringIO(here("predict", trained[0], pictures, "--format", "csv").out)))
    assert list(rows[0]) == FIELDS
    for row, full in zip(rows, expected, strict=True):
        assert (row["path"], row["label"]) == (full["path"], full["label"])
        assert [float(row[field]) for field in FIELDS[2:5]] == [full[field] for field in FIELDS[2:5]]
        assert row["unknown"] == str(full["unknown"])
    table = here("predict", trained[0], pictures).out.splitlines()
    assert table[0].split() == FIELDS
    assert len(table) == 97
    assert all(full["path"] in line and full["label"] in line for line, full in zip(table[1:], expected, strict=True))


def test_a_table_tells_small_scores_from_a_small_threshold():
    row = written(Prediction("a.png", "кот", 0.99984, 0.00016423, 0.00015987, True), "table")
    assert row.split() == ["a.png", "кот", "0.9998", "0.0001642", "0.0001599", "True"]
    row = written(Prediction("a.png", "кот", 0.5, -12.345678, 0.0, False), "table")
    assert row.split() == ["a.png", "кот", "0.5000", "-12.3457", "0", "False"]


@pytest.mark.parametrize(("name", "fewer"), [("写真/猫.png", 3), ("e\N{COMBINING ACUTE ACCENT}.png", -1)])
def test_columns_of_a_table_stay_in_line_behind_letters_that_are_two_wide_or_none(name, fewer):
    plain, other = (written(Prediction(path, "cat", 0.5, 1.0, 2.0, False), "table") for path in ("a.png", name))
    assert len(plain) - len(other) == plain.index("cat") - other.index("cat") == fewer


def test_predict_says_what_it_left_out_and_how_many_it_called_unknown(trained, pictures, tmp_path, here, caplog):
    files = sorted((pictures / "写真" / "кот").iterdir())[:3]
    for file in files:
        shutil.copy(file, tmp_path)
    for name in ("IMG_1.HEIC", "notes.txt"):
        (tmp_path / name).write_bytes(b"something else")
    said = here("predict", trained[0], tmp_path, "--format", "json")
    unknown = sum(json.loads(line)["unknown"] for line in said.out.splitlines())
    assert (said.code, len(said.out.splitlines())) == (0, 3)
    assert f"left out files of {tmp_path} that do not end like pictures: 1 .HEIC, 1 .txt" in caplog.text
    assert f"madod: {unknown} of 3 pictures called unknown; of known ones in the training domains it is " in said.err


def test_unreadable_pictures_are_listed_last_and_the_rest_is_done(trained, pictures, tmp_path, here):
    good = sorted((pictures / "写真" / "кот").iterdir())[:2]
    bad = broken(tmp_path)
    said = here("predict", trained[0], good[0], *bad, tmp_path / "gone.jpg", good[1], "--format", "json", "--quiet")
    assert said.code == 1
    assert [json.loads(line)["path"] for line in said.out.splitlines()] == [str(file) for file in good]
    lines = said.err.splitlines()
    assert len(lines) == 4
    for file, reason, line in zip((*bad, "gone.jpg"), ("truncated", "not a picture", "not exist"), lines, strict=False):
        assert str(file) in line
        assert reason in line
    assert lines[-1] == "madod: 3 of 5 pictures could not be read; the others are done"


def test_nothing_readable_is_still_an_answer(trained, tmp_path, here):
    said = here("predict", trained[0], *broken(tmp_path), "--format", "json", "--quiet")
    assert (said.code, said.out) == (1, "")


def test_what_predict_refuses(trained, pictures, tmp_path, here):
    (tmp_path / "empty").mkdir()
    picture = next((pictures / "写真" / "кот").iterdir())
    refused(here("predict", tmp_path, picture), "no model", str(tmp_path))
    refused(here("predict", trained[0], tmp_path / "empty"), "no pictures", str(tmp_path / "empty"))
    refused(here("predict", trained[0], picture, "--format", "xml"), "xml", "json")
    refused(here("predict", trained[0]), "no pictures named")


def broken(home: Path) -> list[Path]:
    """Write a JPEG that ends early and a text that claims to be a picture."""
    whole = save(picture(0, 0, 0, side=200), home / "whole.jpg").read_bytes()
    (home / "whole.jpg").unlink()
    (home / "cut off.jpg").write_bytes(whole[: len(whole) // 2])
    (home / "words.png").write_text("not a picture", encoding="utf-8")
    return [home / "cut off.jpg", home / "words.png"]


def test_training_lists_all_unreadable_pictures_at_once(pictures, tmp_path, here):
    root = tmp_path / "pictures"
    shutil.copytree(pictures, root)
    bad = broken(root / "写真" / "кот")
    words = ("train", root, "--out", tmp_path / "out", "--cache", tmp_path / "cache", *QUICK, "--translate", "augment")
    said = here(*words)
    assert said.code == 2
    first, *listed = said.err[said.err.index("madod: ") :].splitlines()
    assert first.startswith("madod: 2 of 98 pictures in ")
    assert "--skip-bad" in first
    assert [line.split(": ")[0].strip() for line in listed] == [str(file) for file in sorted(bad)]
    assert not (tmp_path / "out").exists()
    without = madod(*words, "--skip-bad")
    assert without.code == 0
    warned = [line for line in without.err.splitlines() if line.startswith("warning: left out 2 of 98")]
    assert len(warned) == 1
    assert all(str(file) in without.err for file in bad)
    assert "held-out images" in without.out


def test_a_class_missing_in_a_domain_is_a_warning(pictures, tmp_path):
    root = tmp_path / "pictures"
    shutil.copytree(pictures, root)
    shutil.rmtree(root / "写真" / "кот")
    said = madod(
        "train", root, "--out", tmp_path / "out", "--cache", tmp_path / "cache", *QUICK, "--translate", "augment"
    )
    assert said.code == 0, said.err
    (told,) = (line for line in said.err.splitlines() if "кот in 写真" in line)
    assert told.startswith("warning: ")
    assert "star" not in told


def test_quiet_writes_nothing_but_the_result(pictures, tmp_path):
    words = ("--out", tmp_path / "out", "--cache", tmp_path / "cache", "--translate", "augment", "--quiet")
    said = madod("train", pictures, *words, *QUICK)
    assert (said.code, said.err) == (0, "")
    assert said.out.startswith("held-out images of the training domains: ")


def test_folders_that_cannot_be_trained_on(tmp_path, here):
    (tmp_path / "empty").mkdir()
    folder(tmp_path / "domain", domains=DOMAINS[:1], kinds=KINDS[:2])
    folder(tmp_path / "class", classes=CLASSES[:1], kinds=KINDS[:2])
    common = ("--out", tmp_path / "out", "--cache", tmp_path / "cache", "--quiet")
    refused(here("train", tmp_path / "empty", *common), "is empty", "ROOT/DOMAIN/CLASS")
    refused(here("train", tmp_path / "domain", *common), "one domain only", DOMAINS[0])
    refused(here("train", tmp_path / "class", *common), "one class only", CLASSES[0])
    assert not (tmp_path / "out").exists()


def test_two_classes_leave_no_pseudo_unknowns(tmp_path, here):
    root = folder(tmp_path / "pictures", classes=CLASSES[:2])
    words = (
        "train",
        root,
        "--out",
        tmp_path / "out",
        "--cache",
        tmp_path / "cache",
        "--quiet",
        "--translate",
        "augment",
    )
    refused(here(*words, *QUICK), "pseudo-unknown", "the algorithm erm")
    said = here(*words, "--algorithm", "erm", "--size", "16", "--steps", "4")
    assert (said.code, said.err) == (0, "")


def test_too_few_pictures_to_hold_any_out(tmp_path, here):
    root = folder(tmp_path / "pictures", kinds=KINDS[:2])
    words = ("train", root, "--out", tmp_path / "out", "--cache", tmp_path / "cache", "--quiet", "--steps", "2")
    for algorithm in ("erm", "madod"):
        refused(here(*words, "--algorithm", algorithm), "held out", "more pictures")


def test_a_picture_over_the_pixel_limit(pictures, trained, tmp_path, here):
    root = tmp_path / "pictures"
    shutil.copytree(pictures, root)
    huge = root / "写真" / "кот" / "huge.png"
    Image.new("1", (20_000, 5_001)).save(huge)
    said = here("train", root, "--out", tmp_path / "out", "--cache", tmp_path / "cache", "--quiet")
    assert said.code == 2
    assert "100,000,000 pixels" in said.err
    assert str(huge) in said.err
    assert "Traceback" not in said.err
    said = here("predict", trained[0], huge)
    assert said.code == 1
    assert "100,000,000 pixels" in said.err


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--translate", "foo"], ["foo", "munit", "augment"]),
        (["--stpes", "4"], ["--stpes", "--steps"]),
        (["--steps", "many"], ["--steps", "many"]),
        (["--steps", "0"], ["steps cannot be 0"]),
        (["--translate-steps", "-3"], ["translate_steps cannot be -3"]),
        (["--seed", "-1"], ["seed cannot be -1"]),
        (["--split-seed", "-1"], ["split_seed cannot be -1"]),
        (["--size", "4"], ["4 pixels", "8 or more"]),
        (["--ood-class", "stra"], ["'stra'", "did you mean 'star'?", "big dog"]),
        (["--ood-class", "star, big dog"], ["'star, big dog'", "by itself, with blanks between them: star 'big dog')"]),
        (["--ood-class", "star,stra"], ["no class 'star,stra'"]),
        (["--ood-class", "star", "кот", "魚"], ["two known classes"]),
        (["--ood-class", "star", "кот", "魚", "big dog"], ["two known classes", "keeps 0 of 4"]),
        (["--test-domain", "night shot"], ["'night shot'", "did you mean 'night shots'?"]),
        (["--algorithm", "madodd"], ["no algorithm 'madodd'", "did you mean 'madod'?"]),
        (["--algorithm=madodd"], ["no algorithm 'madodd'"]),
        (["--algorithm"], ["no algorithm"]),
        (["--detector", "enery"], ["no detector 'enery'", "did you mean 'energy'?"]),
        (["--backbone", "resnet81"], ["no backbone 'resnet81'", "did you mean 'resnet18'?"]),
        (["--device", "abacus"], ["no device 'abacus'", "use cpu"]),
        (["--root", "."], ["my pictures is a folder of your own, which takes no --root: leave it out"]),
    ],
    ids=lambda value: " ".join(value) if value[0].startswith("--") else "",
)
def test_wrong_words_are_refused_before_anything_is_made(pictures, trained, tmp_path, here, flags, words):
    cache = trained[0].parent / "cache"
    refused(here("train", pictures, "--out", tmp_path / "out", "--cache", cache, "--quiet", *flags), *words)
    assert not (tmp_path / "out").exists()


def test_a_dataset_that_is_not_there(tmp_path, here):
    refused(here("train", "digitz", "--out", tmp_path / "out"), "no folder digitz", "digits")
    refused(here("train", tmp_path / "nowhere", "--out", tmp_path / "out"), "no folder")
    refused(here("train", "digits", "--out", tmp_path / "out", "--ood-class", "ten"), "'ten'", "0, 1, 2")
    refused(here("train"), "DATA")
    refused(here("train", "digits"), "--out")
