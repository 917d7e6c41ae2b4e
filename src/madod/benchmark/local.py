"""The engine of one machine: a process a GPU, or a number of CPU workers; each does many runs."""

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import BaseContext
from multiprocessing.process import BaseProcess
from typing import TYPE_CHECKING, Any

from madod.benchmark.messages import Ended, Places

if TYPE_CHECKING:
    from madod.benchmark.jobs import Job

EARLY = "madod.benchmark.early"
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


@dataclass
class Worker:
    """A process that does one run after the other, and the one it is at."""

    process: BaseProcess
    pipe: "Connection[Any, Any]"
    gpu: str | None
    job: "Job | None" = None


def prepare(threads: int) -> BaseContext:
    """Return the way to start workers, which begin to import while the plan is still being read.

    Where the system can, they are copies of one process that has imported everything and nothing else.
    """
    for name in THREADS:
        os.environ[name] = str(threads)  # before anything is imported that reads it
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([EARLY])
    from multiprocessing import forkserver

    with _set("PYTHONSAFEPATH", "1"):  # what is started imports nothing that lies in the working folder
        _quiet_tracker()
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # inherited: Ctrl-C is the sweep's to answer
        try:
            forkserver.ensure_running()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)  # one that came meanwhile comes now
    return context


def _quiet_tracker() -> None:
    """Start the process that clears away what workers leave behind; it need not report what a killed one left."""
    from multiprocessing import resource_tracker

    said = filter(None, [os.environ.get("PYTHONWARNINGS"), "ignore:resource_tracker"])
    with _set("PYTHONWARNINGS", ",".join(said)):
        resource_tracker.ensure_running()  # now: with the workers it would open their signal mask again


@contextmanager
def _set(name: str, value: str) -> Iterator[None]:
    """Have processes that are started meanwhile find a value in their environment."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


class Local:
    """Worker processes on this machine, each started when a run first needs it.

    One that dies makes room for another, and so does one whose run failed on a GPU.
    """

    def __init__(self, context: BaseContext, places: Places, workers: int, gpus: tuple[str, ...] = ()) -> None:
        self.context, self.places = context, places
        self.free = [gpus[k % len(gpus)] if gpus else None for k in range(workers)]  # the GPU of each yet to start
        self.workers: list[Worker] = []

    def slots(self) -> int:
        """Return how many runs it can do at once."""
        return len(self.workers) + len(self.free)

    def submit(self, job: "Job") -> None:
        """Hand a run to a worker that has none, or to a new one."""
        worker = next((worker for worker in self.workers if worker.job is None), None)
        if worker is None:
            worker = self._start(self.free.pop(0))
            self.workers.append(worker)
        worker.job = job
        with suppress(OSError):  # it died idle; `ended` notices
            worker.pipe.send(job)

    def ended(self, timeout: float) -> list[Ended]:
        """Return the runs that ended, waiting a little for the first."""
        if not self.workers:  # the last one died, and other sweeps have the rest
            time.sleep(timeout)
        heard = wait([worker.pipe for worker in self.workers], timeout)
        ready = [worker for worker in self.workers if worker.pipe in heard]
        return [end for worker in ready if (end := self._end(worker)) is not None]

    def close(self) -> None:
        """Stop every worker at once."""
        for worker in self.workers:
            worker.process.kill()
        for worker in self.workers:
            worker.process.join()

    def _start(self, gpu: str | None) -> Worker:
        ours, theirs = self.context.Pipe()
        start: Any = self.context  # whose type does not say that it has Process
        process = start.Process(target=serve, args=(theirs, self.places, gpu))
        process.start()
        theirs.close()
        return Worker(process, ours, gpu)

    def _end(self, worker: Worker) -> Ended | None:
        job, worker.job = worker.job, None
        try:
            end: Ended = worker.pipe.recv()
            if end.outcome == "failed" and worker.gpu is not None:
                worker.process.kill()  # after some errors a GPU refuses all else to a process, and every run would fail
                self._remove(worker)
            return end
        except (EOFError, OSError):
            code = self._remove(worker)
        how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        hint = ": perhaps memory ran out; use fewer workers" if code == -signal.SIGKILL else ""
        return Ended(job.folder, "lost", f"its process died ({how}){hint}") if job else None

    def _remove(self, worker: Worker) -> int:
        """Make room for another process in the place of one that ends, and return how it ended."""
        worker.process.join()
        worker.pipe.close()
        self.workers.remove(worker)
        self.free.append(worker.gpu)
        return worker.process.exitcode or 0


def serve(pipe: "Connection[Any, Any]", places: Places, gpu: str | None) -> None:
    """Do the runs that come through the pipe, until it closes or the sweep is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the sweep's to answer
    if gpu is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = gpu
    threading.Thread(target=_die_with_parent, daemon=True).start()
    while True:
        try:
            job: Job = pipe.recv()
        except EOFError:
            return
        pipe.send(perform_with_log(job, places))


def perform_with_log(job: "Job", places: Places) -> Ended:
    """Do a run; what libraries write meanwhile goes into its log."""
    from madod.benchmark.work import LOG, perform, unwritten

    log = places.runs / job.folder / LOG
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as file:
            for stream in (sys.stdout, sys.stderr):
                os.dup2(file.fileno(), stream.fileno())
    except OSError as error:
        return unwritten(job, error)
    end = perform(job, places)
    if end.outcome != "busy":  # else it is the log of whoever holds the run
        with suppress(OSError):  # how the run ended does not depend on it
            if not log.stat().st_size:
                log.unlink()
    return end


def _die_with_parent() -> None:
    """End the process when the sweep ends, however it ended, in the middle of whatever it does."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
