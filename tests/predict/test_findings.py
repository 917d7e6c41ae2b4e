"""A model measured on labelled pictures: every share against a count by hand."""

import shutil

import pytest

from madod.errors import InputError
from madod.predict.findings import Verdict, findings
from tests.predict.toy import CLASSES, files, toy_model

VERDICTS = [
    Verdict("a", "cat", "cat", 0.1, False),
    Verdict("a", "cat", "dog", 0.9, True),
    Verdict("a", "dog", "dog", 0.2, False),
    Verdict("b", "fox", "cat", 0.3, False),
    Verdict("b", "wolf", "cat", 0.8, True),
    Verdict("b", "wolf", "dog", 0.05, False),
]


def test_shares_are_those_that_a_person_would_count():
    found = findings(VERDICTS, CLASSES, ["gone"])
    assert found.overall[:5] == (4, 2, 2 / 4, 3 / 4, 1 / 2)
    assert found.overall.auroc == pytest.approx(3 / 8)
    assert found.by_domain["a"] == (3, 0, 2 / 3, 2 / 3, None, None)
    assert found.by_domain["b"][:5] == (1, 2, 0.0, 1.0, 1 / 2)
    assert found.confused == {("cat", "dog"): 1, ("fox", "cat"): 1}
    assert found.strange == {"wolf": 2}
    assert found.unreadable == ("gone",)


@pytest.mark.parametrize("domains", [("day", "night"), ("",)])
def test_folders_with_and_without_domains(domains, tmp_path):
    root = tmp_path / "pictures"
    for domain in domains:
        for label in ("cat", "wolf"):
            files(root / domain / label, 3)
    first = sorted(root.rglob("*.png"))[0]
    first.write_text("no picture", encoding="utf-8")
    found = toy_model(threshold=-1e9).evaluate(root)
    assert (found.overall.known, found.overall.unknown) == (3 * len(domains) - 1, 3 * len(domains))
    assert (found.overall.kept, found.overall.flagged) == (0.0, 1.0)
    assert list(found.by_domain) == (list(domains) if domains[0] else ["pictures"])
    assert str(first) in found.unreadable[0]


def test_a_folder_without_pictures_is_refused(tmp_path):
    (tmp_path / "x" / "y").mkdir(parents=True)
    with pytest.raises(InputError, match="no pictures"):
        toy_model().evaluate(tmp_path)
    shutil.rmtree(tmp_path / "x")
    with pytest.raises(InputError, match=r"is empty; the layout is FOLDER/DOMAIN/CLASS/\*.jpg or FOLDER/CLASS/\*.jpg$"):
        toy_model().evaluate(tmp_path)
    with pytest.raises(InputError, match="there is no folder"):
        toy_model().evaluate(tmp_path / "gone")
    files(tmp_path, 1)
    with pytest.raises(InputError, match=r"lie in no class: put them into .*/CLASS or .*/DOMAIN/CLASS"):
        toy_model().evaluate(tmp_path)


@pytest.mark.parametrize("form", ["", "day"], ids=["classes", "domains"])
def test_pictures_beside_class_folders_are_left_out_and_said(form, tmp_path, caplog):
    for label in ("cat", "wolf"):
        files(tmp_path / form / label, 2)
    loose = files(tmp_path / form, 3)
    (tmp_path / form / "cat" / "notes.txt").touch()
    found = toy_model().evaluate(tmp_path)
    assert (found.overall.known, found.overall.unknown) == (2, 2)
    beside, other = sorted(caplog.messages)
    assert beside == f"left out 3 pictures of {tmp_path} that lie beside class folders, such as {loose[0]}"
    assert "do not end like pictures: 1 .txt" in other


@pytest.mark.parametrize(("deep", "label", "better"), [("a/b/dog", "b", "a"), ("a/b/c/dog", "b", "a/b"),
                                                       ("wolf/2023/dog", "2023", "wolf")])  # fmt: skip
def test_a_class_that_lies_too_deep_is_refused(deep, label, better, tmp_path):
    files(tmp_path / deep, 2)
    with pytest.raises(InputError) as refusal:
        toy_model().evaluate(tmp_path)
    assert str(refusal.value) == (
        f"{tmp_path / deep} is called like a class of the model, but lies so deep that it would count as part of an "
        f"unknown class, {label!r}: name {tmp_path / better} instead, or move it; "
        "the layout is FOLDER/DOMAIN/CLASS/*.jpg or FOLDER/CLASS/*.jpg"
    )
    assert toy_model().evaluate(tmp_path / better).overall.known == 2


def test_a_class_that_lies_too_deep_beside_others_is_refused(tmp_path):
    files(tmp_path / "dog", 2)
    files(tmp_path / "wolf" / "2023" / "cat", 2)
    with pytest.raises(InputError, match=r"cat is called like a class of the model, .* unknown class, 'wolf': name"):
        toy_model().evaluate(tmp_path)


@pytest.mark.parametrize("deep", ["dog/2023", "cat/2023"])
def test_folders_in_those_of_classes_are_no_classes(deep, tmp_path, monkeypatch):
    for place in ("cat", "dog", "wolf", deep):
        files(tmp_path / place, 2)
    monkeypatch.chdir(tmp_path)
    found = toy_model().evaluate(".")
    assert (found.overall.known, found.overall.unknown, list(found.by_domain)) == (6, 2, [tmp_path.name])
