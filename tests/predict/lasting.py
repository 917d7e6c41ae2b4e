"""What saved models hold, by name and meaning; `python -m tests.predict.lasting` keeps it in lasting.json."""

import json
from dataclasses import fields
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from madod.algorithms.base import ALGORITHMS
from madod.data.augment import NONE
from madod.detectors.base import DETECTORS, Fit
from madod.models.backbones import build
from madod.models.classifier import Outputs, Setting, no_translate
from madod.predict import Card
from madod.predict.gallery import Gallery

FILE = Path(__file__).parent / "lasting.json"
NETWORKS = {
    "small_cnn": 32, "wrn_16_2": 32, "efficientnet_lite0": 64, "resnet18": 64, "resnet50": 64, "resnet50_v1": 64,
}  # fmt: skip
SHELL = "small_cnn"
NORMS = ("group", "frozen")
CLASSES, DOMAINS = 3, 2


def waves(*shape: int, pace: float = 0.7, dtype: torch.dtype = torch.float64) -> Tensor:
    """Return numbers in [-1, 1] that every machine makes alike."""
    count = int(np.prod(shape))
    return torch.from_numpy(np.sin(pace * np.arange(1, count + 1))).reshape(shape).to(dtype)


def tuned(net: nn.Module) -> nn.Module:
    """Fill a network with made-up weights under which signals neither die nor explode."""
    state = net.state_dict()
    for place, name in enumerate(sorted(state)):
        value = state[name]
        if not value.is_floating_point():
            continue
        made = waves(*value.shape, pace=0.7 + 0.01 * (place % 30))
        if value.dim() > 1:
            made = made * (2 / value[0].numel()) ** 0.5
        elif name.endswith(("running_var", "weight")):
            made = 1 + 0.3 * made
        else:
            made = 0.1 * made
        state[name] = made.to(value.dtype)
    net.load_state_dict(state)
    return net.eval()


def names(net: nn.Module) -> str:
    """Return a short checksum of all names, shapes and number formats that a file of its weights would have."""
    lines = [f"{name} {tuple(value.shape)} {value.dtype}" for name, value in sorted(net.state_dict().items())]
    return sha256("\n".join(lines).encode()).hexdigest()[:16]


def answers(net: nn.Module, side: int) -> dict[str, list[Any]]:
    """Return what a network with made-up weights says of two made-up pictures."""
    net = tuned(net).double()  # threads then make no odds
    with torch.no_grad():
        said = net(0.5 + 0.5 * waves(2, 3, side, side, pace=0.013))
    return {"logits": said.logits.tolist()} | ({} if said.own is None else {"own": said.own.tolist()})


def bare(backbone: str, norm: Any) -> nn.Module:
    """Return a network as most methods ship it."""
    return build(backbone, channels=3, classes=CLASSES, seed=0, norm=norm)


def shell(algorithm: str) -> nn.Module:
    """Return the network that a method's models hold."""
    make = partial(build, SHELL, channels=3, classes=CLASSES, seed=0)
    return ALGORITHMS[algorithm].shell(Setting(make, DOMAINS, no_translate, NONE, 0))


def outputs(n: int, pace: float) -> Outputs:
    """Return made-up features and what a made-up head says of them."""
    features = waves(n, 4, pace=pace, dtype=torch.float32).abs()
    return Outputs(features, features @ waves(CLASSES, 4, dtype=torch.float32).T, waves(n, pace=pace))


def learned(detector: str) -> dict[str, Any]:
    """Return what a detector learns from made-up outputs, and its scores of others."""
    y, head = torch.arange(18) % CLASSES, waves(CLASSES, 4, dtype=torch.float32)
    seen, held = outputs(18, 0.9), outputs(18, 1.1)
    fitted = DETECTORS[detector]().fit(Fit(seen, y, held, y, head, torch.zeros(CLASSES)))
    state = {
        name: {"dtype": str(value.dtype).removeprefix("torch."), "values": value.tolist()}
        for name, value in fitted.state().items()
    }
    scores = [] if fitted.needs_model else fitted.score(outputs(6, 1.3)).double().tolist()
    return {"settings": fitted.settings(), "state": state, "scores": scores}


def made() -> dict[str, Any]:
    """Return all that is to last."""
    return {
        "card": sorted(field.name for field in fields(Card)),
        "gallery": sorted(Gallery._fields),
        "networks": {
            f"{name}, {norm}": {"names": names(bare(name, norm)), **answers(bare(name, norm), side)}
            for name, side in NETWORKS.items()
            for norm in NORMS
        },
        "algorithms": {
            name: {"names": names(shell(name)), **answers(shell(name), NETWORKS[SHELL])} for name in sorted(ALGORITHMS)
        },
        "detectors": {name: learned(name) for name in sorted(DETECTORS)},
    }


if __name__ == "__main__":
    FILE.write_text(json.dumps(made(), indent=1) + "\n", encoding="utf-8")
