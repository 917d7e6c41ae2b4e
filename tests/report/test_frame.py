import json
from pathlib import Path

import pytest

from madod.errors import InputError
from madod.report.frame import load_records
from madod.report.tables import render
from madod.report.variants import mixed, usual

from .records import HPARAMS, measures, planned, record, write, write_records

RESULTS = Path(__file__).parents[2] / "results" / "digits"


def test_a_row_a_record_and_detector(tmp_path):
    runs = write_records(tmp_path)
    frame = load_records(tmp_path)
    assert len(frame) == 3 * runs
    facts = json.loads((tmp_path / "pacs-madod-photo-person-1" / "record.json").read_text())
    row = frame[(frame["id"] == "pacs-madod-photo-person-1") & (frame["detector"] == "ddu")].iloc[0]
    assert row["auroc"] == facts["metrics"]["ddu"]["auroc"]
    assert (row["test_domain"], row["ood_classes"], row["seed"], row["seconds"]) == ("photo", "person", 1, 22.0)
    assert row["hparams"] == HPARAMS


def test_the_digits_of_the_repository_are_read_once_each():
    frame = load_records(RESULTS.parent)  # digits_methods repeats six of the runs in digits
    frame = frame[frame["dataset"] == "digits"]
    assert frame["id"].nunique() == 222
    assert not frame.duplicated(["id", "detector"]).any()
    assert not frame.loc[frame["algorithm"] == "erm", "folder"].str.contains("methods").any()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"spec": {', "record.json is not a run's record"),
        ('{"spec": {}}', "no 'metrics'"),
        ("[]", "not a run's record"),
        ("null", "not a run's record"),
        (json.dumps(record("pacs", "erm", "photo", "dog", 0, {"accuracy": 85.4})), "accuracy is 85.4, no fraction"),
        (json.dumps(record("pacs", "erm", "photo", "dog", 0, {"msp": {"auroc": float("nan")}})), "no fraction"),
    ],
)
def test_a_broken_file_is_named_in_one_sentence(tmp_path, text: str, reason: str):
    write_records(tmp_path)
    broken = tmp_path / "broken" / "record.json"
    broken.parent.mkdir()
    broken.write_text(text)
    with pytest.raises(InputError, match=reason) as caught:
        load_records(tmp_path)
    assert str(broken) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_nothing_to_read_is_said(tmp_path):
    for runs in (tmp_path, tmp_path / "absent"):
        with pytest.raises(InputError, match="no finished run below"):
            load_records(runs)


def test_a_run_that_was_tested_on_nothing_has_no_detector(tmp_path):
    write(tmp_path / "a", record("mine", "erm", None, "", 0, {"val_accuracy": 0.9}))
    frame = load_records(tmp_path)
    assert len(frame) == 1
    assert frame["detector"].isna().all()


def test_settings_of_one_algorithm_get_names(tmp_path, rng):
    def run(name: str, domain: str, hparams: dict[str, float], **spec: object) -> None:
        found = measures(rng, 0.8, ("msp",))
        write(tmp_path / name, record("pacs", "madod", domain, "dog", 0, found, hparams=HPARAMS | hparams, **spec))

    for domain in ("photo", "sketch"):
        run(f"full-{domain}", domain, {})
        run(f"gi-{domain}", domain, {"invariance": 0.0})
        run(f"ood-{domain}", domain, {"margin": 0.0})
        run(f"ce-{domain}", domain, {"invariance": 0.0, "margin": 0.0})
        run(f"first-{domain}", domain, {"first_order": True})
        run(f"outer-{domain}", domain, {"outer_invariance": 1.0})
        run(f"both-{domain}", domain, {"outer_invariance": 1.0, "invariance": 0.0})
        run(f"plain-{domain}", domain, {"margin": 0.0}, translate="augment")
        run(f"young-{domain}", domain, {"own_outputs": False, "views": 2})  # a field that older records do not have
        run(f"own-{domain}", domain, {"own_outputs": True, "both_ways": False})  # and one that newer ones do not
    names = load_records(tmp_path).groupby("id")["method"].first().to_dict()
    assert names["full-photo"] == "madod"
    assert names["gi-photo"] == "madod, without R_GI"
    assert names["ood-sketch"] == "madod, without R_OOD"
    assert names["ce-photo"] == "madod, CE only"
    assert names["first-photo"] == "madod, first_order on"
    assert names["outer-photo"] == "madod, outer_invariance 1"
    assert names["both-photo"] == "madod, invariance 0, outer_invariance 1"
    assert names["young-photo"] == "madod, views 2"
    assert names["own-photo"] == "madod, own_outputs on"
    assert names["plain-photo"] == "madod, without R_OOD, translate augment"


def test_the_setting_with_most_runs_is_the_usual_one(tmp_path, rng):
    for seed in range(3):
        found = measures(rng, 0.8, ("msp",))
        write(tmp_path / f"{seed}", record("pacs", "erm", "photo", "dog", seed, found, steps=100 if seed else 900))
    assert load_records(tmp_path)["method"].tolist() == ["erm, steps 900", "erm", "erm"]


def test_weights_under_another_name_are_no_other_setting(tmp_path, rng):
    for seed, name in enumerate(("a.pth", "b.pth", "a.pth")):
        weights = f"{name} sha256:{'0f' * 32}"
        facts = record("pacs", "erm", "photo", "dog", seed, measures(rng, 0.8, ("msp",)), pretrained=weights)
        write(tmp_path / str(seed), facts)
        write(tmp_path / "elsewhere" / str(seed), facts | {"spec": facts["spec"] | {"pretrained": weights[2:]}})
    frame = load_records(tmp_path)
    assert list(frame["method"]) == ["erm"] * 3
    assert not mixed(frame)
    assert {setting["pretrained"] for setting in frame["settings"]} == {f"a.pth sha256:{'0f' * 32}"}


def test_runs_of_a_check_under_way_are_not_results(tmp_path):
    write_records(tmp_path / "check", algorithms=("erm",))  # a folder of somebody's runs may be called so
    write_records(tmp_path / "training" / "check", algorithms=("madod",))
    (tmp_path / "training" / "lock").touch()
    assert set(load_records(tmp_path)["algorithm"]) == {"erm"}


def test_a_sweeps_own_names_and_choice_are_kept(tmp_path):
    write_records(tmp_path)
    write_records(tmp_path / "inner")
    assert not load_records(tmp_path)["folder"].str.contains("inner").any()
    done, missing = "pacs-madod-photo-person-0", "pacs-madod-photo-person-2"
    frame = load_records(tmp_path, planned([(done, "full"), (done, "same"), (missing, "full")]))
    assert frame["method"].tolist() == ["full"] * 3 + ["same"] * 3
    with pytest.raises(InputError, match="none of the plan's runs"):
        load_records(tmp_path, planned([(missing, "full")]))


def test_an_algorithm_beside_its_variants_says_what_sets_it_apart(tmp_path):
    plain, strict = "pacs-irm-photo-dog-0", "pacs-irm-photo-dog-1"
    right = {"accuracy": 0.5, "val_accuracy": 0.5}
    for place, penalty in ((plain, 1.0), (strict, 1000.0)):
        found = record("pacs", "irm", "photo", "dog", 0, right, hparams={"lr": 0.1, "penalty": penalty})
        write(tmp_path / place, found)
    frame = load_records(tmp_path)
    assert set(frame["method"]) == {"irm", "irm, penalty 1000"}
    assert usual(frame) == ["IRM on PACS, where nothing more is said, has penalty 1"]
    assert usual(frame[frame["method"] == "irm"]) == []
    same = load_records(tmp_path, planned([(plain, "irm"), (plain, "irm, mine")]))
    assert usual(same) == []


def test_a_random_search_is_taken_together_and_said(tmp_path, rng):
    for seed in range(40):
        found = measures(rng, 0.8, ("msp", "energy", "ddu"))
        facts = record("pacs", "madod", "photo", "dog", seed, found, hparams=HPARAMS | {"lr": float(rng.random())})
        write(tmp_path / f"{seed}", facts)
    frame = load_records(tmp_path)
    assert set(frame["method"]) == {"madod"}
    assert mixed(frame) == ["MADOD on PACS: 40 different settings among its runs"]
    assert "MADOD on PACS: 40 different settings" in render(frame, "summary")
