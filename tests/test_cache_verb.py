"""`madod cache`: all that is kept is listed, only that is deleted, and nothing that somebody works on."""

import zipfile

import pytest
from filelock import FileLock

from madod.benchmark.generator import generator
from madod.cli.cache import HOLDS, amount, entries
from madod.cli.main import main
from madod.data.augment import NONE
from madod.data.cache import decoded
from madod.data.digits import Digits
from madod.data.layout import unpacked
from madod.data.split import split
from madod.training import silent
from tests.data.miniatures import picture


@pytest.fixture
def cache(tmp_path):
    """Return a cache with one entry of every kind, made by what makes them, and a file that is none of ours."""
    cache, photo = tmp_path / "cache", picture(tmp_path / "mine" / "a.png")
    decoded([photo], 8, cache=cache / "images")
    with zipfile.ZipFile(tmp_path / "packed.zip", "w") as archive:
        archive.write(photo, "a.png")
    unpacked(tmp_path / "packed.zip", cache / "images")
    parts = split(Digits(), test_domain="ink", ood_classes=("2",))
    generator(parts, steps=1, backbone="small_cnn", augment=NONE, cache=cache, progress=silent, waive=True)
    (cache / "weights").mkdir()
    (cache / "weights" / "resnet50-0676ba61.pth").write_bytes(b"12")
    (cache / "images" / "holiday.png").write_bytes(photo.read_bytes())
    return cache


def test_every_kind_is_listed_and_only_ours_is_deleted(cache, capsys):
    whole = {kind: [entry.name for entry in entries(cache, kind)] for kind in HOLDS}
    assert {kind: len(names) for kind, names in whole.items()} == {
        "pictures": 2, "archives": 1, "generators": 1, "weights": 1,
    }  # fmt: skip
    assert main(["cache", "--cache", str(cache)]) == 0
    said = capsys.readouterr().out
    assert said.startswith(f"{cache}\n")
    assert [line.split()[:2] for line in said.splitlines()[1:]] == [[kind, str(len(whole[kind]))] for kind in HOLDS]

    assert main(["cache", "--clear", "archives", "--cache", str(cache)]) == 0
    assert {kind: len(list(entries(cache, kind))) for kind in HOLDS} == {
        "pictures": 2, "archives": 0, "generators": 1, "weights": 1,
    }  # fmt: skip
    assert main(["cache", "--clear", "all", "--cache", str(cache)]) == 0
    left = [file.relative_to(cache).as_posix() for file in cache.rglob("*") if file.is_file()]
    assert left == ["images/holiday.png"]


def test_what_a_process_works_on_is_left(cache, capsys):
    (folder,) = entries(cache, "generators")
    with FileLock(folder / "lock"):
        assert main(["cache", "--clear", "generators", "--cache", str(cache)]) == 0
    assert capsys.readouterr().out == "generators: 0.0 MB deleted; 1 in use were left\n"
    assert (folder / "generator.safetensors").exists()


def test_a_cache_that_is_not_there(tmp_path, capsys, monkeypatch):
    assert main(["cache", "--cache", str(tmp_path / "none")]) == 2
    assert "there is no folder" in capsys.readouterr().err
    monkeypatch.setenv("MADOD_CACHE", str(tmp_path / "none"))  # one's own, before anything was kept
    assert main(["cache", "--clear", "all"]) == 0


def test_amounts():
    assert [amount(n) for n in (0, 1_500_000, 2_340_000_000)] == ["0.0 MB", "1.5 MB", "2.3 GB"]
