"""`madod cache`: all that is kept is listed, only that is deleted, and nothing that somebody is writing."""

import zipfile

import pytest
import torch
from filelock import FileLock

from madod.benchmark.record import RunSpec
from madod.benchmark.resources import Resources
from madod.benchmark.run import run
from madod.benchmark.settings import hparams
from madod.cli.cache import KINDS, amount, entries
from madod.cli.main import main
from madod.data.cache import decoded
from madod.data.digits import Digits
from madod.data.layout import unpacked
from tests.data.miniatures import picture

ONE_OF_EACH = {"pictures": 2, "archives": 1, "generators": 1, "weights": 1}  # pictures and their index


def trained(out, cache, steps=2, progress=lambda *_: None):
    given = hparams("madod", {"tasks": 1, "shots": 1})
    spec = RunSpec("digits", "ink", ("2",), "madod", steps=steps, translate_steps=1, hparams=given)
    resources = Resources(cache, torch.device("cpu"), waive_gate=True, progress=progress)
    return run(spec, Digits(), out=out, resources=resources)


@pytest.fixture
def cache(tmp_path):
    """Return a cache with one entry of every kind, made by what makes them, and a file that is none of ours."""
    cache, photo = tmp_path / "cache", picture(tmp_path / "mine" / "a.png")
    decoded([photo], 8, cache=cache / "images")
    with zipfile.ZipFile(tmp_path / "packed.zip", "w") as archive:
        archive.write(photo, "a.png")
    unpacked(tmp_path / "packed.zip", cache / "images")
    trained(tmp_path / "run", cache)
    (cache / "weights").mkdir()
    (cache / "weights" / "resnet50-0676ba61.pth").write_bytes(b"12")
    (cache / "images" / "holiday.png").write_bytes(photo.read_bytes())
    return cache


def counts(cache):
    return {name: len(list(entries(cache, kind))) for name, kind in KINDS.items()}


def test_every_kind_is_listed_and_only_ours_is_deleted(cache, capsys):
    assert counts(cache) == ONE_OF_EACH
    assert main(["cache", "--cache", str(cache)]) == 0
    said = capsys.readouterr().out
    assert said.startswith(f"{cache}\n")
    assert [line.split()[:2] for line in said.splitlines()[1:]] == [[kind, str(n)] for kind, n in ONE_OF_EACH.items()]

    assert main(["cache", "--clear", "archives", "--cache", str(cache)]) == 0
    assert counts(cache) == ONE_OF_EACH | {"archives": 0}
    assert main(["cache", "--clear", "all", "--cache", str(cache)]) == 0
    assert counts(cache) == dict.fromkeys(ONE_OF_EACH, 0)
    left = [file.name for file in cache.rglob("*") if file.is_file() and "lock" not in file.name]
    assert left == ["holiday.png"]


def test_what_killed_processes_left_is_ours_too(tmp_path):
    parts = ("images/" + 32 * "a" + ".part-123/images.npy", "images/unpacked-" + 16 * "b" + ".part/a.png",
             "weights/resnet50-0676ba61.pth.deadbeef.part")  # fmt: skip
    for name in parts:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"123")
    assert counts(tmp_path) == {"pictures": 1, "archives": 1, "generators": 0, "weights": 1}
    assert main(["cache", "--clear", "all", "--cache", str(tmp_path)]) == 0
    assert not [file for file in tmp_path.rglob("*") if file.is_file()]


def test_what_a_process_is_writing_is_left(cache, capsys):
    (folder,) = entries(cache, KINDS["generators"])
    with FileLock(folder / "lock"):
        assert main(["cache", "--clear", "generators", "--cache", str(cache)]) == 0
    assert capsys.readouterr().out == "generators: 0.0 MB deleted; 1 in use were left\n"
    assert (folder / "generator.safetensors").exists()
    with FileLock(cache / "images" / "something.lock"):  # somebody decodes, perhaps from what was unpacked
        assert main(["cache", "--clear", "archives", "--cache", str(cache)]) == 0
    assert counts(cache) == ONE_OF_EACH


def test_a_training_is_none_the_worse_for_it(tmp_path):
    def clear(stage, done, total):
        if stage == "madod":
            assert main(["cache", "--clear", "all", "--cache", str(tmp_path / "cache")]) == 0

    assert trained(tmp_path / "run", tmp_path / "cache", steps=3, progress=clear).grid
    assert (tmp_path / "run" / "record.json").exists()
    assert counts(tmp_path / "cache")["generators"] == 0


def test_a_cache_that_is_not_there(tmp_path, capsys, monkeypatch):
    assert main(["cache", "--cache", str(tmp_path / "none")]) == 2
    assert "there is no folder" in capsys.readouterr().err
    monkeypatch.setenv("MADOD_CACHE", str(tmp_path / "none"))  # one's own, before anything was kept
    assert main(["cache", "--clear", "all"]) == 0


def test_a_cache_that_is_a_file(tmp_path, capsys, monkeypatch):
    (tmp_path / "notes").write_text("mine")
    monkeypatch.setenv("MADOD_CACHE", str(tmp_path / "notes"))
    for words in ([], ["--cache", str(tmp_path / "notes")], ["--clear", "all"]):
        assert main(["cache", *words]) == 2
        assert capsys.readouterr().err == (
            f"madod: {tmp_path / 'notes'} is a file: name a folder for the cache (--cache, or MADOD_CACHE)\n"
        )


def test_amounts():
    assert [amount(n) for n in (0, 1_500_000, 2_340_000_000)] == ["0.0 MB", "1.5 MB", "2.3 GB"]
