"""The engine of many machines: Ray. A task a run; a node that is lost costs its runs a retry."""

import logging
import os
import shutil
import time
import uuid
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from filelock import FileLock

from madod.benchmark.agenda import SWEEPS
from madod.benchmark.claim import claimed
from madod.benchmark.jobs import Job
from madod.benchmark.messages import Ended, Places
from madod.benchmark.record import GRID, HISTORY, OUTPUTS, RECORD, VERDICTS
from madod.benchmark.state import FAILURE
from madod.benchmark.work import LOG, perform
from madod.errors import InputError
from madod.registry import PLUGINS
from madod.storage import whole

RETRIES = 3
"""How often Ray starts a run again whose node or process died."""
TIDYING = 20.0
"""Seconds that nodes have, at the end, to drop what came back from them."""
BROUGHT = (HISTORY, OUTPUTS, VERDICTS, GRID, FAILURE, LOG, RECORD)
"""What comes back through Ray where nodes do not see the folder of runs; the record last."""


class Request(NamedTuple):
    """What a run asks of its node."""

    cpus: float = 1
    gpus: float = 0


class Cluster:
    """Runs as Ray tasks, on the cluster at an address or on one that is started here.

    Nodes see the folder of runs at the same path, or, where `brought` is set, results come back through Ray and are
    written here.
    """

    def __init__(
        self, places: Places, request: Request, *, address: str | None = None, workers: int = 1, brought: bool = False
    ) -> None:
        self.ray = _ray()
        self.places, self.request, self.brought = places, request, brought
        self.ours = not self.ray.is_initialized()
        self._join(address, workers)
        self.token = places.runs / SWEEPS / f"token-{uuid.uuid4().hex}"
        self.token.parent.mkdir(parents=True, exist_ok=True)
        self.token.touch()  # a node that sees it sees the folder of runs
        self.common = _name(places.runs) if brought else self.token
        remote = self.ray.remote(_bring if brought else _share)
        named = os.environ.get(PLUGINS)
        env = {"env_vars": {PLUGINS: named}} if named else None
        self.task = remote.options(num_cpus=request.cpus, num_gpus=request.gpus, max_retries=RETRIES, runtime_env=env)
        self.out: dict[Any, tuple[Job, ExitStack]] = {}
        self.at_once: list[Ended] = []
        records = places.runs.rglob(RECORD) if brought else ()
        self.written = [str(file.parent.relative_to(places.runs)) for file in records]  # nodes need not keep theirs

    def slots(self) -> int:
        """Return how many runs the nodes that are there now can do at once."""
        there = self.ray.cluster_resources()
        by_cpu = int(there.get("CPU", 0) // self.request.cpus)
        return min(by_cpu, int(there.get("GPU", 0) // self.request.gpus)) if self.request.gpus else by_cpu

    def submit(self, job: Job) -> None:
        """Send a run to some node; where results are brought back, its folder is claimed here.

        One that is back and lacks detectors alone gets them here, where its outputs are: a node would train it anew.
        """
        if self.brought and (self.places.runs / job.folder / RECORD).exists():
            self.at_once.append(perform(job, self.places))
            return
        stack = ExitStack()
        if self.brought and stack.enter_context(claimed(self.places.runs / job.folder)) is None:
            self.at_once.append(Ended(job.folder, "busy"))
            return
        safe = [tuple(self.written)] if self.brought else []
        self.out[self.task.remote(job, self.places, self.common, *safe)] = job, stack

    def ended(self, timeout: float) -> list[Ended]:
        """Return the runs that ended, waiting a little for the first."""
        ends, self.at_once = self.at_once, []
        if self.out:
            ready, _ = self.ray.wait(list(self.out), num_returns=1, timeout=0 if ends else timeout)
            ends += [self._end(task) for task in ready]
        elif not ends:
            time.sleep(timeout)  # no node is there
        return ends

    def close(self) -> None:
        """Cancel what is on its way and leave the cluster, or stop it where it was started here."""
        for task, (_, stack) in self.out.items():
            self.ray.cancel(task, force=True)
            stack.close()
        self.token.unlink(missing_ok=True)
        try:
            if self.written:
                self._tidy()
        finally:
            if self.ours:
                self.ray.shutdown()

    def _join(self, address: str | None, workers: int) -> None:
        """Connect to the cluster at an address, or start one here that does so many runs at once."""
        start: dict[str, Any] = {"address": address or "local"}  # never one that happens to run on this machine
        if address is None:
            start |= {"num_cpus": workers * self.request.cpus, "include_dashboard": False}
        try:
            self.ray.init(log_to_driver=False, logging_level=logging.ERROR, ignore_reinit_error=True, **start)
        except (ConnectionError, ValueError) as error:
            reason = str(error).splitlines()[0]
            raise InputError(f"there is no Ray cluster at {address!r} ({reason}): check --address") from error
        if self.ours and address is None and not self.slots():  # no node will ever join what is started here
            self.ray.shutdown()
            raise InputError(
                f"a run asks for {self.request.gpus:g} GPUs, which this machine has not: use --device cpu, and no "
                "--gpus"
            )

    def _end(self, task: Any) -> Ended:
        job, stack = self.out.pop(task)
        with stack:
            try:
                end, files = self.ray.get(task)
            except self.ray.exceptions.RayError as error:
                reason = str(error).strip().splitlines() or [type(error).__name__]
                said = reason[-1 if isinstance(error, self.ray.exceptions.RayTaskError) else 0]  # after its traceback
                return Ended(job.folder, "lost", f"Ray lost it: {said}")
            for name in BROUGHT:
                if name in files:
                    with whole(self.places.runs / job.folder / name) as part:
                        part.write_bytes(files[name])
            if self.brought and end.outcome == "done":
                self.written.append(job.folder)
            return end

    def _tidy(self) -> None:
        """Have every node that is there drop what came back from it; one that is slow does without."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        drop = self.ray.remote(_drop)
        nodes = [node["NodeID"] for node in self.ray.nodes() if node["Alive"]]
        there = [NodeAffinitySchedulingStrategy(node, soft=False) for node in nodes]
        runs = _own(self.places, str(self.common)).runs
        tasks = [drop.options(num_cpus=0, scheduling_strategy=node).remote(runs, self.written) for node in there]
        self.ray.wait(tasks, num_returns=len(tasks), timeout=TIDYING)


def _share(job: Job, places: Places, token: Path) -> tuple[Ended, dict[str, bytes]]:
    """Do a run in the folder that all nodes share."""
    if not token.exists():
        reason = f"a node does not see {places.runs}: put the runs on a disk that all nodes share, or use --bring-back"
        return Ended(job.folder, "failed", reason), {}
    return perform(job, places), {}


def _bring(job: Job, places: Places, name: str, written: Sequence[str]) -> tuple[Ended, dict[str, bytes]]:
    """Do a run in a folder of the node's own, or go on with one that was left there, and return what it left.

    It is kept until a later task names it among those that were written where they belong: whoever asked may be killed
    before that, and asks again.
    """
    own = _own(places, name)
    _drop(own.runs, written)
    end = perform(job, own)
    folder = own.runs / job.folder
    return end, {name: (folder / name).read_bytes() for name in BROUGHT if (folder / name).exists()}


def _own(places: Places, name: str) -> Places:
    """Return the places with the folder in which a node does the runs of a sweep that calls it so."""
    return replace(places, runs=places.cache / "brought" / name)


def _drop(runs: Path, folders: Sequence[str]) -> None:
    """Delete runs that came back."""
    for folder in folders:
        shutil.rmtree(runs / folder, ignore_errors=True)


def _name(runs: Path) -> str:
    """Return what nodes call a folder of runs that they do not see: the same in every sweep of it, and no other's."""
    file = runs / SWEEPS / "name.txt"
    with FileLock(file.with_suffix(".lock")):
        if not file.exists():
            with whole(file) as part:
                part.write_text(uuid.uuid4().hex, encoding="utf-8")
    return file.read_text(encoding="utf-8")


def _ray() -> Any:
    try:
        import ray
    except ImportError as error:
        raise InputError(
            "the engine ray needs Ray, which is not installed: pip install 'madod[ray]', or use --engine local"
        ) from error
    return ray
