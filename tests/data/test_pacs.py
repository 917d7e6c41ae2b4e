"""PACS in the layouts in which it circulates; the real one where it is at hand."""

import json
import zipfile
from pathlib import Path

import pytest

from madod.cli.main import main
from madod.data.base import DATASETS
from madod.data.pacs import Pacs
from madod.data.published import Absent
from madod.errors import InputError
from tests.data.miniatures import REAL, picture

OFFICIAL = {"photo": 1670, "art_painting": 2048, "cartoon": 2344, "sketch": 3929}


def miniature(home: Path, names=Pacs.domains) -> None:
    """One picture a class, two of persons; the shade tells the class."""
    for name in names:
        for k, label in enumerate((*Pacs.classes, "person")):
            picture(home / name / label / f"{k}.png", (30 * k, 0, 0))


def zipped(folder: Path, archive: Path) -> None:
    with zipfile.ZipFile(archive, "w") as out:
        for file in sorted(folder.rglob("*.png")):
            out.write(file, file.relative_to(folder.parent))


def in_folders(root):
    miniature(root)


def in_domainbed(root):
    miniature(root / "PACS")


def in_the_original_archive(root):
    miniature(root / "kfold")
    zipped(root / "kfold", root / "PACS.zip")
    (root / "kfold").rename(root.parent / "elsewhere")


def in_one_archive_a_domain(root):
    miniature(root.parent / "loose")
    (root / "pacs").mkdir()
    for name in Pacs.domains:
        zipped(root.parent / "loose" / name, root / "pacs" / f"{name}.zip")


def nested_and_renamed(root):
    miniature(root / "pacs_data" / "pacs_data", ("photo", "Art Painting", "Cartoon", "sketch"))


@pytest.fixture
def root(tmp_path):
    (tmp_path / "root").mkdir()
    return tmp_path / "root"


@pytest.mark.parametrize(
    "layout", [in_folders, in_domainbed, in_the_original_archive, in_one_archive_a_domain, nested_and_renamed]
)
def test_layouts(root, tmp_path, layout):
    layout(root)
    before = sorted(root.rglob("*"))
    for _ in range(2):
        dataset = Pacs(root, size=16, cache=tmp_path / "cache")
        assert {name: sum(counts.values()) for name, counts in dataset.tally().items()} == dict.fromkeys(OFFICIAL, 8)
        art = dataset.read("art_painting")
        assert art.labels.tolist() == art.units.tolist() == [0, 1, 2, 3, 4, 5, 6, 6]
        assert art.images[:, 0, 8, 8].tolist() == [30 * k for k in range(8)]
    assert sorted(root.rglob("*")) == before
    assert not list((tmp_path / "cache").glob("*.part"))


def test_states_its_facts():
    assert DATASETS["pacs"] is Pacs
    assert dict(Pacs.census[0].totals) == OFFICIAL
    assert {name: sum(counts) for name, counts in Pacs.census[0].classes.items()} == OFFICIAL
    assert sum(OFFICIAL.values()) == 9991


def test_what_is_missing_is_said_in_a_sentence(root, tmp_path):
    with pytest.raises(Absent, match=r"there is no folder .*gone: make it, and put PACS.zip"):
        Pacs(tmp_path / "gone")
    with pytest.raises(Absent, match=r"there is nothing of pacs in .*root: put PACS.zip .* there, or PACS/DOMAIN"):
        Pacs(root)
    miniature(root, ("photo", "cartoon", "sketch"))
    with pytest.raises(Absent, match=r"pacs in .*root lacks art_painting: put"):
        Pacs(root)
    (root / "art_painting" / "dog").mkdir(parents=True)
    with pytest.raises(InputError, match=r"pacs has no pictures in .*art_painting: put"):
        Pacs(root)
    with pytest.raises(InputError, match="a size of 4 pixels is too small"):
        Pacs(root, size=4)


def test_a_damaged_archive_is_refused(root, tmp_path):
    (root / "PACS.zip").write_bytes(b"<html>too many downloads</html>")
    with pytest.raises(InputError, match=r"cannot unpack .*PACS.zip: it is no archive, or a damaged one; get it again"):
        Pacs(root, cache=tmp_path / "cache")
    assert not list((tmp_path / "cache").glob("unpacked-*[!k]"))


@pytest.mark.parametrize(("place", "value"), [(0, 1), (2, 9)], ids=["password", "deflate64"])
def test_an_archive_that_python_cannot_unpack_is_refused(root, tmp_path, place, value):
    miniature(tmp_path / "PACS")
    zipped(tmp_path / "PACS", root / "PACS.zip")
    content = bytearray((root / "PACS.zip").read_bytes())
    for mark, flags in ((b"PK\3\4", 6), (b"PK\1\2", 8)):  # flags, then the method, of a file and in the directory
        content[content.find(mark) + flags + place] = value
    (root / "PACS.zip").write_bytes(content)
    with pytest.raises(InputError, match=r"cannot unpack .*PACS.zip here \(.*\): unpack it by other means"):
        Pacs(root, cache=tmp_path / "cache")


def test_pictures_of_no_class_are_left_out_loudly(root, tmp_path, caplog):
    miniature(root)
    picture(root / "photo" / "unicorn" / "1.png")
    picture(root / "photo" / "2.png")
    assert "unicorn" not in Pacs(root, cache=tmp_path).tally()["photo"]
    assert "lie in no folder of a class: 1 in ., 1 in unicorn" in caplog.text


def test_bad_pictures_are_named(root, tmp_path):
    miniature(root)
    (root / "sketch" / "dog" / "0.png").write_bytes(b"no picture")
    with pytest.raises(InputError, match=r"1 of 8 pictures in pacs sketch cannot be read.*(\n.*)*0\.png"):
        Pacs(root, size=16, cache=tmp_path / "cache").read("sketch")
    assert len(Pacs(root, size=16, cache=tmp_path / "cache", skip_bad=True).read("sketch").labels) == 7


def test_the_command_names_what_differs(root, tmp_path, capsys):
    miniature(root)
    words = ["data", "pacs", "--root", str(root), "--size", "16", "--cache", str(tmp_path / "cache"), "--quiet"]
    assert main(words) == 1
    said = capsys.readouterr().out
    assert "photo: 8 images (dog 1, elephant 1, giraffe 1, guitar 1, horse 1, house 1, person 2)" in said
    assert "differs: photo has 8 images instead of 1,670 (dog 1 instead of 189, elephant 1 instead of 202" in said
    assert "ready: 16x16 pixels" in said
    assert "official" not in said


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["pacs"], "pacs lies in a folder of yours: name it with --root DIR"),
        (["digits", "--root", "."], "digits takes no --root"),
        (["digits", "--size", "9"], "digits takes no --size"),
        (["pasc", "--root", "."], "no dataset 'pasc' (did you mean 'pacs'?)"),
        (["pasc"], "there is no folder pasc, and no dataset of that name"),
    ],
)
def test_the_command_refuses_in_a_sentence(words, sentence, capsys):
    assert main(["data", *words]) == 2
    assert sentence in capsys.readouterr().err


@pytest.mark.skipif(not (REAL / "pacs").is_dir(), reason="the real PACS is not at hand")
def test_the_real_pacs_has_the_official_counts(tmp_path):
    dataset = Pacs(REAL, size=16, cache=tmp_path)
    assert {name: sum(counts.values()) for name, counts in dataset.tally().items()} == OFFICIAL
    assert dataset.differences() == ()
    assert dataset.read("photo").images.shape == (1670, 3, 16, 16)


def test_training_opens_it_by_its_root(root, tmp_path, capsys, caplog):
    for domain in Pacs.domains:
        for k, label in enumerate(Pacs.classes):
            for n in range(5):
                picture(root / "PACS" / domain / label / f"{n}.png", (30 * k, 40 * n, 0))
    words = ["train", "pacs", "--algorithm", "erm", "--translate", "augment", "--steps", "2", "--size", "16", "--quiet"]
    places = ["--root", str(root), "--cache", str(tmp_path / "cache"), "--out", str(tmp_path / "model")]
    assert main([*words, *places, "--test-domain", "photo", "--ood-class", "person"]) == 0
    assert "unseen domain photo: " in capsys.readouterr().out
    assert "this is not the whole official pacs: photo has 35 images instead of 1,670" in caplog.text


@pytest.mark.long
@pytest.mark.timeout(4 * 3600)
@pytest.mark.skipif(not (REAL / "pacs").is_dir(), reason="the real PACS is not at hand")
def test_the_real_pacs_goes_through_at_full_size(tmp_path, capsys):
    places = ["--root", str(REAL), "--cache", str(tmp_path / "cache")]
    assert main(["data", "pacs", *places, "--quiet"]) == 0
    said = capsys.readouterr().out
    assert "all counts are the official ones" in said
    assert "ready: 224x224 pixels" in said
    cell = ["--test-domain", "photo", "--ood-class", "person", "--steps", "5", "--backbone", "resnet18"]
    g = ["--pretrained", "none", "--translate-steps", "2", "--waive-gate", "--quiet"]
    assert main(["train", "pacs", *places, *cell, *g, "--out", str(tmp_path / "model")]) == 0
    record = json.loads((tmp_path / "model" / "record.json").read_text(encoding="utf-8"))
    judged, bounds = record["translation"], record["translation"]["bounds"]
    assert judged["waived"] == any(judged[name] < least for name, least in bounds.items())
    assert record["metrics"]["energy"]["base_rate"] == pytest.approx(432 / 1670)
