"""Sweeps: claims that die with their process, states that tell the truth, a loop that no single run stops."""

import errno
import gc
import inspect
import json
import os
import re
import signal
import subprocess
import sys
import time
import weakref
from dataclasses import replace
from multiprocessing import forkserver, get_all_start_methods
from pathlib import Path

import numpy as np
import pytest
import torch
from filelock import FileLock

import madod
from madod.benchmark import work
from madod.benchmark.claim import BEAT, LOCK, STALE, Claim, claimed, heartbeat, held
from madod.benchmark.jobs import Job, expand
from madod.benchmark.local import THREADS, Local, perform_with_log, prepare
from madod.benchmark.messages import Ended, Places
from madod.benchmark.record import RunRecord, read_record
from madod.benchmark.state import FAILURE, fail, finished, state
from madod.benchmark.sweep import Sweep
from madod.benchmark.work import perform
from madod.cli.main import main
from madod.cli.sweeping import duration
from madod.errors import InputError
from madod.evaluation.metrics import detection
from madod.report.folders import seen
from madod.training import CHECKPOINT
from tests.benchmark.drawn import FACTS
from tests.benchmark.plans import MINI, written

DETECTORS = ("msp", "energy")
SHORT = MINI.replace("steps = 60", "steps = 2").replace("seeds = [0, 1]", "seeds = [0]")


def jobs_of(folder: Path, text: str = SHORT) -> list[Job]:
    return expand(written(folder, text), None)[1]


def record(folder: Path, detectors: tuple[str, ...] = DETECTORS, seconds: float = 2.0) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    facts = FACTS | {"seconds": {"training": seconds}, "thresholds": dict.fromkeys(detectors, 0.0)}
    (folder / "record.json").write_text(json.dumps(facts), encoding="utf-8")


HOLD = """
import sys, time
from pathlib import Path
from madod.benchmark.claim import claimed
with claimed(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


def test_a_claim_is_one_mans_and_dies_with_him(tmp_path):
    run = tmp_path / "run"
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(run)], stdout=subprocess.PIPE)
    try:
        assert holder.stdout.readline() == b"held\n"
        assert state(run, DETECTORS).kind == "running"
        assert state(run, DETECTORS).beat.stage == "starting"
        with claimed(run) as claim:
            assert claim is None
        old = time.time() - 2 * STALE
        holder.send_signal(signal.SIGSTOP)
        os.utime(run / BEAT, (old, old))
        hung = state(run, DETECTORS)
        assert (hung.kind, "no sign of life" in hung.reason) == ("left", True)
    finally:
        holder.kill()
        holder.communicate()
    assert (run / BEAT).exists()  # what a killed process leaves behind fools nobody
    assert not held(run)
    assert state(run, DETECTORS).kind == "left"
    with claimed(run) as claim:
        claim.progress("erm", 5, 10)
        claim._write()
        assert heartbeat(run)[:3] == ("erm", 5, 10)
    assert not (run / BEAT).exists()


def test_a_folder_that_may_only_be_read_is_told_by_its_signs_of_life(tmp_path, monkeypatch):
    def refused(*_, **__):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    (tmp_path / LOCK).touch()
    Claim(tmp_path)._write()
    monkeypatch.setattr(FileLock, "acquire", refused)
    assert state(tmp_path, ["msp"]).kind == "running"
    old = time.time() - 2 * STALE
    os.utime(tmp_path / BEAT, (old, old))
    assert state(tmp_path, ["msp"]).kind == "left"


def test_states_are_told_from_the_folder(tmp_path):
    assert state(tmp_path / "nothing", DETECTORS).kind == "left"
    assert not (tmp_path / "nothing").exists()
    fail(tmp_path / "failed", "the disk is full")
    assert state(tmp_path / "failed", DETECTORS)[:2] == ("failed", "the disk is full")
    record(tmp_path / "done")
    assert state(tmp_path / "done", DETECTORS).kind == "done"
    assert state(tmp_path / "done", (*DETECTORS, "knn")).kind == "left"  # a detector is missing


def test_a_run_that_lacks_detectors_alone_is_told_from_one_that_is_to_be_trained(tmp_path, capsys):
    plan = written(tmp_path, SHORT)
    jobs = jobs_of(tmp_path)
    looking = ["bench", "status", str(plan), "--runs", str(tmp_path / "runs")]
    record(tmp_path / "runs" / jobs[0].folder, detectors=("msp",))
    assert main(looking) == 0
    assert capsys.readouterr().out == "0 done, 0 running, 0 failed, 2 left (1 of them lacks detectors only)\n"
    assert main([*looking, "--json"]) == 0
    runs = json.loads(capsys.readouterr().out)["runs"]
    assert [runs[job.folder]["lacks"] for job in jobs] == [["energy"], []]
    record(tmp_path / "runs" / jobs[1].folder, detectors=("msp",))
    assert main(looking) == 0
    assert capsys.readouterr().out.endswith("2 left (2 of them lack detectors only)\n")


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "{}", '{"spec": {}, "metrics": {}, "thresholds": 3, "seconds": {}}',
        json.dumps(FACTS | {"seconds": {"training": "long"}}),
    ],
)  # fmt: skip
def test_a_broken_record_is_a_failure_of_its_run_alone(tmp_path, monkeypatch, text):
    jobs = jobs_of(tmp_path)
    broken = jobs[0]
    places = Places(tmp_path / "runs", tmp_path / "cache")
    file = places.runs / broken.folder / "record.json"
    file.parent.mkdir(parents=True)
    file.write_text(text, encoding="utf-8")
    monkeypatch.setattr(work, "run", lambda spec, dataset, *, out, **kwargs: record(out))
    sweep = Sweep(jobs, places.runs, Here(places))
    tally = sweep.go(lambda tally: None)
    assert (tally.done, list(tally.failed)) == (1, [broken.folder])
    said = tally.failed[broken.folder]
    assert f"{file} is not a run's record (" in said
    assert said.endswith("): delete it and run it again")
    assert state(file.parent, DETECTORS)[:2] == ("failed", said)
    file.unlink()
    assert Sweep(jobs, places.runs, Here(places)).go(lambda tally: None).done == 2


def test_looking_at_a_sweep_says_of_a_broken_record_what_to_do(tmp_path, capsys):
    plan = written(tmp_path, SHORT)
    folder = tmp_path / "runs" / jobs_of(tmp_path)[0].folder
    folder.mkdir(parents=True)
    (folder / "record.json").touch()
    for verb, code in (("status", 0), ("select", 2), ("table", 2)):
        assert main(["bench", verb, str(plan), "--runs", str(tmp_path / "runs")]) == code
        said = "".join(capsys.readouterr())
        assert f"{folder / 'record.json'} is not a run's record (" in said
        assert "delete it and run it again" in said


def test_a_claim_that_a_full_disk_refuses_says_so_and_holds_nothing(tmp_path, monkeypatch):
    def full(claim: Claim) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    job = jobs_of(tmp_path)[0]
    places = Places(tmp_path / "runs", tmp_path / "cache")
    with monkeypatch.context() as patched:
        patched.setattr(Claim, "_write", full)
        end = perform(job, places)
    assert (end.outcome, "No space left on device" in end.reason) == ("failed", True)
    assert not held(places.runs / job.folder)


class Here:
    """An engine that does runs at once, one after the other."""

    def __init__(self, places: Places) -> None:
        self.places, self.ends = places, []

    def slots(self) -> int:
        return 1

    def submit(self, job: Job) -> None:
        self.ends.append(perform(job, self.places))

    def ended(self, timeout: float) -> list[Ended]:
        ends, self.ends = self.ends, []
        return ends

    def close(self) -> None:
        pass


class Fake:
    """An engine whose runs end as a script says, and take what it says of their algorithms."""

    def __init__(
        self, runs: Path, script: dict[str, list[str]], slots: int = 2, seconds: dict[str, float] | None = None
    ) -> None:
        self.runs, self.script, self.at_once, self.seconds = runs, script, slots, seconds or {}
        self.out: list[str] = []
        self.begun: list[str] = []

    def slots(self) -> int:
        return self.at_once

    def submit(self, job: Job) -> None:
        assert len(self.out) < self.at_once
        self.out.append(job.folder)
        self.begun.append(job.folder)

    def ended(self, timeout: float) -> list[Ended]:
        ends = []
        for folder in self.out[:1]:
            outcome = self.script.get(folder, []).pop(0) if self.script.get(folder) else "done"
            if outcome == "done":
                record(self.runs / folder, seconds=self.seconds.get(folder.split("-")[1], 2.0))
            ends.append(Ended(folder, outcome, "it broke" if outcome in ("failed", "lost") else ""))
            self.out.remove(folder)
        return ends

    def close(self) -> None:
        pass


def test_no_single_run_stops_a_sweep(tmp_path, monkeypatch):
    monkeypatch.setattr("madod.benchmark.sweep.PAUSE", 0.0)
    jobs = jobs_of(tmp_path, MINI)
    one, two, three, four = (job.folder for job in jobs)
    record(tmp_path / four)
    seen = []
    engine = Fake(tmp_path, {one: ["failed"], two: ["busy", "busy"], three: ["lost"]})
    tally = Sweep(jobs, tmp_path, engine).go(seen.append)
    assert (tally.done, tally.failed, tally.left, tally.running) == (3, {one: "it broke"}, 0, ())
    assert four not in engine.begun
    assert sorted(engine.begun) == sorted([one, two, two, two, three, three])
    assert all(t.done + len(t.failed) + t.left + len(t.running) == 4 for t in seen)
    assert seen[0].seconds_left is not None  # learned from the run that was done


def test_nobody_waits_for_a_generator_while_there_is_other_work(tmp_path):
    text = (
        'algorithms = ["madod", "mbdg", "erm"]\ndetectors = ["msp"]\n[[datasets]]\nname = "digits"\nunknown = ["1"]\n'
    )
    jobs = jobs_of(tmp_path, text + 'test_domains = ["ink"]\n')
    by_name = {job.spec.algorithm: job.folder for job in jobs}
    engine = Fake(tmp_path, {})
    Sweep(jobs, tmp_path, engine).go(lambda tally: None)
    assert engine.begun == [by_name[name] for name in ("madod", "erm", "mbdg")]  # madod makes the G that mbdg shares
    alone = Fake(tmp_path / "alone", {}, slots=1)
    Sweep(jobs, tmp_path / "alone", alone).go(lambda tally: None)
    assert alone.begun == [by_name[name] for name in ("madod", "mbdg", "erm")]


def test_one_run_a_generator_comes_first(tmp_path):
    text = (
        'algorithms = ["erm", "madod", "mbdg"]\nseeds = [0, 1]\n[[datasets]]\nname = "digits"\nunknown = ["1", "2"]\n'
    )
    jobs = {job.folder: job for job in jobs_of(tmp_path, 'detectors = ["msp"]\n' + text)}
    engine = Fake(tmp_path, {}, slots=8)
    Sweep(list(jobs.values()), tmp_path, engine).go(lambda tally: None)
    order = [jobs[folder] for folder in engine.begun]
    assert len(order) == len(jobs) == 4 * 2 * 2 * 3
    assert len({job.generator for job in order[:8]}) == 8 == len({job.generator for job in order} - {None})


def test_long_runs_come_before_short_ones_once_it_is_known_which_are_long(tmp_path):
    text = MINI.replace('["erm"]', '["erm", "mixup", "coral"]').replace("[0, 1]", "[0, 1, 2]")
    jobs = jobs_of(tmp_path, text[: text.index("[[variants]]")])
    seconds = {"erm": 1.0, "mixup": 2.0, "coral": 5.0}
    engine = Fake(tmp_path, {}, slots=1, seconds=seconds)
    Sweep(jobs, tmp_path, engine).go(lambda tally: None)
    kinds = ["erm", "mixup", "coral", "coral", "coral", "mixup", "mixup", "erm", "erm"]  # one of each to learn from
    assert [folder.split("-")[1] for folder in engine.begun] == kinds
    for name in seconds:
        assert [f for f in engine.begun if name in f] == [job.folder for job in jobs if job.spec.algorithm == name]


def test_a_run_whose_process_dies_again_and_again_is_given_up_with_a_reason(tmp_path):
    jobs = jobs_of(tmp_path)[:1]
    engine = Fake(tmp_path, {jobs[0].folder: ["lost"] * 5})
    tally = Sweep(jobs, tmp_path, engine).go(lambda tally: None)
    assert len(engine.begun) == 2
    assert tally.failed == {jobs[0].folder: "it broke"}
    assert state(tmp_path / jobs[0].folder, DETECTORS)[:2] == ("failed", "it broke")


def test_what_another_sweep_finishes_is_not_done_again(tmp_path, monkeypatch):
    monkeypatch.setattr("madod.benchmark.sweep.PAUSE", 0.0)
    jobs = jobs_of(tmp_path)[:1]
    engine = Fake(tmp_path, {jobs[0].folder: ["busy"]})

    def other(tally):
        record(tmp_path / jobs[0].folder)

    tally = Sweep(jobs, tmp_path, engine).go(other)
    assert (tally.done, engine.begun) == (1, [jobs[0].folder])


def test_a_folder_where_nothing_can_be_written_does_not_stop_the_others(tmp_path, monkeypatch):
    def refused(*_):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr("madod.benchmark.sweep.fail", refused)
    one, two = (job.folder for job in jobs_of(tmp_path))
    tally = Sweep(jobs_of(tmp_path), tmp_path, Fake(tmp_path, {one: ["lost"] * 2})).go(lambda tally: None)
    assert (tally.done, tally.failed) == (1, {one: "it broke"})
    (tmp_path / "runs").write_text("no folder")
    end = perform_with_log(jobs_of(tmp_path)[1], Places(tmp_path / "runs", tmp_path / "cache"))
    assert end[:2] == (two, "failed")
    assert "runs" in end.reason


@pytest.mark.parametrize(
    ("outcome", "printed", "stays"),
    [("done", "", False), ("done", "by a library\n", True), ("busy", "", True)],
)
def test_an_empty_log_goes_with_its_run_and_nobody_elses(tmp_path, monkeypatch, outcome, printed, stays):
    def perform(job, places):
        print(printed, end="", flush=True)
        return Ended(job.folder, outcome)

    job = jobs_of(tmp_path)[0]
    with (tmp_path / "streams").open("w") as stream:
        monkeypatch.setattr("madod.benchmark.work.perform", perform)
        monkeypatch.setattr(sys, "stdout", stream)
        monkeypatch.setattr(sys, "stderr", stream)
        end = perform_with_log(job, Places(tmp_path, tmp_path))
    assert end == Ended(job.folder, outcome)
    assert (tmp_path / job.folder / "log.txt").exists() == stays


def test_a_run_is_done_though_another_sweep_took_its_log(tmp_path, monkeypatch):
    def perform(job, places):
        (places.runs / job.folder / "log.txt").unlink()
        return Ended(job.folder, "done")

    with (tmp_path / "streams").open("w") as stream:
        monkeypatch.setattr("madod.benchmark.work.perform", perform)
        monkeypatch.setattr(sys, "stdout", stream)
        monkeypatch.setattr(sys, "stderr", stream)
        end = perform_with_log(jobs_of(tmp_path)[0], Places(tmp_path, tmp_path))
    assert end.outcome == "done"


def test_a_failure_keeps_its_reason_and_its_log_and_is_tried_again(tmp_path, monkeypatch):
    job = jobs_of(tmp_path)[0]
    places = Places(tmp_path / "runs", tmp_path / "cache")

    def broken(*args, **kwargs):
        raise RuntimeError("the weather\nis bad")

    true = work.run
    monkeypatch.setattr(work, "run", broken)
    end = perform(job, places)
    folder = places.runs / job.folder
    assert end[:2] == (job.folder, "failed")
    line = inspect.getsourcelines(broken)[1] + 1
    assert end.reason == (
        f"{__file__}, line {line} (in broken): RuntimeError: the weather (log.txt in its folder has the rest)"
    )
    assert state(folder, job.detectors).reason == end.reason
    assert "Traceback" in (folder / "log.txt").read_text()
    assert not held(folder)
    monkeypatch.setattr(work, "run", true)
    assert perform(job, places).outcome == "done"
    assert not (folder / FAILURE).exists()
    assert not (folder / "model").exists()  # the plan keeps none
    assert state(folder, job.detectors).kind == "done"


def after(first: Exception, words: str) -> RuntimeError:
    """An error that came of another."""
    error = RuntimeError(words)
    error.__context__ = first
    return error


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (MemoryError(), "there was not enough memory: use fewer workers, "),
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate"), "there was not enough memory: "),
        (torch.OutOfMemoryError("Allocation on device"), "there was not enough memory: "),
        (RuntimeError("CUDA error: out of memory"), "there was not enough memory: "),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to"), "there was not enough memory: "),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling"), "there was not enough memory: "),
        (
            after(torch.OutOfMemoryError("Tried to allocate"), "CUDA error: capture failed"),
            "there was not enough memory: ",
        ),
        (after(ValueError("no"), "CUDA error: unspecified launch failure"), "RuntimeError: CUDA error: unspecified"),
        (RuntimeError("more than one element refers to a single memory location."), "RuntimeError: more than one"),
    ],
)
def test_memory_that_ran_out_is_told_from_a_bug_that_speaks_of_memory(error, said):
    assert work.reason_of(error).startswith(said)


def test_a_detector_that_the_method_cannot_have_is_refused_before_anything_is_trained(tmp_path):
    job = replace(jobs_of(tmp_path)[0], detectors=("energy", "own"))
    places = Places(tmp_path / "runs", tmp_path / "cache")
    assert perform(job, places).reason.startswith("erm has no unknown score of its own")
    assert not (places.runs / job.folder / CHECKPOINT).exists()


def test_a_detector_that_needs_the_network_comes_too_late_for_a_finished_run_and_holds_up_no_other(tmp_path):
    job, places = jobs_of(tmp_path)[0], Places(tmp_path / "runs", tmp_path / "cache")
    assert perform(job, places).outcome == "done"
    end = perform(replace(job, detectors=("msp", "odin", "knn")), places)
    assert end.outcome == "failed"
    assert end.reason.startswith("odin cannot be added to a run that is finished, ")
    assert end.reason.endswith(": leave it out of the plan, or start it in another folder of runs")
    assert set(read_record(places.runs / job.folder)["thresholds"]) == {"msp", "energy", "knn"}
    assert perform(replace(job, detectors=("msp", "knn")), places).outcome == "done"


def test_a_run_that_diverges_is_mended_in_the_plan_and_leaves_its_folder_to_nobody(tmp_path):
    fast = SHORT.replace("batch = 8", "batch = 8\nlr = 1e30")
    job, places = jobs_of(tmp_path, fast)[0], Places(tmp_path / "runs", tmp_path / "cache")
    reason = perform(job, places).reason
    assert reason.startswith("erm broke down by step 2: ")
    assert "; lower the learning rate (lr, or the range that it is drawn from) in the plan's hparams: " in reason
    assert reason.endswith(" start anew in folders of their own, and this one can be deleted")
    assert "fresh" not in reason
    slow = jobs_of(tmp_path, fast.replace("1e30", "1e-3"))
    assert job.folder not in {other.folder for other in slow}
    assert perform(slow[0], places).outcome == "done"


def test_what_a_run_can_refuse_names_no_flags():
    package = Path(madod.__file__).parent
    apart = ("cluster.py", "stage.py", "judge.py")  # of `madod bench run` alone; the last names the keys of a plan too
    rooms = ("models", "translation", "algorithms", "evaluation", "benchmark")
    files = [*package.glob("*.py"), *(file for room in rooms for file in (package / room).glob("*.py"))]
    for file in (file for file in files if file.name not in apart):
        for line in file.read_text(encoding="utf-8").splitlines():
            command = re.search(r"pip install|madod rescore|porcelain|python -m", line)
            assert command or not re.search(r"--[a-z]", line), f"{file.name}: {line.strip()}"


def test_ctrl_c_is_not_lost_while_workers_are_prepared(monkeypatch):
    for name in THREADS:
        monkeypatch.setenv(name, "1")
    reached = []

    def start() -> None:
        signal.raise_signal(signal.SIGINT)  # to this thread, where it is blocked, as a process started here inherits
        reached.append(True)

    monkeypatch.setattr(forkserver, "ensure_running", start)
    with pytest.raises(KeyboardInterrupt):
        prepare(1)
    assert reached
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


OUTSIDE = """
from madod.benchmark.local import prepare

if __name__ == "__main__":
    process = prepare(1).Process(target=print)
    process.start()
    process.join()
"""


def test_the_working_folder_has_no_say_in_what_workers_import(tmp_path):
    (tmp_path / "http.py").write_text("open('imported', 'x').close()\n", encoding="utf-8")
    program = tmp_path / "elsewhere" / "program.py"
    program.parent.mkdir()
    program.write_text(OUTSIDE, encoding="utf-8")
    ended = subprocess.run([sys.executable, program], cwd=tmp_path, capture_output=True, text=True, timeout=100)
    assert (ended.returncode, ended.stdout) == (0, "\n")
    assert not (tmp_path / "imported").exists()


KILLED = """
import time
from multiprocessing import get_context

from madod.benchmark.local import prepare


def hold(pipe):
    lock = get_context("forkserver").Lock()
    pipe.send("held")
    time.sleep(600)


if __name__ == "__main__":
    context = prepare(1)
    ours, theirs = context.Pipe()
    process = context.Process(target=hold, args=(theirs,))
    process.start()
    assert ours.recv() == "held"
    process.kill()
    process.join()
"""


@pytest.mark.skipif("forkserver" not in get_all_start_methods(), reason="workers start in another way here")
def test_what_a_killed_worker_held_is_cleared_away_without_a_word(tmp_path):
    """The libraries that compile hold such locks, and workers are killed at the end of every sweep."""
    script = tmp_path / "killed.py"
    script.write_text(KILLED)
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=120, check=True)
    assert done.stderr == ""


def test_a_detector_that_is_missing_is_added_without_training(tmp_path, monkeypatch):
    places = Places(tmp_path / "runs", tmp_path / "cache")
    (job,) = (job for job in jobs_of(tmp_path) if job.spec.algorithm == "erm")
    assert perform(job, places).outcome == "done"
    more = jobs_of(tmp_path, SHORT.replace('"energy"]', '"energy", "knn"]'))[0]
    assert more.folder == job.folder
    assert not finished(places.runs / job.folder, more.detectors)
    monkeypatch.setattr(work, "run", None)  # nothing is trained
    before = json.loads((places.runs / job.folder / "record.json").read_text())
    assert perform(more, places).outcome == "done"
    after = json.loads((places.runs / job.folder / "record.json").read_text())
    assert after["metrics"].keys() - before["metrics"].keys() == {"knn"}
    assert all(after["metrics"][name] == value for name, value in before["metrics"].items())


def test_a_detector_that_is_added_has_curves_though_a_kill_came_before_its_record(tmp_path, monkeypatch):
    places = Places(tmp_path / "runs", tmp_path / "cache")
    (job,) = (job for job in jobs_of(tmp_path) if job.spec.algorithm == "erm")
    perform(job, places)
    folder = places.runs / job.folder
    before = seen(folder)
    more = jobs_of(tmp_path, SHORT.replace('"energy"]', '"energy", "knn"]'))[0]
    with monkeypatch.context() as patch:
        patch.setattr(RunRecord, "save", killed)
        with pytest.raises(KeyboardInterrupt):
            perform(more, places)
    assert not finished(folder, more.detectors)
    assert perform(more, places).outcome == "done"
    after = seen(folder)
    for one, other in zip(before._replace(scores={}), after._replace(scores={}), strict=True):
        assert np.array_equal(one, other)
    assert all(np.array_equal(after.scores[name], score) for name, score in before.scores.items())
    found = detection(after.scores["knn"], after.y, after.predicted)
    assert found["auroc"] == pytest.approx(read_record(folder)["metrics"]["knn"]["auroc"])


def killed(*_: object) -> None:
    raise KeyboardInterrupt


def test_records_say_where_they_come_from(tmp_path):
    places = Places(tmp_path / "runs", tmp_path / "cache")
    job = jobs_of(tmp_path)[0]
    perform(job, places)
    facts = json.loads((places.runs / job.folder / "record.json").read_text())
    assert 50 < facts["memory"]["process_mib"] < 20_000
    assert facts["versions"]["device"] == "cpu"
    if (Path(__file__).parents[2] / ".git").exists():
        assert len(facts["versions"]["commit"].removesuffix("+changes")) == 40


def test_a_worker_that_is_killed_is_replaced_and_its_run_done(tmp_path, monkeypatch):
    monkeypatch.setattr("madod.benchmark.sweep.TICK", 0.02)
    jobs = jobs_of(tmp_path)
    places = Places(tmp_path / "runs", tmp_path / "cache")
    engine = Local(prepare(1), places, 1)
    killed = []
    try:
        sweep = Sweep(jobs, places.runs, engine)

        def kill(tally):
            if not killed and heartbeat(places.runs / jobs[0].folder):
                killed.append(engine.workers[0].process.pid)
                os.kill(killed[0], signal.SIGKILL)

        tally = sweep.go(kill)
    finally:
        engine.close()
    assert (tally.done, tally.failed) == (2, {})
    assert list(sweep.tries.values()) == [2]
    assert [worker.process.pid for worker in engine.workers] != killed


def test_no_worker_is_started_that_has_nothing_to_do(tmp_path, monkeypatch):
    monkeypatch.setattr("madod.benchmark.sweep.TICK", 0.02)
    jobs = jobs_of(tmp_path)
    places = Places(tmp_path / "runs", tmp_path / "cache")
    record(places.runs / jobs[0].folder)
    for workers in (1, 0):  # of sixteen; the second sweep finds all done
        engine = Local(prepare(1), places, 16)
        try:
            assert engine.slots() == 16
            assert Sweep(jobs, places.runs, engine).go(lambda tally: None).done == 2
            assert (len(engine.workers), engine.slots()) == (workers, 16)
        finally:
            engine.close()


@pytest.mark.parametrize("fails", [False, True], ids=["done", "failed"])
def test_a_run_on_a_gpu_leaves_no_memory_taken(tmp_path, monkeypatch, fails):
    job = jobs_of(tmp_path)[0]
    taken, left = [], []

    def run(spec, dataset, *, out, **_):
        net = torch.nn.Linear(2, 2)
        net.itself = net.forward  # as a compiled one has
        taken.append(weakref.ref(net))
        if fails:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        record(out)

    monkeypatch.setattr(work, "run", run)
    monkeypatch.setattr(work.log, "exception", lambda _: None)  # pytest keeps what is logged, with all of its frames
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: left.extend(ref() for ref in taken))
    gc.disable()
    try:
        end = perform(job, Places(tmp_path / "runs", tmp_path / "cache", device="cuda"))
    finally:
        gc.enable()
    assert end.outcome == ("failed" if fails else "done")
    assert left == [None]


@pytest.mark.parametrize("gpus", [(), ("0",)], ids=["cpu", "gpu"])
def test_a_run_that_fails_on_a_gpu_takes_its_process_along(tmp_path, monkeypatch, gpus):
    monkeypatch.setattr("madod.benchmark.sweep.TICK", 0.02)
    jobs = jobs_of(tmp_path)
    places = Places(tmp_path / "runs", tmp_path / "cache")
    broken = places.runs / jobs[0].folder / "record.json"
    broken.parent.mkdir(parents=True)
    broken.touch()
    engine = Local(prepare(1), places, 1, gpus)
    started, start = [], engine._start
    monkeypatch.setattr(engine, "_start", lambda gpu: started.append(start(gpu)) or started[-1])
    try:
        sweep = Sweep(jobs, places.runs, engine)
        tally = sweep.go(lambda tally: None)
    finally:
        engine.close()
    assert (tally.done, list(tally.failed), sweep.tries) == (1, [jobs[0].folder], {})
    assert (started[0] in engine.workers) != bool(gpus)


def test_a_worker_imports_nothing_that_only_reports_need():
    code = "import sys, madod.benchmark.work; print({'sklearn', 'scipy', 'pandas', 'matplotlib'} & set(sys.modules))"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said == "set()\n"  # they would hold up every worker's first run by a second


def test_durations_are_said_in_two_units():
    assert [duration(s) for s in (5, 59.7, 61, 3700)] == ["5 s", "1 min 00 s", "1 min 01 s", "1 h 01 min"]


def test_a_folder_without_a_record_is_no_finished_run(tmp_path):
    with pytest.raises(InputError, match=r"^there is no finished run in .*: it has no record\.json$"):
        read_record(tmp_path)
