"""Choose settings for PACS on source domains alone: folds that serve every cell, since none of them sees what it hides.

    python benchmarks/pacs_choice.py --root DATA --out results/pacs/choice --device cuda --workers 6

For an unseen domain T a fold leaves T and one more domain S out, trains on the two that are left, and tests on S. It
trains on three of dog, elephant, giraffe and horse, which no cell hides; the fourth is unknown, and so are guitar,
house and person, each measured by itself. A cell that hides the guitar in T looks at the folds without T, and there at
all unknown classes but the guitar. G sees the fold's two sources and three known classes; its gate is waived, its
retention and diversity are in the rows. One training on a pair of domains serves two folds, each of the other two
domains being tested for the sake of the last one; a plan with inner folds would train twice as often. Pictures are
128 px wide, to be quick.

DATA holds PACS and `weights/resnet50_imagenet_v1.safetensors`. What is in OUT is not done again. `--settings` takes
some by name, `--average 0` ships the last weights instead of the mean of the last half of the steps, `--seed 1` does
all with other random numbers, and `--repeat 1` once more with the same, to see what chance does on a GPU. `--network
efficientnet_lite0 --device cpu` does it with what `madod train` takes on a CPU: 96 px, no G, few and small steps.
`--keep FOLDER` leaves what the networks make of every fold there, for other programs to look at; its unknown classes
have the labels -1 (the animal), -2 (guitar), -3 (house) and -4 (person).
"""

import argparse
import json
import multiprocessing
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import combinations, count
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

DOMAINS = ("photo", "art_painting", "cartoon", "sketch")
PAIRS = tuple(combinations(DOMAINS, 2))
ANIMALS = ("dog", "elephant", "giraffe", "horse")
HIDDEN = ("guitar", "house", "person")
DETECTORS = ("msp", "energy", "ddu", "knn", "mahalanobis", "vim")
Row = dict[str, Any]


class Network(NamedTuple):
    """A backbone, the weights it starts with, and the size of its pictures."""

    backbone: str
    weights: str
    size: int


LARGE = Network("resnet50_v1", "weights/resnet50_imagenet_v1.safetensors", 128)
SMALL = Network("efficientnet_lite0", "efficientnet_lite0", 96)
NETWORKS = {network.backbone: network for network in (LARGE, SMALL)}


class Trial(NamedTuple):
    """What is tried: an algorithm, its steps, and what differs from its published setting."""

    algorithm: str
    steps: int
    given: dict[str, Any]
    g_steps: int = 320
    """Training steps of G; with 0 plain augmentation takes its place."""
    network: Network = LARGE

    @property
    def method(self) -> Any:
        """The algorithm's class."""
        from madod.algorithms.base import ALGORITHMS

        return ALGORITHMS[self.algorithm]

    def config(self, average: float) -> Any:
        """Return its hyper-parameters."""
        return self.method.Config(**self.given, average=average)


STEADY = {"lr": 5e-5, "outer_invariance": 1.0}
SWIFT = {"lr": 1e-4, "outer_invariance": 1.0, "inner_lr": 1e-2}
NEAR = {"margin_in": -6.0, "margin_out": -3.0}
OWN = STEADY | {"own_outputs": True}
PLAIN = OWN | NEAR | {"shots": 12, "all_class": 1.0}  # tasks as large as a cell's
RESTYLED = PLAIN | {"restyled_risk": True}
BRIEF = {"lr": 3e-4, "tasks": 2, "shots": 2, "all_class": 3.0}


def on_cpu(algorithm: str, given: dict[str, Any]) -> Trial:
    """Return what is tried on the small network, which `madod train` takes on a CPU (`madod.fitting.choose`)."""
    return Trial(algorithm, 300, given, g_steps=0, network=SMALL)


SETTINGS = {
    "ERM, 600 steps": Trial("erm", 600, {}),
    "ERM, 1200 steps": Trial("erm", 1200, {}),
    "ERM, 200 steps": Trial("erm", 200, {}),
    "MADOD, lr 5e-5": Trial("madod", 300, {"lr": 5e-5}),
    "+ outer R_GI 1": Trial("madod", 300, STEADY),
    "+ outer R_GI 1, margin 0.01": Trial("madod", 300, STEADY | {"margin": 0.01}),
    "+ outer R_GI 1, margin 0.01, 600 steps": Trial("madod", 600, STEADY | {"margin": 0.01}),
    "+ outer R_GI 1, margin 0": Trial("madod", 300, STEADY | {"margin": 0.0}),
    "+ outer R_GI 1, margins -6 and -3": Trial("madod", 300, STEADY | NEAR),
    "+ outer R_GI 1, inner rate 1e-3": Trial("madod", 300, STEADY | {"inner_lr": 1e-3}),
    "+ outer R_GI 3, margin 0.01": Trial("madod", 300, STEADY | {"outer_invariance": 3.0, "margin": 0.01}),
    "+ outer R_GI 1, margin 0.01, lr 1e-4": Trial("madod", 300, STEADY | {"margin": 0.01, "lr": 1e-4}),
    "+ outer R_GI 1, inner rate 1e-2, lr 1e-4": Trial("madod", 300, SWIFT),
    "+ outer R_GI 1, inner rate 1e-2, lr 1e-4, margin 0": Trial("madod", 300, SWIFT | {"margin": 0.0}),
    "+ outer R_GI 1, own outputs, margin 0.01": Trial("madod", 300, OWN | {"margin": 0.01}),
    "+ outer R_GI 1, own outputs, margin 0.1": Trial("madod", 300, OWN),
    "+ outer R_GI 1, own outputs, margins -6 and -3": Trial("madod", 300, OWN | NEAR),
    "+ outer R_GI 1, own outputs, margin 0.01, 2 tasks, 600 steps": Trial(
        "madod", 600, OWN | {"margin": 0.01, "tasks": 2}
    ),
    "+ outer R_GI 1, own outputs, margin 0.01, lr 3e-5, inner rate 1e-2": Trial(
        "madod", 300, OWN | {"margin": 0.01, "lr": 3e-5, "inner_lr": 1e-2}
    ),
    "all classes": Trial("madod", 300, PLAIN),
    "all classes, restyled": Trial("madod", 300, RESTYLED),
    "all classes, restyled, 2 tasks, 600 steps": Trial("madod", 600, RESTYLED | {"tasks": 2}),
    "all classes, restyled, 1 task, 1200 steps": Trial("madod", 1200, RESTYLED | {"tasks": 1}),
    "all classes, restyled, weight 3, 1 task, 1200 steps": Trial(
        "madod", 1200, RESTYLED | {"tasks": 1, "all_class": 3.0}
    ),
    "all classes, restyled, weight 3, 1 task, 1200 steps, G of 1500": Trial(
        "madod", 1200, RESTYLED | {"tasks": 1, "all_class": 3.0}, g_steps=1500
    ),
    "all classes, restyled, weight 3, 1 task, 1200 steps, G of 1500, without R_OOD": Trial(
        "madod", 1200, RESTYLED | {"tasks": 1, "all_class": 3.0, "margin": 0.0}, g_steps=1500
    ),
    "all classes, without R_GI, 600 steps": Trial("madod", 600, PLAIN | {"invariance": 0.0, "outer_invariance": 0.0}),
    "IRM": Trial("irm", 1200, {}),
    "IRM, penalty 10": Trial("irm", 1200, {"penalty": 10.0}),
    "IRM, penalty 1": Trial("irm", 1200, {"penalty": 1.0}),
    "Mixup": Trial("mixup", 1200, {}),
    "MBDG": Trial("mbdg", 600, {}),
    "MBDG, dual rate 0.01": Trial("mbdg", 600, {"dual_rate": 0.01}),
    "MMD": Trial("mmd", 1200, {}),
    "CORAL": Trial("coral", 1200, {}),
    "DAML, inner rate 1e-3, lr 3e-4": Trial("daml", 270, {"inner_lr": 1e-3, "lr": 3e-4}),
    "DAML, inner rate 1e-3, lr 1e-4": Trial("daml", 270, {"inner_lr": 1e-3, "lr": 1e-4}),
    "MEDIC, inner rate 1e-3": Trial("medic", 1200, {"inner_lr": 1e-3}),
    "MEDIC, inner rate 1e-3, batches of 16, 600 steps": Trial("medic", 600, {"inner_lr": 1e-3, "batch": 16}),
    "SCONE, warm start 0.75": Trial("scone", 720, {"warm": 0.75}),
    "SCONE, warm start 0.75, margin 1": Trial("scone", 720, {"warm": 0.75, "margin": 1.0}),
    "EDir-MMD, lr 3e-4": Trial("edir_mmd", 400, {"lr": 3e-4}),
    "EDir-MMD, lr 1e-4": Trial("edir_mmd", 400, {"lr": 1e-4}),
    "EDst-MMD, lr 3e-4": Trial("edst_mmd", 400, {"lr": 3e-4}),
    "EDst-MMD, lr 1e-4": Trial("edst_mmd", 400, {"lr": 1e-4}),
    "small network: ERM": on_cpu("erm", {"lr": 3e-4, "batch": 8}),
    "small network: ERM, batch 24": on_cpu("erm", {"lr": 3e-4, "batch": 24}),
    "small network: MADOD": on_cpu("madod", RESTYLED | BRIEF),
    "small network: MADOD, 3 shots": on_cpu("madod", RESTYLED | BRIEF | {"shots": 3}),
    "small network: MADOD, 3 shots, weight 10": on_cpu("madod", RESTYLED | BRIEF | {"shots": 3, "all_class": 10.0}),
    "small network: MADOD, 4 shots, without restylings": on_cpu(
        "madod", PLAIN | BRIEF | {"shots": 4, "invariance": 0.0, "outer_invariance": 0.0}
    ),
    "small network: MADOD, 1 task, 5 shots": on_cpu("madod", RESTYLED | BRIEF | {"tasks": 1, "shots": 5}),
}
"""What is on offer. The published rates of SGD of DAML, MEDIC, EDir-MMD and EDst-MMD, made for networks with live batch
norm, are not: on this one, where it is frozen, they ended within some fifteen steps at chance or at weights that are no
numbers (docs/fidelity.md). SCONE trains by risk in its warm start alone: it gets more of it here, and its mean weights
some of it."""
METHODS = tuple(dict.fromkeys(("madod", *(trial.algorithm for trial in SETTINGS.values()))))


class Job(NamedTuple):
    """The trainings on one pair of domains."""

    pair: tuple[str, str]
    settings: tuple[str, ...]
    average: float
    seed: int
    repeat: int
    root: Path
    out: Path
    cache: Path
    device: str
    compiled: bool = False
    network: Network = LARGE
    keep: Path | None = None

    @property
    def file(self) -> Path:
        """Where the rows of the pair are."""
        return self.out / f"{'-'.join(self.pair)}.json"

    @property
    def left(self) -> list[str]:
        """The settings that have not been trained yet."""
        done = {row["setting"] for row in rows_of(self.file) if self.facts.items() <= row.items()}
        return [name for name in self.settings if name not in done]

    def kept(self, setting: str, held: str) -> Path | None:
        """Where a fold's outputs are left, if they are."""
        name = f"{'-'.join(self.pair)}-{held}-{self.average:g}-{self.seed}-{self.repeat}.safetensors"
        return self.keep / setting / name if self.keep else None

    @property
    def facts(self) -> dict[str, Any]:
        """What all its rows have in common."""
        return {"sources": list(self.pair), "average": self.average, "seed": self.seed, "repeat": self.repeat}


def rows_of(file: Path) -> list[Row]:
    """Return what a file holds."""
    return json.loads(file.read_text(encoding="utf-8")) if file.exists() else []


def work(job: Job) -> None:
    """Do the trainings of a pair that are left, and write its file anew, with two rows more, after each."""
    import torch

    from madod.benchmark.examiner import Examiner
    from madod.benchmark.generator import generator, plain
    from madod.benchmark.provenance import versions
    from madod.benchmark.resources import Resources
    from madod.benchmark.without import Without
    from madod.data.opening import Opening, open_dataset
    from madod.data.split import Split, split
    from madod.models.backbones import build
    from madod.models.compute import compute, usual_precision
    from madod.models.pretrained import pretrained
    from madod.progress import silent
    from madod.storage import write_json

    if not job.left:
        return
    torch.set_num_threads(2 if job.device.startswith("cuda") else 1)
    device = torch.device(job.device)
    file, network = job.root / job.network.weights, job.network
    weights = pretrained(str(file) if file.exists() else network.weights)
    cache = job.cache / f"repeat {job.repeat}" if job.repeat else job.cache
    resources = Resources(cache, device, waive_gate=True, compiled=job.compiled)
    whole = open_dataset("pacs", Opening(root=job.root, size=network.size, cache=job.cache), silent)
    others = tuple(name for name in DOMAINS if name not in job.pair)
    unknown = ANIMALS[PAIRS.index(job.pair) % len(ANIMALS)]
    folds = {}
    for held, unseen in (others, others[::-1]):
        view = Without(whole, (unseen,), ())
        parts = split(view, test_domain=held, ood_classes=(unknown, *HIDDEN))
        folds[held] = Split(*(part.to(device) for part in parts))
    first = folds[others[0]]
    how = compute(whole.shape, device, usual_precision(network.size, gpu=device.type == "cuda"))
    trials = {name: SETTINGS[name] for name in job.left}
    for name, trial in trials.items():
        steps = sum(other.steps for other in trials.values() if other.algorithm == trial.algorithm)
        config = trial.config(job.average)
        way = how.over(steps, least=config.compile_from, insist=job.compiled)
        made = plain(whole.augmentation)
        if trial.g_steps and config.needs_translate:
            examiner = Examiner(network.backbone, whole.augmentation, weights)
            made = generator(first, examiner, resources, steps=trial.g_steps, compute=how, restyling=way)
        judged = {key: round(made.judgement[key], 3) for key in ("retention", "diversity") if key in made.judgement}
        start = time.perf_counter()
        make_net = partial(
            build, network.backbone, channels=3, classes=len(first.source.classes), weights=weights, compute=way
        )
        learner, rng = trained(trial, job, first.source, made.translate, whole.augmentation, make_net)
        net = learner.deploy(first.source, rng)
        cost = {"seconds": round(time.perf_counter() - start, 1), "commit": versions(device).get("commit")}
        rows = [
            {"setting": name, **job.facts, "held": held, "unseen": unseen, "unknown": unknown}
            | measured(net, folds[held], unknown, job.kept(name, held)) | judged | cost
            for held, unseen in (others, others[::-1])
        ]  # fmt: skip
        write_json(job.file, [*rows_of(job.file), *rows])


def trained(
    trial: Trial, job: Job, source: Any, translate: Any, augment: Any, make_net: Callable[..., Any]
) -> tuple[Any, Any]:
    """Return a method as it is after its training on a fold's sources, and where its random numbers are."""
    import numpy as np
    import torch

    from madod.models.classifier import Setting
    from madod.training import Logbook, train

    seeds = count(job.seed)
    known = Setting(lambda: make_net(seed=next(seeds)), len(source.domains), translate, augment, trial.steps)
    learner = trial.method(trial.config(job.average), known, torch.Generator(source.device).manual_seed(job.seed)).to(
        source.device
    )
    rng = np.random.default_rng(job.seed)
    with tempfile.TemporaryDirectory() as scratch:
        train(learner, source, rng, Logbook(Path(scratch), "choice"), steps=trial.steps)
    return learner, rng


def measured(net: Any, fold: Any, unknown: str, keep: Path | None) -> Row:
    """Return accuracy on the held and on the source domains, and what every detector makes of each unknown class."""
    from madod.evaluation.evaluate import evaluate
    from madod.evaluation.metrics import aupr, auroc, base_rate
    from madod.evaluation.outputs import save_outputs

    found = evaluate(net, fold, DETECTORS)
    y, units = found.stored.y["target"].clone(), fold.target.u.cpu()
    known = y >= 0
    by_class: dict[str, Row] = {}
    for code, name in enumerate((unknown, *HIDDEN), 1):
        strange = units == fold.target.units.index(name)
        y[strange] = -code
        seen = known | strange
        numbers: Row = {
            detector: {"auroc": auroc(scores[seen], strange[seen]), "aupr": aupr(scores[seen], strange[seen])}
            for detector, scores in found.scores.items()
        }
        by_class[name] = rounded(numbers | {"base_rate": base_rate(strange[seen])})
    if keep is not None:
        keep.parent.mkdir(parents=True, exist_ok=True)
        save_outputs(keep, found.stored._replace(y=found.stored.y | {"target": y}))
    right = rounded({key: found.metrics[key] for key in ("accuracy", "val_accuracy")})
    return right | by_class.pop(unknown) | {"others": by_class}


def rounded(numbers: Row) -> Row:
    """Return numbers with four digits."""
    return {key: rounded(value) if isinstance(value, dict) else round(value, 4) for key, value in numbers.items()}


class Cell(NamedTuple):
    """What a choice is made for: a domain and a class that it may not look at."""

    unseen: str
    hidden: str

    @property
    def place(self) -> str:
        """How tables and `detector.json` name it."""
        return f"pacs/{self.unseen}/{self.hidden}"

    def auroc(self, row: Row, detector: str) -> float:
        """Return the mean over the unknown classes that the cell knows, or that no cell hides."""
        others = [row["others"][name] for name in HIDDEN if name != self.hidden]
        return fmean(seen[detector]["auroc"] for seen in (row, *others))


CELLS = tuple(Cell(unseen, hidden) for unseen in DOMAINS for hidden in HIDDEN)


class Pick(NamedTuple):
    """A setting and a detector, with the accuracy and the AUROC that they have on a cell's folds, in percent."""

    setting: str
    detector: str
    accuracy: float
    auroc: float


def best(rows: Sequence[Row], cell: Cell, algorithm: str) -> Pick | None:
    """Return what the folds of a cell speak for: first a setting, then a detector for it.

    The setting has the highest accuracy plus AUROC, the latter a mean over all detectors, since which of them leads on
    three folds is half chance; the detector has the highest AUROC with that setting. Settings are those that were run
    most often: one that was run with a single seed can have been lucky, and does not stand against those run with two.
    """
    seen = [
        row
        for row in rows
        if "others" in row
        and row["unseen"] == cell.unseen
        and row["average"]
        and SETTINGS[row["setting"]].algorithm == algorithm
    ]
    groups = {name: [row for row in seen if row["setting"] == name] for name in {row["setting"] for row in seen}}
    found = {
        name: {detector: 100 * fmean(cell.auroc(row, detector) for row in group) for detector in DETECTORS}
        for name, group in sorted(groups.items())
        if len(group) == max(map(len, groups.values()))
    }
    if not found:
        return None
    setting = max(found, key=lambda name: mean(groups[name], "accuracy") + fmean(found[name].values()))
    detector = max(DETECTORS, key=found[setting].__getitem__)
    return Pick(setting, detector, mean(groups[setting], "accuracy"), found[setting][detector])


def declaration(rows: Sequence[Row]) -> dict[str, dict[str, dict[str, str]]]:
    """Return for each method that was run the setting and the detector of every cell."""
    picks = {name: {cell.place: best(rows, cell, name) for cell in CELLS} for name in METHODS}
    return {
        name: {
            fact: {place: getattr(pick, fact) for place, pick in found.items() if pick}
            for fact in ("detector", "setting")
        }
        for name, found in picks.items()
        if any(found.values())
    }


def table(rows: Iterable[Row]) -> str:
    """Return all settings over all folds, by the animal and by all unknown classes, then what every cell chooses."""
    rows = list(rows)
    by_animal = [f"{name}: AUROC / AUPR" for name in DETECTORS]
    lines = heading("setting", "folds", "accuracy", "on sources", *by_animal)
    for label, mine in kinds(rows).items():
        plain = [f"{mean(mine, key):.1f}" for key in ("accuracy", "val_accuracy")]
        cells = [f"{mean(mine, d, 'auroc'):.1f} / {mean(mine, d, 'aupr'):.1f}" for d in DETECTORS]
        lines.append(line(label, len(mine), *plain, *cells))
    lines += ["", *heading("setting", "folds", "accuracy", *(f"{name}: AUROC" for name in DETECTORS))]
    for label, mine in kinds([row for row in rows if "others" in row]).items():
        unknown = [seen for row in mine for seen in (row, *row["others"].values())]
        cells = [f"{mean(unknown, d, 'auroc'):.1f}" for d in DETECTORS]
        lines.append(line(label, len(mine), f"{mean(mine, 'accuracy'):.1f}", *cells))
    lines += ["", *heading("unseen", "hidden", "method", "best setting; its best detector", "accuracy", "AUROC")]
    for cell in CELLS:
        for algorithm in METHODS:
            if pick := best(rows, cell, algorithm):
                chosen = f"{pick.setting}; {pick.detector}"
                lines.append(line(*cell, algorithm, chosen, f"{pick.accuracy:.1f}", f"{pick.auroc:.1f}"))
    return "\n".join(lines) + "\n"


def kinds(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """Return the rows by what was trained, settings in their order."""
    found: dict[tuple[int, float, int, int], list[Row]] = {}
    for row in rows:
        kind = list(SETTINGS).index(row["setting"]), -row["average"], row["seed"], row["repeat"]
        found.setdefault(kind, []).append(row)
    return {
        list(SETTINGS)[place]
        + (f", seed {seed}" if seed else "")
        + (", once more" if repeat else "")
        + ("" if average else ", last weights"): mine
        for (place, average, seed, repeat), mine in sorted(found.items(), key=lambda kind: kind[0])
    }


def heading(*names: str) -> list[str]:
    """Return the first two lines of a table."""
    return [line(*names), "| --- " * len(names) + "|"]


def line(*cells: object) -> str:
    """Return a line of a table."""
    return "| " + " | ".join(map(str, cells)) + " |"


def mean(rows: Sequence[Row], key: str, inner: str | None = None) -> float:
    """Return a mean in percent."""
    return 100 * fmean(row[key][inner] if inner else row[key] for row in rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, help="where PACS and the weights are; without it the table alone is made")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--cache", type=Path, default=Path.home() / ".cache" / "madod")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--network", default=LARGE.backbone, choices=list(NETWORKS))
    parser.add_argument("--compiled", action="store_true", help="compile G and method, however few their steps")
    parser.add_argument("--workers", type=int, default=6)
    parser.add_argument("--settings", nargs="*", default=list(SETTINGS), choices=list(SETTINGS), metavar="NAME")
    parser.add_argument("--sources", nargs="+", default=DOMAINS, choices=DOMAINS, help="train on pairs of these alone")
    parser.add_argument("--average", type=float, default=0.5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--repeat", type=int, default=0)
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="leave features and logits of every fold there")
    parser.add_argument("--declare", type=Path, metavar="FILE", help="write what the folds of each cell speak for")
    how = parser.parse_args()
    how.out.mkdir(parents=True, exist_ok=True)
    if how.root is not None:
        network = NETWORKS[how.network]
        names = tuple(name for name in how.settings if SETTINGS[name].network == network)
        if not names:
            parser.error(f"these settings are not for {how.network}: name their --network")
        training = names, how.average, how.seed, how.repeat
        where = how.root, how.out, how.cache, how.device, how.compiled, network, how.keep
        jobs = [Job(pair, *training, *where) for pair in PAIRS if {*pair} <= {*how.sources}]
        if how.keep and any(len(job.left) < len(names) for job in jobs):
            parser.error(f"{how.out} has rows of these settings, which are not trained again: name an empty --out")
        with multiprocessing.get_context("spawn").Pool(how.workers) as pool:
            pool.map(work, jobs, chunksize=1)
    rows = [row for pair in PAIRS for row in rows_of(how.out / f"{'-'.join(pair)}.json")]
    (how.out / "table.md").write_text(table(rows), encoding="utf-8")
    if how.declare is not None:
        from madod.storage import write_json

        write_json(how.declare, declaration(rows))


if __name__ == "__main__":
    main()
