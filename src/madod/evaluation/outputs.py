"""Features and logits of whole pools, computed once and kept."""

from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn

from madod.data.base import Pool
from madod.errors import InputError
from madod.models.classifier import Outputs
from madod.storage import read_tensors, write_tensors

BATCH = 256
"""Images in one pass."""


class Stored(NamedTuple):
    """All that detectors need of a finished run: outputs and labels by part (source, val, target), and the head."""

    outputs: dict[str, Outputs]
    y: dict[str, Tensor]
    weight: Tensor
    bias: Tensor

    def to(self, device: torch.device) -> "Stored":
        """Return the same on a device."""
        outputs = {
            part: Outputs(features.to(device), logits.to(device), own if own is None else own.to(device))
            for part, (features, logits, own) in self.outputs.items()
        }
        y = {part: labels.to(device) for part, labels in self.y.items()}
        return Stored(outputs, y, self.weight.to(device), self.bias.to(device))


@torch.no_grad()
def extract(net: nn.Module, pool: Pool) -> Outputs:
    """Return features, logits and own scores of every image of a pool, on the CPU, in the pool's order."""
    net.eval()
    rows = torch.arange(len(pool), device=pool.device)
    with torch.compiler.set_stance("force_eager"):  # compiling for these batches would cost more than it saves
        parts = [net(pool.take(chunk)) for chunk in rows.split(BATCH)]
    if not isinstance(parts[0], Outputs):
        raise InputError(
            f"the network returns {type(parts[0]).__name__}: let its forward return Outputs(features, logits), which "
            "madod.models.classifier has"
        )
    features, logits = (torch.cat([part[i] for part in parts]).float().cpu() for i in (0, 1))
    own = torch.cat([part.own for part in parts]).float().cpu() if parts[0].own is not None else None
    return Outputs(features, logits, own)


def save_outputs(file: Path, stored: Stored) -> None:
    """Write everything into one file."""
    tensors = {f"{part}.y": y for part, y in stored.y.items()} | {"weight": stored.weight, "bias": stored.bias}
    for part, outputs in stored.outputs.items():
        tensors |= {f"{part}.{name}": value for name, value in outputs._asdict().items() if value is not None}
    write_tensors(file, tensors, {})


def load_outputs(file: Path) -> Stored:
    """Read what `save_outputs` wrote."""
    again = f"move {file.parent} away and do the run once more"
    if not file.exists():
        raise InputError(f"there is no {file}, which detectors are measured from: {again}")
    tensors, _ = read_tensors(file, remedy=again)
    parts = [name.removesuffix(".y") for name in tensors if name.endswith(".y")]
    outputs = {
        part: Outputs(tensors[f"{part}.features"], tensors[f"{part}.logits"], tensors.get(f"{part}.own"))
        for part in parts
    }
    return Stored(outputs, {part: tensors[f"{part}.y"] for part in parts}, tensors["weight"], tensors["bias"])
