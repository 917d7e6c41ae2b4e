"""The published ratios, measured again."""

import importlib.util
import json
import random
import re
import subprocess
import sys
from dataclasses import replace
from itertools import product
from pathlib import Path
from statistics import median
from types import ModuleType

import pytest
import torch

from madod.algorithms.base import ALGORITHMS
from madod.benchmark.settings import hparams
from madod.benchmark.words import load_plan
from madod.data.augment import NONE
from madod.data.base import DATASETS
from madod.data.images import read_image
from madod.detectors.ddu import DDU
from madod.detectors.gaussian import squared_distances
from madod.evaluation.evaluate import fit_of
from madod.evaluation.outputs import Stored, save_outputs
from madod.fitting import choose as choosing
from madod.models.classifier import Outputs
from madod.report.frame import load_records
from madod.report.measured import measured

FOLDER = Path(__file__).parent.parent / "benchmarks"


def program(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.long
def test_a_meta_step_costs_little_more_than_a_plain_pass():
    assert program("meta_step").measure(torch.device("cpu"))["ratio"] < 1.25


@pytest.mark.long
def test_a_batch_comes_three_times_as_fast_as_picture_by_picture(tmp_path):
    speed = program("data_speed")
    assert speed.measure(speed.made(tmp_path), tmp_path / "cache")["ratio"] > 3


def test_both_pipelines_of_the_speed_of_data_vary_alike(tmp_path):
    speed = program("data_speed")
    file = speed.made(tmp_path)[0]
    still = speed.varied(file, NONE, random.Random(0))
    assert (still * 255 - torch.from_numpy(read_image(file, speed.SIZE)).float()).abs().mean() < 2  # hue in 256 steps
    how, rng = replace(NONE, crop=(0.5, 0.5), jitter=0.3), random.Random(0)
    plain = torch.stack([speed.varied(file, how, rng) for _ in range(64)])
    ours = how(still.repeat(64, 1, 1, 1), torch.Generator().manual_seed(0))
    for share in (0.1, 0.5, 0.9):
        assert float(plain.flatten()[::101].quantile(share)) == pytest.approx(
            float(ours.flatten()[::101].quantile(share)), abs=0.06
        )


def test_colored_mnist_is_shared_out_whole():
    mnist = program("colored_mnist")
    specs = list(mnist.specs(600, 500))
    assert len({spec.id for spec in specs}) == len(specs) == 3 * 4 * 2 * 5
    shares = [list(mnist.specs(600, 500, share=(k, 5))) for k in range(1, 6)]
    assert sorted(spec.id for share in shares for spec in share) == sorted(spec.id for spec in specs)
    cells = [{(spec.test_domain, spec.ood_classes) for spec in share} for share in shares]
    assert sum(map(len, cells)) == 12  # all runs of one generator are in one share
    first = [(spec.test_domain, spec.ood_classes) for spec in specs[:12]]
    assert len(set(first)) == 12
    assert all(spec.algorithm == "madod" for spec in specs[:12])


def test_the_colored_mnist_table_stands_beside_the_papers():
    mnist = program("colored_mnist")
    numbers = {"auroc": 0.6, "aupr": 0.2, "base_rate": 0.1}
    metrics = {"accuracy": 0.7, **dict.fromkeys(mnist.DETECTORS, numbers)}
    records = [
        mnist.RunRecord(spec, metrics, {}, {}, {}, {"retention": 0.5, "diversity": 1.0} if "madod" in spec.id else None)
        for spec in mnist.specs(600, 500)
    ]
    text = mnist.table(records)
    assert "| without R_GI | 24 | 70.0 ± 0.0 | 60.0 ± 0.0 |" in text
    assert "| CE only | 24 | 0.0 ± 0.0 | 0.0 ± 0.0 | 0.0 ± 0.0 |" in text
    assert "| -90% | MADOD-DDU | 8 | 70.0 ± 0.0 | 60.1 | 60.0 ± 0.0 | 51.4 | 20.0 ± 0.0 | 38.5 |" in text
    assert "guessing has an AUPR of about 10" in text
    assert "none" in mnist.table(records[:1])


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_a_sweep_costs_little_more_than_its_runs():
    overhead = program("sweep_overhead")
    found = [overhead.measure(overhead.PLAN, workers=2)["overhead"] for _ in range(3)]
    assert median(found) < 0.05  # what else the cores do meanwhile may hold up one worker's last run


def test_the_digits_table_is_made_from_its_records():
    digits, results = program("digits"), FOLDER.parent / "results" / "digits"
    records = [digits.load_record(file.parent) for file in sorted(results.glob("*/record.json"))]
    assert len({(r.spec.algorithm, r.spec.test_domain, r.spec.ood_classes, r.spec.seed) for r in records}) == 96
    assert digits.table(records) == (results / "table.md").read_text(encoding="utf-8")
    for record in records:
        assert (results / record.spec.id).is_dir(), "a record's id no longer fits its spec"


def test_the_colored_mnist_table_is_made_from_its_records():
    mnist, results = program("colored_mnist"), FOLDER.parent / "results" / "colored_mnist"
    planned = list(mnist.specs(mnist.STEPS, mnist.G_STEPS))
    assert {spec.id for spec in planned} == {file.parent.name for file in results.glob("*/record.json")}
    records = [mnist.load_record(results / spec.id) for spec in planned]
    assert mnist.table(records) == (results / "table.md").read_text(encoding="utf-8")
    report = measured(load_records(results))
    starred = report[(report["method"] == "erm") & (report["detector"] == "best")].set_index("metric")["value"]
    assert f"| {starred['auroc']:.1f} ± " in (row := mnist.beside_the_paper(records)[-4])
    assert f"| {starred['aupr']:.1f} ± " in row
    assert row.startswith("| all | ERM* | 24 |")


def fold(
    setting: str, sources: tuple[str, str], held: str, unseen: str, right: float, auroc: float, guitar: float = 0.5
) -> dict[str, object]:
    """A row whose unknown animal and hidden classes the neighbours tell by `auroc`, the guitar apart."""
    choice = program("pacs_choice")
    facts = {"setting": setting, "sources": sources, "held": held, "unseen": unseen, "accuracy": right}

    def seen(auroc: float) -> dict[str, object]:
        numbers = {name: {"auroc": 0.5, "aupr": 0.2} for name in choice.DETECTORS}
        return {**numbers, "knn": {"auroc": auroc, "aupr": 0.3}}

    others = {name: seen(guitar if name == "guitar" else auroc) for name in choice.HIDDEN}
    return facts | {"average": 0.5, "seed": 0, "repeat": 0, "val_accuracy": 0.9} | seen(auroc) | {"others": others}


def test_a_choice_for_a_cell_looks_neither_at_its_domain_nor_at_its_class():
    choice = program("pacs_choice")
    one, two = "+ outer R_GI 1", "MADOD, lr 5e-5"
    rows = [
        fold(one, ("photo", "sketch"), "cartoon", "art_painting", 0.8, 0.9, guitar=1.0),
        fold(two, ("photo", "sketch"), "cartoon", "art_painting", 0.82, 0.9, guitar=0.0),
        fold(one, ("photo", "sketch"), "art_painting", "cartoon", 0.8, 0.9),
        fold(two, ("photo", "sketch"), "art_painting", "cartoon", 0.1, 0.9),
    ]
    pick = choice.best(rows, choice.Cell("art_painting", "guitar"), "madod")
    assert pick == (two, "knn", pytest.approx(82), pytest.approx(90))
    pick = choice.best(rows, choice.Cell("art_painting", "house"), "madod")
    assert pick == (one, "knn", pytest.approx(80), pytest.approx(100 * (0.9 + 0.9 + 1.0) / 3))
    assert choice.best(rows, choice.Cell("cartoon", "guitar"), "madod").setting == one
    assert choice.best(rows, choice.Cell("photo", "guitar"), "madod") is None
    assert choice.best(rows, choice.Cell("cartoon", "guitar"), "erm") is None
    text = choice.table([*rows, fold(two, ("photo", "cartoon"), "sketch", "art_painting", 0.2, 0.4)])
    assert "| + outer R_GI 1 | 2 | 80.0 | 90.0 |" in text
    assert f"| art_painting | guitar | madod | {two}; knn | 51.0 | 65.0 |" in text  # it alone has both folds


def test_a_setting_is_chosen_by_all_detectors_and_then_one_for_it(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    choice, rules = program("pacs_choice"), program("pacs_rules")
    lucky, steady = "+ outer R_GI 1", "MADOD, lr 5e-5"
    rows = [
        fold(lucky, ("photo", "sketch"), "cartoon", "art_painting", 0.8, 0.9),
        fold(steady, ("photo", "sketch"), "cartoon", "art_painting", 0.8, 0.8),
    ]
    for seen in (rows[1], *rows[1]["others"].values()):
        seen.update({name: {"auroc": 0.7, "aupr": 0.2} for name in ("msp", "energy", "ddu")})
    cell = choice.Cell("art_painting", "guitar")
    assert choice.best(rows, cell, "madod") == (steady, "knn", pytest.approx(80), pytest.approx(80))
    assert rules.in_turn(rows, cell) == (steady, "knn")
    assert rules.at_once(rows, cell) == (lucky, "knn")


def test_rules_of_the_choice_are_measured_on_rows_they_were_not_shown(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    rules = program("pacs_rules")
    home = FOLDER.parent / "results" / "pacs" / "choice"
    rows = rules.twice_run(row for pair in rules.PAIRS for row in rules.rows_of(home / f"{'-'.join(pair)}.json"))
    assert {row["seed"] for row in rows} == {0, 1}
    seen = [row for row in rows if row["unseen"] == "photo"]
    for parts, shares in ((rules.without_a_fold, 3), (rules.without_a_seed, 2), (rules.without_both, 6)):
        divided = list(parts(seen))
        assert len(divided) == shares
        for shown, left in divided:
            assert shown
            assert left
            assert not [row for row in left if row in shown]
    right, found = rules.outcome(rows, lambda *_: (rows[0]["setting"], "knn"), rules.without_a_fold)
    mine = [row for row in rows if row["setting"] == rows[0]["setting"]]
    assert right == pytest.approx(100 * sum(row["accuracy"] for row in mine) / len(mine))
    expected = [cell.auroc(row, "knn") for cell in rules.CELLS for row in mine if row["unseen"] == cell.unseen]
    assert found == pytest.approx(100 * sum(expected) / len(expected))


def test_a_setting_run_once_does_not_stand_against_one_run_twice():
    choice = program("pacs_choice")
    often, once = "+ outer R_GI 1", "MADOD, lr 5e-5"
    rows = [
        fold(often, ("photo", "sketch"), "cartoon", "art_painting", 0.8, 0.9),
        fold(often, ("photo", "sketch"), "cartoon", "art_painting", 0.6, 0.9) | {"seed": 1},
        fold(once, ("photo", "sketch"), "cartoon", "art_painting", 0.9, 0.9),
    ]
    pick = choice.best(rows, choice.Cell("art_painting", "house"), "madod")
    assert pick.setting == often
    assert pick.accuracy == pytest.approx(70)


def test_settings_seen_by_the_animal_alone_are_shown_and_not_chosen():
    choice = program("pacs_choice")
    row = fold("+ outer R_GI 1", ("photo", "sketch"), "cartoon", "art_painting", 0.8, 0.9)
    del row["others"]
    assert choice.best([row], choice.Cell("art_painting", "guitar"), "madod") is None
    assert "| + outer R_GI 1 | 1 | 80.0 |" in choice.table([row])


def test_every_setting_of_the_choice_can_be_trained():
    choice = program("pacs_choice")
    for setting in choice.SETTINGS.values():
        assert setting.config(0.5).average == 0.5
        assert setting.network in choice.NETWORKS.values()
    assert not set(choice.ANIMALS) & set(choice.HIDDEN)
    assert set(choice.ANIMALS) | set(choice.HIDDEN) == set(DATASETS["pacs"].classes)


@pytest.mark.parametrize(("folder", "backbone"), [("choice", "resnet50_v1"), ("cpu", "efficientnet_lite0")])
def test_the_table_of_the_choice_is_made_from_its_rows(folder, backbone):
    choice, home = program("pacs_choice"), FOLDER.parent / "results" / "pacs" / folder
    rows = [row for pair in choice.PAIRS for row in choice.rows_of(home / f"{'-'.join(pair)}.json")]
    assert choice.table(rows) == (home / "table.md").read_text(encoding="utf-8")
    for row in rows:
        assert not {row["held"], row["unseen"]} & set(row["sources"])
        assert row["held"] != row["unseen"]
        assert choice.SETTINGS[row["setting"]].network.backbone == backbone
    if folder == "choice":
        declared = json.loads((home.parent / "main" / "detector.json").read_text(encoding="utf-8"))
        assert declared == choice.declaration(rows)


@pytest.mark.parametrize(
    ("setting", "algorithm"), [("small network: ERM, batch 24", "erm"), ("small network: MADOD", "madod")]
)
def test_folds_on_a_cpu_have_what_a_person_gets_there(setting, algorithm, monkeypatch):
    monkeypatch.setattr(choosing, "installed", lambda: True)
    trial, config = program("pacs_choice").SETTINGS[setting], ALGORITHMS[algorithm].Config
    found = choosing.choose(choosing.Wishes(algorithm=algorithm), 224, own=True, gpu=False, config=config)
    assert trial.network == (found.backbone, found.pretrained, found.size)
    assert (trial.steps, trial.g_steps, found.translate) == (found.steps, 0, "augment")
    assert trial.config(0.5) == config(**found.hparams(algorithm))


def test_the_table_of_the_digits_choice_is_made_from_its_rows(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    choice, home = program("digits_choice"), FOLDER.parent / "results" / "digits" / "choice"
    rows = json.loads((home / "folds.json").read_text(encoding="utf-8"))
    assert choice.table(rows) == (home / "table.md").read_text(encoding="utf-8")
    shipping = choice.SETTINGS["the same, own outputs, margins -6 and -3, warm-up"]
    assert hparams(*shipping) == hparams("madod")
    assert hparams(*choice.SETTINGS["ERM, mean weights"]) == hparams("erm")
    for row in rows:
        assert row["unknown"] in choice.LEFT
        assert row["held"] not in row["sources"]
    assert not set(choice.LEFT) & set(choice.HIDDEN)


def test_the_plans_of_pacs_run_what_was_chosen():
    choice, home = program("pacs_choice"), FOLDER.parent
    declared = json.loads((home / "results" / "pacs" / "main" / "detector.json").read_text(encoding="utf-8"))
    for file, methods, unseen, hidden in (
        ("pacs", set(declared), choice.DOMAINS, choice.HIDDEN),
        ("confirm", {"erm", "madod"}, choice.DOMAINS, choice.HIDDEN),
        ("ablation", {"madod"}, choice.DOMAINS, ["person"]),
        ("cell", {"madod"}, ["photo"], ["person"]),
        ("tsne", {"madod"}, ["photo"], ["person"]),
    ):
        plan, _ = load_plan(home / "plans" / f"{file}.toml")
        (whole,) = plan.datasets
        planned = list(product(whole.test_domains, whole.unknown))
        assert set(planned) == set(product(unseen, hidden))
        for cell, method in product(planned, methods & set(plan.algorithms)):
            trial = choice.SETTINGS[declared[method]["setting"][choice.Cell(*cell).place]]
            block = whole.at(cell[0], cell[1:])
            given = {**plan.hparams.get(method, {}), **block.hparams.get(method, {})}
            steps = block.lengths.get(method, block.steps)
            wanted = trial.given | {"average": 0.5}
            wanted.pop("shots", None)  # those of the folds make tasks as large as a cell's
            assert (steps, block.translate_steps, given) == (trial.steps, trial.g_steps, wanted)


def test_a_training_of_the_choice_is_left_until_its_rows_are_there(tmp_path):
    choice = program("pacs_choice")
    job = choice.Job(choice.PAIRS[0], tuple(choice.SETTINGS), 0.5, 0, 0, tmp_path, tmp_path, tmp_path, "cpu")
    assert job.left == list(choice.SETTINGS)
    job.file.write_text(json.dumps([{"setting": "ERM, 600 steps", **job.facts}]))
    assert job.left == list(choice.SETTINGS)[1:]
    kept = job._replace(keep=tmp_path)
    for fact in ({"repeat": 1}, {"seed": 1}, {"average": 0.0}):
        assert job._replace(**fact).left == list(choice.SETTINGS)
        assert kept._replace(**fact).kept("ERM, 600 steps", "sketch") != kept.kept("ERM, 600 steps", "sketch")
    assert job.kept("ERM, 600 steps", "sketch") is None


def test_what_is_said_of_madod_and_erm_on_pacs_is_made_from_the_records(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    home = FOLDER.parent / "results" / "pacs" / "main"
    assert program("pacs_numbers").report(home) == (home / "numbers.md").read_text(encoding="utf-8")


def features(images: int, seed: int, *, unknown: bool = False) -> tuple[Outputs, torch.Tensor]:
    """Correlated features of three classes, each about a mean of its own, and labels; some unknown, of four kinds."""
    rng = torch.Generator().manual_seed(seed)
    y = torch.arange(images) % (7 if unknown else 3)
    mix = torch.randn(16, 16, generator=torch.Generator().manual_seed(9))
    z = torch.randn(images, 16, generator=rng) @ mix + 5 * torch.eye(7, 16)[y]
    return Outputs(z, z[:, :3]), torch.where(y < 3, y, 2 - y)


def test_groups_of_directions_add_up_to_the_distance_that_ddu_sees(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(FOLDER))
    spectrum = program("pacs_spectrum")
    monkeypatch.setattr(spectrum, "GROUPS", (0, 2, 5, 10))
    parts = {"source": features(60, 0), "val": features(20, 1), "target": features(70, 2, unknown=True)}
    stored = Stored({n: p[0] for n, p in parts.items()}, {n: p[1] for n, p in parts.items()}, torch.eye(3, 16),
                    torch.zeros(3))  # fmt: skip
    found = spectrum.shares(stored, None)
    detector = DDU().fit(fit_of(stored))
    near = torch.stack(
        [
            squared_distances(stored.outputs["val"].features, mean, factor)
            for mean, factor in zip(detector.mean_, detector.factor_, strict=True)
        ]
    ).amin(0)
    assert sum(found["held-out"]) == pytest.approx(float(near.mean()))
    by_name = {one.name: one for one in spectrum.measured(stored)}
    assert by_name["rho 1"].density < by_name["shrinkage (default)"].density
    assert by_name["100% of W, then shrinkage"].auroc.keys() == {"animal", "guitar", "house", "person"}
    save_outputs(tmp_path / "a setting" / "fold.safetensors", stored)
    assert "### a setting: 1 folds, 16 features" in spectrum.report(tmp_path / "a setting")


def test_the_same_weights_answer_alike_in_both_precisions(tmp_path):
    run = ["train", "digits", "--algorithm", "erm", "--steps", "30", "--test-domain", "neon", "--ood-class", "4"]
    subprocess.run([sys.executable, "-m", "madod", *run, "--out", tmp_path / "run"], check=True, capture_output=True)
    words = [sys.executable, FOLDER / "same_weights.py", tmp_path / "run"]
    said = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    rows = dict(re.findall(r"^\| (.+?) \| .+ \| (.+) \|$", said, re.MULTILINE))
    assert abs(float(rows["accuracy"])) < 1
    assert abs(float(rows["ddu: AUROC"])) < 1
    assert float(re.search(r"^([\d.]+) % of 447 images", said, re.MULTILINE)[1]) > 98
    assert any(float(change) for name, change in rows.items() if ": AU" in name)  # else nothing was rounded


def test_ratios_of_speed_are_above_one_where_it_is_faster():
    speed = program("speed")
    table = {
        "peak": {"GB/s": 1.0},
        "float32": {"ERM step, s": 2.0, "G, images/s": 10.0, "G, GiB": 1.0},
        "bfloat16": {"ERM step, s": 0.5, "G, images/s": 30.0, "G, GiB": 2.0},
    }
    *_, first, second = speed.ratios(table).splitlines()
    assert first == "| float32 | 1.00 | 1.00 |"
    assert second == "| bfloat16 | 4.00 | 3.00 |"
    assert {*speed.ON_GPU, *speed.ON_CPU} == {*speed.WAYS}
