"""Finished runs that were made from other pictures than a folder of one's own holds now."""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from madod.benchmark.jobs import Job
from madod.benchmark.run import divided, fingerprints
from madod.benchmark.stage import Open
from madod.benchmark.state import facts_of
from madod.data.base import DomainDataset
from madod.data.opening import own_folder
from madod.errors import InputError


def outdated(jobs: Iterable[Job], runs: Path, open_: Open) -> dict[str, list[str]]:
    """Return where such runs lie, by the folder of their pictures.

    Where the files are those that a run noted, no image is looked at; else those that it sees are hashed, once.
    """
    hashed: dict[object, dict[str, str]] = {}
    found: dict[str, list[str]] = {}
    for job in jobs:
        facts = _noted(runs / job.folder) if own_folder(job.data) else {}
        if not facts.get("data"):
            continue
        dataset = open_(job.data, job.spec.size, job.skip_bad)
        if facts.get("pictures") == dataset.contents:
            continue
        if job.sees not in hashed:
            hashed[job.sees] = _images(job, dataset)
        if facts["data"] != hashed[job.sees]:
            found.setdefault(job.data, []).append(job.folder)
    return found


def _noted(folder: Path) -> dict[str, Any]:
    with suppress(InputError):  # of a broken record the sweep will speak
        return facts_of(folder) or {}
    return {}


def _images(job: Job, dataset: DomainDataset) -> dict[str, str]:
    """Return the hashes of what a run would see now; none where there would be no run."""
    with suppress(InputError):
        return fingerprints(divided(job.spec, job.view(dataset)))
    return {}
