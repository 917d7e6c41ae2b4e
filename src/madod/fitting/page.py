"""From a finished training to its page."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from madod.evaluation.threshold import threshold
from madod.fitting.check import KEEPS, Fold, alone, only_there
from madod.fitting.fit import Fitted
from madod.fitting.prepare import REPORT, Look
from madod.predict.saved import held_scores
from madod.report.train_page import Flagging, Training, Unseen, train_page
from madod.storage import whole


def write_page(out: Path, look: Look, made: Fitted) -> None:
    """Write `report.html`."""
    outcome, record, strangers = made.outcome, made.outcome.record, made.strangers
    held = np.asarray(held_scores(out), dtype=np.float64)
    stored, source = outcome.evaluation.stored, outcome.split.source
    page = Training(
        name=made.spec.dataset,
        survey=look.survey.lines() if look.survey else [],
        reasons=look.choice.reasons,
        warnings=made.check.warnings,
        check=look.choice.check if made.folds else "none",
        classes=source.classes,
        domains=source.domains,
        pictures=len(source),
        accuracy=record.metrics["val_accuracy"],
        confusion=confusion(
            stored.y["val"].numpy(), stored.outputs["val"].logits.argmax(1).numpy(), len(source.classes)
        ),
        unseen=[*_folds(made), *_target(made)],
        mistaken=_mistaken(made.folds),
        detector=made.detector,
        threshold=record.thresholds[made.detector],
        flagging=[_flagging(made, held, place) for place in range(len(KEEPS))],
        held_scores=held,
        stranger_scores=np.asarray(strangers.scores if strangers else [], dtype=np.float64),
        stranger_folder=strangers.folder if strangers else "",
        history=outcome.history,
        seconds=record.seconds,
        versions=record.versions,
    )
    with whole(out / REPORT) as part:
        part.write_text(train_page(page), encoding="utf-8", errors="backslashreplace")


def confusion(y: NDArray[np.int64], said: NDArray[np.int64], classes: int) -> NDArray[np.int64]:
    """Return how many pictures of every class (rows) got which label (columns)."""
    return np.bincount(y * classes + said, minlength=classes * classes).reshape(classes, classes)


def _folds(made: Fitted) -> list[Unseen]:
    return [
        Unseen(
            each.domain, each.pictures, each.accuracy, _unknown([each.hidden] if each.hidden else [], each.alone),
            each.auroc.get(made.detector), each.failure,
        )
        for each in made.folds
    ]  # fmt: skip


def _unknown(hidden: Sequence[str], lone: Sequence[str]) -> str:
    """Name what a held-out domain shows that training did not see."""
    return " and ".join(filter(None, (", ".join(hidden), only_there(lone))))


def _target(made: Fitted) -> list[Unseen]:
    """Return the row of the domain that was kept apart for the test, where there is one."""
    spec, metrics = made.spec, made.outcome.record.metrics
    if spec.test_domain is None:
        return []
    found = metrics.get(made.detector) or {}
    target = made.outcome.split.target
    unknown = _unknown(spec.ood_classes, alone(target, spec.ood_classes))
    return [Unseen(spec.test_domain, len(target), metrics.get("accuracy"), unknown, found.get("auroc"))]


def _mistaken(folds: Sequence[Fold]) -> list[tuple[str, str, int]]:
    total = Counter[tuple[str, str]]()
    for fold in folds:
        total.update({(true, taken): count for true, taken, count in fold.confused})
    return [(true, taken, count) for (true, taken), count in total.most_common()]


def _flagging(made: Fitted, held: NDArray[np.float64], place: int) -> Flagging:
    at = threshold(held, KEEPS[place])
    rows = [fold.flagged[made.detector][place] for fold in made.folds if made.detector in fold.flagged]
    known, hidden = ([row[side] for row in rows] for side in (0, 1))
    if made.spec.test_domain is not None:
        known, hidden = _target_flagged(made, at)
    return Flagging(
        KEEPS[place], at, float((held > at).mean()), _mean(known), _mean(hidden),
        made.strangers.flagged(at) if made.strangers else None,
    )  # fmt: skip


def _target_flagged(made: Fitted, at: float) -> tuple[list[float | None], list[float | None]]:
    scores = made.outcome.evaluation.scores.get(made.detector)
    if scores is None:
        return [], []
    unknown = made.outcome.evaluation.stored.y["target"] < 0
    above = scores > at
    return above[~unknown].double().tolist(), above[unknown].double().tolist()


def _mean(values: Sequence[float | None]) -> float | None:
    there = [value for value in values if value is not None]
    return float(np.mean(there)) if there else None
