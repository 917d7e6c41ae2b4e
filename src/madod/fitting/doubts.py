"""What a training's own numbers say against it, in a sentence each with what to do."""

from collections.abc import Iterator, Sequence

from madod.benchmark.outcome import Outcome
from madod.fitting.check import Fold
from madod.fitting.skill import FLOOR, Measured, Skill, guessing, of_accuracy, of_auroc, skill
from madod.fitting.strangers import Strangers
from madod.predict import Checked

MORE = "add pictures to every class and domain"


def doubts(
    folds: Sequence[Fold],
    outcome: Outcome,
    detector: str,
    *,
    choices: int,
    short: bool,
    strangers: Strangers | None = None,
) -> Checked:
    """Return what held-out domains come to, and what is too near to guessing to rely on."""
    held = held_out(outcome)
    labels = skill([*_accuracies(folds)])
    unknowns = skill([*_aurocs(folds, detector)], choices)
    met = _met(strangers) if strangers else None
    scratch = outcome.record.spec.pretrained is None
    of_unknowns = [
        said
        for found, where, whom in (
            (unknowns, _where(unknowns), "a hidden class from the known ones"),
            (met, "", "yours from held-out pictures"),
        )
        if found
        for said in _of_unknowns(found, where, whom, scratch=scratch, short=short)
    ]
    of_labels = [*_of_labels(held, labels, scratch=scratch, short=short)]
    return Checked(
        domains=len([fold for fold in folds if not fold.failure]),
        accuracy=labels.value if labels else None,
        auroc=unknowns.value if unknowns else None,
        of_labels=tuple(of_labels or _unlabelled(folds, labels)),
        of_unknowns=tuple(of_unknowns if unknowns or met else _unmeasured(folds, outcome, detector)),
    )


def held_out(outcome: Outcome) -> Skill | None:
    """Return how far labels of held-out pictures of the training domains are above guessing."""
    stored = outcome.evaluation.stored
    y, said = stored.y["val"].numpy(), stored.outputs["val"].logits.argmax(1).numpy()
    guess = guessing(y, said)
    return skill([of_accuracy(float((y == said).mean()), guess, len(y))] if guess is not None else [])


def _accuracies(folds: Sequence[Fold]) -> Iterator[Measured]:
    for fold in folds:
        if fold.accuracy is not None and fold.guessing is not None:
            yield of_accuracy(fold.accuracy, fold.guessing, fold.pictures - fold.unknown)


def _aurocs(folds: Sequence[Fold], detector: str) -> Iterator[Measured]:
    for fold in folds:
        if detector in fold.auroc:
            yield of_auroc(fold.auroc[detector], fold.pictures - fold.unknown, fold.unknown)


def _met(strangers: Strangers) -> Skill | None:
    """Return how well a person's own unknowns are told from held-out pictures of the training domains."""
    if strangers.auroc is None:
        return None
    return skill([of_auroc(strangers.auroc, strangers.held, len(strangers.scores))])


def _of_labels(held: Skill | None, unseen: Skill | None, *, scratch: bool, short: bool) -> Iterator[str]:
    """Doubt labels everywhere, or in new domains only."""
    if held and held.doubt:
        yield (
            f"do not rely on its labels: on held-out pictures of the training domains {_right(held)}; "
            f"{_remedy('train longer (--steps)', scratch=scratch)}"
        )
    elif unseen and unseen.doubt:
        yield (
            f"do not rely on its labels in a new domain: {_where(unseen)}{_right(unseen)}; "
            f"{_remedy(*_another(unseen), *_longer(short), scratch=scratch)}"
        )


def _unlabelled(folds: Sequence[Fold], labels: Skill | None) -> Iterator[str]:
    """Say so where domains were to be held out and none of them could be, or had two classes that the others have."""
    if failures := _failures(folds):
        yield f"how its labels do in a new domain was not measured, since no domain could be held out: {failures}"
    elif labels is None and folds:
        yield (
            "how its labels do in a new domain was not measured: no held-out domain has two classes that other domains "
            "have too; add pictures of the same classes to several domains"
        )


def _unmeasured(folds: Sequence[Fold], outcome: Outcome, detector: str) -> Iterator[str]:
    """Say so where domains were to be held out and none of them showed known and hidden classes, and why."""
    classes = outcome.evaluation.stored.outputs["val"].logits.shape[1]
    another = "measure it on pictures of something else (--ood-folder DIR)"
    if failures := _failures(folds):
        why = f"no domain could be held out ({failures}); {another}"
    elif any(fold.auroc for fold in folds):
        why = f"the check compared others than {detector}; repeat the training with --detector {detector}"
    elif any(fold.hidden for fold in folds):
        why = f"no held-out domain has pictures of both known and hidden classes; {another}"
    elif classes > 2:
        why = f"no class was hidden; hide one (--test-domain DOMAIN --ood-class CLASS), or {another}"
    else:
        why = f"of so few classes none could be hidden; {another}"
    if folds:
        yield f"whether it finds unknowns was not measured: {why}"


def _failures(folds: Sequence[Fold]) -> str:
    """Return why domains could not be held out, where that is so of all of them."""
    return "; ".join(dict.fromkeys(fold.failure for fold in folds)) if all(fold.failure for fold in folds) else ""


def _of_unknowns(found: Skill, where: str, whom: str, *, scratch: bool, short: bool) -> Iterator[str]:
    if found.doubt:
        grade = f"it tells {whom} {_grade(found)}" if found.doubt == "weak" else f"it may tell {whom} no better"
        yield (
            f"do not rely on it to find unknowns: {where}{grade} than a coin (AUROC {found.value:.3f}"
            f"{_off(found, '.3f')}, a coin has 0.5); "
            f"{_remedy('try another detector (--detector)', *_another(found), *_longer(short), scratch=scratch)}"
        )


def _right(found: Skill) -> str:
    grade = f"they are {_grade(found)}" if found.doubt == "weak" else "they may be no better"
    return f"{grade} than guessing ({found.value:.1%} right{_off(found, '.1%')}, guessing {found.guess:.1%})"


def _grade(found: Skill) -> str:
    """Return worse where it is as far below guessing as would be worth having above."""
    return "worse" if found.way <= -FLOOR else "little or no better"


def _off(found: Skill, form: str) -> str:
    """Say how far the measure may be off where that is the reason."""
    return f" give or take {format(found.margin * (1 - found.guess), form)}" if found.doubt == "chance" else ""


def _where(found: Skill | None) -> str:
    return f"over {found.domains} held-out domains " if found and found.domains > 1 else "in the held-out domain "


def _another(found: Skill) -> tuple[str, ...]:
    """Ask for a domain more where so few, or so different ones, leave it open."""
    return ("add another domain",) if found.doubt == "chance" and found.domains > 1 else ()


def _longer(short: bool) -> tuple[str, ...]:
    return ("see whether a longer training does better (--check full)",) if short else ()


def _remedy(*others: str, scratch: bool) -> str:
    every = (MORE, *(["start from pretrained weights (--pretrained)"] if scratch else []), *others)
    return f"{', '.join(every[:-1])}, or {every[-1]}" if len(every) > 1 else MORE
