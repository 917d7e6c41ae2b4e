"""Which pictures the words behind `madod predict` name: each once, and none lost for another's sake."""

import io
import json
import os
import sys
from pathlib import Path

import pytest
from PIL import Image

from madod.cli.inputs import pictures
from madod.cli.listing import names
from madod.cli.main import main
from madod.cli.patterns import fits
from madod.errors import InputError
from tests.predict.toy import files, toy_model


def named(*words: object) -> list[Path]:
    bad: list[InputError] = []
    found = list(pictures([str(word) for word in words], bad))
    assert not bad
    return found


@pytest.fixture
def circle(tmp_path):
    """A folder with two pictures, a file that is none, and links that lead back."""
    [one] = files(tmp_path / "two" / "x", 1)
    [other] = files(tmp_path / "two" / "x" / "y", 1)
    (tmp_path / "two" / "x" / "notes.txt").write_text("x", encoding="utf-8")
    for name in ("up1", "up2", "up3"):
        (tmp_path / "two" / "x" / name).symlink_to("..")
    return tmp_path / "two", one, other


@pytest.mark.timeout(60)
@pytest.mark.parametrize("pattern", ["**/*.png", "**", "**/", "**/**", "**/x", "*/**/*.png", "x/**/*.p?g", "*", ""])
def test_a_picture_is_named_once_however_links_lead(circle, pattern):
    folder, *both = circle
    assert named(f"{folder}/{pattern}") == both


def test_what_a_folder_had_in_it_is_not_named_again(circle, monkeypatch):
    folder, *both = circle
    hidden = folder / "x" / ".hidden.png"
    other = folder / "x" / "picture"
    assert named(folder, *folder.rglob("*.png"), folder / "x", hidden, other) == [*both, hidden, other]
    monkeypatch.chdir(folder)
    assert named(".", "x/000.png", "x/y", "../two/x/000.png")[2:] == [Path("../two/x/000.png")]
    assert named("x/000.png", "x/000.png") == 2 * [Path("x/000.png")]


def test_a_file_that_is_not_there_is_named_even_below_a_folder_before(circle):
    folder, *both = circle
    missing = folder / "x" / "nope.png"
    assert named(folder, missing, both[0]) == [*both, missing]


def test_links_to_other_folders_are_followed(circle, tmp_path):
    folder, *_ = circle
    [apart] = files(tmp_path / "apart", 1)
    (folder / "z").symlink_to(tmp_path / "apart")
    assert named(folder / "**" / "z") == named(folder / "**" / "z" / "*") == [folder / "z" / apart.name]


@pytest.mark.parametrize("pattern", ["*.png", "**/*.png", "0?0.png"])
def test_what_is_called_like_a_pattern_is_none(tmp_path, monkeypatch, pattern):
    [one] = files(tmp_path / "br[1]", 1)
    files(tmp_path / "br1", 1)
    assert named(f"{tmp_path}/br[1]/{pattern}") == [one]
    monkeypatch.chdir(tmp_path)
    assert named(f"br[1]/{pattern}") == [Path("br[1]", one.name)]


def test_patterns_in_the_folder_that_one_is_in(circle, monkeypatch):
    monkeypatch.chdir(circle[0])
    assert named("**/*.png") == [Path("x/000.png"), Path("x/y/000.png")]
    assert named("**/notes*") == [Path("x/notes.txt")]


@pytest.mark.parametrize(
    ("path", "pattern", "fit"),
    [("a.png", "**/*.png", True), ("x/y/a.png", "**/y/*", True), ("x/y/z/a.png", "x/**/z/**/a*", True),
     ("x/a.png", "*.png", False), ("x/y", "x/**/z", False), ("x", "x/*", False)],
)  # fmt: skip
def test_two_stars_are_any_number_of_folders(path, pattern, fit):
    assert fits(path.split("/"), pattern.split("/")) == fit


def test_a_folder_without_pictures_does_not_stop_the_others(tmp_path, capsys):
    toy_model().save(tmp_path / "model")
    files(tmp_path / "full", 2)
    (tmp_path / "empty").mkdir()
    words = ["predict", tmp_path / "model", tmp_path / "empty", tmp_path / "full", "--format", "json", "--quiet"]
    assert main([*map(str, words)]) == 1
    said = capsys.readouterr()
    assert [Path(json.loads(line)["path"]).name for line in said.out.splitlines()] == ["000.png", "001.png"]
    empty = f"madod: the folder {tmp_path / 'empty'} has no pictures in it: give a file, or a folder with pictures\n"
    assert said.err == f"{empty}madod: what is listed above could not be read; the others are done\n"
    assert main([*map(str, words[:3])]) == 2
    assert capsys.readouterr() == ("", empty)


@pytest.mark.parametrize(
    ("content", "listed"),
    [
        (b"a.png\nb c.png\n", ["a.png", "b c.png"]),
        (b"a.png\r\n\r\nb.png", ["a.png", "b.png"]),
        (b"\xef\xbb\xbfa.png\r\nb.png\r\n", ["a.png", "b.png"]),
        (b"a.png\0b\nc.png\0", ["a.png", "b\nc.png"]),
        (b"\xef\xbb\xbfone.png", ["one.png"]),
        (b"caf\xe9.png\n", ["caf\udce9.png"]),
        (b" \na.png\n \t\r\n b.png\n  ", ["a.png", " b.png"]),
        (b" \0a.png\0", [" ", "a.png"]),
        (b"\n\n", []),
        (b"  ", []),
        (b"", []),
    ],
)
@pytest.mark.parametrize("size", [2**16, 1])
def test_a_list_has_lines_or_nulls(content, listed, size, monkeypatch):
    monkeypatch.setattr("madod.cli.listing.PIECE", size)
    assert list(names(io.BytesIO(content))) == listed


@pytest.mark.parametrize("ending", ["png", "jpg", "gif", "webp", "bmp", "tiff", "ppm"])
def test_a_picture_is_no_list(ending, tmp_path):
    Image.effect_noise((50, 50), 90).convert("RGB").save(tmp_path / f"photo.{ending}")
    with pytest.raises(InputError, match="standard input is no list of files but looks like a picture"):
        list(names(io.BytesIO((tmp_path / f"photo.{ending}").read_bytes())))


@pytest.mark.parametrize("order", ["le", "be"])
@pytest.mark.parametrize("size", [2**16, 1])
def test_a_list_in_utf_16_is_refused_and_not_read_letter_by_letter(order, size, monkeypatch):
    monkeypatch.setattr("madod.cli.listing.PIECE", size)
    with pytest.raises(InputError, match=r"^standard input lists files in UTF-16: write the list in UTF-8$"):
        list(names(io.BytesIO("\ufeffa.png\r\nb.png\r\n".encode(f"utf-16-{order}"))))


def test_a_name_may_start_like_a_list_in_utf_16(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path(os.fsdecode(b"\xff\xfe.png")).touch()
    assert list(names(io.BytesIO(b"\xff\xfe.png\nb.png\n"))) == ["\udcff\udcfe.png", "b.png"]


def test_a_name_may_hold_any_character(tmp_path):
    file = tmp_path / "a\x1b[31m.png"
    file.touch()
    assert list(names(io.BytesIO(f"{file}\nb.png\n".encode()))) == [str(file), "b.png"]


def test_a_folder_in_a_list_is_what_it_is_as_an_argument(circle, monkeypatch):
    folder, *both = circle
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(f"{folder}\n".encode())))
    assert named("-") == both


@pytest.mark.parametrize("listed", [False, True])
def test_an_address_is_no_file(circle, listed, monkeypatch):
    folder, *both = circle
    address, bad = "https://x.org/a.png?size=[1]", []
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(f"{address}\n".encode())))
    assert list(pictures(["-" if listed else address, str(folder)], bad)) == both
    said = f"{address} is an address, and pictures are read from files: fetch it, and name the file"
    assert list(map(str, bad)) == [said]
