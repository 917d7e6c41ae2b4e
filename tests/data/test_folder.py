"""A user's own folder: what it holds, and what is refused."""

import logging
import os
import sys
import unicodedata
from pathlib import Path

import pytest
import torch
from PIL import Image

from madod.data.base import DATASETS
from madod.data.finding import find_pictures
from madod.data.folder import Folder
from madod.data.images import read_image
from madod.errors import InputError
from madod.fitting.survey import survey

COLOURS = {"photo": (250, 0, 0), "sketch": (0, 250, 0)}


def save(path: Path, colour=(10, 20, 30), size=(40, 30)) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, colour).save(path)
    return path


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "cache"


@pytest.fixture
def root(tmp_path):
    """Two domains, two classes, two pictures of each; the shade tells which is which."""
    folder = tmp_path / "my pictures"
    for domain, colour in COLOURS.items():
        for shade, name in enumerate(("cat", "dog")):
            for k in range(2):
                save(folder / domain / name / f"{k}.png", tuple(part and part - 50 * shade - 10 * k for part in colour))
    return folder


def test_domains_classes_and_images(root, cache):
    dataset = Folder(root, size=32, cache=cache)
    assert dataset.domains == ("photo", "sketch")
    assert dataset.classes == dataset.units == ("cat", "dog")
    assert dataset.shape == (3, 32, 32)
    photo, sketch = dataset.read("photo"), dataset.read("sketch")
    assert photo.labels.tolist() == sketch.units.tolist() == [0, 0, 1, 1]
    assert photo.images.shape == (4, 3, 32, 32)
    assert photo.images[:, 0, 16, 16].tolist() == [250, 240, 200, 190]
    assert sketch.images[:, 1, 16, 16].tolist() == [250, 240, 200, 190]
    assert sketch.images[:, 0].sum() == 0


def test_it_is_registered_and_named_after_the_folder(root, cache):
    dataset = DATASETS["folder"](root, size=32, cache=cache)
    assert dataset.name == str(root)
    assert Folder.name == "folder"
    with pytest.raises(InputError, match=r"no domain 'sketsch' in .*my pictures .did you mean 'sketch'"):
        dataset.read("sketsch")


def test_paths_name_the_file_behind_every_image(root, cache):
    save(root / "photo" / "cat" / "deep" / "er" / "x.png", (1, 2, 3))
    dataset = Folder(root, size=32, cache=cache)
    assert root / "photo" / "cat" / "deep" / "er" / "x.png" in dataset.paths["photo"]
    for domain in dataset.domains:
        images = dataset.read(domain).images
        assert len(images) == len(dataset.paths[domain])
        for image, path in zip(images, dataset.paths[domain], strict=True):
            assert torch.equal(image, torch.from_numpy(read_image(path, 32)))


def test_size_as_asked(root, cache):
    assert Folder(root, size=20, cache=cache).read("photo").images.shape == (4, 3, 20, 20)
    with pytest.raises(InputError, match="a size of 0 pixels is too small"):
        Folder(root, size=0, cache=cache)
    with pytest.raises(InputError, match="a size of 2049 pixels is too large to train on: give 2048 or less"):
        Folder(root, size=2049, cache=cache)


def test_progress_is_shown_when_decoding(root, cache):
    calls = []
    Folder(root, size=32, cache=cache, progress=lambda _, done, total: calls.append((done, total)))
    assert calls[-1] == (8, 8)


def test_the_cache_folder_is_the_usual_one_unless_given(root, tmp_path, monkeypatch):
    monkeypatch.setenv("MADOD_CACHE", str(tmp_path / "usual"))
    Folder(root, size=32)
    assert list((tmp_path / "usual").glob("*/images.npy"))


@pytest.mark.parametrize("names", [("big cat", "small dog"), ("猫", "犬"), ("قط", "كلب"), ("gatto è", "ça")])
def test_names_with_spaces_and_non_latin_letters(tmp_path, cache, names):
    for domain in ("site één", "点 二"):
        for name in names:
            save(tmp_path / "root" / domain / name / f"{name} 1.png")
    dataset = Folder(tmp_path / "root", size=32, cache=cache)
    assert dataset.classes == tuple(sorted(names))
    assert dataset.domains == ("site één", "点 二")
    assert len(dataset.read("点 二").images) == 2


def test_the_same_letters_stored_differently_are_one_class(tmp_path, cache):
    composed, split = unicodedata.normalize("NFC", "café"), unicodedata.normalize("NFD", "café")
    for domain, name in (("a", composed), ("b", split)):
        save(tmp_path / "root" / domain / name / "1.png")
        save(tmp_path / "root" / domain / "bar" / "1.png")
    assert Folder(tmp_path / "root", size=32, cache=cache).classes == ("bar", composed)


@pytest.mark.skipif(sys.platform == "darwin", reason="this system has no such names")
@pytest.mark.parametrize("place", ["photo/cat", "photo", "."])
def test_a_name_that_is_no_text_is_refused(root, cache, place):
    renamed = os.fsdecode(os.fsencode((root / place).parent) + b"/\xff")
    (root / place).rename(renamed)
    with pytest.raises(InputError, match="is not valid text: rename it"):
        Folder(renamed if place == "." else root, size=32, cache=cache)


def test_what_systems_leave_behind_is_ignored(root, cache, caplog):
    save(root / "__MACOSX" / "cat" / "0.png")
    save(root / ".git" / "cat" / "0.png")
    save(root / "photo" / ".thumbnails" / "0.png")
    save(root / "photo" / "cat" / ".hidden.png")
    (root / "photo" / "cat" / "._0.png").write_bytes(b"resource fork")
    (root / "photo" / "cat" / "Thumbs.db").write_bytes(b"thumbs")
    (root / ".DS_Store").write_bytes(b"finder")
    dataset = Folder(root, size=32, cache=cache)
    assert (dataset.domains, dataset.classes) == (("photo", "sketch"), ("cat", "dog"))
    assert len(dataset.paths["photo"]) == 4
    assert caplog.messages == []


def test_thousands_of_files_without_an_ending_make_a_line_and_not_a_book(root, cache, caplog):
    for k in range(100):
        (root / "photo" / "cat" / f"scan{k}").write_bytes(b"no ending")
    (root / "photo" / "cat" / "a.txt").touch()
    (root / "photo" / "cat" / "b.txt").touch()
    Folder(root, size=32, cache=cache)
    (said,) = caplog.messages
    assert "do not end like pictures: 2 .txt, 1 scan0, 1 scan1," in said
    assert said.endswith(" and 89 more")


def test_files_that_are_no_pictures_are_left_out_and_said(root, cache, caplog):
    (root / "photo" / "cat" / "notes.txt").write_text("hello")
    (root / "sketch" / "dog" / "1.heic").write_bytes(b"heic")
    save(root / "photo" / "loose.png")
    assert len(Folder(root, size=32, cache=cache).paths["photo"]) == 4
    assert any(
        "do not end like pictures: 1 .heic, 1 .txt; convert HEIC to JPEG first" in message
        for message in caplog.messages
    )
    assert any("lie beside class folders" in message and "loose.png" in message for message in caplog.messages)


def test_endings_in_any_case(root, cache):
    Image.new("RGB", (40, 30)).save(root / "photo" / "cat" / "A.JPG", format="JPEG")
    assert len(Folder(root, size=32, cache=cache).paths["photo"]) == 5


def test_links_are_followed_but_not_in_circles(root, cache, tmp_path):
    save(tmp_path / "elsewhere" / "9.png")
    (root / "photo" / "cat" / "more").symlink_to(tmp_path / "elsewhere")
    (root / "photo" / "cat" / "9.png").symlink_to(tmp_path / "elsewhere" / "9.png")
    (root / "photo" / "cat" / "self").symlink_to(root / "photo" / "cat")
    (root / "photo" / "cat" / "top").symlink_to(root)
    (root / "photo" / "again").symlink_to(root / "photo")
    (root / "all").symlink_to(root)
    dataset = Folder(root, size=32, cache=cache)
    assert dataset.domains == ("photo", "sketch")
    assert dataset.classes == ("cat", "dog")
    assert sorted(path.name for path in dataset.paths["photo"]) == [
        "0.png",
        "0.png",
        "1.png",
        "1.png",
        "9.png",
        "9.png",
    ]


def test_a_class_missing_in_a_domain_is_a_warning(root, cache, caplog):
    save(root / "sketch" / "bird" / "0.png")
    (root / "sketch" / "empty").mkdir()
    dataset = Folder(root, size=32, cache=cache)
    assert dataset.classes == ("bird", "cat", "dog")
    assert dataset.read("sketch").labels.tolist() == [0, 1, 1, 2, 2]
    assert dataset.read("photo").labels.tolist() == [1, 1, 2, 2]
    assert [(r.levelno, r.getMessage()) for r in caplog.records] == [
        (
            logging.WARNING,
            f"{root}: the class 'empty' has no picture that can be read in any domain, so the model will not know it",
        ),
        (
            logging.WARNING,
            f"{root}: there is no picture of bird in photo (1 of 6 pairs of class and domain); a class seen in one "
            "domain only is learned together with its style",
        ),
    ]


def test_many_gaps_are_one_warning(tmp_path, cache, caplog):
    for k in range(20):
        save(tmp_path / "root" / f"d{k:02}" / f"c{k:02}" / "0.png", (k, k, k))
    Folder(tmp_path / "root", size=32, cache=cache)
    (said,) = caplog.messages
    assert "no picture of c01 in d00, c02 in d00, c03 in d00, c04 in d00, c05 in d00, c06 in d00 and 374 more" in said
    assert "(380 of 400 pairs" in said


def test_what_is_lost_is_named_once(root, cache, caplog):
    for domain in COLOURS:
        (root / domain / "bird").mkdir()
        (root / domain / "ant").mkdir()
        (root / domain / "ant" / "0.heic").write_bytes(b"heic")
        (root / domain / "fox").mkdir()
        (root / domain / "fox" / "0.png").write_text("text")
    (root / "dusk" / "cat").mkdir(parents=True)
    (root / "all").symlink_to(root)
    (root / "photo" / "self").symlink_to(root / "photo")
    assert Folder(root, size=32, cache=cache, skip_bad=True).classes == ("cat", "dog")
    assert caplog.messages[-2:] == [
        f"{root}: the classes 'ant', 'bird', 'fox' have no picture that can be read in any domain, so the model will "
        "not know them",
        f"{root}: the domain 'dusk' has no picture that can be read, so nothing is learned from it",
    ]
    assert len(caplog.messages) == 4  # beside those on endings and on what cannot be read


def refusal(root: Path, cache: Path, **options) -> str:
    with pytest.raises(InputError) as caught:
        Folder(root, size=32, cache=cache, **options)
    return str(caught.value)


LAYOUT = "; the layout is ROOT/DOMAIN/CLASS/*.jpg, with two domains and two classes at least"


def test_no_such_folder(tmp_path, cache):
    assert refusal(tmp_path / "nowhere", cache) == f"there is no folder {tmp_path / 'nowhere'}"


def test_a_file_is_no_folder(tmp_path, cache):
    file = save(tmp_path / "a.png")
    assert refusal(file, cache) == f"{file} is not a folder{LAYOUT}"


@pytest.mark.parametrize("hidden", [False, True])
def test_an_empty_folder(tmp_path, cache, hidden):
    folder = tmp_path / "root"
    folder.mkdir()
    if hidden:
        (folder / ".DS_Store").touch()
    assert refusal(folder, cache) == f"the folder {folder} is empty{LAYOUT}"


def test_no_pictures(tmp_path, cache):
    (tmp_path / "root" / "a" / "x").mkdir(parents=True)
    assert refusal(tmp_path / "root", cache) == f"no pictures in {tmp_path / 'root'}{LAYOUT}"
    (tmp_path / "root" / "a" / "x" / "1.heic").touch()
    assert refusal(tmp_path / "root", cache) == f"no pictures in {tmp_path / 'root'} (only .heic){LAYOUT}"


def test_one_domain(root, cache):
    for path in find_pictures(root):
        if path.domain == "sketch":
            path.path.unlink()
    text = f"{root} has pictures of one domain only, 'photo': two domains are needed{LAYOUT}"
    assert refusal(root, cache) == text


def test_one_class(root, cache):
    for domain in ("photo", "sketch"):
        for file in (root / domain / "dog").iterdir():
            file.unlink()
    text = f"{root} has pictures of one class only, 'cat': two classes are needed{LAYOUT}"
    assert refusal(root, cache) == text


@pytest.fixture
def capitals(tmp_path):
    """Skip where the system takes names that differ by capitals for one."""
    (tmp_path / "a").touch()
    if (tmp_path / "A").exists():
        pytest.skip("this system has no such names")


@pytest.mark.usefixtures("capitals")
@pytest.mark.parametrize(("beside", "there"), [(False, "photo"), (True, "photo, sketch")])
def test_classes_that_differ_by_capitals_alone_are_refused(root, cache, beside, there):
    (root / "sketch" / "dog").rename(root / "sketch" / "Dog")
    if beside:
        save(root / "sketch" / "dog" / "9.png")
    assert refusal(root, cache) == (
        f"the classes 'Dog' (in sketch) and 'dog' (in {there}) of {root} differ by capitals or blanks around them "
        "alone: give their folders one name, or names that differ in more where they are two classes"
    )
    assert not list(cache.glob("*/images.npy"))


@pytest.mark.usefixtures("capitals")
def test_domains_that_differ_by_capitals_alone_are_refused(root, cache):
    save(root / "Photo" / "cat" / "0.png")
    assert refusal(root, cache) == (
        f"the domains 'Photo' and 'photo' of {root} differ by capitals or blanks around them alone: put them "
        "together, or rename one"
    )


def test_classes_that_differ_by_blanks_around_them_alone_are_refused(root, cache):
    (root / "sketch" / "dog").rename(root / "sketch" / "dog ")
    assert "the classes 'dog' (in photo) and 'dog ' (in sketch)" in refusal(root, cache)
    (root / "photo").rename(root / " sketch")
    assert "the domains ' sketch' and 'sketch'" in refusal(root, cache)


@pytest.mark.usefixtures("capitals")
def test_capital_and_small_letters_may_be_classes(root, cache, caplog):
    for domain in COLOURS:
        for letter in "aA":
            save(root / domain / letter / "0.png")
    assert Folder(root, size=32, cache=cache).classes == ("A", "a", "cat", "dog")
    places = "(in photo, sketch)"
    assert caplog.messages == [
        f"the classes 'A' {places} and 'a' {places} of {root} differ by capitals or blanks around "
        "them alone, and count as different ones"
    ]


def test_classes_without_domains_are_recognised(tmp_path, cache):
    for name in ("cat", "dog"):
        save(tmp_path / "root" / name / "0.png")
    text = refusal(tmp_path / "root", cache)
    assert text.startswith(f"{tmp_path / 'root'} looks like ROOT/CLASS/*.jpg, without domains")
    assert text.endswith(LAYOUT)


def deeper(root: Path, *places: str) -> Path:
    for place in places:
        save(root / place / "0.png")
    return root


SPLITS = [f"{part}/{domain}/{label}" for part in ("train", "val") for domain in ("day", "dusk") for label in "xyz"]


@pytest.mark.parametrize("left_out", [(), ("val/dusk/x", "val/dusk/y"), ("val/day/z", "val/dusk/z", "train/dusk/z")])
def test_domains_below_folders_for_training_and_testing_are_recognised(tmp_path, cache, left_out):
    root = deeper(tmp_path / "root", *(set(SPLITS) - set(left_out)))
    names = "x, y" if "train/dusk/z" in left_out else "x, y, z"
    assert refusal(root, cache) == (
        f"{root} seems to hold its domains and classes one level deeper, since no class folder has pictures of its own "
        f"but they share the folders {names}: give {root / 'train'}, or move the pictures up into the class "
        f"folders if these only divide the classes{LAYOUT}"
    )
    with pytest.raises(InputError, match="one level deeper"):
        survey(root)
    assert Folder(root / "train", size=32, cache=cache).domains == ("day", "dusk")


def test_a_single_folder_above_the_domains_is_recognised(tmp_path, cache):
    root = deeper(tmp_path / "root", *(place for place in SPLITS if place.startswith("train")))
    assert f"give {root / 'train'}, or" in refusal(root, cache)


@pytest.mark.parametrize(
    "inner",
    [
        {"cat": ("tabby", "lion"), "dog": ("collie", "husky")},
        {"cat": ("images",), "dog": ("images",)},
        {"cat": ("train", "Test"), "dog": ("train", "Test")},
        {"cat": ("left", "right", "."), "dog": ("left", "right")},
        {"cat": ("monday", "friday"), "dog": ("monday", "friday")},
    ],
)
def test_folders_may_divide_classes(tmp_path, cache, inner):
    places = [f"{domain}/{label}/{part}" for domain in "ab" for label, parts in inner.items() for part in parts]
    root = deeper(tmp_path / "root", *places)
    assert Folder(root, size=32, cache=cache).classes == ("cat", "dog")


def test_pictures_in_the_root_are_recognised(tmp_path, cache):
    save(tmp_path / "root" / "0.png")
    assert (
        refusal(tmp_path / "root", cache)
        == f"the pictures of {tmp_path / 'root'} lie in no class and no domain{LAYOUT}"
    )


def test_a_folder_that_cannot_be_listed(root, cache, monkeypatch):
    original = Path.iterdir

    def refuse(self):
        if self.name == "dog":
            raise PermissionError(13, "Permission denied", str(self))
        return original(self)

    monkeypatch.setattr(Path, "iterdir", refuse)
    assert (
        refusal(root, cache)
        == f"cannot list the folder {root / 'photo' / 'dog'}: permission denied; make it readable or move it elsewhere"
    )


@pytest.fixture
def damaged(root, monkeypatch):
    """The folder with a truncated, a fake, a dangling and an unreadable picture."""
    cut = root / "photo" / "cat" / "cut.jpg"
    Image.effect_noise((300, 300), 90).save(cut)
    cut.write_bytes(cut.read_bytes()[:5000])
    (root / "photo" / "dog" / "fake.png").write_text("text")
    (root / "sketch" / "cat" / "gone.png").symlink_to(root / "nowhere.png")
    save(root / "sketch" / "dog" / "locked.png")
    original = Path.open

    def refuse(self, *args, **kwargs):
        if self.name == "locked.png":
            raise PermissionError(13, "Permission denied", str(self))
        return original(self, *args, **kwargs)

    monkeypatch.setattr(Path, "open", refuse)
    return root


def bad_lines(root: Path) -> list[str]:
    return [
        f"  {root / 'photo' / 'cat' / 'cut.jpg'}: it is truncated",
        f"  {root / 'photo' / 'dog' / 'fake.png'}: its content is not a picture of a known kind",
        f"  {root / 'sketch' / 'cat' / 'gone.png'}: it does not exist",
        f"  {root / 'sketch' / 'dog' / 'locked.png'}: there is no permission to read it",
    ]


def test_bad_files_are_listed_all_at_once(damaged, cache):
    sentence, *lines = refusal(damaged, cache).split("\n")
    assert sentence.startswith(f"4 of 12 pictures in {damaged} cannot be read; ")
    assert "--skip-bad" in sentence
    assert lines == bad_lines(damaged)


def test_bad_files_are_left_out_on_request(damaged, cache, caplog):
    dataset = Folder(damaged, size=32, skip_bad=True, cache=cache)
    assert [len(dataset.read(domain).images) for domain in dataset.domains] == [4, 4]
    assert dataset.read("sketch").images[:, 1, 16, 16].tolist() == [250, 240, 200, 190]
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert record.getMessage().split("\n")[1:] == bad_lines(damaged)


def test_a_class_of_bad_files_only_does_not_count(root, cache):
    for domain in ("photo", "sketch"):
        for file in (root / domain / "dog").iterdir():
            file.write_text("text")
    assert "one class only, 'cat'" in refusal(root, cache, skip_bad=True)
    for domain in ("photo", "sketch"):
        for file in (root / domain / "cat").iterdir():
            file.write_text("text")
    assert refusal(root, cache, skip_bad=True) == f"none of the pictures in {root} can be read"
