"""Files that are whole or absent: JSON for facts, safetensors for tensors, never pickle; torch only for tensors."""

import errno
import json
import os
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError, safe_open

from madod.errors import InputError, NoSpaceError

if TYPE_CHECKING:
    import torch
    from torch import Tensor

SEAL = "crc32"
"""Name of the string in a file of tensors that holds its checksums, where it was written with any (`seal`)."""


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """Give a name to write to, then put what was written in its place at once; on any failure leave nothing behind."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.part")  # one name, so that what a killed process left is overwritten
    try:
        part.unlink(missing_ok=True)  # or else a link that lies there would be followed
        yield part
        with part.open("r+b") as file:  # Windows flushes no file that is open for reading alone
            os.fsync(file.fileno())
        part.replace(path)
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise NoSpaceError(
                f"the disk is full: {path} could not be written; free some space and start again"
            ) from error
        if isinstance(error, FileNotFoundError) and path.parent.exists() and error.filename == str(part):
            raise InputError(
                f"{path} was written by another process at the same time: see that only one does, and start again"
            ) from error
        if error.errno is not None and error.filename in (None, str(part)):  # what is open by then has no name
            error.filename = str(path)  # the name that people know
        raise
    finally:
        part.unlink(missing_ok=True)


class EndlessError(OSError):
    """A pipe, which one would wait for, or a device, which has no end, in the place of a file."""


def ordinary(path: Path) -> Path:
    """Return the path of a file to read; refuse one whose reading may never end."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise EndlessError(errno.EINVAL, "it is not an ordinary file", str(path))
    return path


def amount(size: int) -> str:
    """Return a number of bytes as people read it."""
    return f"{size / 1e9:,.1f} GB" if size >= 1e9 else f"{size / 1e6:,.1f} MB"


def refuse_file(folder: Path, remedy: str = "name a folder to write into") -> None:
    """Refuse a folder that is a file or a link to nothing, or would lie below one."""
    there = next(place for place in (folder, *folder.parents) if os.path.lexists(place))
    if not there.exists():
        raise InputError(f"{there} is a link that leads nowhere: {remedy}")
    if not there.is_dir():
        raise InputError(f"{there} is a file: {remedy}")


def refuse_closed(path: Path, kind: str = "folder") -> None:
    """Refuse a file or folder to write whose place does not let one."""
    place = next(place for place in (path, *path.absolute().parents) if place.is_dir())
    if not os.access(place, os.W_OK | os.X_OK):
        raise InputError(f"{path} cannot be written, since {place} does not let you: name a {kind} somewhere else")


def write_json(path: Path, facts: Any) -> None:
    """Write facts as JSON."""
    with whole(path) as part:
        part.write_text(json.dumps(facts, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def read_json(path: Path, what: str = "a whole JSON file", remedy: str = "make it again") -> Any:
    """Read what `write_json` wrote; where it cannot be read, say what it should be and what to do."""
    try:
        return json.loads(ordinary(path).read_text(encoding="utf-8-sig"))  # an editor may have put a mark at its start
    except (OSError, ValueError, RecursionError) as error:
        mend = "make it readable" if isinstance(error, PermissionError) else remedy
        raise InputError(f"{path} is not {what} ({error}): {mend}") from error


def write_tensors(
    path: Path, tensors: Mapping[str, "Tensor"], facts: Mapping[str, str], *, sealed: bool = False
) -> None:
    """Write named tensors and a few strings into one safetensors file, with checksums of both where it is sealed."""
    from safetensors.torch import save

    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    content = save(plain, metadata=dict(facts) | ({SEAL: seal(plain, facts)} if sealed else {}))
    with whole(path) as part:
        part.write_bytes(content)


def read_tensors(
    path: Path, device: "torch.device | None" = None, remedy: str = "make it again"
) -> tuple[dict[str, "Tensor"], dict[str, str]]:
    """Read what `write_tensors` wrote; where it is not whole, or not what it was sealed as, say what to do."""
    try:
        with safe_open(ordinary(path), framework="pt", device=str(device or "cpu")) as file:
            tensors, facts = {name: file.get_tensor(name) for name in file.keys()}, file.metadata() or {}  # noqa: SIM118  # no mapping
    except (SafetensorError, FileNotFoundError, EndlessError) as error:
        raise InputError(f"{path} is not a whole safetensors file ({error}): {remedy}") from error
    if SEAL in facts and facts[SEAL] != seal(tensors, facts):
        raise InputError(f"{path} is not a whole safetensors file (its checksum is that of other content): {remedy}")
    return tensors, facts


def read_texts(path: Path) -> dict[str, str]:
    """Read the strings alone of what `write_tensors` wrote; nothing where that is no whole file."""
    try:
        with safe_open(ordinary(path), framework="pt") as file:
            facts = file.metadata() or {}
    except (SafetensorError, OSError):
        return {}
    return facts if SEAL not in facts or facts[SEAL].startswith(_sum_of_texts(facts)) else {}


def seal(tensors: Mapping[str, "Tensor"], facts: Mapping[str, str]) -> str:
    """Return two CRC-32, of strings and of tensors: damage is what they tell, at twice the speed of SHA-256."""
    return f"{_sum_of_texts(facts)} {_sum_of_tensors(tensors)}"


def _sum_of_texts(facts: Mapping[str, str]) -> str:
    others = {name: text for name, text in facts.items() if name != SEAL}
    return f"{zlib.crc32(json.dumps(others, sort_keys=True).encode()):08x}"


def _sum_of_tensors(tensors: Mapping[str, "Tensor"]) -> str:
    import torch

    ordered_by_name = sorted(tensors.items())
    found = zlib.crc32(repr([(name, value.dtype, tuple(value.shape)) for name, value in ordered_by_name]).encode())
    for _, value in ordered_by_name:
        found = zlib.crc32(value.cpu().contiguous().view(-1).view(torch.uint8).numpy().data, found)
    return f"{found:08x}"


def under(tensors: Mapping[str, "Tensor"], prefix: str) -> dict[str, "Tensor"]:
    """Return the tensors whose names start with a prefix, without it."""
    return {name[len(prefix) :]: value for name, value in tensors.items() if name.startswith(prefix)}
