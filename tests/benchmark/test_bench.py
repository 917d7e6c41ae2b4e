"""`madod bench` as a person meets it: killed, interrupted, looked at from another terminal."""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from madod.benchmark import outdated
from madod.benchmark.claim import held
from madod.benchmark.jobs import expand
from madod.benchmark.messages import Places
from madod.benchmark.stage import opened
from madod.benchmark.sweep import Tally
from madod.benchmark.work import perform
from madod.cli.bench import said, warn_of_outdated
from madod.cli.main import main
from madod.errors import InputError
from tests.benchmark.plans import MINI, written
from tests.data.miniatures import picture

PLANS = Path(__file__).parent.parent.parent / "plans"


def words(plan: Path, home: Path, *more: str) -> list[str]:
    return [
        "bench",
        "run",
        str(plan),
        "--runs",
        str(home / "runs"),
        "--cache",
        str(home / "cache"),
        "--device",
        "cpu",
        *more,
    ]


def start(plan: Path, home: Path, *more: str) -> subprocess.Popen[bytes]:
    """Start a sweep in a session of its own, so that it can be killed with all of its processes."""
    return subprocess.Popen(
        [sys.executable, "-m", "madod", *words(plan, home, "--workers", "2", *more)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip


def wait_for(home: Path, pattern: str, process: subprocess.Popen[bytes]) -> None:
    while process.poll() is None and not list((home / "runs").rglob(pattern)):
        time.sleep(0.01)


def kill(process: subprocess.Popen[bytes]) -> None:
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    with contextlib.suppress(ProcessLookupError):
        while True:  # until the last of them is gone
            os.killpg(process.pid, 0)
            time.sleep(0.01)


def records(home: Path) -> dict[str, bytes]:
    """Return every record as it lies on disk."""
    return {str(f.parent.relative_to(home / "runs")): f.read_bytes() for f in (home / "runs").rglob("record.json")}


def same(one: dict[str, bytes], other: dict[str, bytes]) -> None:
    assert one.keys() == other.keys()
    for name in one:
        a, b = json.loads(one[name]), json.loads(other[name])
        for part in ("spec", "metrics", "thresholds", "translation", "data"):
            assert a[part] == b[part], (name, part)


def undisturbed(plan: Path, home: Path) -> None:
    """Do the runs of a plan one after the other in this process."""
    places = Places(home / "runs", home / "cache")
    for job in expand(plan, None)[1]:
        assert perform(job, places).outcome == "done"


def test_killed_twice_a_sweep_ends_with_the_records_of_an_undisturbed_one(tmp_path, capsys):
    plan, killed, straight = written(tmp_path), tmp_path / "killed", tmp_path / "straight"
    for pattern in ("checkpoint.safetensors", "record.json"):
        process = start(plan, killed)
        wait_for(killed, pattern, process)
        kill(process)
        assert process.returncode == -signal.SIGKILL
        before = records(killed)
        assert main(["bench", "status", str(plan), "--runs", str(killed / "runs"), "--json"]) == 0
        counts = json.loads(capsys.readouterr().out)["counts"]
        assert (counts["done"], counts["running"]) == (len(before), 0)  # dead processes run nothing
    assert 1 <= len(before) < 4
    process = start(plan, killed)
    words_of_it, errors = process.communicate()
    assert process.returncode == 0, errors.decode()
    assert words_of_it.decode().startswith("4 done, 0 running, 0 failed, 0 left")
    after = records(killed)
    assert all(after[name] == content for name, content in before.items())  # nothing is done twice
    undisturbed(plan, straight)
    same(after, records(straight))
    assert not list((killed / "runs").rglob("checkpoint.safetensors"))
    assert main(["bench", "status", str(plan), "--runs", str(killed / "runs")]) == 0
    assert capsys.readouterr().out == "4 done, 0 running, 0 failed, 0 left\n"
    assert main(["bench", "table", str(plan), "--runs", str(killed / "runs"), "--form", "csv"]) == 0
    assert "CE only" in capsys.readouterr().out


@pytest.mark.long
@pytest.mark.timeout(3000)
def test_the_smoke_plan_killed_five_times_at_random(tmp_path):
    draw = random.Random(5)
    plan, killed, straight = PLANS / "smoke.toml", tmp_path / "killed", tmp_path / "straight"
    before: dict[str, bytes] = {}
    for _ in range(5):
        process = start(plan, killed)
        wait_for(killed, "heartbeat.json", process)
        time.sleep(draw.uniform(1, 25))
        kill(process)
        now = records(killed)
        assert all(now[name] == content for name, content in before.items())
        before = now
    for home in (killed, straight):
        process = start(plan, home)
        _, errors = process.communicate()
        assert process.returncode == 0, errors.decode()
    after = records(killed)
    assert len(before) < len(after) == 8
    assert all(after[name] == content for name, content in before.items())
    same(after, records(straight))
    generators = [sorted(home.glob("cache/generators/*/generator.safetensors")) for home in (killed, straight)]
    assert [f.read_bytes() for f in generators[0]] == [f.read_bytes() for f in generators[1]]


def test_ctrl_c_stops_it_with_one_sentence_and_two_sweeps_share_the_work(tmp_path):
    plan = written(tmp_path, MINI.replace("steps = 60", "steps = 5000"))
    first, second = start(plan, tmp_path), start(plan, tmp_path)
    wait_for(tmp_path, "heartbeat.json", first)
    while second.poll() is None and len(list((tmp_path / "runs").rglob("heartbeat.json"))) < 3:
        time.sleep(0.01)  # each has two workers and there are four runs, so both are at it
    state = subprocess.run(
        [sys.executable, "-c", STATUS, str(plan), "--runs", str(tmp_path / "runs")], capture_output=True, text=True,
        check=True,
    ).stdout  # fmt: skip
    assert state.endswith("no torch\n")
    assert int(state.split(" running")[0].split()[-1]) >= 3
    for process in (first, second):
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 130
        assert errors.decode().strip().splitlines()[-1].endswith("of 4 runs done; the same command goes on")
        assert "Traceback" not in errors.decode()
    assert not any(held(beat.parent) for beat in (tmp_path / "runs").rglob("heartbeat.json"))


STATUS = """
import sys
from madod.cli.bench import said
from madod.cli.main import main
main(["bench", "status", *sys.argv[1:]])
print("torch" if "torch" in sys.modules else "no torch")
"""


def test_a_sweep_that_fails_in_part_says_why_and_exits_with_1(tmp_path, capsys):
    text = MINI.replace("seeds = [0, 1]", "seeds = [0]").replace("steps = 60", "steps = 2")
    text = text.replace("margin = 0 }", "margin = 0, lr = 1e30 }")  # it diverges
    code = main(words(written(tmp_path, text), tmp_path, "--workers", "1", "--quiet"))
    seen = capsys.readouterr()
    assert code == 1
    assert seen.out.startswith("1 done, 0 running, 1 failed, 0 left")
    assert seen.err.count("\n") == 1
    assert seen.err.startswith("failed: digits-madod-neon-4-0-")
    assert main(["bench", "status", str(tmp_path / "mini.toml"), "--runs", str(tmp_path / "runs")]) == 0
    assert "failed: digits-madod-neon-4-0-" in capsys.readouterr().out


def test_a_plan_whose_runs_have_too_few_known_classes_starts_none_of_them(tmp_path, capsys):
    file = written(tmp_path, MINI.replace("margin = 0 }", "margin = 0, pseudo_units = 9 }"))
    assert main(words(file, tmp_path)) == 2
    seen = capsys.readouterr().err
    assert f"{file}, line 13: madod, CE only on digits: hiding 4 leaves 9 of 10 classes known, " in seen
    assert seen.count("\n") == 1
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        (["--workers", "0"], "--workers 0 cannot be: give 1 or more"),
        (["--workers", "100000"], "--workers 100000 cannot be on "),
        (["--threads", "0"], "--threads 0 cannot be: give 1 or more"),
        (["--address", "auto"], "--address is for Ray: add --engine ray"),
        (["--bring-back"], "--bring-back is for Ray: add --engine ray"),
        (["--root", "/nowhere/at/all"], "there is no folder /nowhere/at/all"),
    ],
)
def test_what_no_sweep_can_start_with_is_refused_in_a_sentence(tmp_path, capsys, more, sentence):
    assert main(words(written(tmp_path), tmp_path, *more)) == 2
    seen = capsys.readouterr().err
    assert sentence in seen
    assert seen.count("\n") == 1
    assert not (tmp_path / "runs").exists()


def test_runs_that_are_a_file_are_refused_by_every_verb_and_none_says_to_delete_it(tmp_path, capsys):
    plan = written(tmp_path)
    for verb, remedy in (("run", "to write into"), *((verb, "of the runs") for verb in ("status", "select", "table"))):
        for runs in (plan, plan / "runs"):
            assert main(["bench", verb, str(plan), "--runs", str(runs)]) == 2
            seen = capsys.readouterr().err
            assert seen.startswith(f"madod: {plan} is a file: name ")
            assert seen.endswith(f"folder {remedy}\n")
    assert main(["report", str(tmp_path), "--out", str(plan)]) == 2
    assert capsys.readouterr().err == f"madod: {plan} is a file: name a folder to write into\n"


def test_the_status_of_runs_that_nobody_began_says_that_nothing_is_there(tmp_path, capsys):
    runs = tmp_path / "runs"
    said = f"\nnothing is there yet: there is no folder {runs}, which madod bench run makes\n"
    for there in (False, True):
        assert main(["bench", "status", str(written(tmp_path)), "--runs", str(runs)]) == 0
        seen = capsys.readouterr().out
        assert seen.startswith("0 done, 0 running, 0 failed, 4 left\n")
        assert seen.endswith(said) != there
        runs.mkdir(exist_ok=True)


def test_tables_of_runs_that_all_failed_say_where_the_reasons_are(tmp_path, capsys):
    assert main(["bench", "table", str(written(tmp_path)), "--runs", str(tmp_path / "runs")]) == 2
    assert "is finished: madod bench status says how they stand, madod bench run carries" in capsys.readouterr().err


def test_a_dataset_that_lies_in_a_folder_needs_its_root(tmp_path, capsys):
    plan = written(tmp_path, 'algorithms = ["erm"]\n[[datasets]]\nname = "pacs"\n')
    assert main(words(plan, tmp_path)) == 2
    assert "pacs lies in a folder of yours: name it with --root DATA" in capsys.readouterr().err
    assert main(words(plan, tmp_path, "--root", str(tmp_path))) == 2
    assert "there is nothing of pacs in" in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


def test_a_reason_that_many_runs_share_is_said_once(tmp_path, capsys):
    failed = {"a": "no disk", "b": "no luck", "c": "no disk", **{f"{n}-erm": f"/runs/{n}-erm/x broke" for n in (1, 2)}}
    assert said(Tally(1, (), failed, 0, 0, None), tmp_path) == 1
    shared = "failed: 1-erm and 1 more: /runs/1-erm/x broke\n"
    assert capsys.readouterr().err == f"failed: a and 1 more: no disk\nfailed: b: no luck\n{shared}"


def animals(home: Path) -> str:
    """Draw a folder of pictures, and return a plan with it."""
    for domain, light in (("day", 200), ("dusk", 90), ("night", 30)):
        for k, label in enumerate(("cat", "dog", "fox")):
            for n in range(6):
                picture(home / "animals" / domain / label / f"{n}.png", (light, 60 * k, 9 * n))
    text = 'algorithms = ["erm"]\ndetectors = ["msp"]\n[[datasets]]\nunknown = ["fox"]\ntest_domains = ["night"]\n'
    return text + f'name = "{home / "animals"}"\nsize = 16\nsteps = 1\n'


def test_a_folder_of_ones_own_can_be_in_a_plan(tmp_path):
    places = Places(tmp_path / "runs", tmp_path / "cache")
    agenda, jobs = expand(written(tmp_path, animals(tmp_path)), None, partial(opened, cache=places.cache))
    (job,) = jobs
    assert job.spec.id.startswith("animals-erm-night-fox-0-")
    assert perform(job, places).outcome == "done"
    assert agenda.entries[0].cell.dataset == "animals"


def test_a_plan_can_leave_out_pictures_that_cannot_be_read_and_is_told_how(tmp_path, caplog):
    text, places = animals(tmp_path), Places(tmp_path / "runs", tmp_path / "cache")
    here = partial(opened, cache=places.cache)
    bad = tmp_path / "animals" / "day" / "cat" / "bad.png"
    bad.write_text("no picture")
    with pytest.raises(InputError, match=r"line 6: 1 of 55 pictures .*\(in a plan: skip_bad = true\):\n.*bad\.png"):
        expand(written(tmp_path, text), None, here)
    _, (job,) = expand(written(tmp_path, text + "skip_bad = true\n"), None, here)
    assert "left out 1 of 55 pictures" in caplog.text
    assert perform(job, places).outcome == "done"
    bad.unlink()
    assert [job.folder] == [other.folder for other in expand(written(tmp_path, text), None, here)[1]]


def test_runs_of_pictures_that_have_changed_since_are_named_and_left_alone(tmp_path, monkeypatch, caplog):
    plan, places = written(tmp_path, animals(tmp_path)), Places(tmp_path / "runs", tmp_path / "cache")
    here = partial(opened, cache=places.cache)
    _, (job,) = expand(plan, None, here)
    warn_of_outdated([job], places.runs, here)  # nothing is there yet
    assert perform(job, places).outcome == "done"
    file = places.runs / job.folder / "record.json"
    as_it_was = file.read_bytes()
    with monkeypatch.context() as patched:
        patched.setattr(outdated, "fingerprints", None)  # no image is looked at where no file changed
        picture(tmp_path / "animals" / "dusk" / "dog" / "3.png", (90, 60, 27))  # written again, the same
        warn_of_outdated([job], places.runs, here)
    picture(tmp_path / "animals" / "dusk" / "fox" / "3.png", (1, 2, 3))  # of the unknown class in a source: not used
    warn_of_outdated([job], places.runs, here)
    assert not caplog.records
    picture(tmp_path / "animals" / "dusk" / "dog" / "3.png", (1, 2, 3))
    for text in (as_it_was, json.dumps(json.loads(as_it_was) | {"pictures": ""}).encode()):  # as older records are
        file.write_bytes(text)
        warn_of_outdated([job], places.runs, here)
        (said,) = (record.getMessage() for record in caplog.records)
        assert said.startswith(f"these runs in {places.runs} were made from other pictures than {job.data} holds now")
        assert said.endswith(
            f"delete their folders to have them made again, or name another folder with --runs:\n  {job.folder}"
        )
        caplog.clear()
    monkeypatch.setenv("MADOD_CACHE", str(tmp_path / "unused"))
    assert main(words(plan, tmp_path, "--workers", "1", "--quiet")) == 0
    assert "were made from other pictures" in caplog.text
    assert (file.read_bytes(), (tmp_path / "unused").exists()) == (text, False)


def test_a_plugin_that_is_not_there_is_said_in_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setenv("MADOD_PLUGINS", "nobody")
    out, err = start(written(tmp_path, MINI), tmp_path).communicate()
    assert (out, err.decode().count("\n")) == (b"", 1)
    assert err.startswith(b"madod: MADOD_PLUGINS names 'nobody', but no such module is found")
