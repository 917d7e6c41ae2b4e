"""The Ray engine: the same records as local processes, also when a node dies."""

import json
import os
import shutil
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from madod.benchmark import work
from madod.benchmark.claim import heartbeat
from madod.benchmark.cluster import Cluster, Request, _bring, _name, _share
from madod.benchmark.jobs import expand
from madod.benchmark.messages import Ended, Places
from madod.benchmark.sweep import Sweep
from madod.benchmark.work import perform
from madod.cli.main import main
from madod.errors import InputError
from madod.registry import PLUGINS
from tests.benchmark.drawn import FACTS
from tests.benchmark.plans import MINI, written
from tests.test_registry import PLUGIN

SHORT = MINI.replace("steps = 60", "steps = 3").replace("seeds = [0, 1]", "seeds = [0]")
RECORD = json.dumps(FACTS)


@pytest.fixture
def ray(monkeypatch):
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    found = pytest.importorskip("ray")
    yield found
    found.shutdown()


def metrics(runs: Path) -> dict[str, object]:
    return {f.parent.name: json.loads(f.read_text())["metrics"] for f in runs.rglob("record.json")}


def test_without_ray_it_says_what_to_install(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "ray", None)
    words = ["bench", "run", str(written(tmp_path, SHORT)), "--runs", str(tmp_path / "runs"), "--engine", "ray"]
    assert main([*words, "--device", "cpu"]) == 2
    assert "pip install 'madod[ray]', or use --engine local" in capsys.readouterr().err


def test_runs_on_ray_equal_those_done_here_shared_or_brought_back(tmp_path, ray):
    jobs = expand(written(tmp_path, SHORT), None)[1]
    here, shared, brought = (Places(tmp_path / name, tmp_path / "cache") for name in ("here", "shared", "brought"))
    assert [perform(job, here).outcome for job in jobs] == ["done", "done"]
    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)
    for places, back in ((shared, False), (brought, True)):
        engine = Cluster(places, Request(), brought=back)
        try:
            assert engine.slots() == 1
            tally = Sweep(jobs, places.runs, engine).go(lambda tally: None)
        finally:
            engine.close()
        assert (tally.done, tally.failed) == (2, {})
        assert metrics(places.runs) == metrics(here.runs)
        assert not list(places.runs.rglob("token-*"))
    assert all((brought.runs / job.folder / "outputs.safetensors").exists() for job in jobs)
    assert not list(tmp_path.joinpath("cache").rglob("record.json"))  # nothing is left on the node
    seen, late = jobs[0].folder, replace(jobs[0], detectors=(*jobs[0].detectors, "max_logit"))
    engine = Cluster(brought, Request(), brought=True)
    engine.submit(late)  # no node is asked
    assert (engine.ended(0), engine.out) == ([Ended(seen, "done")], {})
    engine.close()
    assert "max_logit" in json.loads((brought.runs / seen / "record.json").read_text())["metrics"]
    stale = brought.cache / "brought" / engine.common / jobs[0].folder  # whoever had asked for it was killed
    shutil.copytree(brought.runs / jobs[0].folder, stale)
    Cluster(brought, Request(), brought=True).close()
    assert not stale.exists()


def test_a_cluster_started_here_is_no_other_one_and_does_not_wait_for_gpus_that_never_come(tmp_path, ray, monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", "192.0.2.1:1")
    with pytest.raises(InputError, match="a run asks for 1000 GPUs, which this machine has not: use --device cpu"):
        Cluster(Places(tmp_path / "runs", tmp_path / "cache"), Request(gpus=1000))
    assert not ray.is_initialized()


def test_plugins_reach_the_nodes_of_a_cluster_that_was_there_before(tmp_path, ray, monkeypatch):
    job = replace(expand(written(tmp_path, SHORT), None)[1][0], detectors=("suspicion",))
    (tmp_path / "an_outsider.py").write_text(PLUGIN, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)
    monkeypatch.setenv(PLUGINS, "an_outsider")
    places = Places(tmp_path / "runs", tmp_path / "cache")
    engine = Cluster(places, Request())
    tally = Sweep([job], places.runs, engine).go(lambda tally: None)
    assert (tally.done, tally.failed) == (1, {})
    monkeypatch.setenv(PLUGINS, "nobody")
    tally = Sweep([replace(job, folder="other")], places.runs, Cluster(places, Request())).go(lambda tally: None)
    assert "MADOD_PLUGINS names 'nobody', but no such module is found" in tally.failed["other"]


def test_a_node_that_does_not_see_the_runs_says_so(tmp_path):
    job = expand(written(tmp_path, SHORT), None)[1][0]
    end, files = _share(job, Places(tmp_path / "runs", tmp_path / "cache"), tmp_path / "no token")
    assert (end.outcome, files) == ("failed", {})
    assert "use --bring-back" in end.reason


def test_a_node_goes_on_with_what_it_was_left_and_the_next_sweep_finds_it(tmp_path, monkeypatch):
    job = expand(written(tmp_path, SHORT), None)[1][0]
    places = Places(tmp_path / "runs", tmp_path / "cache")
    seen = []

    def broken(spec, dataset, *, out, **kwargs):
        (out / "checkpoint.safetensors").touch()
        raise RuntimeError("the node is tired")

    def whole_again(spec, dataset, *, out, **kwargs):
        seen.append((out / "checkpoint.safetensors").exists())
        (out / "record.json").write_text(RECORD)

    (places.runs / "sweeps").mkdir(parents=True)
    monkeypatch.setattr(work, "run", broken)
    assert _bring(job, places, _name(places.runs), ())[0].outcome == "failed"
    monkeypatch.setattr(work, "run", whole_again)
    end, files = _bring(job, places, _name(places.runs), ())
    assert (end.outcome, seen, files["record.json"]) == ("done", [True], RECORD.encode())
    (tmp_path / "others" / "sweeps").mkdir(parents=True)
    assert _name(places.runs) != _name(tmp_path / "others")


def test_a_node_keeps_a_run_until_it_is_written_where_it_belongs(tmp_path, monkeypatch):
    one, two = expand(written(tmp_path, SHORT), None)[1]
    places, done = Places(tmp_path / "runs", tmp_path / "cache"), []

    def carried(spec, dataset, *, out, **kwargs):
        done.append(spec.id)
        (out / "record.json").write_text(RECORD)

    monkeypatch.setattr(work, "run", carried)
    first = _bring(one, places, "sweep", ())
    again = _bring(one, places, "sweep", ())  # who asked was killed before it was written, and asks again
    assert first == again
    assert (first[0].outcome, first[1]["record.json"], len(done)) == ("done", RECORD.encode(), 1)
    _bring(two, places, "sweep", (one.folder,))
    kept = [file.parent.relative_to(places.cache / "brought" / "sweep") for file in places.cache.rglob("record.json")]
    assert kept == [Path(two.folder)]


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_a_node_of_three_is_killed_while_it_works(tmp_path, ray):
    from ray.cluster_utils import Cluster as Nodes

    text = MINI.replace("steps = 60", "steps = 150").replace("seeds = [0, 1]", "seeds = [0, 1, 2]")
    jobs = expand(written(tmp_path, text), None)[1]
    here, there = (Places(tmp_path / name, tmp_path / "cache") for name in ("here", "there"))
    nodes = Nodes(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    others = [nodes.add_node(num_cpus=1) for _ in range(2)]
    nodes.wait_for_nodes()
    at_work: list[int] = []

    def kill_one() -> None:
        while len(at_work) < 3:
            at_work[:] = [1 for job in jobs if heartbeat(there.runs / job.folder)]
            time.sleep(0.05)
        nodes.remove_node(others[0], allow_graceful=False)

    try:
        engine = Cluster(there, Request(), address=nodes.address)
        assert engine.slots() == 3
        killer = threading.Thread(target=kill_one)
        killer.start()
        tally = Sweep(jobs, there.runs, engine).go(lambda tally: None)
        killer.join()
        late = time.monotonic() + 60
        while engine.slots() == 3 and time.monotonic() < late:
            time.sleep(0.5)  # Ray looks after its nodes every few seconds, and the runs may end before it does
        assert engine.slots() == 2
        engine.close()
    finally:
        ray.shutdown()
        nodes.shutdown()
    assert (tally.done, tally.failed) == (6, {})
    assert [perform(job, here).outcome for job in jobs] == ["done"] * 6
    assert metrics(there.runs) == metrics(here.runs)
