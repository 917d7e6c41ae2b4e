"""Where a network computes, by name."""

import torch

from madod.errors import InputError


def device_named(name: torch.device | str) -> torch.device:
    """Return the device of a name; "auto" is the GPU where there is one."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        found, reason = torch.empty(0, device=name).device, ""
    except (RuntimeError, AssertionError, ImportError) as error:
        found, reason = torch.device("meta"), str(error).splitlines()[0]
    if found.type == "meta":  # holds shapes, and computes nothing
        why = f" ({reason})" if str(name).startswith("cuda") else ""  # of others torch talks about itself
        raise InputError(f"there is no device '{name}' here{why}: use {' or '.join(_devices())}")
    return found


def _devices() -> list[str]:
    """Return the devices that there are."""
    gpus = [f"cuda:{k}" for k in range(torch.cuda.device_count())]
    return ["cpu", *gpus, *(["mps"] if torch.backends.mps.is_available() else [])]
