"""The words of a plan: every name must be known, every number possible, before anything long starts."""

import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from madod.algorithms.base import ALGORITHMS, refuse_unknown
from madod.benchmark.form import filled
from madod.benchmark.plan import DatasetPlan, Exceptions, Plan, together
from madod.benchmark.record import refuse_seed
from madod.benchmark.spans import span
from madod.benchmark.toml import Keys, Toml, dotted
from madod.detectors.base import DETECTORS, refuse_scoreless
from madod.errors import nearest
from madod.models.backbones import check_backbone

log = logging.getLogger(__name__)

MOST_DRAWS = 10_000
"""A search with more would never end; every run of a plan is written out before the first begins."""


def load_plan(file: Path) -> tuple[Plan, Toml]:
    """Return the plan in a file, its words checked, and the file's lines for what is yet to be checked."""
    toml = Toml(file)
    plan = filled(Plan, toml.values, toml)
    check(plan, toml)
    return plan, toml


def check(plan: Plan, toml: Toml) -> None:
    """Refuse the first word that is not known, with its line and the nearest that is."""
    for key, registry, names in (("algorithms", ALGORITHMS, plan.algorithms), ("detectors", DETECTORS, plan.detectors)):
        for name in names:
            with toml.at((key,), name):
                registry[name]
    if not plan.compared:
        raise toml.refusal((), 'nothing is compared: add algorithms = ["erm", "madod"] or [[variants]]')
    if not plan.datasets:
        raise toml.refusal((), "there is no dataset: add [[datasets]] with a name")
    if not plan.detectors:
        raise toml.refusal(("detectors",), 'there are no detectors: give one or more, as in detectors = ["energy"]')
    _check_names(plan, toml)
    _check_numbers(plan, toml)
    _refuse_twice(plan.detectors, toml, ("detectors",))
    _refuse_twice(plan.seeds, toml, ("seeds",))
    _refuse_namesakes(plan, toml)
    _check_settings(plan.hparams, toml, ("hparams",))
    for k, variant in enumerate(plan.variants):
        with toml.at(("variants", k, "algorithm")):
            ALGORITHMS[variant.algorithm]
        _check_hparams(variant.algorithm, variant.hparams, toml, ("variants", k, "hparams"))
    for name in plan.detectors:
        for variant in plan.compared:
            with toml.at(("detectors",), name):
                refuse_scoreless(variant.algorithm, [name])
    for k, entry in enumerate(plan.datasets):
        _check_dataset(entry, toml, k)
    _warn_of_idle(plan, toml)


def _warn_of_idle(plan: Plan, toml: Toml) -> None:
    """Say which settings are of methods that are not compared; no mistake where `algorithms` is short for a while."""
    compared = {variant.algorithm for variant in plan.compared}
    tables: list[tuple[Keys, Mapping[str, Any]]] = [(("hparams",), plan.hparams)]
    for k, entry in enumerate(plan.datasets):
        for at, part in _places(entry, k):
            tables += [((*at, "lengths"), part.lengths), ((*at, "hparams"), part.hparams)]
    found = ((name, toml.line((*keys, name))) for keys, table in tables for name in table if name not in compared)
    if idle := ", ".join(f"{name} (line {line})" for name, line in found):
        log.warning(
            "%s has settings of methods that it does not compare, so that nothing comes of them: %s; add the methods "
            "to algorithms, or leave the settings out",
            toml.file, idle,
        )  # fmt: skip


def _check_dataset(entry: DatasetPlan, toml: Toml, place: int) -> None:
    """Refuse a backbone, an algorithm or a hyper-parameter that there is not; its own words are `check_cells`'s."""
    with toml.at(("datasets", place, "backbone")):
        check_backbone(entry.backbone)
    for at, part in _places(entry, place):
        for name in part.lengths:
            with toml.at((*at, "lengths", name)):
                ALGORITHMS[name]
        _check_settings(part.hparams, toml, (*at, "hparams"))


def _places(entry: DatasetPlan, place: int) -> Iterator[tuple[Keys, DatasetPlan | Exceptions]]:
    """Yield where a dataset's lengths and hyper-parameters are written: below its name, and in every exception."""
    yield ("datasets", place), entry
    for k, exceptions in enumerate(entry.exceptions):
        yield ("datasets", place, "exceptions", k), exceptions


def _check_names(plan: Plan, toml: Toml) -> None:
    for table, names in (("datasets", [e.name for e in plan.datasets]), ("variants", [v.name for v in plan.variants])):
        for k, name in enumerate(names):
            if not name.strip():
                raise toml.refusal((table, k, "name"), "the name is empty: give one")


def _refuse_twice(words: Sequence[object], toml: Toml, at: Keys) -> None:
    """Refuse a word that is there again: its runs would count twice."""
    for word, times in Counter(words).items():
        if times > 1:
            raise toml.refusal(at, f"{at[-1]} has {word!r} {times} times: once is enough", word)


def _refuse_namesakes(plan: Plan, toml: Toml) -> None:
    """Refuse algorithms or variants that tables would call the same."""
    for name, times in Counter(variant.label for variant in plan.compared).items():
        if times > 1:
            places: list[Keys] = [
                ("variants", k, "name") for k, other in enumerate(plan.variants) if other.label == name
            ]
            raise toml.refusal(
                [("algorithms",), *places][-1], f"two things are called {name!r}: give each a name of its own"
            )


def _check_numbers(plan: Plan, toml: Toml) -> None:
    for keys, number, least in _numbers(plan):
        if number is not None and number < least:
            raise toml.refusal(keys, f"{dotted(keys)} cannot be {number}: give {least} or more", number)
    if plan.draws > MOST_DRAWS:
        raise toml.refusal(("draws",), f"draws cannot be {plan.draws}: give {MOST_DRAWS:,} or fewer", plan.draws)
    for key, seeds in (("split_seed", (plan.split_seed,)), ("seeds", plan.seeds)):
        for seed in seeds:
            with toml.at((key,), seed):
                refuse_seed(key, seed)
    if not plan.seeds:
        raise toml.refusal(("seeds",), "there are no seeds: give one or more, as in seeds = [0, 1]")


def _numbers(plan: Plan) -> Iterator[tuple[Keys, int | None, int]]:
    yield ("draws",), plan.draws, 1
    for k, entry in enumerate(plan.datasets):
        yield ("datasets", k, "steps"), entry.steps, 1
        for at, place in _places(entry, k):
            yield from (((*at, "lengths", name), steps, 1) for name, steps in place.lengths.items())
        yield ("datasets", k, "translate_steps"), entry.translate_steps, 0
    for k, variant in enumerate(plan.variants):
        yield ("variants", k, "steps"), variant.steps, 1
        yield ("variants", k, "translate_steps"), variant.translate_steps, 0


def check_cells(entry: DatasetPlan, domains: Sequence[str], units: Sequence[str], toml: Toml, place: int) -> None:
    """Refuse a domain or a class that the dataset does not have."""
    at: Keys = ("datasets", place, "test_domains")
    if isinstance(entry.test_domains, str):
        _check_alone(entry.test_domains, ("all",), toml, at)
    else:
        _check_listed("domain", entry.test_domains, domains, entry, toml, at)
        if not entry.test_domains:
            raise toml.refusal(at, 'there is no unseen domain: name one or more, or write "all"')
        _refuse_twice(entry.test_domains, toml, at)
    at = ("datasets", place, "unknown")
    if isinstance(entry.unknown, str):
        _check_alone(entry.unknown, ("all", "rotate"), toml, at)
    else:
        groups = together(entry.unknown)
        _check_listed("class", [*chain.from_iterable(groups)], units, entry, toml, at)
        if not groups:
            raise toml.refusal(at, 'there is no unknown class: name one or more, or write "all" or "rotate"')
        for hidden in groups:
            _refuse_twice(hidden, toml, at)
        _refuse_twice(["+".join(sorted(hidden)) for hidden in groups], toml, at)


def _check_alone(word: str, allowed: Sequence[str], toml: Toml, at: Keys) -> None:
    """Refuse a bare text in the place of a list, unless it stands for one."""
    if word not in allowed:
        said = " or ".join(f'"{one}"' for one in allowed)
        raise toml.refusal(at, f'{at[-1]} is {said}, or a list: write {at[-1]} = ["{word}"]', word)


def _check_listed(
    what: str, named: Sequence[str], there: Sequence[str], entry: DatasetPlan, toml: Toml, at: Keys
) -> None:
    """Refuse a name in a list that is not there."""
    for name in named:
        if name not in there:
            close = nearest(name, tuple(there))
            raise toml.refusal(at, f"no {what} {name!r} in {entry.name}{close}; it has {', '.join(there)}", name)


def _check_settings(settings: Mapping[str, Mapping[str, Any]], toml: Toml, at: Keys) -> None:
    for algorithm, given in settings.items():
        with toml.at((*at, algorithm)):
            ALGORITHMS[algorithm]
        _check_hparams(algorithm, given, toml, (*at, algorithm))


def _check_hparams(algorithm: str, given: Mapping[str, Any], toml: Toml, at: Keys) -> None:
    config = ALGORITHMS[algorithm].Config
    for name, value in given.items():
        with toml.at((*at, name)):
            refuse_unknown(algorithm, name)
            if span(config, name, value) is None:
                config.admit(name, value)
