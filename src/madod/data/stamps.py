"""What files hold: hashed once, and known again by size and times in an index that only saves time."""

import hashlib
import json
import logging
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from madod.data.images import BadImage, blaming, opened
from madod.data.threads import ordered

log = logging.getLogger(__name__)

DIGEST = hashlib.sha256().digest_size


class Stamp(NamedTuple):
    """What tells that a file is as it was (bytes, modification and change time), and the hash of its content."""

    identity: tuple[int, ...]
    digest: str


def stamps(files: Sequence[Path], cache: Path) -> list[Stamp | BadImage]:
    """Return every file's stamp, hashing only those that the index does not know as they are."""
    if not files:
        return []
    paths = [str(file.absolute()) for file in files]
    where = hashlib.sha256(os.fsencode(os.path.commonpath(paths))).hexdigest()[:16]
    index = _read_index(cache / f"index-{where}.json")

    known = {k: index[path] for k, path in enumerate(paths) if path in index and _unchanged(files[k], index[path])}
    new = [k for k in range(len(files)) if k not in known]
    found: dict[int, Stamp | BadImage] = {**known}
    found.update(zip(new, ordered(hashed, [files[k] for k in new]), strict=True))
    fresh = {paths[k]: stamp for k, stamp in found.items() if isinstance(stamp, Stamp)}
    if any(index.get(path) != stamp for path, stamp in fresh.items()):
        others = {path: stamp for path, stamp in index.items() if path not in fresh and _unchanged(Path(path), stamp)}
        _write_index(cache / f"index-{where}.json", others | fresh)
    return [found[k] for k in range(len(files))]


def identity(file: Path) -> tuple[int, ...]:
    """Return what changes when a file does: bytes, modification and change time."""
    with blaming(str(file)):
        facts = file.stat()
    return facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns


def hashed(file: Path) -> Stamp | BadImage:
    """Return a file's stamp, or why it has none."""
    try:
        was = identity(file)  # before reading: a change from here on is seen as one
        with opened(file) as content:
            return Stamp(was, hashlib.file_digest(content, "sha256").hexdigest())
    except BadImage as bad:
        return bad


def _unchanged(file: Path, stamp: Stamp) -> bool:
    try:
        return identity(file) == stamp.identity
    except BadImage:
        return False


def _read_index(file: Path) -> dict[str, Stamp]:
    try:
        entries = json.loads(file.read_text(encoding="utf-8"))
        found = {path: Stamp(tuple(identity), digest) for path, (identity, digest) in entries.items()}
        return {path: stamp for path, stamp in found.items() if len(bytes.fromhex(stamp.digest)) == DIGEST}
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):  # absent or damaged: it only saves time
        return {}


def _write_index(file: Path, found: dict[str, Stamp]) -> None:
    part = file.with_name(f"{file.name}.part-{os.getpid()}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(json.dumps(found), encoding="utf-8")
        part.replace(file)
    except OSError as error:
        log.debug("the index of hashes is not kept: %s", error)
        with suppress(OSError):
            part.unlink(missing_ok=True)
