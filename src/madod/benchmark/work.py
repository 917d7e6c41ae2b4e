"""One run of a sweep, in whatever process it falls to: claimed, carried through, and its failure kept."""

import gc
import logging
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache, lru_cache
from pathlib import Path

import torch

from madod.benchmark.claim import Claim, claimed
from madod.benchmark.jobs import Job
from madod.benchmark.messages import Ended, Places
from madod.benchmark.rescore import rescore
from madod.benchmark.resources import Resources
from madod.benchmark.run import run
from madod.benchmark.stage import opened
from madod.benchmark.state import FAILURE, facts_of, fail, finished
from madod.detectors.base import DETECTORS
from madod.errors import InputError, is_out_of_memory, outside
from madod.models.pretrained import pretrained
from madod.models.weights import Weights

log = logging.getLogger(__name__)
LOG = "log.txt"
IN_THE_PLAN = (
    "lower the learning rate (lr, or the range that it is drawn from) in the plan's hparams: the runs that this "
    "changes start anew in folders of their own, and this one can be deleted"
)
"""What to do about a training that broke down in a sweep."""
at_hand = cache(opened)  # a dataset is opened once a process


def perform(job: Job, places: Places) -> Ended:
    """Do a run that is left, go on with one that was killed, and leave a finished one alone; never raises."""
    folder = places.runs / job.folder
    try:
        with claimed(folder) as claim:
            return Ended(job.folder, "busy") if claim is None else attempt(job, places, claim)
    except (OSError, InputError) as error:  # not even the reason could be written
        return unwritten(job, error)
    finally:
        if places.device != "cpu":
            give_memory_back()


def unwritten(job: Job, error: OSError | InputError) -> Ended:
    """Return the end of a run in whose folder nothing can be written, not even why."""
    return Ended(job.folder, "failed", f"{error}" if isinstance(error, InputError) else f"the system refused: {error}")


def give_memory_back() -> None:
    """Leave a GPU's memory to the other processes on it: this one may wait long for its next run."""
    gc.collect()  # a compiled network holds itself
    with suppress(RuntimeError):  # what broke the GPU for this process was said by the run
        torch.cuda.empty_cache()


def attempt(job: Job, places: Places, claim: Claim) -> Ended:
    """Carry a claimed run through; what goes wrong is its own affair and stays in its folder."""
    folder = places.runs / job.folder
    if finished(folder, job.detectors):
        return Ended(job.folder, "done")
    (folder / FAILURE).unlink(missing_ok=True)
    with logged(folder / LOG):
        try:
            carry_through(job, places, claim)
        except Exception as error:
            log.exception("the run failed")
            reason = reason_of(error)
            fail(folder, reason)
            return Ended(job.folder, "failed", reason)
    return Ended(job.folder, "done")


def carry_through(job: Job, places: Places, claim: Claim) -> None:
    """Run, or add the detectors that a finished run lacks."""
    folder = places.runs / job.folder
    torch.set_num_threads(places.threads)
    facts = facts_of(folder)
    if facts is not None:
        added = [name for name in job.detectors if name not in facts["thresholds"]]
        rescore(folder, [name for name in added if not DETECTORS[name].needs_model])
        if late := ", ".join(name for name in added if DETECTORS[name].needs_model):
            raise InputError(
                f"{late} cannot be added to a run that is finished, since the network itself is needed: leave it out "
                "of the plan, or start it in another folder of runs"
            )
        return
    weights = loaded(job.pretrained, places.cache)
    if job.spec.start != (weights.sha256 if weights else ""):
        raise InputError(f"{job.pretrained} is not the file that the plan was made with: start the sweep again")
    dataset = at_hand(job.data, job.spec.size, job.skip_bad, root=places.root, cache=places.cache)
    resources = Resources(
        places.cache, torch.device(places.device),
        waive_gate=job.waive_gate, compiled=job.compiled, remedy=IN_THE_PLAN, progress=claim.progress,
    )  # fmt: skip
    ship = "energy" if "energy" in job.detectors else job.detectors[0]
    view = job.view(dataset)
    run(job.spec, view, out=folder, resources=resources, weights=weights, detectors=job.detectors, ship=ship)
    if not job.keep_model:
        shutil.rmtree(folder / "model", ignore_errors=True)


@lru_cache(maxsize=1)
def loaded(source: str, cache: Path) -> Weights | None:
    """Return pretrained weights, read once a process."""
    return pretrained(source, cache=cache)


def reason_of(error: Exception) -> str:
    """Say in one sentence why a run failed; the traceback is in its log."""
    if isinstance(error, InputError):
        return str(error)
    if is_out_of_memory(error):
        return "there was not enough memory: use fewer workers, smaller images or a smaller batch"
    said = str(error).strip().splitlines() or [""]
    return f"{outside(error) or f'{type(error).__name__}: {said[0]}'} ({LOG} in its folder has the rest)"


@contextmanager
def logged(file: Path) -> Iterator[None]:
    """Keep what is said while a run is at work in its own log."""
    handler = logging.FileHandler(file, encoding="utf-8", delay=True)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    handler.formatter.converter = time.gmtime  # type: ignore[union-attr]  # it was set one line above
    root = logging.getLogger()
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)
        handler.close()
