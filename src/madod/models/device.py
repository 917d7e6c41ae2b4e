"""Where a network computes, by name."""

import torch

from madod.errors import InputError


def device_named(name: torch.device | str) -> torch.device:
    """Return the device of a name; "auto" is the GPU where there is one."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        return torch.empty(0, device=name).device
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"there is no device '{name}' here ({reason}): use cpu") from error
