"""Names for the settings of an algorithm that ran with more than one."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

ABLATIONS = {(True, True): "CE only", (True, False): "without R_GI", (False, True): "without R_OOD"}
"""What MADOD is called in the paper where the weights of R_GI, of R_OOD, or of both are zero."""
Setting = tuple[str, str, Mapping[str, Any]]
"""Dataset, algorithm and everything else that decides numbers."""


def named(settings: Sequence[Setting]) -> list[str]:
    """Return a name a run: the algorithm alone for its usual setting, and what differs from that for every other.

    The usual setting on a dataset is the one with most runs; among equals the one nearest to all others, then the one
    that switches least off.
    """
    flat = [(dataset, algorithm, _flat(setting)) for dataset, algorithm, setting in settings]
    told = [json.dumps(item, sort_keys=True) for item in flat]
    distinct = dict(zip(told, flat, strict=True))
    counts = Counter(told)
    names: dict[str, str] = {}
    for dataset, algorithm in dict.fromkeys((item[0], item[1]) for item in flat):
        mine = {key: item[2] for key, item in distinct.items() if item[:2] == (dataset, algorithm)}
        usual = min(mine, key=lambda key: (-counts[key], *_oddness(mine[key], mine)))
        for key, setting in mine.items():
            difference = _difference(setting, mine[usual])
            names[key] = f"{algorithm}, {difference}" if difference else algorithm
    return [names[key] for key in told]


def _flat(setting: Mapping[str, Any]) -> dict[str, Any]:
    """Return fields and hyper-parameters side by side."""
    return {key: value for key, value in setting.items() if key != "hparams"} | dict(setting.get("hparams", {}))


def _oddness(setting: Mapping[str, Any], others: Mapping[str, Mapping[str, Any]]) -> tuple[int, int]:
    distance = sum(len(_changed(setting, other)) for other in others.values())
    return distance, sum(value == 0 for value in setting.values())


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
