"""The command line itself: help, lists, wrong words, and being interrupted."""

import contextlib
import dataclasses
import errno
import gc
import importlib
import inspect
import json
import os
import subprocess
import sys
from unittest.mock import Mock

import pytest
import torch
import tyro

from madod.algorithms.base import ALGORITHMS, Algorithm, BaseConfig
from madod.cli.list import table
from madod.cli.main import VERBS, leave, main
from madod.cli.progress import lines, shown
from madod.cli.train import arguments_of
from madod.registry import PACKAGES, Registry
from tests.predict.toy import files, toy_model


def run(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "madod", *words], env=os.environ | environment, capture_output=True, text=True,
        encoding="utf-8", check=False,
    )  # fmt: skip


@pytest.mark.parametrize("words", [[], ["--help"], ["-h"], ["help"]])
def test_help_names_every_verb(words, capsys):
    assert main(words) == 0
    said = capsys.readouterr()
    assert said.err == ""
    for verb, what in VERBS.items():
        assert any(line.split()[:1] == [verb] and what in line for line in said.out.splitlines())


def test_version(capsys):
    from madod import __version__

    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"madod {__version__}\n"


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_explains_itself_and_all_of_its_arguments(verb, capsys):
    with pytest.raises(SystemExit) as stop:
        main([verb, "--help"])
    assert stop.value.code in (0, None)
    said = capsys.readouterr()
    assert said.err == ""
    assert f"madod {verb}" in said.out
    module = importlib.import_module(f"madod.cli.{verb}")
    form = next(getattr(module, name) for name in vars(module) if name.lower() == verb)
    positional = tyro.conf.Positional
    for field in dataclasses.fields(form):
        if positional not in getattr(field.type, "__metadata__", ()):
            assert f"--{field.name.replace('_', '-')}" in said.out, field.name


def test_train_shows_the_fields_of_the_algorithm_that_is_named(capsys):
    shown = {}
    for algorithm in ("madod", "irm"):
        with pytest.raises(SystemExit):
            main(["train", "--algorithm", algorithm, "--help"])
        shown[algorithm] = capsys.readouterr().out
    assert "--pseudo-units" in shown["madod"]
    assert "--pseudo-units" not in shown["irm"]
    assert "--anneal" in shown["irm"]


@pytest.mark.parametrize("name", ["steps", "out"])
def test_a_hyper_parameter_called_as_a_flag_of_every_training_is_refused(name, monkeypatch, capsys):
    config = dataclasses.make_dataclass("Config", [(name, int, 3)], bases=(BaseConfig,), frozen=True)
    monkeypatch.setitem(ALGORITHMS._classes, "erm", type("Mine", (Algorithm,), {"Config": config}))
    assert main(["train", "x", "--out", "y", "--algorithm", "erm"]) == 2
    assert f"erm has a hyper-parameter '{name}', which madod train takes for something else" in capsys.readouterr().err


def test_flags_that_a_method_has_no_use_for_are_not_offered(capsys):
    shown = {}
    for algorithm in ("madod", "erm"):
        with pytest.raises(SystemExit):
            main(["train", "--algorithm", algorithm, "--help"])
        shown[algorithm] = capsys.readouterr().out
    assert "--batch" in shown["erm"]
    assert "--batch" not in shown["madod"]
    assert main(["train", "digits", "--out", "nowhere", "--batch", "3"]) == 2
    assert "--batch" in capsys.readouterr().err


@pytest.mark.parametrize("kind", PACKAGES)
def test_lists_are_sorted_and_say_something_of_everything(kind, capsys):
    assert main(["list", f"{kind}s", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert list(rows) == sorted(rows)
    assert rows.keys() == set(Registry(kind))
    assert len(rows) >= 2
    assert all(len(summary.split()) > 2 for summary in rows.values())
    assert main(["list", f"{kind}s"]) == 0
    table = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in table] == list(rows)
    for line, summary in zip(table, rows.values(), strict=True):
        assert line.endswith(summary)


def test_a_list_of_nothing_in_particular_has_every_kind(capsys):
    assert main(["list", "--json"]) == 0
    every = json.loads(capsys.readouterr().out)
    assert every.keys() == {f"{kind}s" for kind in PACKAGES}
    assert main(["list"]) == 0
    table = capsys.readouterr().out
    for kind, rows in every.items():
        assert rows.keys() == set(Registry(kind.removesuffix("s")))
        assert f"{kind}\n  {min(rows)} " in table


def test_descriptions_in_a_list_stay_in_line_behind_names_with_wide_letters():
    first, second = table({"erm": "plain", "我的": "mine"}).splitlines()
    assert first.index("plain") == second.index("mine") + len("我的")


def test_lists_hold_what_the_readme_promises(capsys):
    promised = {"algorithms": {"madod", "erm"}, "detectors": {"msp", "energy", "ddu"}, "datasets": {"digits", "folder"}}
    for kind, names in promised.items():
        main(["list", kind, "--json"])
        assert names <= json.loads(capsys.readouterr().out).keys()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["trian"], "there is no verb 'trian' (did you mean 'train'?)"),
        (["train", "digits", "--out", "x", "--ood-class"], "--ood-class is without a value; madod train --help"),
        (["train", "digits", "--ood-class", "--out", "x"], "--ood-class is without a value; madod train --help"),
        (["train", "digits", "--ood_class", "--out", "x"], "--ood_class is without a value; madod train --help"),
        (["rescore", "--detectors", "--ship"], "there is no option --detectors; madod rescore --help"),
        (["report"], "missing: RUNS Folder of finished runs, of any depth; and --out DIR Folder for the report;"),
        (["bench"], "say what to do with the plan: madod bench run, status, select or table;"),
        (["xyzzy"], "there is no verb 'xyzzy'; there are: demo, "),
        (["list", "algorithm"], "kind cannot be 'algorithm': it takes algorithms, all, datasets or detectors;"),
        (["predict"], "missing: MODEL"),
        (["train", "x"], "missing: --out DIR Folder for the model, its record, its history and report.html;"),
        (["demo", "--sed", "3"], "there is no option --sed (did you mean --seed?);"),
        (["report", "x", "--out", "y", "--xyzzy"], "there is no option --xyzzy;"),
        (["train", "x", "--out", "y", "--steps", "abc"], "--steps cannot be 'abc': it takes a whole number;"),
        (["serve", "x", "--port", "abc"], "--port cannot be 'abc': it takes a whole number;"),
        (["train", "x", "--out", "y", "--lr", "abc"], "--lr cannot be 'abc': it takes a number;"),
        (["train", "x", "--out", "y", "--outer", "foo"], "--outer cannot be 'foo': it takes adam or sgd;"),
        (["train", "x", "--out", "y", "--check", "long"], "--check cannot be 'long': it takes full, none or short;"),
        (["train", "digts", "--out", "y"], "no dataset of that name (did you mean 'digits'?); there are: "),
        (
            ["train", "x", "--out", "y", "--algorithm", "erm", "--tasks", "2"],
            "--tasks is an option of madod, not of erm",
        ),
        (
            ["predict", "x", __file__, "--gallery", "c.png"],
            "c.png is no name for a page: let it end in .html, as in c.html",
        ),
        (["train", "x", "--out", "y", "--step", "2"], "there is no option --step (did you mean --steps?);"),
        (["train", "x", "--out", "y", "--step=2"], "there is no option --step=2 (did you mean --steps?);"),
        (
            ["report", "x", "--outt", "y"],
            "missing: --out DIR Folder for the report; there is no option --outt (did you ",
        ),
        (
            ["report", "x", "--colour", "y"],
            "missing: --out DIR Folder for the report; there is no option --colour; madod",
        ),
        (["report", "--outt", "y", "x"], "madod: there is no option --outt (did you mean --out?); madod report --help"),
        (["train", "--algorithm", "erm", "--lrr", "3", "x"], "madod: there is no option --lrr (did you mean --lr?);"),
        (["report", "x", "--out"], "--out is without a value;"),
        (["report", "x", "y", "--out", "z"], "y is a word too many;"),
        (
            ["train", "x", "--out", "y", "--test-domain", "-d"],
            "says what there is; a value that starts with a dash is given as --test-domain=-d\n",
        ),
        (
            ["train", "x", "--out", "y", "--ood-class", "-c"],
            "says what there is; a value that starts with a dash is given as --ood-class=-c\n",
        ),
        (
            ["train", "x", "--out", "y", "--quiet", "-c"],
            "there is no option -c; madod train --help says what there is\n",
        ),
        (
            ["train", "x", "--out", "y", "--seed", "--c"],
            "--seed is without a value; madod train --help says what there is\n",
        ),
        (["train", "x", "--out", "y", "--taks", "2"], "there is no option --taks (did you mean --tasks?);"),
    ],
)
def test_wrong_words_get_one_sentence_and_code_2(words, said, capsys):
    assert main(words) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("madod: ")
    assert err.count("\n") == 1
    assert said in err


def test_wrong_words_get_a_sentence_where_boxes_cannot_be_drawn():
    for encoding in ("ascii", "utf-8"):
        said = run("list", "algorithm", PYTHONIOENCODING=encoding)
        assert said.returncode == 2
        assert said.stderr.startswith("madod: kind cannot be 'algorithm': it takes algorithms, ")
        assert said.stderr.count("\n") == 1


@pytest.mark.parametrize("words", [["--help"], ["list"], ["list", "detectors", "--json"], ["nonsense"]])
def test_quick_answers_import_nothing_heavy(words):
    script = (
        "import sys; from madod.cli.main import main; main(sys.argv[1:]); "
        "print(sorted({'torch', 'numpy', 'PIL', 'sklearn', 'pandas', 'matplotlib'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script, *words], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def replaced(monkeypatch, error: BaseException, verb: str = "list") -> None:
    """Make a verb fail in this way."""

    monkeypatch.setattr(importlib.import_module(f"madod.cli.{verb}"), "main", Mock(side_effect=error))


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (OSError(28, "No space left on device", "a/b"), 2, "the disk is full at a/b"),
        (OSError(errno.EDQUOT, "Disk quota exceeded", "a/b"), 2, "the disk is full at a/b"),
        (PermissionError(13, "Permission denied", "a/b"), 2, "the system refused at a/b: permission denied; make it"),
        (
            OSError(errno.EROFS, "Read-only file system", "a/b"),
            2,
            "at a/b: read-only file system; choose a place on a disk",
        ),
        (
            OSError(errno.EFBIG, "File too large"),
            2,
            "the system refused: file too large; allow larger files (ulimit -f)",
        ),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), 2, "there is not enough memory for this"),
        (OSError(errno.EIO, "Input/output error", "a/b"), 2, "the system refused at a/b: input/output error"),
        (MemoryError(), 2, "not enough memory"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to"), 2, "not enough memory"),
    ],
)
def test_what_the_system_does_is_said_in_a_sentence(monkeypatch, capsys, error, code, said):
    replaced(monkeypatch, error)
    assert main(["list", "algorithms"]) == code
    err = capsys.readouterr().err
    assert said in err
    assert err.strip().count("\n") == 0
    assert "where it was" not in err
    assert "--batch" not in err


def test_only_a_training_is_told_that_it_goes_on_or_may_be_smaller(monkeypatch, capsys):
    for error, said in (
        (OSError(28, "No space left on device"), "; it goes on where it was"),
        (MemoryError(), "(madod's --tasks and --shots, --batch of the others)"),
    ):
        replaced(monkeypatch, error, "train")
        assert main(["train"]) == 2
        assert said in capsys.readouterr().err


@pytest.mark.parametrize("verb", VERBS)
def test_what_was_interrupted_says_what_is_left_of_it(monkeypatch, capsys, verb):
    replaced(monkeypatch, KeyboardInterrupt(), verb)
    assert main([verb]) == 130
    resumed = "; a training goes on from its last checkpoint with the same command"
    left = {"predict": "; what is printed so far stands"} | dict.fromkeys(("train", "demo"), resumed)
    assert capsys.readouterr().err == f"\nmadod: stopped{left.get(verb, '')}\n"


@pytest.mark.parametrize("error", [KeyError("a bug"), RuntimeError("written-to tensor: a single memory location.")])
def test_a_bug_is_not_dressed_up_as_the_users_mistake(monkeypatch, error):
    replaced(monkeypatch, error)
    with pytest.raises(type(error)):
        main(["list", "algorithms"])


@pytest.mark.parametrize(("error", "said"), [(TypeError("no\nmore"), "TypeError: no"), (ValueError(), "ValueError")])
def test_a_bug_in_an_authors_file_is_said_with_its_line(monkeypatch, capsys, error, said):
    def mine(arguments: object) -> int:
        torch.utils._pytree.tree_map(raising, [1])  # through files that are installed
        return 0

    def raising(given: object) -> None:
        raise error

    monkeypatch.setattr(importlib.import_module("madod.cli.list"), "main", mine)
    assert main(["list", "algorithms"]) == 2
    line = inspect.getsourcelines(raising)[1] + 1
    assert capsys.readouterr().err == f"madod: {__file__}, line {line} (in raising): {said}\n"


@pytest.mark.parametrize("words", [["--help"], ["list", "algorithms"]])
def test_a_reader_who_leaves_is_no_error(words):
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as gone:
        done = subprocess.run(
            [sys.executable, "-m", "madod", *words],
            stdout=gone,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (done.returncode, done.stderr) == (0, "")


def left(*words: object, stdout: bool = False, stderr: bool = False) -> subprocess.CompletedProcess[str]:
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as gone:
        return subprocess.run(
            [sys.executable, "-m", "madod", *map(str, words)], text=True, check=False,
            stdout=gone if stdout else subprocess.PIPE, stderr=gone if stderr else subprocess.PIPE,
        )  # fmt: skip


@pytest.mark.parametrize("words", [["--quiet"], []])
def test_a_page_is_made_also_where_the_reader_of_the_answers_leaves(words, tmp_path):
    toy_model().save(tmp_path / "model")
    files(tmp_path / "photos", 200)
    done = left(
        "predict", tmp_path / "model", tmp_path / "photos", "--gallery", tmp_path / "page.html", *words, stdout=True
    )
    assert done.returncode == 0
    assert "199.png" in (tmp_path / "page.html").read_text()
    assert "Traceback" not in done.stderr


def test_a_training_goes_on_where_the_reader_of_its_progress_leaves(tmp_path, monkeypatch):
    monkeypatch.setenv("MADOD_CACHE", str(tmp_path / "cache"))
    for domain in ("day", "night"):
        for label in ("cat", "dog"):
            files(tmp_path / "data" / domain / label, 6)
    words = ["train", tmp_path / "data", "--out", tmp_path / "out", "--algorithm", "erm", "--steps", "2"]
    done = left(*words, "--check", "none", stderr=True)
    assert done.returncode == 0
    assert f"model: {tmp_path / 'out'}" in done.stdout
    assert (tmp_path / "out" / "report.html").exists()


def closing(streams: str, *words: object, **environment: str) -> subprocess.CompletedProcess[str]:
    shell = ["sh", "-c", f'exec "$0" "$@" {streams}', sys.executable, "-m", "madod", *map(str, words)]
    return subprocess.run(shell, env=os.environ | environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("streams", "words", "code", "out", "err"),
    [
        (">&-", ["list", "algorithms"], 0, "", ""),
        (">&-", ["list", "nonsense"], 2, "", "madod: kind cannot be 'nonsense'"),
        ("2>&-", ["list", "algorithms"], 0, "madod ", ""),
        ("2>&-", ["list", "nonsense"], 2, "", ""),
        ("<&- >&- 2>&-", ["--version"], 0, "", ""),
    ],
)
def test_a_closed_stream_is_no_error(streams, words, code, out, err):
    done = closing(streams, *words)
    assert done.returncode == code
    assert out in done.stdout
    assert err in done.stderr
    assert "Traceback" not in done.stderr


def test_it_trains_and_predicts_without_streams(tmp_path):
    for domain in ("day", "night"):
        for label in ("cat", "dog"):
            files(tmp_path / "data" / domain / label, 6)
    words = ["train", tmp_path / "data", "--out", tmp_path / "out", "--algorithm", "erm", "--steps", "2"]
    done = closing("2>&-", *words, "--check", "none", MADOD_CACHE=str(tmp_path / "cache"), OMP_NUM_THREADS="1")
    assert done.returncode == 0
    assert f"model: {tmp_path / 'out'}" in done.stdout
    done = closing("<&-", "predict", tmp_path / "out", "-")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "madod: standard input lists no pictures: give it their names, one a line\n"
    done = closing(">&-", "predict", tmp_path / "out", tmp_path / "data", "--quiet")
    assert (done.returncode, done.stderr) == (0, "")


def test_progress_is_lines_where_nobody_watches_and_nothing_when_quiet(capsys, monkeypatch):
    with shown(quiet=True) as report:
        report("a", 1, 1)
    assert capsys.readouterr().err == ""
    with shown(quiet=False) as report:
        for done in range(4):
            report("b", done, 3)
    assert capsys.readouterr().err == "b: 3 of 3\n"
    monkeypatch.setattr("madod.cli.progress.EVERY", 0.0)
    report = lines()
    report("c", 1, 3)
    assert capsys.readouterr().err == "c: 1 of 3\n"


def test_progress_is_bars_on_a_terminal(capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("FORCE_COLOR", "1")
    with shown(quiet=False) as report:
        report("stage", 2, 3)
        report("stage", 3, 3)
    said = capsys.readouterr().err
    assert "stage" in said
    assert "3/3" in said


@pytest.mark.parametrize(
    "words", [("--lr", "-1"), ("--lr", "nan"), ("--tasks", "0"), ("--shots", "0"), ("--views", "0"),
              ("--weight-decay", "-1"), ("--invariance", "-0.1"), ("--inner-lr", "0.0"), ("--temperature", "0.0"),
              ("--inner-steps", "0"), ("--margin-in", "inf"), ("--average", "1.5")],
)  # fmt: skip
def test_numbers_that_no_training_can_start_with_are_refused(words, tmp_path, capsys):
    assert main(["train", "digits", "--out", str(tmp_path / "out"), *words]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"madod: {words[0][2:].replace('-', '_')} cannot be {words[1]}")
    assert "Traceback" not in error
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("verb", ["train", "data", "predict", "bench run", "bench table", "report", "cache"])
def test_help_shows_no_default_where_a_rule_chooses(verb, capsys):
    with pytest.raises(SystemExit):
        main([*verb.split(), "--help"])
    said = capsys.readouterr().out
    assert "None" not in said
    assert "(default: )" not in said


def test_help_is_given_behind_an_option_without_a_value(capsys):
    with pytest.raises(SystemExit):
        main(["train", "digits", "--ood-class", "--help"])
    assert "usage: madod train" in capsys.readouterr().out


@pytest.mark.parametrize("width", ["60", "80", "110"])
def test_help_wraps_at_the_terminals_edge_and_nowhere_else(width, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", width)
    with pytest.raises(SystemExit):
        main(["train", "--help"])
    lines = [line.strip("│ ") for line in capsys.readouterr().out.splitlines()]
    start = next(k for k, line in enumerate(lines) if "small_cnn, wrn_16_2" in line)
    end = next(k for k, line in enumerate(lines) if line.endswith("(the first 1x1 do)."))
    assert all(len(line) > int(width) - 50 for line in lines[start + 1 : end])
    with pytest.raises(SystemExit):
        main(["train", "--algorithm", "erm", "--help"])
    assert arguments_of(["digits", "--out", "here", "--algorithm", "erm"])[1]["batch"] == 32  # forms are what they were


def on_terminal(*words: str, **environment: str) -> str:
    """Return all that a person sees who types a command at a terminal."""
    ours, theirs = os.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "madod", *words], env=os.environ | environment, stdin=theirs, stdout=theirs,
        stderr=theirs,
    )  # fmt: skip
    os.close(theirs)
    seen = b""
    try:
        with contextlib.suppress(OSError):  # the terminal ends with the process
            while piece := os.read(ours, 65536):
                seen += piece
        process.wait(timeout=20)
    finally:
        process.kill()
        os.close(ours)
    return seen.decode()


@pytest.mark.parametrize("columns", ["3", "80"])
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["predict", "--nope"], "there is no option --nope"),
        (["predict", "model", "x.png", "--keep", "abc"], "--keep cannot be 'abc': it takes a number"),
        (["predict", "model", "x.png", "--format", "xml"], "--format cannot be 'xml': it takes csv, json or table"),
    ],
)
def test_a_wrong_word_is_one_plain_sentence_on_a_terminal_too(words, said, columns):
    seen = on_terminal(*words, TERM="xterm-256color", COLUMNS=columns)
    assert seen == f"madod: {said}; madod predict --help says what there is\r\n"


def test_help_has_colours_on_a_terminal_and_none_where_none_are_wanted():
    assert "\x1b[" in on_terminal("list", "--help", TERM="xterm-256color", NO_COLOR="")
    assert "\x1b[" not in on_terminal("list", "--help", TERM="xterm-256color", NO_COLOR="1")


def test_help_is_given_whatever_stands_beside_it():
    seen = on_terminal("predict", "--nope", "--help", TERM="xterm-256color", NO_COLOR="1")
    assert seen.startswith("usage: madod predict")
    assert "--gallery" in seen


def test_help_comes_to_an_end_in_a_terminal_of_few_columns():
    done = subprocess.run(
        [sys.executable, "-c", "import resource, sys; resource.setrlimit(resource.RLIMIT_CPU, (20, 20)); "
         "from madod.cli.main import main; main(sys.argv[1:])", "predict", "--help"],
        env=os.environ | {"COLUMNS": "3"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0
    assert "--gallery" in done.stdout


HELPED = """
import contextlib, sys
from madod.cli.main import VERBS, main
for verb in VERBS.keys() - {"train"}:
    with contextlib.suppress(SystemExit):
        main([verb, "--help"])
    assert "torch" not in sys.modules, verb
"""


def test_help_needs_no_torch_but_that_of_train_which_shows_the_options_of_methods():
    subprocess.run([sys.executable, "-c", HELPED], check=True, stdout=subprocess.DEVNULL)


@pytest.mark.parametrize("words", [["train", "", "--out", "new"], ["evaluate", "model", ""], ["export", "", "x.onnx"]])
def test_an_empty_name_is_not_the_folder_that_one_is_in(words, capsys):
    assert main(words) == 2
    said = "madod: a name is empty: name a file or a folder; the one that you are in is .\n"
    assert capsys.readouterr().err == said


@pytest.mark.parametrize(
    ("given", "left"), [({}, "8000"), ({"GOMP_SPINCOUNT": "7"}, "7"), ({"OMP_WAIT_POLICY": "active"}, "")]
)
def test_threads_wait_a_short_while_unless_the_user_says_otherwise(given, left):
    script = (
        "import os; from madod.cli.main import main; main(['list', 'x']); print(os.environ.get('GOMP_SPINCOUNT', ''))"
    )
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_WAIT", "GOMP_"))}
    done = subprocess.run([sys.executable, "-c", script], env=plain | given, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == left


@pytest.mark.parametrize("given", [{}, {"PYTHONWARNINGS": "error"}])
def test_no_program_of_ours_shows_that_pillow_warns_of_large_pictures_and_importing_silences_nothing(given):
    plain = {name: value for name, value in os.environ.items() if name != "PYTHONWARNINGS"}
    warn = "import PIL.Image, warnings; warnings.warn('Image size (9 pixels)', PIL.Image.DecompressionBombWarning)"
    ours = f"import subprocess, sys; from madod.cli.main import main; main(['list', 'x']); warn = {warn!r}; exec(warn)"
    for script, seen in (
        (f"{ours}; sys.exit(subprocess.run([sys.executable, '-c', warn]).returncode)", False),
        (f"import madod.data.images; {warn}", True),
    ):
        done = subprocess.run([sys.executable, "-c", script], env=plain | given, capture_output=True, text=True)
        assert ("DecompressionBombWarning" in done.stderr) == seen
        assert bool(done.returncode) == (seen and bool(given))


def test_the_end_is_short_but_where_triton_would_count_what_is_left(monkeypatch):
    frozen = gc.get_freeze_count()
    monkeypatch.setitem(sys.modules, "triton", sys)
    leave()
    assert gc.get_freeze_count() == frozen
    monkeypatch.delitem(sys.modules, "triton")
    try:
        leave()
        assert gc.get_freeze_count() > frozen
    finally:
        gc.unfreeze()
