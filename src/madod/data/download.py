"""Files from the public network: several mirrors, resumed after a break, checked, whole or absent."""

import hashlib
import http.client
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from filelock import FileLock

from madod.errors import InputError
from madod.progress import Progress, silent

CHUNK = 1 << 16
TIMEOUT = 30.0
"""Seconds without a byte after which a mirror counts as gone."""
TRIES = 5
"""Connections in a row that may break without a new byte before the next mirror is asked."""


class Source(NamedTuple):
    """A file: its path under the root, the addresses that serve it, and its SHA-256, or how it starts, where known."""

    path: str
    mirrors: tuple[str, ...]
    sha256: str | None = None


class Refused(Exception):  # noqa: N818  # a verdict on one mirror; the next one is asked
    """Why a mirror did not give the file."""


def fetch(source: Source, root: Path, *, cache: Path, progress: Progress = silent) -> Path:
    """Return the file under the root, from the first mirror that gives it whole; a broken download is resumed.

    `progress` is told its name, the bytes that are there and the bytes of all.
    """
    target = root / source.path
    target.parent.mkdir(parents=True, exist_ok=True)
    cache.mkdir(parents=True, exist_ok=True)
    with FileLock(cache / f"{_short(str(target.absolute()))}.lock"):
        if target.exists():
            return target
        reasons = []
        for address in source.mirrors:
            part = target.with_name(f"{target.name}.{_short(address)}.part")  # bytes of two mirrors never mix
            try:
                _download(address, part, lambda done, total: progress(target.name, done, total))
                _check(part, source.sha256)
                return part.replace(target)
            except Refused as refused:
                reasons.append(f"{address} ({refused})")
    raise InputError(
        f"cannot fetch {target.name} from {' or '.join(reasons)}: get it by other means and put it at {target}"
    )


def _short(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def _download(address: str, part: Path, report: Callable[[int, int], object]) -> None:
    """Bring a part up to its full length; what has arrived stays when the connection breaks."""
    left = TRIES
    while True:
        before = _size(part)
        try:
            if _continue(address, part, report):
                return
            reason = "the connection broke"
        except urllib.error.HTTPError as error:
            if error.code != 416 or not before:
                raise Refused(f"it answers {error.code} {error.reason}") from error
            if error.headers.get("Content-Range") == f"bytes */{before}":  # nothing follows: it was all there
                return
            part.unlink()
            reason = "what was there is not its beginning"
        except urllib.error.URLError as error:
            raise Refused(f"it cannot be reached: {error.reason}") from error
        except (http.client.HTTPException, ConnectionError, TimeoutError, ssl.SSLError) as error:
            reason = f"the connection broke: {error}"
        left = TRIES if _size(part) > before else left - 1
        if not left:
            raise Refused(reason)


def _continue(address: str, part: Path, report: Callable[[int, int], object]) -> bool:
    """Append what follows the bytes that are there; tell whether the file is then complete."""
    have = _size(part)
    request = urllib.request.Request(address, headers={"Range": f"bytes={have}-"} if have else {})
    with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:
        if answer.status != 206:  # the mirror starts from the beginning
            have = 0
        length = answer.headers.get("Content-Length")
        total = have + int(length) if length else 0
        with part.open("ab" if have else "wb") as out:
            while chunk := answer.read(CHUNK):
                out.write(chunk)
                have += len(chunk)
                report(have, max(total, have))
    return not total or have == total


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _check(part: Path, sha256: str | None) -> None:
    """Remove a file of another checksum; without one, the counts of what is in it tell later."""
    if sha256 is None:
        return
    with part.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if not found.startswith(sha256):
        part.unlink()
        raise Refused(f"its SHA-256 is {found} instead of {sha256}")
