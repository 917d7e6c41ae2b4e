"""`madod evaluate` against what Python says, and `madod predict` where a command sets the threshold or may not look."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from madod.cli.evaluate import row
from madod.cli.main import main
from madod.predict import Checked
from madod.predict.findings import Measures
from tests.predict.toy import files, toy_model


@pytest.fixture
def home(tmp_path):
    toy_model().save(tmp_path / "model")
    for domain in ("day", "night"):
        for label in ("cat", "wolf"):
            files(tmp_path / "pictures" / domain / label, 3)
    return tmp_path


def test_the_numbers_are_those_of_python(home, capsys):
    assert main(["evaluate", str(home / "model"), str(home / "pictures"), "--format", "json"]) == 0
    said = json.loads(capsys.readouterr().out)
    found = toy_model().evaluate(home / "pictures")
    assert said["overall"] == found.overall._asdict()
    assert said["by_domain"] == {name: measures._asdict() for name, measures in found.by_domain.items()}
    assert {(each["class"], each["label"]): each["pictures"] for each in said["confused"]} == found.confused
    assert (said["strange"], said["unreadable"], said["threshold"]) == ({"wolf": 6}, [], 0.0)


def test_a_picture_a_little_below_the_limit_is_labelled_without_a_warning(home, recwarn, capsys):
    Image.new("1", (20_000, 4_900)).save(home / "large.png")
    assert main(["predict", str(home / "model"), str(home / "large.png"), "--format", "csv"]) == 0
    assert capsys.readouterr().out.count("\n") == 2
    assert not [warning for warning in recwarn if issubclass(warning.category, Image.DecompressionBombWarning)]


def test_the_table_has_a_line_a_domain_and_one_for_all(home, capsys):
    assert main(["evaluate", str(home / "model"), str(home / "pictures"), "--threshold", "1e9"]) == 0
    first, head, *lines = capsys.readouterr().out.splitlines()
    assert first == "energy, threshold 1e+09"
    assert head.split() == ["domain", "known", "accuracy", "kept", "unknown", "flagged", "AUROC"]
    assert [line.split()[0] for line in lines[:3]] == ["day", "night", "all"]
    assert all(line.split()[3] == "100.0" and line.split()[5] == "0.0" for line in lines[:3])


def test_a_domain_called_all_is_told_from_all_of_them(home, capsys):
    (home / "pictures" / "day").rename(home / "pictures" / "all")
    assert main(["evaluate", str(home / "model"), str(home / "pictures"), "--quiet"]) == 0
    _, _, *lines = capsys.readouterr().out.splitlines()
    assert [line.partition("  ")[0] for line in lines[:3]] == ["all", "night", "all domains"]


def test_the_table_stays_in_line_behind_a_domain_with_wide_letters(home, capsys):
    (home / "pictures" / "day").rename(home / "pictures" / "昼の写真")
    assert main(["evaluate", str(home / "model"), str(home / "pictures"), "--quiet"]) == 0
    _, head, night, wide, *_ = capsys.readouterr().out.splitlines()
    assert len(head) == len(night) == len(wide) + len("昼の写真")


def test_evaluate_says_how_far_it_is_unless_it_is_to_be_quiet(home, capsys):
    words = ["evaluate", str(home / "model"), str(home / "pictures")]
    model = toy_model()
    model.card = replace(model.card, check=Checked(2, 0.5, 0.5, of_labels=("it guesses",)))
    model.save(home / "model")
    assert main(words) == 0
    told = capsys.readouterr()
    assert told.err == "evaluating: 12 of 12\nmadod: of this model's own check: it guesses\n"
    assert main([*words, "--quiet"]) == 0
    assert capsys.readouterr() == (told.out, "")


def test_a_class_that_differs_by_capitals_alone_is_pointed_at(home, capsys):
    for domain in ("day", "night"):
        (home / "pictures" / domain / "cat").rename(home / "pictures" / domain / "Cat")
    assert main(["evaluate", str(home / "model"), str(home / "pictures"), "--quiet"]) == 0
    said = capsys.readouterr()
    assert "counted as unknown: 6 Cat, 6 wolf\n" in said.out
    assert said.err == "madod: the model has no class 'Cat', so that its pictures count as unknown; it has 'cat'\n"


def test_what_there_is_none_of_is_a_dash():
    assert row("day", Measures(1200, 0, 0.5, 1.0, None, None)) == ("day", "1,200", "50.0", "100.0", "0", "-", "-")


def test_a_picture_that_cannot_be_read_is_named_and_the_others_are_counted(home, capsys):
    broken = home / "pictures" / "day" / "cat" / "000.png"
    broken.write_text("no picture", encoding="utf-8")
    assert main(["evaluate", str(home / "model"), str(home / "pictures"), "--format", "json"]) == 1
    said = capsys.readouterr()
    assert json.loads(said.out)["overall"]["known"] == 5
    assert said.err.count(str(broken)) == 1


def test_pictures_none_of_which_can_be_read_are_refused(home, capsys):
    for file in (home / "pictures").rglob("*.png"):
        file.write_text("no picture", encoding="utf-8")
    assert main(["evaluate", str(home / "model"), str(home / "pictures"), "--quiet"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith(
        f"madod: none of the 12 pictures in {home / 'pictures'} can be read; of the first: cannot"
    )
    assert said.err.count("\n") == 1


@pytest.mark.parametrize(("score", "unknown"), [("1e9", False), ("-1e9", True)])
def test_predict_takes_a_threshold_too(score, unknown, home, capsys):
    assert main(["predict", str(home / "model"), str(home / "pictures"), "--format", "json", "--threshold", score]) == 0
    said = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {(each["unknown"], each["threshold"]) for each in said} == {(unknown, float(score))}


def test_a_threshold_has_an_end(home, capsys):
    assert main(["evaluate", str(home / "model"), str(home / "pictures"), "--threshold", "inf"]) == 2
    assert "a threshold is a number, and inf is none" in capsys.readouterr().err


def test_a_page_cannot_lie_in_a_file(home, capsys):
    file = home / "notes.txt"
    file.write_text("x", encoding="utf-8")
    words = ["predict", str(home / "model"), str(home / "pictures"), "--gallery", str(file / "page.html")]
    assert main(words) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == f"madod: {file} is a file: name a folder to write into\n"


@pytest.mark.parametrize(("verb", "where"), [("predict", "pictures"), ("evaluate", "pictures"), ("export", "x.onnx")])
def test_two_ways_to_set_the_threshold_are_one_too_many(verb, where, home, capsys):
    assert main([verb, str(home / "model"), str(home / where), "--threshold", "3", "--keep", "0.9"]) == 2
    assert "--keep and --threshold both set the threshold: give one of them" in capsys.readouterr().err


def test_a_folder_that_may_not_be_looked_into_is_named_and_the_others_are_done(home, capsys, monkeypatch):
    shut, items = home / "pictures" / "day", Path.iterdir

    def looked(folder):
        if folder == shut:
            raise PermissionError(13, "Permission denied", str(folder))
        return items(folder)

    monkeypatch.setattr(Path, "iterdir", looked)
    assert main(["predict", str(home / "model"), str(home / "pictures"), "--format", "json", "--quiet"]) == 1
    said = capsys.readouterr()
    assert len(said.out.splitlines()) == 6
    assert f"cannot list the folder {shut}: permission denied; make it readable or move it elsewhere" in said.err
    assert "what is listed above could not be read; the others are done" in said.err


@pytest.mark.parametrize("verb", ["predict", "evaluate"])
@pytest.mark.parametrize("factor", [16, 257])
def test_pictures_that_do_not_use_their_sixteen_bits_are_told(verb, factor, home, capsys):
    for file in (home / "pictures").rglob("*.png"):
        Image.fromarray(np.asarray(Image.open(file).convert("L")).astype(np.uint16) * factor).save(file)
    assert main([verb, str(home / "model"), str(home / "pictures")]) == 0
    told = "madod: 16-bit pictures here never use their upper 4 bits, and so are nearly black to the model: scale them"
    assert (told in capsys.readouterr().err) == (factor == 16)


@pytest.mark.parametrize("verb", ["predict", "evaluate", "export", "serve"])
def test_a_training_that_is_not_finished_is_called_so(verb, home, capsys):
    for name in ("lock", "check/0/checkpoint.safetensors", "check/1/record.json"):
        (home / "run" / name).parent.mkdir(parents=True, exist_ok=True)
        (home / "run" / name).touch()
    words = [] if verb == "serve" else [str(home / "pictures")]
    assert main([verb, str(home / "run"), *words]) == 2
    said = f"madod: the training in {home / 'run'} is not finished: wait while it runs; stopped, it goes on with the"
    assert capsys.readouterr().err == f"{said} same command again\n"
    (home / "run" / "record.json").touch()  # finished, and its model lost
    assert main([verb, str(home / "run"), *words]) == 2
    assert f"there is no model in {home / 'run'}: it has no model.json" in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["predict", "evaluate", "export"])
def test_a_model_that_is_not_named_first_is_found(verb, home, capsys):
    assert main([verb, str(home / "pictures"), str(home / "model")]) == 2
    there, here = home / "pictures", home / "model"
    assert (
        capsys.readouterr().err
        == f"madod: there is no model in {there}, but there is in {here}: name the model first\n"
    )


@pytest.mark.parametrize("name", ["report.html", "index.html"])
def test_the_page_of_a_training_is_not_written_over(name, home, capsys):
    (home / "run").mkdir()
    page = home / "run" / name
    words = ["predict", str(home / "model"), str(home / "pictures"), "--quiet", "--gallery"]
    assert main([*words, str(page)]) == 0  # a folder like any other
    (home / "run" / "lock").touch()
    before = page.read_bytes()
    capsys.readouterr()
    assert main([*words, str(page)]) == 2
    said = (
        f"madod: {page} is the page of the training in that folder: name another one, such as {home}/run/gallery.html\n"
    )
    assert capsys.readouterr() == ("", said)
    assert page.read_bytes() == before
    assert main([*words, str(home / "run" / "gallery.html")]) == 0


NAME, SPELT = "a\n\x1b[31mb\x9b.png", r"a\n\x1b[31mb\x9b.png"


def test_a_name_breaks_no_row_and_steers_no_terminal(home, capsys):
    folder = home / "pictures" / "day" / "wo\x1blf"
    [file] = files(folder, 1)
    file.rename(folder / NAME)
    (folder / f"z{NAME}").touch()
    words = [str(home / "model"), str(home / "pictures" / "day")]
    assert main(["predict", *words]) == 1
    said = capsys.readouterr()
    assert [line for line in said.out.splitlines() if SPELT in line and line.endswith(("True", "False"))]
    assert SPELT in said.err
    assert "\x1b" not in said.out + said.err
    assert len(said.out.splitlines()) == 1 + 3 + 3 + 1
    for style, name in (("csv", NAME), ("json", json.dumps(NAME, ensure_ascii=False)[1:-1])):
        main(["predict", *words, "--format", style])
        assert name in capsys.readouterr().out
    main(["evaluate", *words])
    said = capsys.readouterr()
    assert r"1 wo\x1blf" in said.out
    assert "\x1b" not in said.out + said.err
    assert main(["predict", words[0], str(home / NAME / "*")]) == 2
    assert r"\x1b[31mb\x9b.png" in capsys.readouterr().err


def test_names_that_are_no_text_or_turn_it_around_break_no_row(tmp_path, monkeypatch, capsys):
    toy_model().save(tmp_path / "model")
    (plain,) = files(tmp_path / "photos", 1)
    monkeypatch.chdir(plain.parent)
    for name in ("a\u2028b.png", "caf\udce9.png", "gpj.\u202egnp.png"):
        Path(name).write_bytes(plain.read_bytes())
    assert main(["predict", str(tmp_path / "model"), ".", "--quiet"]) == 0
    rows = capsys.readouterr().out.splitlines()
    assert [row.split()[0] for row in rows] == [
        "path", "000.png", r"a\u2028b.png", r"caf\udce9.png", r"gpj.\u202egnp.png",
    ]  # fmt: skip
    assert len({len(row) for row in rows}) == 1
