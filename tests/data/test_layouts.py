"""VLCS, TerraIncognita and OfficeHome in miniatures of the layouts in which they circulate."""

import json
import shutil
import tarfile
import zipfile

import pytest
import torch

from madod.cli.main import main
from madod.data.base import DATASETS
from madod.data.image_set import ImageSet
from madod.data.office_home import OfficeHome
from madod.data.opening import Opening, open_dataset
from madod.data.published import Absent
from madod.data.split import split
from madod.data.terra_incognita import TerraIncognita
from madod.data.vlcs import Vlcs
from madod.errors import InputError
from madod.progress import silent
from tests.data.miniatures import picture

TOTALS = {"vlcs": 10729, "terra_incognita": 24788, "office_home": 15588}
SETS = [Vlcs, TerraIncognita, OfficeHome]
sets = pytest.mark.parametrize("make", SETS, ids=lambda make: make.name)


@pytest.fixture
def root(tmp_path):
    (tmp_path / "root").mkdir()
    return tmp_path / "root"


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "cache"


def spread(home, domains, classes, part=""):
    """One picture of every class in every domain, lighter from class to class."""
    for domain in domains:
        for k, label in enumerate(classes):
            picture(home / domain / part / label / f"{domain}{part}{k}.png", (3 * k, 0, 0))


def ones(dataset):
    return {domain: dict.fromkeys(dataset.classes, 1) for domain in dataset.domains}


@sets
def test_states_its_facts(make):
    assert DATASETS[make.name] is make
    assert sum(make.census[0].totals.values()) == TOTALS[make.name]
    for census in make.census:
        assert tuple(census.totals) == make.domains
        for domain, counts in census.classes.items():
            assert len(counts) == len(make.classes)
            assert sum(counts) == census.totals[domain]
    assert len(set(make.classes)) == {"vlcs": 5, "terra_incognita": 10, "office_home": 65}[make.name]
    assert list(make.classes) == sorted(make.classes)


def test_the_older_terra_incognita_is_known():
    assert [sum(census.totals.values()) for census in TerraIncognita.census] == [24788, 24330]


@sets
def test_plain_folders(make, root, cache):
    spread(root, make.domains, make.classes)
    dataset = make(root, size=16, cache=cache)
    assert dataset.tally() == ones(dataset)
    domain = dataset.read(dataset.domains[1])
    assert domain.images.shape == (len(make.classes), 3, 16, 16)
    assert domain.labels.tolist() == list(range(len(make.classes)))
    assert domain.images[:, 0, 0, 0].tolist() == [3 * k for k in range(len(make.classes))]


@sets
def test_missing_and_empty_roots(make, root, tmp_path):
    with pytest.raises(Absent, match=r"there is no folder .*gone: make it, and put "):
        make(tmp_path / "gone")
    with pytest.raises(Absent, match=rf"there is nothing of {make.name} in .*root: put "):
        make(root)
    spread(root, make.domains[:3], make.classes)
    with pytest.raises(Absent, match=rf"{make.name} in .* lacks {make.domains[3]}: put "):
        make(root)
    (root / make.domains[3]).mkdir()
    with pytest.raises(InputError, match=rf"{make.name} has no pictures in .*{make.domains[3]}: put "):
        make(root)


@sets
def test_wrong_counts_are_named(make, root, cache, capsys):
    spread(root, make.domains, make.classes)
    words = ["data", make.name, "--root", str(root), "--size", "16", "--cache", str(cache), "--quiet"]
    assert main(words) == 1
    said = capsys.readouterr().out
    for domain, total in make.census[0].totals.items():
        assert f"differs: {domain} has {len(make.classes)} images instead of {total:,}" in said


def test_vlcs_as_the_original_archive_has_it(root, cache, tmp_path, caplog):
    loose = tmp_path / "VLCS"
    for part in ("train", "crossval", "test", "full"):
        spread(loose, ("CALTECH", "LABELME", "PASCAL", "SUN"), "01234", part)
    with tarfile.open(root / "VLCS.tar.gz", "w:gz") as out:
        out.add(loose, "VLCS")
    dataset = Vlcs(root, size=16, cache=cache)
    assert dataset.tally() == {domain: dict.fromkeys(Vlcs.classes, 3) for domain in Vlcs.domains}
    assert {picture.path.name[:6] for picture in dataset.pictures["VOC2007"]} == {"PASCAL"}
    assert not any("full" in picture.path.parts for picture in dataset.pictures["SUN09"])


def test_vlcs_with_full_folders_only(root, cache):
    spread(root / "vlcs", ("CALTECH", "LABELME", "PASCAL", "SUN"), "01234", "full")
    assert Vlcs(root, cache=cache).tally() == ones(Vlcs)


def test_office_home_as_the_original_archive_has_it(root, cache, tmp_path):
    loose = tmp_path / "OfficeHomeDataset_10072016"
    spread(loose, ("Art", "Clipart", "Product", "Real World"), OfficeHome.classes)
    with zipfile.ZipFile(root / "office_home.zip", "w") as out:
        for file in sorted(loose.rglob("*.png")):
            out.write(file, file.relative_to(tmp_path))
    assert OfficeHome(root, cache=cache).tally() == ones(OfficeHome)


def test_terra_incognita_as_domainbed_has_it(root, cache):
    spread(root / "terra_incognita", [f"location_{n}" for n in (38, 46, 100, 43)], TerraIncognita.classes)
    assert TerraIncognita(root, cache=cache).tally() == ones(TerraIncognita)


def annotated(home, images):
    """Flat pictures and two annotation files, with a place and a class too many and one picture that is not there."""
    labels = [*TerraIncognita.classes, "car"]
    facts = {"images": [], "annotations": [], "categories": [{"id": 30 + k, "name": n} for k, n in enumerate(labels)]}
    for place in ("100", 38, "43", "46", "7"):
        for k, _ in enumerate(labels):
            name = f"{place}-{k}"
            picture(images / f"{name}.png", (3 * k, 0, 0))
            facts["images"].append({"id": name, "file_name": f"{name}.png", "location": place})
            facts["annotations"].append({"image_id": name, "category_id": 30 + k})
    facts["images"].append({"id": "gone", "file_name": "gone.png", "location": 38})
    facts["annotations"] += [{"image_id": "gone", "category_id": 30}, {"image_id": "43-0", "category_id": 30}]
    home.mkdir(parents=True, exist_ok=True)
    (home / "trans_test_annotations.json").write_text(json.dumps(facts))
    (home / "train_annotations.json").write_text(json.dumps(facts))
    (home / "notes.json").write_text("[]")


def test_terra_incognita_as_published(root, cache):
    annotated(root / "terra_incognita" / "eccv_18_annotation_files", root / "terra_incognita" / "eccv_18_all_images_sm")
    dataset = TerraIncognita(root, size=16, cache=cache)
    assert dataset.tally() == ones(TerraIncognita)
    assert dataset.read("L38").images[:, 0, 0, 0].tolist() == [3 * k for k in range(10)]


def test_terra_incognita_as_fetched(root, cache, tmp_path):
    annotated(tmp_path / "eccv_18_annotation_files", tmp_path / "eccv_18_all_images_sm")
    for name, folder in zip(
        ("eccv_18_annotations", "eccv_18_all_images_sm"), ("eccv_18_annotation_files", "eccv_18_all_images_sm"),
        strict=True,
    ):  # fmt: skip
        (root / "terra_incognita").mkdir(exist_ok=True)
        with tarfile.open(root / "terra_incognita" / f"{name}.tar.gz", "w:gz") as out:
            out.add(tmp_path / folder, folder)
    assert TerraIncognita(root, cache=cache).tally() == ones(TerraIncognita)
    assert {source.path for source in TerraIncognita.sources} == {
        str(file.relative_to(root)) for file in (root / "terra_incognita").iterdir()
    }


def test_terra_incognita_is_not_unpacked_twice(root, cache):
    annotated(root, root / "eccv_18_all_images_sm")
    (root / "eccv_18_all_images_sm.tar.gz").write_bytes(b"gigabytes that nobody needs to open")
    assert TerraIncognita(root, cache=cache).tally() == ones(TerraIncognita)


def test_terra_incognita_with_a_damaged_annotation_file(root, cache):
    annotated(root, root / "images")
    (root / "train_annotations.json").write_text('{"images": [')
    with pytest.raises(InputError, match=r"train_annotations.json is no whole annotation file .*: get it again"):
        TerraIncognita(root, cache=cache)


def test_terra_incognita_without_pictures_of_a_place(root, cache):
    annotated(root, root / "eccv_18_all_images_sm")
    for file in (root / "eccv_18_all_images_sm").glob("46-*"):
        file.unlink()
    with pytest.raises(Absent, match=r"has no annotated pictures of L46: put eccv_18_all_images_sm.tar.gz"):
        TerraIncognita(root, cache=cache)


@pytest.mark.parametrize("layout", ["annotated", "folders"])
def test_terra_incognita_shows_no_picture_of_two_classes(root, cache, layout):
    dog, raccoon = (TerraIncognita.classes.index(name) for name in ("dog", "raccoon"))
    if layout == "annotated":
        annotated(root, root / "images")
        also = [{"image_id": f"{place}-{dog}", "category_id": 30 + raccoon} for place in (38, 46)]
        facts = json.loads((root / "train_annotations.json").read_text())
        (root / "more.json").write_text(json.dumps(facts | {"annotations": also}))
    else:
        spread(root, [f"location_{name[1:]}" for name in TerraIncognita.domains], TerraIncognita.classes)
        for place in ("location_38", "location_46"):
            shutil.copy(root / place / "dog" / f"{place}{dog}.png", root / place / "raccoon")
    dataset = TerraIncognita(root, size=16, cache=cache)
    assert {name: counts["raccoon"] for name, counts in dataset.tally().items()} == {
        "L100": 1, "L38": 2, "L43": 1, "L46": 2,
    }  # fmt: skip  # counted as downloaded
    parts = split(dataset, test_domain="L46", ood_classes=("raccoon",), holdout=0.0)
    source, target = (
        part.stored(torch.arange(len(part)))[:, 0, 0, 0].tolist() for part in (parts.source, parts.target)
    )
    assert source.count(3 * dog) == 2  # of L100 and L43; that of L38 shows a raccoon, too
    assert target == [3 * k for k in range(10) if k != dog]
    assert parts.target.y.tolist().count(-1) == 1


@pytest.mark.parametrize("layout", ["annotated", "folders"])
def test_terra_incognita_without_empty(root, cache, layout, caplog):
    if layout == "annotated":
        annotated(root, root / "eccv_18_all_images_sm")
    else:
        spread(root, TerraIncognita.domains, TerraIncognita.classes)
    dataset = open_dataset("terra_incognita_no_empty", Opening(root, 16, cache=cache), silent)
    assert "empty" not in dataset.classes
    assert len(dataset.classes) == 9
    assert dataset.tally() == ones(dataset)
    assert dataset.differences() == ()
    assert not caplog.records  # what is left out on purpose is not worth a word
    parts = split(dataset, test_domain="L46", ood_classes=("cat",), holdout=0.0)
    assert parts.target.y.tolist() == [0, 1, -1, 2, 3, 4, 5, 6, 7]
    assert "empty" in TerraIncognita.classes


def test_every_image_set_says_what_to_put_where():
    for name in DATASETS:
        if issubclass(DATASETS[name], ImageSet):
            assert DATASETS[name].wanted.startswith("put ")
