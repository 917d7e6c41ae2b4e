"""Command-line arguments from dataclasses: a field is a flag, its docstring the help."""

import contextlib
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

import tyro

from madod.errors import InputError

A = TypeVar("A")
Switch = Annotated[bool, tyro.conf.FlagCreatePairsOff]
"""A flag that is off unless it is named."""


def parse(form: type[A], arguments: Sequence[str], verb: str, about: str) -> A:
    """Fill a dataclass from the words behind a verb; a wrong word is refused in a sentence."""
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            return tyro.cli(
                form, prog=f"madod {verb}", description=about, args=list(arguments), config=(tyro.conf.OmitArgPrefixes,)
            )
    except SystemExit as stop:
        if stop.code in (0, None):
            raise
        raise InputError(sentence(said.getvalue(), verb)) from None


def sentence(panel: str, verb: str) -> str:
    """Return what a boxed message says, as one plain sentence."""
    inside = [line.strip("│ ") for line in panel.splitlines()[1:]]  # below the title; drawn in ASCII it has no sides
    said = [line for line in inside if line.strip("─-╰╯")]
    reason = " ".join(line for line in said if "full helptext" not in line)
    for aside in (". Got errors:", " Argument helptext:", f" madod {verb} --help"):
        reason = reason.partition(aside)[0]
    reason = reason.rstrip(".")
    return f"{reason[:1].lower()}{reason[1:]}; madod {verb} --help says what there is"


def torch_device(name: str) -> Any:
    """Return the device of a name; torch is imported only when one is asked for."""
    from madod.models.device import device_named

    return device_named(name)


def cache_folder(given: Path | None) -> Path:
    """Return where decoded images and generators are kept."""
    from madod.data.cache import cache_dir

    return given or cache_dir()
