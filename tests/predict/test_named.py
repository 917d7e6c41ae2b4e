"""Which pictures the words behind `madod predict` name: each once, and none lost for another's sake."""

import json
from pathlib import Path

import pytest

from madod.cli.inputs import pictures
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


def test_links_to_other_folders_are_followed(circle, tmp_path):
    folder, *_ = circle
    [apart] = files(tmp_path / "apart", 1)
    (folder / "z").symlink_to(tmp_path / "apart")
    assert named(folder / "**" / "z") == named(folder / "**" / "z" / "*") == [folder / "z" / apart.name]


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
    assert said.err == f"{empty}madod: 1 of 3 pictures could not be read; the others are done\n"
    assert main([*map(str, words[:3])]) == 2
    assert capsys.readouterr() == ("", empty)
