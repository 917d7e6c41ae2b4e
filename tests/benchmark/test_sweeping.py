"""What a person sees while a sweep runs."""

import io
from pathlib import Path

import pytest
import torch

from madod.benchmark.claim import claimed
from madod.benchmark.local import Local
from madod.benchmark.sweep import Tally
from madod.cli import bench, sweeping

TALLY = Tally(3, ("a-run",), {"b-run": "it [broke]"}, 4, 1, 75.0)


def test_a_line_says_how_it_stands():
    assert sweeping.in_words(TALLY) == (
        "3 done, 1 running, 1 failed, 4 left (1 of them in another sweep), about 1 min 15 s to go"
    )
    assert sweeping.in_words(TALLY._replace(running=(), left=0, elsewhere=0)) == "3 done, 0 running, 1 failed, 0 left"


def test_the_table_shows_who_is_at_work_and_what_failed(tmp_path):
    from rich.console import Console

    with claimed(tmp_path / "a-run") as claim:
        claim.progress("madod", 50, 150)
        claim._write()
        console = Console(file=io.StringIO(), width=100)
        console.print(sweeping.drawn(TALLY._replace(running=("a-run", *map(str, range(20)))), tmp_path, 9))
    said = console.file.getvalue()
    assert "3 done, 21 running, 1 failed, 4 left" in said
    assert "50/150" in said
    assert "failed b-run: it [broke]" in said
    assert "... and 9 more" in said


def test_the_table_shows_names_as_they_are(tmp_path):
    from rich.console import Console

    console = Console(file=io.StringIO(), width=100)
    odd = TALLY._replace(running=("a-:smile:-[red]-\n-run",), failed={"b-:smile:\x1b[2J": ":+1: [/x]"})
    console.print(sweeping.drawn(odd, tmp_path, 9))
    said = console.file.getvalue()
    assert r"a-:smile:-[red]-\n-run" in said
    assert r"failed b-:smile:\x1b[2J: :+1: [/x]" in said


def test_plain_lines_come_now_and_then(capsys, monkeypatch):
    watch = sweeping.lines()
    for done in (0, 0, 1, 2):
        watch(TALLY._replace(done=done))
    watch(TALLY._replace(done=8, running=(), left=0))
    assert [line.split()[0] for line in capsys.readouterr().err.splitlines()] == ["0", "8"]


@pytest.mark.parametrize(("named", "gpus"), [(None, ("0", "1")), ("3,5", ("3", "5")), ("7", ("7",))])
def test_each_worker_has_a_gpu_of_its_own(monkeypatch, named, gpus):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: len(gpus))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if named:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", named)
    assert bench.visible_gpus() == gpus
    assert Local(None, None, len(gpus) + 1, gpus).free == [*gpus, gpus[0]]
    assert Local(None, None, 2).free == [None, None]


@pytest.mark.parametrize(
    ("gpus", "words", "threads"),
    [((), {}, 1), (("0",), {}, 16), (("0", "1"), {}, 8), (("0",), {"workers": 12}, 1), (("0",), {"threads": 3}, 3)],
)
def test_workers_beside_gpus_share_the_cores(monkeypatch, gpus, words, threads):
    monkeypatch.setattr(bench, "visible_gpus", lambda: gpus)
    monkeypatch.setattr("madod.data.threads.cores", lambda: 16)
    monkeypatch.setattr("madod.benchmark.local.Local", lambda context, places, workers, gpus: places)
    assert bench.engine_of(bench.Run(Path("plan"), Path("runs"), **words), object()).threads == threads
