"""A finished run: what it leaves in its folder, how that is read back, and what stands in its way there."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from torch import nn

from madod.benchmark.record import (
    GRID,
    HISTORY,
    OUTPUTS,
    RECORD,
    VERDICTS,
    RunRecord,
    RunSpec,
    apart,
    load_record,
    read_history,
    spec_from,
)
from madod.data.split import Split
from madod.detectors.base import DETECTORS
from madod.errors import InputError, typed
from madod.evaluation.evaluate import Evaluation, evaluate_stored
from madod.evaluation.outputs import load_outputs, save_outputs
from madod.evaluation.verdicts import save_verdicts
from madod.models.layers import usual_norm
from madod.predict import Card, Model
from madod.predict.gallery import gathered
from madod.predict.saved import card_of, refuse_unloadable
from madod.storage import whole
from madod.training import CHECKPOINT, History, another, identity_of, reading, settings_of, write_history


@dataclass(frozen=True)
class Outcome:
    """A finished run, with what is still in memory."""

    record: RunRecord
    split: Split
    evaluation: Evaluation
    history: History
    grid: bytes | None


def leave(outcome: Outcome, net: nn.Module, out: Path, ship: str) -> None:
    """Write all that a finished run leaves behind, the record last, and drop its checkpoint."""
    record, result, source = outcome.record, outcome.evaluation, outcome.split.source
    spec = record.spec
    card = Card(
        classes=source.classes,
        shape=source.shape,
        algorithm=spec.algorithm,
        backbone=spec.backbone,
        domains=source.domains,
        detector=ship,
        threshold=result.thresholds[ship],
        provenance={"spec": asdict(spec), "versions": record.versions, "val_accuracy": result.metrics["val_accuracy"]},
        norm=usual_norm(pretrained=spec.pretrained is not None),
    )
    refuse_unloadable(card, net)
    write_history(out / HISTORY, outcome.history)
    save_outputs(out / OUTPUTS, result.stored)
    save_verdicts(out / VERDICTS, outcome.split.target, result)
    gallery = gathered(source, result.stored.outputs["source"].features)
    Model(net.cpu(), result.detectors[ship], card, result.held[ship], gallery).save(out / "model")
    if outcome.grid is not None:
        with whole(out / GRID) as part:
            part.write_bytes(outcome.grid)
    record.save(out)
    (out / CHECKPOINT).unlink(missing_ok=True)


def recalled(spec: RunSpec, parts: Split, data: dict[str, str], out: Path, ship: str) -> Outcome:
    """Return a finished run as it left itself; refuse a folder that holds another one."""
    refuse_another(spec, out, ship)
    refuse_other_images(spec, data, out)
    record = load_record(out)
    (out / CHECKPOINT).unlink(missing_ok=True)
    names = [name for name in record.thresholds if not DETECTORS[name].needs_model]
    result = evaluate_stored(load_outputs(out / OUTPUTS), names)
    grid = out / GRID
    return Outcome(record, parts, result, read_history(out), grid.read_bytes() if grid.exists() else None)


def refuse_another(spec: RunSpec, out: Path, ship: str | None) -> None:
    """Refuse a folder that holds a run with other settings, or a finished one with another detector than is named."""
    if not (out / RECORD).exists():
        refuse_begun(spec, out)
        return
    there = load_record(out).spec
    if there.id != spec.id:
        raise InputError(
            f"{out} holds a finished run with other settings ({apart(there, spec)}): choose another folder or delete it"
        )
    shipped = card_of(out).detector
    if ship not in (shipped, None):
        raise InputError(
            f"{out} holds this very run with {shipped} as its detector: "
            f"madod rescore {typed(out)} {ship} --ship changes it"
        )


def identity(spec: RunSpec, data: Mapping[str, str]) -> str:
    """Return what names all that decides a training's outcome: its settings and the images it sees."""
    return f"{spec.id} {data['source']}"


def refuse_other_images(spec: RunSpec, data: Mapping[str, str], out: Path) -> None:
    """Refuse a folder that holds this run on other images than those with these hashes, finished or begun."""
    if (out / RECORD).exists():
        if load_record(out).data != data:
            raise InputError(f"{out} holds a finished run with other images: choose another folder or delete it")
    elif identity_of(out / CHECKPOINT) not in ("", identity(spec, data)):
        raise another(out / CHECKPOINT, "pictures" if settings_of(out / CHECKPOINT) else "settings or pictures")


def refuse_begun(spec: RunSpec, out: Path) -> None:
    """Refuse a checkpoint of other settings, where it says which; of any other run it is refused when it is read."""
    if text := settings_of(out / CHECKPOINT):
        with reading(out / CHECKPOINT):
            there = spec_from(json.loads(text))
        if there.id != spec.id:
            raise another(out / CHECKPOINT, f"settings ({apart(there, spec)})")
