"""Where the pictures of a published dataset lie: folders, or archives that nobody has unpacked yet."""

import gzip
import hashlib
import os
import shutil
import tarfile
import zipfile
import zlib
from collections.abc import Collection, Iterator
from pathlib import Path

from filelock import FileLock

from madod.data.finding import listing
from madod.errors import InputError

ENDINGS = (".tar.gz", ".tgz", ".tar", ".zip")
DEPTH = 3


def homes(root: Path, names: Collection[str], depth: int = DEPTH) -> Iterator[Path]:
    """Yield a folder and, a few levels deep, those in it that bear one of the names (in lower case)."""
    yield root
    for folder in listing(root).folders if depth else ():
        if folder.name.lower() in names:
            yield from homes(folder, names, depth - 1)


def folder_in(places: Collection[Path], names: Collection[str]) -> Path | None:
    """Return the first folder with one of the names (in lower case) in one of the places."""
    for place in places:
        for folder in listing(place).folders:
            if folder.name.lower() in names:
                return folder
    return None


def archives(places: Collection[Path], names: Collection[str]) -> list[Path]:
    """Return the archives in the places that bear one of the names (in lower case)."""
    return [file for place in places for file in listing(place).files if _stem(file.name.lower()) in names]


def _stem(name: str) -> str | None:
    return next((name.removesuffix(ending) for ending in ENDINGS if name.endswith(ending)), None)


def unpacked(archive: Path, cache: Path) -> Path:
    """Return a folder with the content of an archive, unpacked once into the cache; the root is left as it is."""
    facts = archive.stat()
    identity = f"{archive.absolute()} {facts.st_size} {facts.st_mtime_ns}"
    folder = cache / f"unpacked-{hashlib.sha256(os.fsencode(identity)).hexdigest()[:16]}"
    cache.mkdir(parents=True, exist_ok=True)
    with FileLock(folder.with_suffix(".lock")):
        if not folder.exists():
            part = folder.with_suffix(".part")
            shutil.rmtree(part, ignore_errors=True)  # of a killed process: the lock is ours
            try:
                _extract(archive, part)
                part.rename(folder)
            except (zipfile.BadZipFile, tarfile.TarError, gzip.BadGzipFile, zlib.error, EOFError) as error:
                raise InputError(
                    f"cannot unpack {archive}: it is no archive, or a damaged one; get it again"
                ) from error
            except RuntimeError as error:  # zipfile's word for passwords, and for what Windows does to large archives
                raise InputError(
                    f"cannot unpack {archive} here ({error}): unpack it by other means, into the same place"
                ) from error
            finally:
                shutil.rmtree(part, ignore_errors=True)
    return folder


def _extract(archive: Path, folder: Path) -> None:
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as content:
            content.extractall(folder)
    else:
        with tarfile.open(archive) as content:
            content.extractall(folder, filter="data")
