"""What `madod.fit` refuses before anything long starts, and what `madod data` makes ready for it."""

import json
import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image

import madod
from madod.benchmark.claim import alone
from madod.cli.bench import visible_gpus
from madod.cli.main import main
from madod.data.base import Pool
from madod.data.opening import Opening, open_dataset
from madod.models.device import device_named
from madod.predict import saved
from madod.progress import silent


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            {"algorithm": "erm", "hparams": {"batch": 61}},
            ("batch cannot be 61 where there are 6 pictures", "60 or less"),
        ),
        ({"device": "abacus"}, ("there is no device 'abacus' here", "use cpu")),
        ({"check": "shrt"}, ("'shrt' means nothing in check (did you mean 'short'?)", "short, full, none")),
        ({"translate": "g"}, ("'g' means nothing in translate", "munit, augment")),
        ({"hparams": {"ir": 0.1}}, ("'ir' means nothing in hparams", "lr")),
        ({"check": None}, ("None means nothing in check", "short, full, none")),
        ({"hparams": {"lr": 10**400}}, ("lr cannot be 1000", "it has to be a number")),
        ({"algorithm": None}, ("algorithm cannot be None: it has to be a text",)),
        ({"backbone": 18}, ("backbone cannot be 18: it has to be a text",)),
        ({"pretrained": 3}, ("pretrained cannot be 3: it has to be a text",)),
        ({"pretrained": Path("nowhere.pth")}, ("nowhere.pth",)),
        ({"test_domain": 0}, ("test_domain cannot be 0: it has to be a text",)),
        ({"ood_classes": "fox"}, ("ood_classes cannot be 'fox': it has to be a list of texts",)),
        ({"ood_classes": [4]}, ("ood_classes cannot be (4,): it has to be a list of texts",)),
        ({"ood_classes": None}, ("ood_classes cannot be None: it has to be a list of texts",)),
        ({"ood_classes": np.array(["fox"]), "algorithm": np.str_("mado")}, ("no algorithm 'mado'", "'madod'")),
        ({"algorithm": "mado"}, ("no algorithm 'mado'", "'madod'")),
        ({"detector": "own"}, ("madod has no unknown score of its own", "such as energy")),
        ({"steps": 0}, ("steps cannot be 0", "1 or more")),
        ({"steps": "3"}, ("steps cannot be '3': it has to be a whole number",)),
        ({"steps": 2.5}, ("steps cannot be 2.5: it has to be a whole number",)),
        ({"size": 100_000}, ("a size of 100000 pixels is too large", "2048 or less")),
        ({"size": "64"}, ("size cannot be '64': it has to be a whole number",)),
        ({"translate_steps": 0.5}, ("translate_steps cannot be 0.5: it has to be a whole number",)),
        ({"seed": None}, ("seed cannot be None: it has to be a whole number",)),
        ({"split_seed": "0"}, ("split_seed cannot be '0': it has to be a whole number",)),
        ({"seed": 2**64}, ("seed cannot be 18446744073709551616", "give 0 to 9007199254740991")),
        ({"split_seed": 2**53}, ("split_seed cannot be 9007199254740992", "give 0 to 9007199254740991")),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_words_that_mean_nothing_are_refused_in_a_sentence(given, words, tmp_path):
    for domain in ("day", "night"):
        for label in ("cat", "dog", "fox"):
            folder = tmp_path / "pictures" / domain / label
            folder.mkdir(parents=True)
            (folder / "a.png").write_bytes(b"never opened")
    with pytest.raises(madod.InputError) as refusal:
        madod.fit(tmp_path / "pictures", out=tmp_path / "out", **given)
    assert "\n" not in str(refusal.value)
    for word in words:
        assert word in str(refusal.value)
    assert not (tmp_path / "out").exists()


def test_the_largest_seed_trains(pictures, tmp_path):
    model = madod.fit(pictures, cache=tmp_path, algorithm="erm", steps=1, seed=2**53 - 1, split_seed=2**53 - 1)
    assert model.classes


def test_the_page_counts_the_classes_that_the_model_has(pictures, tmp_path, caplog):
    root = tmp_path / "mine"
    shutil.copytree(pictures, root)
    for domain in root.iterdir():
        (domain / "phone").mkdir()
        (domain / "phone" / "cut.png").write_bytes(next(domain.rglob("*.png")).read_bytes()[:-40])
    words = ["train", root, "--out", tmp_path / "out", "--cache", tmp_path / "cache", "--skip-bad", "--device", "cpu"]
    assert main([*map(str, words), "--algorithm", "erm", "--steps", "1", "--check", "none"]) == 0
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert madod.load(tmp_path / "out").classes == ("cat", "dog", "fox", "owl")
    assert "48 pictures in 2 domains and 4 classes" in page
    assert page.count("phone") == page.count("so the model will not know it") == 1
    assert caplog.text.count("so the model will not know it") == 1


def test_a_class_that_only_a_held_out_domain_has_is_named(pictures, tmp_path, capsys):
    root = tmp_path / "mine"
    shutil.copytree(pictures, root, ignore=shutil.ignore_patterns("owl"))
    shutil.rmtree(root / "day" / "fox")
    words = ["train", root, "--out", tmp_path / "out", "--cache", tmp_path / "cache", "--device", "cpu", "--quiet"]
    words += ["--algorithm", "erm", "--steps", "4"]
    assert main([*map(str, words)]) == 0
    assert "right there; class fox, which only this domain has: AUROC 0." in capsys.readouterr().out
    assert "<td>class fox, which only this domain has</td>" in (tmp_path / "out" / "report.html").read_text()
    checked = json.loads((tmp_path / "out" / "check.json").read_text())
    assert {fold["domain"]: fold["alone"] for fold in checked["folds"]} == {"day": [], "night": ["fox"]}
    for fold in checked["folds"]:
        del fold["alone"]  # as an older madod left it
    (tmp_path / "out" / "check.json").write_text(json.dumps(checked))
    assert main([*map(str, words), "--check", "none"]) == 0
    assert "right there; classes that only this domain has: AUROC 0." in capsys.readouterr().out


def test_a_class_of_which_none_is_held_out_in_a_domain_is_a_warning_in_one_line(pictures, tmp_path, caplog):
    root = tmp_path / "mine"
    shutil.copytree(pictures, root)
    for place, kept in (("day/cat", 1), ("night/fox", 2)):
        for file in sorted((root / place).iterdir())[kept:]:
            file.unlink()
    madod.fit(root, cache=tmp_path, algorithm="erm", steps=1)
    (said,) = (message for message in caplog.messages if "held out" in message)
    assert said == (
        f"{root}: only 1 picture of cat in day, 2 pictures of fox in night: none is held out there, so how well they "
        "are told is not measured"
    )
    caplog.clear()
    madod.fit(root, cache=tmp_path, algorithm="erm", steps=1, test_domain="night", ood_classes=["cat"])
    assert not [message for message in caplog.messages if "none is held out" in message]


def test_a_command_says_the_same_warning_once_and_every_call_says_it_again(pictures, tmp_path, caplog):
    words = ["train", pictures, "--cache", tmp_path, "--device", "cpu", "--ood-class", "owl", "--quiet", "--size", 8]
    words += ["--translate", "augment", "--tasks", 1, "--shots", 1000, "--steps", 1]
    for calls in (1, 2):
        assert main([*map(str, words), "--out", str(tmp_path / f"out {calls}")]) == 0
        assert caplog.text.count("owl: left out of training and tested nowhere") == calls
        assert caplog.text.count("tasks want 2000 images") == calls
    for _ in range(2):
        caplog.clear()
        madod.fit(pictures, cache=tmp_path, algorithm="erm", steps=1, size=8, ood_classes=["owl"])
        assert "owl: left out of training and tested nowhere" in caplog.text


def test_devices_have_names():
    assert device_named("cpu") == device_named(torch.device("cpu")) == torch.device("cpu")
    assert device_named("auto").type == ("cuda" if torch.cuda.is_available() else "cpu")


@pytest.mark.parametrize("name", ["meta", "hpu", "vulkan", "abacus", torch.device("meta")])
def test_a_device_that_cannot_compute_is_refused_with_those_that_can(name, monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    with pytest.raises(madod.InputError) as refusal:
        device_named(name)
    assert str(refusal.value) == f"there is no device '{name}' here: use cpu or cuda:0 or cuda:1"


@pytest.mark.parametrize("name", ["auto", "cuda", "cuda:0"])
def test_a_gpu_that_this_torch_has_no_kernels_for_is_refused_at_once(name, monkeypatch):
    true = torch.ones

    def ones(*size: int, device: str) -> torch.Tensor:
        if device.startswith("cuda"):
            raise RuntimeError("CUDA error: no kernel image is available for execution on the device\nCompile with ...")
        return true(*size, device=device)

    monkeypatch.setattr(torch, "ones", ones)
    monkeypatch.setattr(torch, "empty", lambda *size, device: SimpleNamespace(device=torch.device(device)))
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    with pytest.raises(
        madod.InputError, match=r"^there is no device 'cuda.*' here \(CUDA error: no kernel image"
    ) as no:
        device_named(name)
    assert str(no.value).endswith("on the device): use cpu or cuda:1")


def test_a_gpu_whose_driver_is_too_old_counts_as_none(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)  # as the driver's own tools say
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert visible_gpus() == ()
    with pytest.raises(madod.InputError, match=r"use cpu$"):
        device_named("abacus")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_of_a_missing_gpu_the_reason_is_told():
    with pytest.raises(madod.InputError, match=r"^there is no device 'cuda' here \([^\n]+\): use cpu"):
        device_named("cuda")


@pytest.mark.parametrize("middle", [40, 60], ids=["tiny", "larger"])
@pytest.mark.parametrize("named", [True, False], ids=["folder --root", "path"])
def test_data_decodes_once_what_training_reads(middle, named, tmp_path, capsys):
    root, cache = tmp_path / "pictures", tmp_path / "cache"
    for shade, domain in enumerate(("day", "night")):
        for label in ("cat", "dog"):
            for k, side in enumerate((8, middle, middle, middle, 500)):
                file = root / domain / label / f"{k}.png"
                file.parent.mkdir(parents=True, exist_ok=True)
                Image.new("RGB", (side + 9, side), (50 * k, 90 * shade, 7 * len(label))).save(file)
    words = [*(["folder", "--root", str(root)] if named else [str(root)]), "--cache", str(cache), "--quiet"]
    assert main(["data", *words]) == 0
    [ready] = (cache / "images").glob("*/images.npy")
    assert ("ready: 32x32 pixels" in capsys.readouterr().out) == (middle < 48)
    model = madod.fit(root, cache=cache, algorithm="erm", steps=1)
    assert list((cache / "images").glob("*/images.npy")) == [ready]
    assert (model.size == 32) == (middle < 48)


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    root = tmp_path_factory.mktemp("mine") / "pictures"
    for shade, domain in enumerate(("day", "night")):
        for k in range(24):
            file = root / domain / ("cat", "dog", "fox", "owl")[k % 4] / f"{k}.png"
            file.parent.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (20, 20), (10 * k, 90 * shade, 60 * (k % 4))).save(file)
    return root


def test_a_finished_run_is_not_touched_by_another_one(pictures, tmp_path):
    how = {"out": tmp_path / "out", "cache": tmp_path, "algorithm": "erm", "check": "short"}
    first = madod.fit(pictures, steps=4, **how)
    kept = {file: file.read_bytes() for file in (tmp_path / "out").rglob("*") if file.is_file()}
    seen = []
    with pytest.raises(madod.InputError, match=r"holds a finished run with other settings \(steps 4 there, 8 here\)"):
        madod.fit(pictures, steps=8, progress=lambda *what: seen.append(what[0]), **how)
    assert not [stage for stage in seen if stage.startswith("check")]  # refused before it was checked
    other = next(name for name in ("knn", "vim") if name != first.card.detector)
    with pytest.raises(madod.InputError, match=f"madod rescore .* {other} --ship"):
        madod.fit(pictures, steps=4, detector=other, **how)
    assert {file: file.read_bytes() for file in (tmp_path / "out").rglob("*") if file.is_file()} == kept
    (tmp_path / "out" / "history.jsonl").write_text("{", encoding="utf-8")
    with pytest.raises(madod.InputError, match=r"history\.jsonl is not a run's history .*: delete it or run it again"):
        madod.fit(pictures, steps=4, **how)
    (tmp_path / "out" / "history.jsonl").unlink()
    assert madod.fit(pictures, steps=4, **how).card == first.card


def test_a_finished_run_is_read_without_its_network_and_its_pictures_are_hashed_once(pictures, tmp_path, monkeypatch):
    how = {"out": tmp_path / "out", "cache": tmp_path, "algorithm": "erm", "steps": 2, "check": "short"}
    madod.fit(pictures, **how)
    built, rebuilt, hashed, fingerprint = [], saved._rebuilt, [], Pool.fingerprint.func
    monkeypatch.setattr(saved, "_rebuilt", lambda card, tensors: built.append(card) or rebuilt(card, tensors))
    monkeypatch.setattr(Pool, "fingerprint", property(lambda pool: hashed.append(len(pool)) or fingerprint(pool)))
    madod.fit(pictures, **how)
    assert len(built) == 1  # what it returns
    assert sum(hashed) == 48


def test_a_training_does_not_hide_behind_a_model_that_was_saved_there(pictures, tmp_path):
    how = {"cache": tmp_path, "algorithm": "erm", "steps": 2, "check": "none"}
    madod.fit(pictures, out=tmp_path / "run", **how).save(tmp_path / "copy")
    with pytest.raises(madod.InputError, match="copy holds a model itself"):
        madod.fit(pictures, out=tmp_path / "copy", **how)


def test_two_trainings_do_not_share_a_folder(pictures, tmp_path):
    how = {"out": tmp_path / "out", "cache": tmp_path, "algorithm": "erm", "steps": 2}
    refused = []

    def other(stage: str, done: int, total: int) -> None:
        """Start the same training while the first one is at work."""
        if stage == "erm" and not refused:
            with pytest.raises(madod.InputError) as refusal:
                madod.fit(pictures, **how)
            refused.append(str(refusal.value))

    madod.fit(pictures, progress=other, **how)
    assert refused == [
        f"another process is at work in {tmp_path / 'out'}: wait until it has ended, or choose another folder"
    ]
    assert madod.fit(pictures, **how).card.algorithm == "erm"  # nobody is any more
    assert not (tmp_path / "out" / "heartbeat.json").exists()


def test_a_folder_that_is_at_work_is_refused_before_pictures_are_looked_at(pictures, tmp_path, monkeypatch):
    monkeypatch.setattr("madod.fitting.prepare.look", None)
    with alone(tmp_path / "out"), pytest.raises(madod.InputError, match="another process is at work in"):
        madod.fit(pictures, out=tmp_path / "out", algorithm="erm", steps=2)


@pytest.mark.parametrize("inner", ["", "day/model"])
def test_a_model_is_not_written_among_its_pictures(inner, pictures, tmp_path):
    before = sorted(pictures.rglob("*"))
    with pytest.raises(madod.InputError, match=r"lies among the pictures in .*: choose a folder outside"):
        madod.fit(pictures, out=pictures / inner, cache=tmp_path, algorithm="erm", steps=2)
    assert sorted(pictures.rglob("*")) == before
    assert not list(tmp_path.iterdir())  # refused before anything was decoded


@pytest.mark.parametrize("name", ["check", "check.json", "report.html", "history.jsonl"])
def test_a_model_is_not_written_over_a_persons_files(name, pictures, tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    (home / name).write_text("kept") if "." in name else shutil.copytree(pictures, home / name)
    before = sorted(home.rglob("*"))
    source = home / name if name == "check" else pictures
    said = rf"home holds {name} of somebody else's, which a training would write over: choose another folder"
    with pytest.raises(madod.InputError, match=said):
        madod.fit(source, out=home, cache=tmp_path, algorithm="erm", steps=2, size=8, check="short")
    assert sorted(home.rglob("*")) == before


def test_a_check_of_a_persons_own_does_not_make_a_folder_ours(pictures, tmp_path):
    for name in ("check.json", "report.html"):
        (tmp_path / name).write_text('{"mine": 1}')
    with pytest.raises(madod.InputError, match=r"holds report.html of somebody else's"):
        madod.fit(pictures, out=tmp_path, cache=tmp_path / "cache", algorithm="erm", steps=2, size=8, check="none")
    assert (tmp_path / "report.html").read_text() == '{"mine": 1}'


def test_a_folder_may_hold_a_persons_other_files(pictures, tmp_path):
    """Such as the log that a shell has begun there, or the cache."""
    for name in ("log.txt", "cache/old"):
        (tmp_path / "out" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "out" / name).write_text("kept")
    how = {"out": tmp_path / "out", "cache": tmp_path / "out" / "cache", "algorithm": "erm", "steps": 2, "size": 8}
    assert madod.fit(pictures, **how).card.algorithm == "erm"
    assert (tmp_path / "out" / "log.txt").read_text() == "kept"


def test_a_longer_check_of_a_finished_training_leaves_its_detector(pictures, tmp_path, monkeypatch):
    how = {"out": tmp_path / "out", "cache": tmp_path, "algorithm": "erm", "steps": 2, "size": 8}
    picked = iter(["msp", "ddu", "ddu", "ddu"])
    monkeypatch.setattr("madod.fitting.fit.best_detector", lambda folds, spec: next(picked))
    for check in ("short", "full", "short", "none"):
        assert madod.fit(pictures, check=check, **how).card.detector == "msp"


def test_a_check_of_all_domains_is_none_of_a_training_that_keeps_one_apart(pictures, tmp_path):
    """It was trained on what the other one must not see."""
    how = {"cache": tmp_path, "algorithm": "erm", "steps": 4, "size": 8, "detector": "energy"}
    madod.fit(pictures, out=tmp_path / "all", check="full", **how)
    (tmp_path / "apart").mkdir()
    shutil.copy(tmp_path / "all" / "check.json", tmp_path / "apart" / "check.json")
    apart = {"test_domain": "night", "ood_classes": ["fox"]}
    said = [madod.fit(pictures, out=tmp_path / name, **apart, **how).card.check for name in ("apart", "fresh")]
    assert said[0] == said[1]
    assert said[0].domains == 1


@pytest.mark.parametrize("stage", ["check 2/2", "erm"])
def test_a_model_without_a_check_does_not_carry_one_that_was_begun_before(stage, pictures, tmp_path):
    how = {"out": tmp_path / "out", "cache": tmp_path, "algorithm": "erm", "size": 8}

    def killed(where: str, done: int, total: int) -> None:
        if where == stage:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        madod.fit(pictures, steps=4, check="full", progress=killed, **how)
    assert list((tmp_path / "out").glob("check*"))
    madod.fit(pictures, steps=2, check="none", **how)
    assert not list((tmp_path / "out").glob("check*"))


@pytest.mark.parametrize("text", ['{"mine": 1}', "mine"])
def test_a_file_of_a_persons_own_is_not_taken_for_a_check(text, pictures, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "check.json").write_text(text)
    madod.fit(pictures, out=tmp_path / "out", cache=tmp_path, algorithm="erm", steps=2, size=8, check="none")
    assert (tmp_path / "out" / "check.json").read_text() == text


def test_what_a_person_keeps_in_a_training_stays_there(pictures, tmp_path):
    how = {"out": tmp_path / "out", "cache": tmp_path, "algorithm": "erm", "steps": 2, "size": 8, "detector": "energy"}
    madod.fit(pictures, **how)
    for name in ("notes.txt", "0123456789abcde"):
        (tmp_path / "out" / "check" / name).mkdir(parents=True)
    madod.fit(pictures, check="short", **how)
    assert {item.name for item in (tmp_path / "out" / "check").iterdir()} == {"notes.txt", "0123456789abcde"}


def test_other_pictures_are_refused_before_a_check_is_done_on_them(pictures, tmp_path, monkeypatch):
    pictures = shutil.copytree(pictures, tmp_path / "pictures")
    how = {"out": tmp_path / "out", "cache": tmp_path, "algorithm": "erm", "steps": 2, "size": 8, "check": "short"}
    madod.fit(pictures, **how)
    before = (tmp_path / "out" / "check.json").read_bytes()
    shutil.copy(next(pictures.glob("day/cat/*")), pictures / "night" / "dog" / "new.png")
    monkeypatch.setattr("madod.fitting.fit.checked", lambda *args, **how: pytest.fail("the check came first"))
    with pytest.raises(madod.InputError, match="holds a finished run with other images: choose another folder"):
        madod.fit(pictures, **how)
    assert (tmp_path / "out" / "check.json").read_bytes() == before


def test_what_a_longer_check_said_of_a_model_stays(pictures, tmp_path):
    how = {"out": tmp_path / "out", "cache": tmp_path, "algorithm": "erm", "steps": 2, "size": 8}
    said = madod.fit(pictures, check="full", **how).card.check
    assert said.domains == 2
    for check in ("short", "none"):
        assert madod.fit(pictures, check=check, **how).card.check == said
    (tmp_path / "out" / "check.json").unlink()
    assert madod.fit(pictures, check="none", **how).card.check == said


@pytest.mark.parametrize("inner", ["", "model"])
def test_a_file_is_no_folder_for_a_model(inner, pictures, tmp_path):
    (tmp_path / "photo.png").write_bytes(b"kept")
    with pytest.raises(madod.InputError, match=r"photo\.png is a file: name a folder to write into"):
        madod.fit(pictures, out=str(tmp_path / "photo.png" / inner), cache=tmp_path, algorithm="erm", steps=1)
    assert (tmp_path / "photo.png").read_bytes() == b"kept"
    assert [file.name for file in tmp_path.iterdir()] == ["photo.png"]  # refused before anything was decoded


def test_a_folder_that_lets_nobody_write_is_refused_before_anything_long(pictures, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(os, "access", lambda place, mode: Path(place) != tmp_path)
    out, cache = tmp_path / "new" / "model", tmp_path / "cache"
    assert main(["train", str(pictures), "--out", str(out), "--cache", str(cache), "--algorithm", "erm"]) == 2
    assert capsys.readouterr().err == (
        f"madod: {out} cannot be written, since {tmp_path} does not let you: name a folder somewhere else\n"
    )
    assert not list(tmp_path.iterdir())


def test_a_folder_of_another_run_is_refused_before_anything_is_decoded(pictures, tmp_path):
    how = {"out": tmp_path / "out", "algorithm": "erm", "check": "none"}
    madod.fit(pictures, steps=1, cache=tmp_path / "cache", **how)
    with pytest.raises(madod.InputError, match="holds a finished run with other settings"):
        madod.fit(pictures, steps=2, cache=tmp_path / "other", **how)
    assert not (tmp_path / "other").exists()


def test_the_name_of_a_dataset_is_the_dataset_whatever_folder_lies_here(pictures, tmp_path, monkeypatch, caplog):
    monkeypatch.chdir(tmp_path)
    words = ["train", "digits", "--out", "digits", "--algorithm", "erm", "--steps", "1", "--cache", "cache", "--quiet"]
    assert main(words) == 0
    made = (tmp_path / "digits" / "record.json").read_bytes()
    assert main(words) == 0  # goes on, though there is a folder of that name by now
    assert (tmp_path / "digits" / "record.json").read_bytes() == made
    assert not caplog.records
    shutil.rmtree("digits")
    shutil.copytree(pictures, "digits")
    assert open_dataset("./digits", Opening(size=8, cache=Path("cache")), silent).classes == (
        "cat",
        "dog",
        "fox",
        "owl",
    )
    assert madod.fit(Path("digits"), algorithm="erm", steps=1, cache="cache").classes == ("cat", "dog", "fox", "owl")
    assert not caplog.records
    assert open_dataset("digits", Opening(), silent).classes == tuple("0123456789")
    (said,) = (record.getMessage() for record in caplog.records)
    assert said == "digits is the dataset of that name, not the folder of pictures here: that one is ./digits"
