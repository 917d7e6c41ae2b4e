"""Command-line arguments from dataclasses: a field is a flag, its docstring the help."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

import tyro

A = TypeVar("A")
Switch = Annotated[bool, tyro.conf.FlagCreatePairsOff]
"""A flag that is off unless it is named."""


def parse(form: type[A], arguments: Sequence[str], verb: str, about: str) -> A:
    """Fill a dataclass from the words behind a verb; a wrong word ends the program with code 2 and says why."""
    return tyro.cli(
        form, prog=f"madod {verb}", description=about, args=list(arguments), config=(tyro.conf.OmitArgPrefixes,)
    )


def torch_device(name: str) -> Any:
    """Return the device of a name; "auto" is the GPU where there is one."""
    import torch

    from madod.errors import InputError

    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        return torch.empty(0, device=name).device
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"there is no device {name!r} here ({reason}): use --device cpu") from error


def cache_folder(given: Path | None) -> Path:
    """Return where decoded images and generators are kept."""
    from madod.data.cache import cache_dir

    return given or cache_dir()
