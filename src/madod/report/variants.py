"""Names for the settings of an algorithm that ran with more than one."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from madod.report import words

ABLATIONS = {(True, True): "CE only", (True, False): "without R_GI", (False, True): "without R_OOD"}
"""What MADOD is called in the paper where the weights of R_GI, of R_OOD, or of both are zero."""
MOST = 12
"""Settings of one algorithm on one dataset that still get names of their own."""
Setting = tuple[str, str, Mapping[str, Any]]
"""Dataset, algorithm and everything else that decides numbers."""


def named(settings: Sequence[Setting]) -> list[str]:
    """Return one name per run: the algorithm alone for its usual setting, and what differs from that for every other.

    The usual setting on a dataset is the one with most runs; among equals the one nearest to all others, then the one
    that switches least off. Where there are more settings than a table can hold, as in a random search, they are taken
    together under the algorithm's name; `mixed` then says so.
    """
    each = [(dataset, algorithm, flat(setting)) for dataset, algorithm, setting in settings]
    ids = [json.dumps(item, sort_keys=True) for item in each]
    distinct = dict(zip(ids, each, strict=True))
    counts = Counter(ids)
    kinds: dict[tuple[str, str], dict[str, dict[str, Any]]] = {}
    for key, (dataset, algorithm, setting) in distinct.items():
        kinds.setdefault((dataset, algorithm), {})[key] = setting
    names: dict[str, str] = {}
    for (_, algorithm), mine in kinds.items():
        keys = dict.fromkeys(key for setting in mine.values() for key in setting)
        common = Counter((key, str(setting.get(key))) for setting in mine.values() for key in keys)
        shared = {told: sum(common[key, str(setting.get(key))] for key in keys) for told, setting in mine.items()}
        off = {told: sum(not value for value in setting.values()) for told, setting in mine.items()}
        usual = min(mine, key=lambda told: (-counts[told], -shared[told], off[told]))
        for key, setting in mine.items():
            difference = _difference(setting, mine[usual]) if len(mine) <= MOST else ""
            names[key] = f"{algorithm}, {difference}" if difference else algorithm
    return [names[key] for key in ids]


def mixed(frame: pd.DataFrame) -> list[str]:
    """Return a note for every method and dataset whose runs do not all have the same settings."""
    runs = frame.drop_duplicates(["folder", "method"])
    told = runs.assign(told=[json.dumps(setting, sort_keys=True) for setting in runs["settings"]])
    counts = told.groupby(["dataset", "method"], sort=False)["told"].nunique().reset_index()
    return [
        f"{words.method(method)} on {words.dataset(dataset)}: {count} different settings among its runs"
        for dataset, method, count in counts.itertuples(index=False)
        if count > 1
    ]


def usual(frame: pd.DataFrame) -> list[str]:
    """Return a note for every algorithm that stands by its name alone beside its variants: what sets it apart."""
    runs = frame.drop_duplicates(["folder", "method"])
    notes = []
    for (set_, kind), part in runs.groupby(["dataset", "algorithm"], sort=False):
        dataset, algorithm = str(set_), str(kind)
        alone = [flat(setting) for setting in part.loc[part["method"] == algorithm, "settings"]]
        others = [flat(setting) for setting in part.loc[part["method"] != algorithm, "settings"]]
        if alone and others and all(setting == alone[0] for setting in alone):  # else `mixed` speaks
            keys = dict.fromkeys(key for setting in others for key in _changed(setting, alone[0]))
            has = ", ".join(f"{key} {_plain(alone[0].get(key))}" for key in keys)
            said = f"{words.method(algorithm)} on {words.dataset(dataset)}, where nothing more is said, has {has}"
            notes += [said] if has else []
    return notes


def flat(setting: Mapping[str, Any]) -> dict[str, Any]:
    """Return fields and hyper-parameters side by side."""
    return {key: value for key, value in setting.items() if key != "hparams"} | dict(setting.get("hparams", {}))


def _changed(setting: Mapping[str, Any], usual: Mapping[str, Any]) -> list[str]:
    keys = dict.fromkeys((*usual, *setting))
    return [key for key in keys if setting.get(key) != usual.get(key)]


def _difference(setting: Mapping[str, Any], usual: Mapping[str, Any]) -> str:
    parts = (("invariance", "outer_invariance"), ("margin",))
    off = [_off(setting, weights) and not _off(usual, weights) for weights in parts]
    told = [key for weights, gone in zip(parts, off, strict=True) if gone for key in weights]
    said = [ABLATIONS[off[0], off[1]]] if any(off) else []
    rest = [key for key in _changed(setting, usual) if key not in told]
    return ", ".join([*said, *(f"{key} {_plain(setting.get(key))}" for key in rest)])


def _off(setting: Mapping[str, Any], weights: Sequence[str]) -> bool:
    """Tell whether a part of the loss has no weight at all; a setting without its first weight has no such part."""
    return weights[0] in setting and not any(setting.get(weight) for weight in weights)


def _plain(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:g}" if isinstance(value, float) else "unset" if value is None else str(value)
