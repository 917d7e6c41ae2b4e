"""`madod bench`: a plan carried through, looked at, and turned into tables."""

import logging
import os
import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from madod.cli.arguments import Switch, cache_folder, left_open, parse
from madod.data.opening import own_folder
from madod.errors import InputError, first_few
from madod.storage import refuse_closed, refuse_file

if TYPE_CHECKING:
    from multiprocessing.context import BaseContext

    from madod.benchmark.jobs import Job
    from madod.benchmark.stage import Open
    from madod.benchmark.sweep import Engine, Tally

log = logging.getLogger(__name__)

MOST_A_CORE = 8
"""Workers that may share a core."""

ABOUT = """Carry a plan through, on this machine or a cluster.

madod bench run PLAN --runs RUNS: do what is missing; stopped or killed, the same command goes on.

madod bench status PLAN --runs RUNS: how it stands, from any terminal at any time.

madod bench select PLAN --runs RUNS: what each selection rule picks, costs, and misses.

madod bench table PLAN --runs RUNS: the tables.

madod bench run --help says what it takes, and so with the others. A plan is a TOML file (plans/smoke.toml is a small
one)."""

ABOUT_RUN = """Do every run of a plan that is not done yet.

Killed at any moment, the same command goes on where it was; a run that failed is tried again; two sweeps on the same
folder share the work and do nothing twice. Exits with 1 where a run failed."""


@dataclass(frozen=True)
class Bench:
    """What to do with a plan."""

    verb: Annotated[Literal["run", "status", "select", "table"], tyro.conf.Positional]
    """What to do."""


@dataclass(frozen=True)
class Run:
    """Which plan, where, and on what."""

    plan: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="PLAN")]
    """A plan (TOML)."""
    runs: Annotated[Path, tyro.conf.arg(metavar="RUNS")]
    """Folder of the runs."""
    root: Annotated[Path | None, left_open("DATA")] = None
    """Folder that datasets lie in, each under its name; pretrained files are sought there too."""
    workers: Annotated[int | None, left_open("N")] = None
    """Runs at once; by default one a GPU, or one a CPU core."""
    engine: Literal["local", "ray"] = "local"
    """Processes on this machine, or Ray."""
    address: Annotated[str | None, left_open("ADDRESS")] = None
    """A Ray cluster's address, such as auto or ray://head:10001; without it one is started here."""
    bring_back: Switch = False
    """With Ray: nodes do not see RUNS, so results come back through Ray (all but models)."""
    cpus: float = 1
    """With Ray: cores that a run asks for."""
    gpus: Annotated[float | None, left_open("N")] = None
    """With Ray: GPUs that a run asks for; by default 1 with --device cuda."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """What runs compute on; auto is the GPU where there is one."""
    threads: Annotated[int | None, left_open("N")] = None
    """Threads of a run, by default 1, or beside a GPU its share of the cores; a CPU's last bits depend on it."""
    cache: Annotated[Path | None, left_open("DIR")] = None
    """Where decoded pictures, generators and weights by name are kept; by default in your cache folder."""
    quiet: Switch = False
    """Print nothing but the last line."""


def main(arguments: Sequence[str]) -> int:
    """Find what to do with the plan and do it."""
    if not arguments:
        raise InputError("say what to do with the plan: madod bench run, status, select or table; --help explains each")
    how = parse(Bench, arguments[:1], "bench", ABOUT)
    if how.verb == "run":
        return run(arguments[1:])
    from madod.cli import looking

    verbs = {"status": looking.status, "select": looking.select, "table": looking.table}
    return verbs[how.verb](arguments[1:])


def run(arguments: Sequence[str]) -> int:
    """Carry a plan through; 0 all done, 1 some failed."""
    how = parse(Run, arguments, "bench run", ABOUT_RUN)
    check_numbers(how)
    refuse_file(how.runs)
    refuse_closed(how.runs)
    from madod.benchmark.local import prepare

    context = prepare(how.threads or 1) if how.engine == "local" else None  # workers import while the plan is read
    from madod.benchmark.jobs import expand
    from madod.benchmark.stage import opened
    from madod.benchmark.sweep import Sweep
    from madod.cli.sweeping import watched

    once = cache(partial(opened, root=how.root, cache=cache_folder(how.cache)))
    agenda, jobs = expand(how.plan, how.root, once, cache=how.cache)
    check_data(jobs, how, once)
    warn_of_outdated(jobs, how.runs, once)
    agenda.save(how.runs)
    sweep = None
    try:
        with closing(engine_of(how, context)) as engine, watched(how.runs, len(jobs), how.quiet) as watch:
            sweep = Sweep(jobs, how.runs, engine)
            tally = sweep.go(watch)
    except KeyboardInterrupt:
        done = sweep.done if sweep else 0
        sys.stderr.write(f"\nmadod: stopped with {done} of {len(jobs)} runs done; the same command goes on\n")
        return 130
    return said(tally, how.runs)


def engine_of(how: Run, context: "BaseContext | None") -> "Engine":
    """Return what does the runs."""
    from madod.benchmark.messages import Places
    from madod.data.threads import cores

    gpus = visible_gpus() if how.device != "cpu" else ()
    if how.device == "cuda" and not gpus and how.engine == "local":
        raise InputError("there is no GPU here: use --device cpu")
    cuda = how.device == "cuda" or bool(gpus)
    workers = how.workers or len(gpus) or max(1, cores() // (how.threads or 1))
    share = max(1, cores() // workers) if gpus and how.engine == "local" else 1
    places = Places(
        how.runs.absolute(),
        cache_folder(how.cache).absolute(),
        how.root.absolute() if how.root else None,
        "cuda" if cuda else "cpu",
        how.threads or share,
    )
    if context is not None:
        from madod.benchmark.local import Local

        return Local(context, places, workers, gpus)
    from madod.benchmark.cluster import Cluster, Request

    request = Request(how.cpus, how.gpus if how.gpus is not None else float(cuda))
    return Cluster(places, request, address=how.address, workers=workers, brought=how.bring_back)


def visible_gpus() -> tuple[str, ...]:
    """Return the GPUs that may be used, as CUDA_VISIBLE_DEVICES names them."""
    from madod.models.device import gpu_count

    named = [name for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name]
    there = gpu_count()
    return tuple((named or list(map(str, range(there))))[:there])


def check_numbers(how: Run) -> None:
    """Refuse numbers that no sweep can start with, and flags that only the other engine knows."""
    for flag, number in (("--workers", how.workers), ("--threads", how.threads)):
        if number is not None and number < 1:
            raise InputError(f"{flag} {number} cannot be: give 1 or more")
    if how.cpus <= 0 or (how.gpus or 0) < 0:
        raise InputError("--cpus has to be above 0 and --gpus 0 or more")
    from madod.data.threads import cores

    most = MOST_A_CORE * cores()
    if how.engine == "local" and (how.workers or 0) > most:
        raise InputError(
            f"--workers {how.workers} cannot be on {cores()} core{'s' * (cores() > 1)}, where each would hardly move "
            f"and take its memory all the same: give {most} or fewer"
        )
    ray_only = {"--address": how.address, "--bring-back": how.bring_back, "--gpus": how.gpus is not None}
    for flag, given in ray_only.items():
        if given and how.engine == "local":
            raise InputError(f"{flag} is for Ray: add --engine ray, or leave it out")


def check_data(jobs: "Sequence[Job]", how: Run, open_: "Open") -> None:
    """Refuse a sweep whose datasets are not there before anything starts; with Ray the data is the nodes' affair."""
    from madod.benchmark.stage import takes
    from madod.cli.datasets import warn_of_differences

    if how.root is not None and not how.root.is_dir() and how.engine == "local":
        raise InputError(f"there is no folder {how.root}: --root names the folder that datasets lie in")
    for name, size, skip_bad in dict.fromkeys((job.data, job.spec.size, job.skip_bad) for job in jobs):
        if own_folder(name) or not takes(name, "root"):
            continue
        if how.root is None:
            raise InputError(f"{name} lies in a folder of yours: name it with --root DATA")
        if how.engine == "local":
            warn_of_differences(open_(name, size, skip_bad))


def warn_of_outdated(jobs: "Sequence[Job]", runs: Path, open_: "Open") -> None:
    """Say before anything starts which finished runs are of other pictures than there are now; they are left alone."""
    from madod.benchmark.outdated import outdated

    for data, folders in outdated(jobs, runs, open_).items():
        log.warning(
            "these runs in %s were made from other pictures than %s holds now, and count as done as they are; "
            "delete their folders to have them made again, or name another folder with --runs:%s",
            runs, data, "".join(f"\n  {folder}" for folder in folders),
        )  # fmt: skip


def said(tally: "Tally", runs: Path) -> int:
    """Say how the sweep ended, and why runs failed, each reason once whatever folder it names; return the exit code."""
    from madod.cli.sweeping import in_words

    by_reason: dict[str, list[str]] = {}
    for folder, reason in tally.failed.items():
        by_reason.setdefault(reason.replace(folder, ""), []).append(folder)
    for folders in by_reason.values():
        sys.stderr.write(f"failed: {first_few(folders, 1)}: {tally.failed[folders[0]]}\n")
    sys.stdout.write(f"{in_words(tally)}: {runs}\n")
    return 1 if tally.failed else 0
