"""Where a network computes, by name."""

import torch

from madod.errors import InputError, is_out_of_memory


def device_named(name: torch.device | str) -> torch.device:
    """Return the device of a name; "auto" is the GPU where there is one."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        found, reason = torch.ones(1, device=name).device, ""  # a GPU may be there, and too old to compute
    except (RuntimeError, AssertionError, ImportError) as error:
        if is_out_of_memory(error):
            raise
        found, reason = torch.device("meta"), str(error).splitlines()[0]
    if found.type == "meta":  # holds shapes, and computes nothing
        why = f" ({reason})" if str(name).startswith("cuda") else ""  # of others torch talks about itself
        others = [other for other in _devices() if other != ("cuda:0" if str(name) == "cuda" else str(name))]
        raise InputError(f"there is no device '{name}' here{why}: use {' or '.join(others)}")
    return found


def gpu_count() -> int:
    """Return how many GPUs can be used: none where the driver is too old for this torch, however many there are."""
    return torch.cuda.device_count() if torch.cuda.is_available() else 0


def _devices() -> list[str]:
    """Return the devices that there are."""
    gpus = [f"cuda:{k}" for k in range(gpu_count())]
    return ["cpu", *gpus, *(["mps"] if torch.backends.mps.is_available() else [])]
