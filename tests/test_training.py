"""Training that is killed, broken or out of room: it goes on to the same bits, or says in a sentence why not."""

import errno
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from madod import training
from madod.benchmark.record import RunRecord, RunSpec
from madod.benchmark.resources import Resources
from madod.benchmark.run import run
from madod.benchmark.settings import hparams
from madod.cli.escaped import escaped
from madod.cli.main import main
from madod.data.base import Domain, pool
from madod.data.opening import Opening, open_dataset
from madod.errors import InputError, typed
from madod.progress import Progress, silent
from madod.storage import SEAL, read_tensors, write_json, write_tensors
from madod.training import (
    CHECKPOINT,
    Cadence,
    Logbook,
    load_checkpoint,
    reached,
    save_checkpoint,
    spent,
    train,
)
from tests.algorithms.toy import STEPS, toy_algorithm, toy_pool


@pytest.fixture(scope="module")
def pictures(tmp_path_factory) -> Path:
    """Three domains, four classes, ten pictures of each."""
    root = tmp_path_factory.mktemp("kill") / "pictures"
    rng = np.random.default_rng(0)
    for d, domain in enumerate(("day", "dusk", "night")):
        for k, name in enumerate(("circle", "cross", "square", "star")):
            folder = root / domain / name
            folder.mkdir(parents=True)
            for i in range(10):
                pixels = rng.integers(0, 60, (16, 16, 3)) + 30 * d
                row, column = divmod(k, 2)
                pixels[8 * row : 8 * row + 8, 8 * column : 8 * column + 8] += 90
                Image.fromarray(pixels.astype(np.uint8)).save(folder / f"{i}.png")
    return root


def command(pictures: Path, home: Path, size: int, steps: int, translate_steps: int) -> list[str]:
    words = [
        "train", pictures, "--out", home / "out", "--cache", home / "cache", "--size", size, "--test-domain", "dusk",
        "--ood-class", "star", "--steps", steps, "--translate-steps", translate_steps, "--waive-gate", "--quiet",
        "--device", "cpu", "--detector", "ddu", "--tasks", 1, "--shots", 1,
    ]  # fmt: skip
    return [sys.executable, "-m", "madod", *map(str, words)]


def start(words: list[str]) -> subprocess.Popen[bytes]:
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.Popen(words, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def finish(words: list[str]) -> None:
    process = start(words)
    _, said = process.communicate()
    assert process.returncode == 0, said.decode()
    assert said == b""


def written(home: Path) -> dict[Path, int]:
    """Return every checkpoint with the moment it was written."""
    found = {}
    for file in home.rglob(CHECKPOINT):
        try:
            found[file] = file.stat().st_mtime_ns
        except FileNotFoundError:  # deleted by the run, between the two
            continue
    return found


def kill(words: list[str], home: Path, checkpoints: int, delay: float) -> Path:
    """Start a run, let it write checkpoints, wait a little, kill it, and return the last checkpoint it wrote."""
    seen, last, process = written(home), None, start(words)
    while checkpoints and process.poll() is None:
        now = written(home)
        fresh = [file for file, moment in now.items() if seen.get(file) != moment]
        if fresh:
            checkpoints, last, seen = checkpoints - 1, fresh[0], now
        time.sleep(0.002)
    time.sleep(delay)
    process.send_signal(signal.SIGKILL)
    _, said = process.communicate()
    assert process.returncode == -signal.SIGKILL, said.decode()
    assert not (home / "out" / "record.json").exists()
    assert last is not None
    return last


def same_result(one: Path, other: Path) -> None:
    for name in ("model/model.safetensors", "history.jsonl", "outputs.safetensors", "generator.png"):
        assert (one / "out" / name).read_bytes() == (other / "out" / name).read_bytes(), name
    a, b = (json.loads((home / "out/record.json").read_text()) for home in (one, other))
    for part in ("spec", "metrics", "thresholds", "translation"):
        assert a[part] == b[part]
    for pattern in ("generators/*/generator.safetensors", "generators/*/judgement.json"):
        files = [list((home / "cache").glob(pattern)) for home in (one, other)]
        assert len(files[0]) == len(files[1]) == 1
        assert files[0][0].read_bytes() == files[1][0].read_bytes()


def kinds(killed: list[Path], home: Path) -> set[str]:
    """Return which trainings the kills landed in."""
    where = [file.relative_to(home).parts for file in killed]
    return {"method" if parts[0] == "out" else parts[-2] if parts[-2] == "judge" else "generator" for parts in where}


def test_killed_three_times_it_ends_with_the_same_bits(pictures, tmp_path):
    draw = random.Random(20)
    killed, straight = tmp_path / "killed", tmp_path / "straight"
    words = command(pictures, killed, 8, 110, 60)
    # Written are G's steps 50 and 60, its judge's 50, 100 and 150, the method's 50, 100 and 110.
    landed = [kill(words, killed, checkpoints, draw.uniform(0, 0.2)) for checkpoints in (1, 2, 3)]
    assert kinds(landed, killed) == {"generator", "judge", "method"}
    finish(words)
    finish(command(pictures, straight, 8, 110, 60))
    same_result(killed, straight)
    assert written(tmp_path) == {}


@pytest.mark.long
def test_killed_ten_times_it_ends_with_the_same_bits(pictures, tmp_path):
    draw = random.Random(21)
    killed, straight = tmp_path / "killed", tmp_path / "straight"
    words = command(pictures, killed, 16, 660, 260)
    landed = [kill(words, killed, 1, draw.uniform(0, 0.6)) for _ in range(10)]
    assert kinds(landed, killed) >= {"generator", "method"}
    finish(words)
    finish(command(pictures, straight, 16, 660, 260))
    same_result(killed, straight)


class Line(nn.Module):
    """Learns one number; from a given step on its loss is not a number."""

    def __init__(self, breaks: int = 10**9, poison: bool = False) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(3))
        self.rng = torch.Generator().manual_seed(0)
        self.step = 0
        self.breaks, self.poison = breaks, poison
        self.optimizers = {"outer": torch.optim.Adam([self.weight], 0.1)}

    def batches(self, source, rng: np.random.Generator) -> Iterator[torch.Tensor]:
        while True:
            yield torch.from_numpy(rng.normal(size=3)).float()

    def update(self, batch: torch.Tensor) -> dict[str, torch.Tensor]:
        loss = (self.weight - batch - torch.randn(3, generator=self.rng)).square().sum()
        broken = self.step + 1 >= self.breaks
        if broken and not self.poison:
            loss = loss * float("nan")
        self.optimizers["outer"].zero_grad()
        loss.backward()
        self.optimizers["outer"].step()
        if broken and self.poison:
            with torch.no_grad():
                self.weight[1] = float("inf")
        return {"loss": loss.detach() if not self.poison else torch.tensor(1.0)}


def source():
    y = torch.zeros(2, dtype=torch.int64)
    return pool([Domain("one", torch.zeros(2, 3, 8, 8, dtype=torch.uint8), y, y)], ["a"], ["a"])


def fit(learner: Line, out: Path, steps: int = 100, identity: str = "line", seed: int = 0, **more):
    return train(learner, source(), np.random.default_rng(seed), Logbook(out, identity, **more), steps=steps)


def test_history_checkpoints_and_progress_keep_their_cadence(tmp_path):
    told = []
    history = fit(Line(), tmp_path, 25, progress=lambda *said: told.append(said), cadence=Cadence(10, 50), stage="line")
    assert [row["step"] for row in history] == [10, 20, 25]
    assert all(np.isfinite(row["loss"]) for row in history)
    assert told == [("line", 10, 25), ("line", 20, 25), ("line", 25, 25)]
    assert [file.name for file in tmp_path.iterdir()] == [CHECKPOINT]


def test_checkpoints_wait_for_no_log(tmp_path, monkeypatch):
    saved = []
    monkeypatch.setattr(training, "save_checkpoint", lambda logbook, learner, *rest: saved.append(learner.step))
    fit(Line(), tmp_path, 9, cadence=Cadence(log=100, checkpoint=2, share=1e9))
    assert saved == [2, 4, 6, 8, 9]


@pytest.mark.parametrize("stop", [1, 7, 50, 99])
def test_resumed_equals_straight(tmp_path, stop):
    straight, first, second = Line(), Line(), Line()
    expected = fit(straight, tmp_path / "straight")
    fit(first, tmp_path / "resumed", stop, cadence=Cadence(10, 1))
    found = fit(second, tmp_path / "resumed", seed=5)  # what the generator was is the checkpoint's to say
    assert not torch.equal(first.weight, second.weight)
    assert torch.equal(second.weight, straight.weight)
    assert [row for row in found if row["step"] % 10 == 0] == expected


def test_a_resumed_optimiser_lies_in_memory_as_its_weights_do(tmp_path):
    """Adam as one kernel, as on a GPU, refuses numbers of another layout than the weights'."""
    before, after = toy_algorithm("erm", average=0.0), toy_algorithm("erm", average=0.0)
    for learner in (before, after):
        learner.net.to(memory_format=torch.channels_last)
    train(before, toy_pool(), np.random.default_rng(0), Logbook(tmp_path, ""), steps=2)
    load_checkpoint(Logbook(tmp_path, ""), after, np.random.default_rng(0))
    assert not all(weight.is_contiguous() for weight in after.parameters())
    for weight, old in zip(after.parameters(), before.parameters(), strict=True):
        for slot in ("exp_avg", "exp_avg_sq"):
            value = after.optimizer.state[weight][slot]
            assert value.stride() == weight.stride()
            assert torch.equal(value, before.optimizer.state[old][slot])


class Counting(Line):
    """Notes with how many threads each of its steps is taken."""

    def __init__(self) -> None:
        super().__init__()
        self.threads: list[int] = []

    def update(self, batch: torch.Tensor) -> dict[str, torch.Tensor]:
        self.threads.append(torch.get_num_threads())
        return super().update(batch)


@pytest.fixture
def three_threads():
    """Checkpoints are begun with three."""
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(("cores", "threads"), [(8, 3), (3, 3), (2, 1)])
def test_a_training_goes_on_with_as_many_threads_as_it_began_with(
    tmp_path, monkeypatch, caplog, three_threads, cores, threads
):
    fit(Counting(), tmp_path, 50)
    torch.set_num_threads(1)
    monkeypatch.setattr(training, "cores", lambda: cores)
    resumed = Counting()
    fit(resumed, tmp_path, 60)
    assert resumed.threads == [threads] * 10
    warned = f"{tmp_path / CHECKPOINT} was begun with 3 threads, and 1 go on with it: the last bits will differ"
    assert caplog.messages == ([] if threads == 3 else [warned])


class Asked(Line):
    """Gets a signal in the middle of a step, as often as it is told."""

    def __init__(self, number: int, step: int, times: int = 1) -> None:
        super().__init__()
        self.number, self.last, self.times = number, step, times

    def update(self, batch: torch.Tensor) -> dict[str, torch.Tensor]:
        for _ in range(self.times if self.step + 1 == self.last else 0):
            signal.raise_signal(self.number)
        return super().update(batch)


@pytest.mark.parametrize("stop", [1, 7, 60, 100])
def test_interrupted_it_ends_its_step_and_saves_it(tmp_path, stop):
    straight, resumed = Line(), Line()
    expected = fit(straight, tmp_path / "straight")
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with pytest.raises(KeyboardInterrupt):
        fit(Asked(signal.SIGINT, stop), tmp_path / "resumed")
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before
    assert reached(tmp_path / "resumed" / CHECKPOINT) == stop
    assert fit(resumed, tmp_path / "resumed", seed=5) == expected
    assert torch.equal(resumed.weight, straight.weight)


def test_interrupted_twice_it_ends_at_once(tmp_path):
    learner = Asked(signal.SIGINT, 7, times=2)
    with pytest.raises(KeyboardInterrupt):
        fit(learner, tmp_path)
    assert learner.step == 6
    assert not list(tmp_path.iterdir())


def test_signals_that_somebody_else_answers_are_theirs(tmp_path):
    heard = []
    before = signal.signal(signal.SIGINT, lambda number, frame: heard.append(number))
    try:
        fit(Asked(signal.SIGINT, 7), tmp_path / "answered")
    finally:
        signal.signal(signal.SIGINT, before)
    assert heard == [signal.SIGINT]
    with ThreadPoolExecutor(1) as other:  # where no signal comes
        assert other.submit(fit, Line(), tmp_path / "thread").result()


def test_terminated_it_saves_its_step_and_ends_as_one_that_was(tmp_path):
    code = (
        "import sys; from pathlib import Path; from tests.test_training import *; fit(Asked(15, 7), Path(sys.argv[1]))"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], cwd=Path(__file__).parents[1], check=False)
    assert done.returncode == -signal.SIGTERM
    assert reached(tmp_path / CHECKPOINT) == 7


def aged(file: Path, **seconds: float) -> None:
    """Let a checkpoint say that so much time was spent; without any, let it be one of before that was noted."""
    tensors, texts = read_tensors(file)
    kept = {name: text for name, text in texts.items() if name not in ("seconds", SEAL)}
    write_tensors(file, tensors, kept | ({"seconds": json.dumps(seconds)} if seconds else {}))


@pytest.mark.parametrize(("seconds", "least"), [({"training": 500.0, "data": 7.0}, 500), ({}, 0)], ids=["told", "old"])
def test_time_before_a_kill_counts_and_changes_nothing_else(tmp_path, seconds, least):
    straight, resumed = Line(), Line()
    fit(straight, tmp_path / "straight")
    fit(Line(), tmp_path / "resumed", 50)
    aged(tmp_path / "resumed" / CHECKPOINT, **seconds)
    fit(resumed, tmp_path / "resumed", before={"data": 9.0})
    found = spent(tmp_path / "resumed" / CHECKPOINT)
    assert found.keys() == {"data", "training"}
    assert found["data"] == 9
    assert least < found["training"] < least + 60
    assert torch.equal(resumed.weight, straight.weight)


def test_no_checkpoint_and_a_broken_one_tell_no_time(tmp_path):
    assert (spent(tmp_path / CHECKPOINT), reached(tmp_path / CHECKPOINT)) == ({}, 0)
    (tmp_path / CHECKPOINT).write_bytes(b"no checkpoint")
    assert (spent(tmp_path / CHECKPOINT), reached(tmp_path / CHECKPOINT)) == ({}, 0)


def test_a_run_that_goes_on_says_from_where(pictures, tmp_path, capsys, monkeypatch):
    words = ["train", str(pictures), "--out", str(tmp_path / "out"), "--cache", str(tmp_path), "--size", "8",
             "--algorithm", "erm", "--steps", "60", "--check", "none"]  # fmt: skip
    monkeypatch.setattr("madod.benchmark.run.evaluate", lambda *what: sys.exit(7))  # as if it was killed there
    with pytest.raises(SystemExit):
        main(words)
    assert reached(tmp_path / "out" / CHECKPOINT) == 60
    assert "going on" not in capsys.readouterr().err
    monkeypatch.undo()
    assert main(words) == 0
    assert "going on from step 60 of 60\n" in capsys.readouterr().err


def test_a_run_that_goes_on_after_its_check_foresees_no_check(pictures, tmp_path, capsys, monkeypatch):
    words = ["train", str(pictures), "--out", str(tmp_path / "out"), "--cache", str(tmp_path), "--size", "8",
             "--algorithm", "erm", "--steps", "4"]  # fmt: skip

    def interrupted(folds, spec):
        """End between the check and the training."""
        raise KeyboardInterrupt

    monkeypatch.setattr("madod.fitting.fit.best_detector", interrupted)
    for told in (True, False):
        assert main(words) == 130
        (said,) = (line for line in capsys.readouterr().err.splitlines() if line.startswith("this will take"))
        assert ("for the check" in said) == told


@pytest.mark.parametrize(("path", "word"), [("-o", "./-o"), ("--help me", "'./--help me'"), ("a-b/-c", "a-b/-c")])
def test_a_folder_that_starts_with_a_dash_is_typed_so_that_it_is_no_option(path, word):
    assert typed(Path(path)) == word


@pytest.mark.parametrize(
    "name", ["two\nlines", "it's\\n\tone", "\x1bfa", "caf\udce9\n9", "-a\u202eb", "wide\u3000blank"]
)
def test_a_folder_with_what_cannot_be_seen_in_its_name_is_typed_so_that_a_shell_finds_it(name):
    word = typed(Path(name))
    assert escaped(word) == word
    said = subprocess.run(["bash", "-c", f"printf %s {word}"], capture_output=True, check=True).stdout
    assert os.fsdecode(said).removeprefix("./") == name


def test_what_is_said_to_be_typed_next_can_be_typed_where_a_folder_has_blanks(pictures, tmp_path, capsys):
    out = tmp_path / "my model"
    words = ["train", str(pictures), "--out", str(out), "--cache", str(tmp_path), "--size", "8", "--algorithm", "erm",
             "--steps", "1", "--check", "none", "--quiet"]  # fmt: skip
    assert main(words) == 0
    assert capsys.readouterr().out.endswith(f"model: {out}; try: madod predict '{out}' PICTURES\n")
    assert main([*words, "--detector", "knn"]) == 2
    assert f"madod rescore '{out}' knn --ship changes it" in capsys.readouterr().err


def test_what_an_interrupted_check_left_is_in_the_way_of_no_other(pictures, tmp_path, capsys, caplog, monkeypatch):
    words = ["train", str(pictures), "--out", str(tmp_path / "out"), "--cache", str(tmp_path), "--size", "8",
             "--algorithm", "erm", "--quiet"]  # fmt: skip
    monkeypatch.setattr("madod.benchmark.run.evaluate", lambda *what: sys.exit(7))  # as if it was killed there
    with pytest.raises(SystemExit):
        main([*words, "--steps", "8"])
    assert list((tmp_path / "out" / "check").glob(f"*/{CHECKPOINT}"))
    monkeypatch.undo()
    assert main([*words, "--steps", "4"]) == 0
    assert capsys.readouterr().out.count("check without ") == 3
    assert not caplog.messages
    assert not (tmp_path / "out" / "check").exists()


def test_the_record_of_a_killed_run_tells_the_time_of_all_its_legs(pictures, tmp_path):
    few = hparams("madod", {"tasks": 1, "shots": 1})
    spec = RunSpec("pictures", "dusk", ("star",), "madod", steps=51, translate="augment", hparams=few)
    dataset = open_dataset(str(pictures), Opening(size=8, cache=tmp_path), silent)

    def carried(out: Path, progress: Progress = silent) -> RunRecord:
        resources = Resources(tmp_path / "cache", torch.device("cpu"), progress=progress)
        return run(spec, dataset, out=out, resources=resources).record

    def killed(stage: str, done: int, total: int) -> None:
        if done == 51:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        carried(tmp_path / "killed", killed)
    first = spent(tmp_path / "killed" / CHECKPOINT)
    assert first.keys() == {"data", "generator", "training"}
    assert first["training"] > 0
    aged(tmp_path / "killed" / CHECKPOINT, **{stage: 1000.0 * k for k, stage in enumerate(first, 1)})
    found, straight = carried(tmp_path / "killed"), carried(tmp_path / "straight")
    assert found.metrics == straight.metrics
    for k, stage in enumerate(first, 1):
        assert 1000 * k <= found.seconds[stage] < 1000 * k + 60
    assert found.seconds["evaluation"] < 60


@pytest.mark.parametrize("poison", [False, True])
def test_what_is_no_number_stops_training_with_a_sentence(tmp_path, poison):
    learner = Line(breaks=73, poison=poison)
    with pytest.raises(InputError) as refusal:
        fit(learner, tmp_path, stage="madod")
    assert str(refusal.value).startswith(f"madod broke down by step {100 if poison else 73}: ")
    assert ("weight" if poison else "loss") + " is not a finite number; lower the learning " in str(refusal.value)
    assert str(refusal.value).endswith(" in a fresh folder")
    assert "\n" not in str(refusal.value)
    tensors, texts = read_tensors(tmp_path / CHECKPOINT)
    assert json.loads(texts["facts"])["step"] == 50
    assert all(value.isfinite().all() for value in tensors.values())


def test_a_run_that_breaks_down_before_its_first_checkpoint_leaves_none(tmp_path):
    with pytest.raises(InputError, match="broke down by step 3: loss"):
        fit(Line(breaks=3), tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("first", "name", "said"),
    [
        (1, "loss", "no step came before, so look at the settings and at how loss is computed$"),
        (1, "gap", "the loss is one there, so look at how gap is computed, or else lower the learning rate"),
        (4, "gap", "the loss is one there, so look at how gap is computed, or else lower the learning rate"),
        (4, "loss", "lower the learning rate"),
    ],
)
def test_what_to_do_about_a_number_that_is_none_goes_by_which_it_is_and_since_when(tmp_path, first, name, said):
    class Odd(Line):
        def update(self, batch):
            terms = super().update(batch) | {"gap": torch.tensor(0.0)}
            return terms | ({name: torch.tensor(torch.nan)} if self.step + 1 >= first else {})

    with pytest.raises(InputError, match=rf"broke down by step {first}: {name} is not a finite number; {said}"):
        fit(Odd(), tmp_path, 6)


def test_a_term_that_is_no_number_in_steps_that_are_not_logged_does_no_harm(tmp_path):
    class Seldom(Line):
        def update(self, batch):
            return super().update(batch) | {"gap": torch.tensor(0.0 if self.step % 10 == 9 else torch.nan)}

    assert [row["step"] for row in fit(Seldom(), tmp_path, 20)] == [10, 20]


def test_a_checkpoint_of_another_run_is_refused(tmp_path):
    fit(Line(), tmp_path, 10)
    kept = (tmp_path / CHECKPOINT).read_bytes()
    with pytest.raises(InputError, match=r"a run with other settings or pictures: .* choose another") as refusal:
        fit(Line(), tmp_path, 10, identity="another")
    assert str(tmp_path / CHECKPOINT) in str(refusal.value)
    assert (tmp_path / CHECKPOINT).read_bytes() == kept


def test_a_checkpoint_of_the_same_settings_is_of_other_pictures(tmp_path):
    fit(Line(), tmp_path, 10, settings="lr 1")
    with pytest.raises(InputError, match="a run with other pictures: "):
        fit(Line(), tmp_path, 10, identity="another", settings="lr 1")
    with pytest.raises(InputError, match="a run with other settings or pictures: "):
        fit(Line(), tmp_path, 10, identity="another", settings="lr 2")


def test_what_sets_a_checkpoints_run_apart_is_named_before_anything_is_decoded(pictures, tmp_path, capsys, monkeypatch):
    words = ["train", str(pictures), "--out", str(tmp_path / "out"), "--size", "8", "--algorithm", "erm",
             "--check", "none", "--quiet"]  # fmt: skip
    monkeypatch.setattr("madod.benchmark.run.evaluate", lambda *what: sys.exit(7))  # as if it was killed there
    with pytest.raises(SystemExit):
        main([*words, "--cache", str(tmp_path / "cache"), "--steps", "2"])
    kept = (tmp_path / "out" / CHECKPOINT).read_bytes()
    assert main([*words, "--cache", str(tmp_path / "other"), "--steps", "3", "--lr", "0.5"]) == 2
    assert capsys.readouterr().err == (
        f"madod: {tmp_path / 'out' / CHECKPOINT} belongs to a run with other settings (steps 2 there, 3 here; lr 0.001 "
        "there, 0.5 here): delete its folder, or choose another\n"
    )
    assert not (tmp_path / "other").exists()
    assert (tmp_path / "out" / CHECKPOINT).read_bytes() == kept


def test_another_run_in_the_same_out_is_refused_through_the_command_line(tmp_path, capsys):
    save_checkpoint(Logbook(tmp_path, "another run"), Line(), np.random.default_rng(0), [], 0.0)
    code = main(["train", "digits", "--out", str(tmp_path), "--algorithm", "erm", "--steps", "2", "--quiet"])
    said = capsys.readouterr().err
    assert code == 2
    assert said.count("\n") == 1
    assert "belongs to a run with other settings" in said


def truncated(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-9])


def header_only(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:40])


def empty(file: Path) -> None:
    file.write_bytes(b"")


def text(file: Path) -> None:
    file.write_text("not a checkpoint, but long enough to look like one for a moment")


def other_tensors(file: Path) -> None:
    write_tensors(file, {"x": torch.zeros(2)}, {})


def other_facts(file: Path) -> None:
    write_tensors(file, read_tensors(file)[0], {"facts": "{", "history": "[]"})


def another_number(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[-1] ^= 1  # the last tensor's
    file.write_bytes(content)


def another_step(file: Path) -> None:
    file.write_bytes(file.read_bytes().replace(rb"\"step\": 10,", rb"\"step\": 90,"))


def resaved(file: Path, tensors: dict[str, torch.Tensor] | None = None, **texts: str) -> None:
    """Write a checkpoint with something other in it, and without a checksum: as old ones are."""
    held, said = read_tensors(file)
    write_tensors(file, tensors or held, {name: text for name, text in (said | texts).items() if name != SEAL})


def renamed(file: Path, name: str, other: str) -> None:
    tensors = read_tensors(file)[0]
    resaved(file, {other if key == name else key: value for key, value in tensors.items()})


def facts_with(file: Path, **other: object) -> None:
    resaved(file, facts=json.dumps(json.loads(read_tensors(file)[1]["facts"]) | other))


DAMAGES = {
    "truncated": truncated,
    "header only": header_only,
    "empty": empty,
    "text": text,
    "other tensors": other_tensors,
    "other facts": other_facts,
    "another number": another_number,
    "another step": another_step,
    "a list for facts": lambda file: resaved(file, facts="[]"),
    "nested facts": lambda file: resaved(file, facts="[" * 100_000),
    "no identity": lambda file: resaved(file, facts="{}"),
    "no generator": lambda file: facts_with(file, rng={}),
    "no groups": lambda file: facts_with(file, groups={}),
    "history": lambda file: resaved(file, history="{"),
    "seconds": lambda file: resaved(file, seconds="{"),
    "seconds as text": lambda file: resaved(file, seconds='{"training": "x"}'),
    "a weight's name": lambda file: renamed(file, "weights.weight", "weights.wait"),
    "a slot's name": lambda file: renamed(file, "optimizer.outer.0.exp_avg", "optimizer.outer.bad"),
    "the other generator's name": lambda file: renamed(file, "rng", "rngx"),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_corrupt_checkpoint_is_refused_with_a_sentence(tmp_path, damage):
    fit(Line(), tmp_path, 10)
    damage(tmp_path / CHECKPOINT)
    with pytest.raises(InputError) as refusal:
        fit(Line(), tmp_path, 20)
    assert str(refusal.value).startswith(f"{tmp_path / CHECKPOINT} is not a whole ")
    assert "\n" not in str(refusal.value)
    assert str(refusal.value).endswith("delete it, and the same command begins from the start")
    (tmp_path / CHECKPOINT).unlink()
    assert len(fit(Line(), tmp_path, 10)) == 1


def test_a_checkpoint_of_before_there_were_checksums_is_taken(tmp_path):
    straight, resumed = Line(), Line()
    fit(straight, tmp_path / "straight")
    fit(Line(), tmp_path / "resumed", 50)
    resaved(tmp_path / "resumed" / CHECKPOINT)
    fit(resumed, tmp_path / "resumed")
    assert torch.equal(resumed.weight, straight.weight)


@pytest.mark.parametrize("settings", ["{x", "[]", '{"a": 1}', "[" * 100_000])
def test_a_run_s_checkpoint_with_odd_settings_is_refused_with_a_sentence(tmp_path, capsys, settings):
    save_checkpoint(Logbook(tmp_path, "a", settings=settings), Line(), np.random.default_rng(0), [], 0.0)
    assert main(["train", "digits", "--out", str(tmp_path), "--algorithm", "erm", "--steps", "2", "--quiet"]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"madod: {tmp_path / CHECKPOINT} is not a whole checkpoint (")
    assert said.endswith("): delete it, and the same command begins from the start\n")
    assert said.count("\n") == 1


@pytest.mark.parametrize("call", ["write_bytes", "write_text", "replace"])
def test_a_full_disk_is_said_in_a_sentence_and_leaves_no_part(tmp_path, monkeypatch, call):
    fit(Line(), tmp_path, 50)
    kept = (tmp_path / CHECKPOINT).read_bytes()
    true = getattr(Path, call)

    def full(path: Path, *rest, **more):
        if call != "replace":
            true(path, rest[0][: len(rest[0]) // 2], **more)  # as far as it went
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    monkeypatch.setattr(Path, call, full)
    action = (
        (lambda: write_json(tmp_path / "record.json", {})) if call == "write_text" else lambda: fit(Line(), tmp_path)
    )
    with pytest.raises(InputError, match=r"^the disk is full: .* free some space") as refusal:
        action()
    monkeypatch.undo()
    assert "\n" not in str(refusal.value)
    assert [file.name for file in tmp_path.iterdir()] == [CHECKPOINT]
    assert (tmp_path / CHECKPOINT).read_bytes() == kept  # the one before is whole, and the run goes on from it
    assert len(fit(Line(), tmp_path)) == 10


def test_a_learner_that_goes_on_keeps_its_optimisers_tensors_where_they_are(tmp_path):
    method, source, rng = toy_algorithm("erm"), toy_pool(), np.random.default_rng(0)
    train(method, source, rng, Logbook(tmp_path, "a"), steps=5)
    held = [value.data_ptr() for slots in method.optimizer.state.values() for value in slots.values()]
    train(method, source, rng, Logbook(tmp_path, "a"), steps=STEPS)
    assert [value.data_ptr() for slots in method.optimizer.state.values() for value in slots.values()] == held
    whole = toy_algorithm("erm")
    train(whole, source, np.random.default_rng(0), Logbook(tmp_path / "whole", "a"), steps=STEPS)
    assert all(torch.equal(a, b) for a, b in zip(method.parameters(), whole.parameters(), strict=True))


def test_a_checkpoint_of_another_kind_of_device_is_refused_in_a_sentence(tmp_path):
    fit(Line(), tmp_path, 10)
    on_a_gpu = {"rng": torch.zeros(16, dtype=torch.uint8)}  # its seed, and how far it is
    resaved(tmp_path / CHECKPOINT, read_tensors(tmp_path / CHECKPOINT)[0] | on_a_gpu)
    fresh = Line()
    with pytest.raises(InputError, match=r"was not begun on the cpu.*: name that, or delete it, and the same command"):
        load_checkpoint(Logbook(tmp_path, "line"), fresh, np.random.default_rng(0))
    assert torch.equal(fresh.weight, Line().weight)


def test_what_an_optimiser_does_for_its_device_is_not_taken_from_a_checkpoint(tmp_path):
    method = toy_algorithm("erm")
    train(method, toy_pool(), np.random.default_rng(0), Logbook(tmp_path, "a"), steps=2)
    other = toy_algorithm("erm")
    other.optimizer.param_groups[0] |= {"foreach": True, "betas": (0.1, 0.2)}
    train(other, toy_pool(), np.random.default_rng(0), Logbook(tmp_path, "a"), steps=3)
    group = other.optimizer.param_groups[0]
    assert group["foreach"] is True
    assert tuple(group["betas"]) == (0.9, 0.999)
