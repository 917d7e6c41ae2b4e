"""Files of weights, read without running anything that they hold."""

import hashlib
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_safetensors
from torch import Tensor

from madod.errors import InputError

ENDINGS = (".safetensors", ".pth", ".pt")
"""How files of weights end."""
COUNTER = "num_batches_tracked"
"""A tensor of BatchNorm that decides nothing."""


@dataclass(frozen=True)
class Weights:
    """Named tensors in float32, and where they came from."""

    name: str
    sha256: str
    tensors: Mapping[str, Tensor]
    facts: Mapping[str, str] = field(default_factory=dict)
    """What a safetensors file says of itself."""

    @property
    def label(self) -> str:
        """The file's name and its checksum; the last word is what decides numbers."""
        return f"{self.name} sha256:{self.sha256}"

    @property
    def strides(self) -> str:
        """Where the file says that its bottlenecks carry their strides, "v1" or "v1.5"; empty where it does not."""
        return self.facts.get("stride", "").partition(":")[0]


def read_file(file: Path) -> Weights:
    """Return the weights of a .safetensors, .pth or .pt file."""
    if file.suffix not in ENDINGS:
        raise InputError(f"{file} is no file of weights: give one that ends in .safetensors, .pth or .pt")
    try:
        content = file.read_bytes()
    except OSError as error:
        raise InputError(f"the weights {file} cannot be read ({error.strerror}): check the path") from error
    held, facts = _safetensors(file, content) if file.suffix == ".safetensors" else (_state_dict(file, content), {})
    tensors = {name: tensor.float() for name, tensor in held.items() if not name.endswith(COUNTER)}
    return Weights(file.name, hashlib.sha256(content).hexdigest(), tensors, facts)


def _safetensors(file: Path, content: bytes) -> tuple[dict[str, Tensor], dict[str, str]]:
    try:
        tensors = load_safetensors(content)
    except SafetensorError as error:
        raise InputError(f"{file} is not a whole safetensors file ({error}): get it again") from error
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    return tensors, header.get("__metadata__", {})


def _state_dict(file: Path, content: bytes) -> dict[str, Tensor]:
    try:
        held = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
        held = held.get("state_dict", held)
        if not all(isinstance(name, str) and isinstance(tensor, Tensor) for name, tensor in held.items()):
            raise TypeError(file)
    except Exception as error:  # torch raises many kinds for what it will not read, with advice to run it anyway
        raise InputError(
            f"{file} does not hold named tensors and nothing else ({type(error).__name__}): save the network's "
            "state_dict() alone, or get it as .safetensors"
        ) from error
    return dict(held)
