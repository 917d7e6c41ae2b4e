"""What a run is (its spec) and what it left behind (its record)."""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from math import isfinite
from pathlib import Path
from typing import Any, cast

from madod.errors import InputError
from madod.kinds import hints, taken
from madod.storage import ordinary, read_json, write_json

RECORD, HISTORY, GRID = "record.json", "history.jsonl", "generator.png"
OUTPUTS, VERDICTS = "outputs.safetensors", "verdicts.safetensors"
"""What a run leaves in its folder beside its model."""
NO_RECORD = "a run's record", "delete it and run it again"

ADDED_LATER = {"average": 0.0, "own_outputs": False, "both_ways": False, "all_class": 0.0, "restyled_risk": False}
"""Hyper-parameters younger than the first records, as they always were before; `both_ways` came and went."""

FEW = 3
"""Differences of two specs that are said; of more, how many there are."""

PARTING = r"[/\\\0]"
"""What no folder's name can hold, on one system or another; a domain or a class may."""
LONGEST = 255
"""Bytes in the name of a folder, on most systems."""

LARGEST_SEED = 2**53 - 1
"""A run's networks are seeded with its seed times 1000 and on, and torch takes no number above 2^64."""


def refuse_seed(name: str, seed: int) -> None:
    """Refuse a seed that nothing can be drawn from."""
    if not 0 <= seed <= LARGEST_SEED:
        raise InputError(f"{name} cannot be {seed}: give 0 to {LARGEST_SEED}")


def lasting(hparams: Mapping[str, Any]) -> dict[str, Any]:
    """Return hyper-parameters without younger ones that are as they always were: records of any age then agree."""
    return {key: value for key, value in hparams.items() if (key, value) not in ADDED_LATER.items()}


@dataclass(frozen=True)
class RunSpec:
    """All that decides a run's numbers."""

    dataset: str
    test_domain: str | None
    ood_classes: tuple[str, ...]
    algorithm: str
    seed: int = 0
    split_seed: int = 0
    steps: int = 500
    backbone: str = "small_cnn"
    translate: str = "munit"
    translate_steps: int = 200
    """Training steps of G; with 0 it is trained until it rebuilds held-out source images no better."""
    hparams: Mapping[str, Any] = field(default_factory=dict)
    """Every hyper-parameter of the algorithm, defaults included."""
    pretrained: str | None = None
    """File name and sha256 of the weights that the backbone starts with (`Weights.label`); the name decides nothing."""
    size: int | None = None
    """Side of the square that pictures are squeezed to; None is the dataset's own."""
    precision: str = "float32"
    """What the networks compute in: float32, or bfloat16 where the device has it."""

    @property
    def start(self) -> str:
        """The checksum of the pretrained weights; empty where there are none."""
        return (self.pretrained or "").rpartition("sha256:")[2]

    @property
    def id(self) -> str:
        """A readable prefix, then a hash of everything that decides numbers.

        What is younger than the first records counts only where it is not as it always was, so that ids last. The
        prefix has no mark that parts folders, and is cut where it would be too long for the name of one.
        """
        facts = asdict(self) | {"pretrained": self.start or None}
        for name in ("pretrained", "size", "precision"):
            if facts[name] == getattr(type(self), name):
                del facts[name]
        facts["hparams"] = lasting(self.hparams)
        digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:8]
        known = [Path(self.dataset).name, self.algorithm, self.test_domain or "all", *self.ood_classes, str(self.seed)]
        prefix = re.sub(PARTING, "_", "-".join(known)).encode()[: LONGEST - len(f"-{digest}")].decode(errors="ignore")
        return f"{prefix}-{digest}"


def spec_from(facts: dict[str, Any]) -> RunSpec:
    """Return the spec that JSON holds."""
    return RunSpec(**facts | {"ood_classes": tuple(facts["ood_classes"])})


def apart(there: RunSpec, here: RunSpec) -> str:
    """Say in what two specs differ: "steps 20 there, 30 here"."""
    one, two = ({**asdict(spec), **lasting(spec.hparams), "hparams": None} for spec in (there, here))
    keys = [key for key in dict.fromkeys((*one, *two)) if one.get(key) != two.get(key)]
    told = [f"{key} {one.get(key)} there, {two.get(key)} here" for key in keys[:FEW]]
    return "; ".join([*told, *([f"and {len(keys) - FEW} more"] if len(keys) > FEW else [])])


@dataclass(frozen=True)
class RunRecord:
    """What a finished run says of itself; `record.json`, whole or absent."""

    spec: RunSpec
    metrics: dict[str, Any]
    thresholds: dict[str, float]
    seconds: dict[str, float]
    versions: dict[str, str]
    translation: dict[str, Any] | None = None
    """How G was judged, and whether its gate was waived; None where the run uses no G."""
    data: dict[str, str] = field(default_factory=dict)
    """Fingerprints of the images: source, val, and target where there is one."""
    memory: dict[str, int] = field(default_factory=dict)
    """The most memory in use at once, in MiB: of the process, and of the GPU where there is one."""
    pictures: str = ""
    """What told the files of a person's own folder from others (`DomainDataset.contents`)."""

    def save(self, folder: Path) -> None:
        """Write `record.json`."""
        write_json(folder / RECORD, asdict(self))


def read_record(folder: Path) -> dict[str, Any]:
    """Return a run's record as JSON has it; refuse a file that is none, by its name."""
    if not (folder / RECORD).exists():
        raise InputError(f"there is no finished run in {folder}: it has no {RECORD}")
    facts = read_json(folder / RECORD, *NO_RECORD)
    try:
        _check(facts)
    except InputError as error:
        raise no_record(folder, str(error)) from error
    return cast("dict[str, Any]", facts)


def _check(facts: Any) -> None:
    """Refuse what lacks something that tables, selection or a sweep rely on; what is younger or older may differ."""
    for part in ("spec", "metrics", "thresholds", "seconds"):
        if not isinstance(facts, dict) or not isinstance(facts.get(part), dict):
            raise InputError(f"no {part!r}")
    for name in ("dataset", "test_domain", "ood_classes", "algorithm", "seed"):
        if name not in facts["spec"]:
            raise InputError(f"no {name!r}")
    for form, there in ((RunSpec, facts["spec"]), (RunRecord, facts)):
        for name, hint in hints(form).items():
            if name in there and hint is not RunSpec:
                taken(name, hint, there[name])
    for name, seconds in facts["seconds"].items():
        if not isfinite(seconds):
            raise InputError(f"seconds.{name} is {seconds}, no time")
    for name, found in facts["metrics"].items():
        for key, value in found.items() if isinstance(found, dict) else [("", found)]:
            _check_fraction(f"{name}.{key}" if key else name, value)
        if isinstance(found, dict) and found and "auroc" not in found:
            raise InputError(f"{name} has no 'auroc'")
    if "val_accuracy" not in facts["metrics"]:
        raise InputError("no 'val_accuracy'")


def _check_fraction(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise InputError(f"{name} is {value!r}, no fraction")


def load_record(folder: Path) -> RunRecord:
    """Read a run's record back."""
    facts = read_record(folder)
    spec = facts.pop("spec")
    try:
        return RunRecord(spec=spec_from(spec), **facts)
    except (KeyError, TypeError) as error:
        raise no_record(folder, str(error)) from error


def read_history(folder: Path) -> list[dict[str, float]]:
    """Return a run's history, one row per logged step; nothing where it kept none."""
    file = folder / HISTORY
    if not file.exists():
        return []
    try:
        rows = [json.loads(line) for line in ordinary(file).read_text(encoding="utf-8").splitlines()]
        for number, row in enumerate(rows, 1):
            if not isinstance(row, dict):
                raise ValueError(f"line {number} is no object of numbers")
            for key, value in row.items():
                taken(f"line {number}: {key}", float, value)
    except (ValueError, OSError, RecursionError) as error:
        raise InputError(f"{file} is not a run's history ({error}): delete it or run it again") from error
    return rows


def no_record(folder: Path, reason: str) -> InputError:
    """Return the refusal of a record that is none."""
    what, remedy = NO_RECORD
    return InputError(f"{folder / RECORD} is not {what} ({reason}): {remedy}")
