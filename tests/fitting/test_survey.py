"""What is said of a folder before it is trained on."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from madod.fitting.survey import identical, survey
from tests.predict.toy import files


@pytest.fixture
def root(tmp_path) -> Path:
    """Two domains; cat is large, dog has two pictures, fox is missing at night, and two files are copies."""
    home = tmp_path / "my pictures"
    cats = files(home / "day" / "cat", 12)
    files(home / "night" / "cat", 3)
    for place in (home / "night" / "cat" / "000.png", home / "night" / "cat" / "001.png"):
        place.write_bytes(cats[5].read_bytes() + place.name.encode())
    (home / "night" / "cat" / "copy.png").write_bytes(cats[5].read_bytes())
    for name in ("day", "night"):
        [dog] = files(home / name / "dog", 1)
        dog.write_bytes(dog.read_bytes() + name.encode())
    (home / "day" / "fox").mkdir()
    (home / "day" / "fox" / "cat?.png").write_bytes(cats[7].read_bytes())
    (home / "day" / "fox" / "empty.png").touch()
    (home / "day" / "fox" / "also empty.png").touch()
    return home


def test_counts_sizes_and_copies(root):
    found = survey(root)
    assert found.counts == {"day": {"cat": 12, "dog": 1, "fox": 3}, "night": {"cat": 4, "dog": 1}}
    assert found.classes == {"cat": 16, "dog": 2, "fox": 3}
    assert found.kinds == Counter({".png": 21})
    assert found.side == 16
    names = [{path.relative_to(root).as_posix() for path in group} for group in found.across]
    assert {"day/cat/005.png", "night/cat/copy.png"} in names
    [contradictory] = [{path.name for path in group} for group in found.contradictory]
    assert contradictory == {"007.png", "cat?.png"}


def test_it_is_told_in_a_dozen_lines(root):
    lines = survey(root).lines()
    assert len(lines) <= 12
    assert lines[0] == "21 pictures in 2 domains and 3 classes"
    assert survey(root).lines(unread=True) == ["21 files in 2 domains and 3 classes", *lines[1:]]
    said = "\n".join(lines)
    for words in ("uneven: cat has 16 pictures and dog 2", "nearly empty", "dog (2), fox (3)",
                  "no picture of fox in night",
                  "copies of each other in several domains", "copies of each other in several classes"):  # fmt: skip
        assert words in said, words


def test_what_opening_the_folder_says_can_be_left_out(root):
    found = survey(root)
    assert [line for line in found.lines() if line not in found.lines(missing=False)] == [
        "! there is no picture of fox in night (1 of 6 pairs of class and domain); a class seen in one domain only is "
        "learned together with its style"
    ]


def test_classes_of_which_nothing_can_be_read_do_not_count(root):
    for file in (root / "day" / "fox").iterdir():
        file.write_text("no picture")
    (root / "dusk").mkdir()
    found = survey(root)
    assert found.classes == {"cat": 16, "dog": 2}
    assert found.lines()[0] == "18 pictures in 2 domains and 2 classes"
    assert found.missing == (
        "the class 'fox' has no picture that can be read in any domain, so the model will not know it",
        "the domain 'dusk' has no picture that can be read, so nothing is learned from it",
    )


def test_only_some_pictures_may_be_looked_at(root):
    only = {file for file in root.rglob("*.png") if file.parent.name != "dog"}
    found = survey(root, only=only)
    assert found.classes == {"cat": 16, "fox": 3}
    assert "the class 'dog' has no picture" in found.missing[0]


def test_kinds_of_file_that_are_not_listed_are_counted(root):
    for kind in ("jpg", "webp", "bmp", "gif", "tif", "jp2", "ppm"):
        (root / "day" / "cat" / f"x.{kind}").touch()
    (line,) = (line for line in survey(root).lines() if line.startswith("files: "))
    assert line.startswith("files: 21 .png, 1 .")
    assert line.endswith(" and 2 more")
    assert line.count(",") == 5


def test_sixteen_bit_pictures_that_do_not_use_them_are_told(tmp_path):
    for domain, factor in (("a", 16), ("b", 257), ("c", 1)):
        for label in "xy":
            for file in files(tmp_path / domain / label, 3):
                grey = np.asarray(Image.open(file).convert("L"))
                Image.fromarray(grey.astype(np.uint16) * factor if domain != "c" else grey).save(file)
    assert survey(tmp_path).dark == {"a": 4}
    (said,) = (line for line in survey(tmp_path).lines() if "16-bit" in line)
    assert said == (
        "! 16-bit pictures that never use their upper bits, and so are nearly black: those of a (upper 4 bits); scale "
        "them to all 16 bits, or save them with 8"
    )


def test_an_orderly_folder_is_told_without_warnings(tmp_path):
    for d, domain in enumerate("ab"):
        for k, label in enumerate("xy"):
            for path in files(tmp_path / domain / label, 10):
                path.write_bytes(path.read_bytes() + bytes([d, k]))
    assert survey(tmp_path).warnings() == []


def test_what_is_kept_apart_has_no_say_in_the_size(tmp_path):
    files(tmp_path / "a" / "x", 3)
    files(tmp_path / "a" / "y", 3)
    for place in (tmp_path / "b" / "x", tmp_path / "a" / "z"):
        place.mkdir(parents=True)
        Image.new("RGB", (300, 200)).save(place / "large.png")
    assert survey(tmp_path).sides == (16,) * 6 + (200, 200)
    assert survey(tmp_path, test_domain="b", ood_classes=("z",)).sides == (16,) * 6


def test_only_files_of_one_length_are_read(tmp_path, monkeypatch):
    from madod.data.finding import LabelledFile
    from madod.fitting import survey as room

    short, long = tmp_path / "a.png", tmp_path / "b.png"
    short.write_bytes(b"1")
    long.write_bytes(b"12")
    monkeypatch.setattr(room, "_digest", lambda path: pytest.fail("read"))
    gone = LabelledFile("d", "c", tmp_path / "gone.png")
    assert list(identical([LabelledFile("d", "c", short), LabelledFile("d", "c", long), gone, gone])) == []
