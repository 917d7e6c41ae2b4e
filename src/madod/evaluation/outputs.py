"""Features and logits of whole pools, computed once and kept."""

from pathlib import Path

import torch
from torch import nn

from madod.data.base import Pool
from madod.models.classifier import Outputs
from madod.storage import read_tensors, write_tensors


@torch.no_grad()
def extract(net: nn.Module, pool: Pool, batch: int = 256) -> Outputs:
    """Return features, logits and own scores of every image of a pool, on the CPU, in the pool's order."""
    net.eval()
    rows = torch.arange(len(pool), device=pool.device)
    parts = [net(pool.take(chunk)) for chunk in rows.split(batch)]
    features, logits = (torch.cat([part[i] for part in parts]).float().cpu() for i in (0, 1))
    own = torch.cat([part.own for part in parts]).float().cpu() if parts[0].own is not None else None
    return Outputs(features, logits, own)


def save_outputs(file: Path, parts: dict[str, Outputs], labels: dict[str, torch.Tensor]) -> None:
    """Write the outputs and labels of every named part into one file."""
    tensors = {f"{part}.{name}": x for part, out in parts.items() for name, x in out._asdict().items() if x is not None}
    write_tensors(file, tensors | {f"{part}.y": y for part, y in labels.items()}, {})


def load_outputs(file: Path) -> tuple[dict[str, Outputs], dict[str, torch.Tensor]]:
    """Read what `save_outputs` wrote."""
    tensors, _ = read_tensors(file)
    names = sorted({name.split(".")[0] for name in tensors})
    parts = {
        name: Outputs(tensors[f"{name}.features"], tensors[f"{name}.logits"], tensors.get(f"{name}.own"))
        for name in names
    }
    return parts, {name: tensors[f"{name}.y"] for name in names}
