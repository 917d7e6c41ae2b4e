"""Plans: what they mean, and how a wrong word is refused."""

import json
import re
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from madod.algorithms.base import ALGORITHMS
from madod.benchmark.agenda import load_agenda
from madod.benchmark.jobs import expand
from madod.benchmark.plan import DatasetPlan
from madod.benchmark.record import RunSpec, apart, spec_from
from madod.benchmark.settings import config_of, hparams, settings
from madod.benchmark.stage import called, names_of, opened
from madod.benchmark.toml import Toml
from madod.benchmark.unknown import rotated, unknown_of
from madod.benchmark.words import check_cells, load_plan
from madod.data.base import DATASETS, DomainDataset
from madod.data.digits import Digits
from madod.data.office_home import OfficeHome
from madod.errors import InputError
from tests.benchmark.plans import MINI, written
from tests.data.miniatures import picture
from tests.test_storage import ENDLESS, endless

PLANS = Path(__file__).parent.parent.parent / "plans"
WRONG = {
    # what replaces what: line, and words of the sentence
    'algorithms = ["erm"]|algoritms = ["erm"]': (2, "no key 'algoritms'", "did you mean 'algorithms'?"),
    'algorithms = ["erm"]|algorithms = ["emr"]': (2, "no algorithm 'emr'", "did you mean 'erm'?"),
    '["msp", "energy"]|["msp",\n  "enrgy"]': (4, "no detector 'enrgy'", "did you mean 'energy'?"),
    '["msp", "energy"]|["own", "energy"]': (3, "erm has no unknown score of its own", "such as energy"),
    'name = "digits"|name = "digit"': (8, "no folder digit, and no dataset of that name", "did you mean 'digits'?"),
    '["neon"]|["noen"]': (9, "no domain 'noen' in digits", "did you mean 'neon'?"),
    '["neon"]|"neon"': (9, 'write test_domains = ["neon"]', '"all"'),
    'unknown = ["4"]|unknown = ["four"]': (10, "no class 'four' in digits", "it has 0, 1"),
    'unknown = ["4"]|unknown = "4"': (10, "or a list", '"rotate"'),
    "steps = 60|steps = 0": (11, "steps cannot be 0", "1 or more"),
    "steps = 60|steps = 6.5": (11, "steps cannot be 6.5", "a whole number"),
    "steps = 60|lengths = { emr = 6 }": (11, "no algorithm 'emr'", "did you mean 'erm'?"),
    "steps = 60|lengths = { erm = 0 }": (11, ": lengths.erm cannot be 0", "1 or more"),
    "steps = 60|lengths = { erm = 0.5 }": (11, ": lengths.erm cannot be 0.5", "has to be a whole number"),
    "steps = 60|lengths = 5": (11, ": lengths cannot be 5", "has to be a table of whole numbers"),
    "batch = 8|batch = 8\n[datasets.hparams]\nerm = 5": (21, ": hparams.erm cannot be 5", "has to be a table of keys"),
    "[hparams.erm]\nbatch = 8|[hparams]\nerm = 5": (19, ": hparams.erm cannot be 5", "has to be a table of keys"),
    "steps = 60|step = 60": (11, "no key 'step'", "did you mean 'steps'?"),
    'steps = 60|backbone = "resnet5"': (11, "no backbone 'resnet5'", "did you mean 'resnet50'?"),
    "steps = 60|size = 64": (11, "digits has one size only", "leave size out"),
    "steps = 60|skip_bad = true": (11, "digits has no picture files", "leave skip_bad out"),
    "steps = 60|skip_bad = 1": (11, "skip_bad cannot be 1", "true or false"),
    'steps = 60|translate = "munt"': (11, "translate cannot be 'munt'", "did you mean 'munit'?"),
    'steps = 60|pretrained = "nowhere.pth"': (11, "no file of weights 'nowhere.pth'", "as --root"),
    'steps = 60|pretrained = "resnet5"': (11, "no file of weights 'resnet5'", "mean 'resnet50'"),
    "steps = 60|[datasets.hparams.madod]\nlrr = 1e-3": (12, "madod has no hyper-parameter 'lrr'", "did you mean 'lr'?"),
    'steps = 60|[[datasets.exceptions]]\ntest_domains = ["noen"]\nlengths.erm = 9': (
        12,
        "tested in 'noen'",
        "mean 'neon'",
    ),
    'steps = 60|[[datasets.exceptions]]\ntest_domains = ["ink"]\nlengths.erm = 9': (12, "tested in 'ink'", "have neon"),
    'steps = 60|[[datasets.exceptions]]\nlengths.erm = 9\nunknown = ["5"]': (13, "'5' is unknown in no run", "are 4"),
    'steps = 60|[[datasets.exceptions]]\ntest_domains = ["neon"]': (11, "change nothing", "add hparams.ALGORITHM"),
    "steps = 60|[[datasets.exceptions]]\nlengths.erm = 0": (12, ": lengths.erm cannot be 0", "1 or more"),
    "steps = 60|[[datasets.exceptions]]\nlengths.emr = 9": (12, "no algorithm 'emr'", "did you mean 'erm'?"),
    "steps = 60|[[datasets.exceptions]]\nhparams.madod.lrr = 1": (12, "no hyper-parameter 'lrr'", "did you mean 'lr'?"),
    "steps = 60|[[datasets.exceptions]]\nsteps = 9": (12, "no key 'steps'", "there are: test_domains, unknown"),
    "seeds = [0, 1]|seeds = [0, -1]": (4, "seeds cannot be -1", "give 0 to"),
    "seeds = [0, 1]|seeds = [0, 9007199254740992]": (4, "seeds cannot be 9007199254740992", "0 to 9007199254740991"),
    "seeds = [0, 1]|split_seed = -1": (4, "split_seed cannot be -1", "give 0 to"),
    "seeds = [0, 1]|seeds = []": (4, "there are no seeds", "seeds = [0, 1]"),
    "seeds = [0, 1]|seeds = [1, 0, 1]": (4, "seeds has 1 2 times", "once is enough"),
    '["msp", "energy"]|["msp", "msp"]': (3, "detectors has 'msp' 2 times", "once is enough"),
    '["msp", "energy"]|[]': (3, "there are no detectors", 'detectors = ["energy"]'),
    '["neon"]|["ink", "neon", "ink"]': (9, "test_domains has 'ink' 2 times", "once is enough"),
    '["neon"]|[]': (9, "there is no unseen domain", '"all"'),
    'unknown = ["4"]|unknown = ["4", "4"]': (10, "unknown has '4' 2 times", "once is enough"),
    'unknown = ["4"]|unknown = [["4", "4"]]': (10, "unknown has '4' 2 times", "once is enough"),
    'unknown = ["4"]|unknown = [["4", "7"], ["7", "4"]]': (10, "unknown has '4+7' 2 times", "once is enough"),
    'unknown = ["4"]|unknown = []': (10, "there is no unknown class", '"rotate"'),
    f'name = "digits"|name = "{"a" * 300}"': (8, "the folder aaa", "... cannot be looked for (", "check the name"),
    'name = "digits"|name = ""': (8, "the name is empty", "give one"),
    'name = "CE only"|name = " "': (14, "the name is empty", "give one"),
    "seeds = [0, 1]|draws = 0": (4, "draws cannot be 0", "1 or more"),
    "seeds = [0, 1]|draws = 100000000": (4, "draws cannot be 100000000", "10,000 or fewer"),
    "seeds = [0, 1]|seeds = 3": (4, "seeds cannot be 3", "a list of whole numbers"),
    'seeds = [0, 1]|selection = "trainin_domain"': (4, "cannot be 'trainin_domain'", "did you mean 'training_domain'?"),
    'seeds = [0, 1]|selection = "oracle"': (4, "selection cannot be 'oracle'", "leave_one_domain_out"),
    'algorithm = "madod"|algorithm = "madodd"': (15, "no algorithm 'madodd'", "did you mean 'madod'?"),
    "margin = 0 }|margn = 0 }": (16, "madod has no hyper-parameter 'margn'", "did you mean 'margin'?"),
    "margin = 0 }|margin = -1 }": (16, "margin cannot be -1", "0 or more"),
    "margin = 0 }|margin = inf }": (16, "margin cannot be inf", "it has to be a finite number"),
    "margin = 0 }|margin = nan }": (16, "margin cannot be nan", "it has to be a finite number"),
    'margin = 0 }|margin = "no" }': (16, "margin cannot be 'no'", "a number"),
    'margin = 0 }|outer = "sdg" }': (16, "outer cannot be 'sdg'", "did you mean 'sgd'?"),
    "margin = 0 }|margin = { unifrm = [0, 1] } }": (
        16,
        "margin cannot be {'unifrm': [0, 1]}",
        "{ uniform = [low, high] }",
    ),
    "margin = 0 }|margin = { uniform = 3 } }": (16, "margin cannot be {'uniform': 3}", "{ log_uniform = [low, high] }"),
    "margin = 0 }|margin = {} }": (16, "margin cannot be {}", "write a value, or the range"),
    "margin = 0 }|margin = { uniform = [1, 0] } }": (16, "margin cannot be drawn from 1 to 0", "a higher number"),
    "margin = 0 }|margin = { uniform = [-1, 1] } }": (16, "margin cannot be -1", "0 or more"),
    "margin = 0 }|margin = { log_uniform = [0, 1] } }": (16, "margin cannot be drawn from 0 to 1", "number above 0"),
    "margin = 0 }|shots = { uniform = [1.5, 3] } }": (16, "shots cannot be 1.5", "a whole number"),
    "margin = 0 }|outer = { uniform = ['adam', 'sgd'] } }": (16, "outer cannot be drawn from 'adam'", "number"),
    "margin = 0 }|first_order = { uniform = [false, true] } }": (16, "cannot be drawn from False", "number"),
    "margin = 0 }|shots = true }": (16, "shots cannot be True", "a whole number"),
    'name = "CE only"\nalgorithm = "madod"|name = "erm"\nalgorithm = "erm"': (14, "two things are called 'erm'", "own"),
    'algorithms = ["erm"]|algorithms = ["erm", "erm"]': (2, "two things are called 'erm'", "a name of its own"),
    'algorithm = "madod"\n|': (13, "the key 'algorithm' is missing", "add algorithm"),
    "[[variants]]|[variants]": (13, "list of tables", "[[variants]]"),
}


@pytest.mark.parametrize("change", WRONG)
def test_a_wrong_word_is_refused_with_its_line_and_the_nearest_right_one(tmp_path, change):
    line, *said = WRONG[change]
    old, new = change.split("|")
    assert MINI.count(old) == 1
    file = written(tmp_path, MINI.replace(old, new))
    with pytest.raises(InputError) as refusal:
        expand(file, None)
    sentence = str(refusal.value)
    assert sentence.startswith(f"{file}, line {line}: ")
    assert "\n" not in sentence
    for words in said:
        assert words in sentence


def test_a_plan_without_a_dataset_says_how_one_is_written(tmp_path):
    with pytest.raises(
        InputError, match=r"line 1: the key 'datasets' is missing: add \[\[datasets\]\] and keys below it"
    ):
        load_plan(written(tmp_path, 'algorithms = ["erm"]\n'))


def test_a_dataset_that_does_not_say_its_domains_is_refused_in_its_line(tmp_path, monkeypatch):
    monkeypatch.delattr(Digits, "domains")
    with pytest.raises(InputError, match=r"line 8: digits does not say its domains: every dataset has to"):
        expand(written(tmp_path, MINI), None)


MINE = {"name": "mine", "read": lambda *_: None}


def in_init(self: DomainDataset, root: Path) -> None:
    self.domains, self.classes, self.shape = ("neon", "ink", str(root.name)), ("4", "7", "9"), (3, 8, 8)


@pytest.mark.parametrize(
    ("attributes", "said"),
    [
        ({"domains": ("neon", "ink"), "classes": ("4", "7", "9")}, "line 8: mine does not say its shape: every"),
        ({}, "line 8: mine does not say its domains and classes and shape: every"),
        ({"__init__": lambda _: None}, "line 8: mine does not say its domains and classes and shape: every"),
        ({"__init__": in_init}, "line 8: mine says its domains and classes only when it is opened, .* as --root$"),
    ],
)
def test_a_dataset_that_does_not_say_what_a_plan_needs_is_refused_in_its_line(tmp_path, monkeypatch, attributes, said):
    monkeypatch.setitem(DATASETS._classes, "mine", type("Mine", (DomainDataset,), MINE | attributes))
    with pytest.raises(InputError, match=said):
        expand(written(tmp_path, MINI.replace("digits", "mine")), None)


def test_a_dataset_that_says_its_names_when_it_is_opened_is_opened_with_the_root(monkeypatch, tmp_path):
    monkeypatch.setitem(DATASETS._classes, "mine", type("Mine", (Digits,), {"name": "mine", "__init__": in_init}))
    for names in ("domains", "classes"):
        monkeypatch.delattr(Digits, names)
    names = names_of(DatasetPlan("mine", steps=2), partial(opened, root=tmp_path / "here"))
    assert names.domains == ("neon", "ink", "here")


def test_settings_that_contradict_each_other_are_refused_when_all_are_put_together(tmp_path):
    plan = MINI.replace('["erm"]', '["scone"]').replace("hparams.erm]\nbatch = 8", "hparams.scone]\ncovariate = 0.95")
    with pytest.raises(InputError, match=r"line 7: scone on digits: covariate 0\.95 and semantic 0\.1 cannot "):
        expand(written(tmp_path, plan), None)
    assert expand(written(tmp_path, f"{plan}semantic = 0.05\n"), None)
    swapped = MINI.replace("margin = 0 }", "margin_in = -3, margin_out = -8 }")
    with pytest.raises(InputError, match=r"line 13: madod, CE only on digits: margin_in -3 is not below margin_out -8"):
        expand(written(tmp_path, swapped), None)


SMALL = MINI.replace('"digits"\ntest_domains = ["neon"]', '"{}"\nsize = 8\ntest_domains = ["day"]').replace("4", "fox")
DIGITS = ", ".join(f'"{k}"' for k in range(10))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            MINI.replace('["4"]', f"[[{DIGITS}]]"),
            "line 7: erm on digits: hiding 0, 1, 2 and 7 more leaves 0 of 10 classes known, and erm needs 2: ",
        ),
        (
            MINI.replace("margin = 0 }", "pseudo_units = 8 }"),
            "line 13: madod, CE only on digits: hiding 4 leaves 9 of 10 classes known, and madod needs 10: ",
        ),
        (
            SMALL,
            "line 14: madod, CE only on {}: hiding fox leaves 2 of 3 classes known, and madod needs 3: hide fewer, "
            "add a class, or leave madod out",
        ),
        (SMALL.replace('["fox"]', '"all"'), "line 14: madod, CE only on {}: hiding cat leaves 2 of 3 classes known, "),
        (
            'selection = "leave_one_domain_out"\n' + SMALL,
            "line 8: erm on {}: hiding fox and, for selection, cat leaves 1 of 3 classes known, and erm needs 2: "
            "hide fewer, add a class, or take another selection",
        ),
        (
            MINI.replace('"digits"\ntest_domains = ["neon"]', '"colored_mnist"').replace('["4"]', f"[[{DIGITS}]]"),
            "line 7: erm on colored_mnist: hiding 0, 1, 2 and 7 more leaves 0 of 10 classes known, and erm needs 1: ",
        ),
    ],
)
def test_a_plan_that_leaves_a_method_too_few_known_classes_is_refused_once(tmp_path, text, said):
    for domain in ("day", "dusk", "night"):
        for kind in ("cat", "dog", "fox"):
            picture(tmp_path / "images" / domain / kind / "x.png")
    file = written(tmp_path, text.replace("{}", str(tmp_path / "images")))
    with pytest.raises(InputError) as refusal:
        expand(file, None)
    assert str(refusal.value).startswith(f"{file}, {said.replace('{}', 'images')}")
    assert "\n" not in str(refusal.value)


def test_as_many_known_classes_as_a_method_needs_are_enough(tmp_path):
    assert expand(written(tmp_path, MINI.replace("margin = 0 }", "pseudo_units = 7 }")), None)
    hidden = MINI.replace('"digits"\ntest_domains = ["neon"]', '"colored_mnist"').replace('["4"]', f"[[{DIGITS[5:]}]]")
    assert expand(written(tmp_path, hidden), None)  # a digit has both of the classes


def test_a_plan_may_start_with_the_mark_of_an_editor(tmp_path):
    marked = written(tmp_path, f"\ufeff{MINI}", "marked")
    assert load_plan(marked)[0] == load_plan(written(tmp_path))[0]
    with pytest.raises(InputError, match=r"marked.toml, line 2: there is no key 'algoritms'"):
        load_plan(written(tmp_path, f"\ufeff{MINI.replace('algorithms', 'algoritms')}", "marked"))


def test_a_plan_in_other_letters_than_utf_8_is_said(tmp_path):
    (tmp_path / "plan.toml").write_bytes(MINI.encode("utf-16"))
    with pytest.raises(InputError, match=r"plan.toml is no text in UTF-8, which a plan has to be: save it as such"):
        load_plan(tmp_path / "plan.toml")


@ENDLESS
@pytest.mark.timeout(60)
def test_a_plan_that_never_ends_is_not_waited_for(tmp_path, kind):
    endless(tmp_path / "plan.toml", kind)
    with pytest.raises(InputError, match=r"cannot be read \(it is not an ordinary file\): check the path"):
        load_plan(tmp_path / "plan.toml")


def test_what_is_no_toml_or_no_file_is_said(tmp_path):
    with pytest.raises(InputError, match=r"is no TOML: .*line 1"):
        load_plan(written(tmp_path, "seeds = 0 1"))
    with pytest.raises(InputError, match="is no TOML: "):
        load_plan(written(tmp_path, f"seeds = {'[' * 5000}"))
    with pytest.raises(InputError, match="cannot be read"):
        load_plan(tmp_path / "nothing.toml")
    with pytest.raises(InputError, match="the key 'datasets' is missing"):
        load_plan(written(tmp_path, 'algorithms = ["erm"]'))


def test_lines_are_found_in_every_way_of_writing(tmp_path):
    text = 'a = 1\n[b]  # a table\nc.d = [\n  "x",\n  "yz",\n]\n[[e]]\nf = 1\n[e.g]\nh = {i = 1}\n[[e]]\n"f" = 2\n'
    toml = Toml(written(tmp_path, text))
    assert toml.line(("a",)) == 1
    assert toml.line(("b", "c", "d")) == 3
    assert toml.line(("b", "c", "d"), "yz") == 5
    assert toml.line(("b", "c", "d"), "y") == 3  # no part of a word
    assert toml.line(("e", 0, "f")) == 8
    assert toml.line(("e", 0, "g", "h", "i")) == 10
    assert toml.line(("e", 1, "f")) == 12
    assert toml.line(("e", 1, "missing")) == 11


def test_a_plan_becomes_runs_and_shared_ones_are_there_once(tmp_path):
    again = '[[variants]]\nname = "plain"\nalgorithm = "erm"\n'
    agenda, jobs = expand(written(tmp_path, MINI + again), None)
    assert len(agenda.entries) == 6
    assert len(jobs) == len(agenda.folders) == 4
    assert {entry.variant for entry in agenda.entries} == {"erm", "madod, CE only", "erm, plain"}
    by_variant = {v: [e.folder for e in agenda.entries if e.variant == v] for v in ("erm", "erm, plain")}
    assert by_variant["erm"] == by_variant["erm, plain"]
    job = next(job for job in jobs if job.spec.algorithm == "madod")
    assert job.folder == job.spec.id
    expected = hparams("madod", {"tasks": 1, "invariance": 0.0, "outer_invariance": 0.0, "margin": 0.0})
    assert job.spec.hparams == expected
    assert [type(v) for v in job.spec.hparams.values()] == [type(v) for v in expected.values()]
    agenda.save(tmp_path)
    assert load_agenda(tmp_path / "mini.toml", tmp_path) == agenda
    written(tmp_path, MINI)  # another plan under the same name
    assert load_agenda(tmp_path / "mini.toml", tmp_path) is None


@pytest.mark.parametrize("text", ["", "compiled = true\n"])
def test_a_plan_can_insist_on_compiling_which_changes_no_id(tmp_path, text):
    _, jobs = expand(written(tmp_path, text + MINI), None)
    _, plain = expand(written(tmp_path, MINI), None)
    assert {job.compiled for job in jobs} == {bool(text)}
    assert [job.folder for job in jobs] == [job.folder for job in plain]


def test_two_folders_of_one_name_are_refused_since_their_runs_would_be_taken_for_each_other(tmp_path):
    for place in ("a", "b"):
        for domain in ("day", "night", "dusk"):
            for kind in ("cat", "dog", "fox"):
                picture(tmp_path / place / "images" / domain / kind / "x.png")
    block = '[[datasets]]\nname = "{}"\nsize = 8\nunknown = ["fox"]\n'
    first, second = (block.format(tmp_path / place / "images") for place in ("a", "b"))
    with pytest.raises(InputError, match=r"line 7.*another dataset of the plan is called 'images' too.*rename one"):
        expand(written(tmp_path, 'algorithms = ["erm"]\n' + first + second), None)


def test_runs_that_two_tables_of_a_dataset_ask_for_are_refused_since_they_would_count_twice(tmp_path):
    block = '[[datasets]]\nname = "digits"\ntest_domains = {}\nunknown = [["4", "7"]]\nsteps = {}\n'
    first, other = block.format('["neon"]', 3), block.format('["ink"]', 4)
    again = block.format('["ink", "neon"]', 4).replace('["4", "7"]', '["7", "4"]')
    agenda, _ = expand(written(tmp_path, 'algorithms = ["erm"]\n' + first + other), None)
    assert len(agenda.entries) == 2
    said = r"line 7: digits/neon/7\+4 is among the runs of the dataset in line 2 too, .*twice: leave it out of one"
    with pytest.raises(InputError, match=said):
        expand(written(tmp_path, 'algorithms = ["erm"]\n' + first + again), None)


def test_a_folder_that_is_called_like_a_dataset_is_named_by_its_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for domain in ("day", "night"):
        for kind in ("cat", "dog", "fox"):
            for name in ("digits", "folder"):
                picture(tmp_path / name / domain / kind / "x.png")
    assert names_of(DatasetPlan("digits")).domains == Digits.domains
    for name in ("./digits", "folder"):
        assert names_of(DatasetPlan(name, size=8)).domains == opened(name, 8, False, root=Path("x")).domains
        assert called(DatasetPlan(name)) == Path(name).name


def test_settings_are_overridden_from_the_outside_in(tmp_path):
    more = "[datasets.hparams.madod]\nlr = 0.5\nshots = 7\n[hparams.madod]\nlr = 0.25\nmargin = 3\nviews = 2\n"
    text = MINI.replace("[[variants]]", more + "[[variants]]")
    _, jobs = expand(written(tmp_path, text), None)
    made = next(job.spec.hparams for job in jobs if job.spec.algorithm == "madod")
    assert (made["lr"], made["shots"], made["margin"], made["views"]) == (0.5, 7, 0.0, 2)


def test_an_algorithm_may_have_a_length_of_its_own_on_a_dataset_and_a_variant_one_before_that(tmp_path):
    text = MINI.replace("steps = 60", "steps = 60\nlengths = { madod = 30 }")
    for plan, length in ((text, 30), (text.replace('algorithm = "madod"', 'algorithm = "madod"\nsteps = 7'), 7)):
        _, jobs = expand(written(tmp_path, plan), None)
        assert {(job.spec.algorithm, job.spec.steps) for job in jobs} == {("erm", 60), ("madod", length)}


EXCEPTIONS = """
[[datasets.exceptions]]
test_domains = ["ink"]
lengths.erm = 30
hparams.madod = { lr = 0.5, margin = 3 }
[[datasets.exceptions]]
unknown = [["5", "4"]]
lengths.erm = 20
hparams.madod.lr = 0.25
"""


def test_settings_of_methods_that_a_plan_does_not_compare_are_named_in_one_line(tmp_path, caplog):
    more = "lengths = { irm = 3, madod = 9 }\n[[datasets.exceptions]]\nlengths.mixup = 3\nhparams.erm.lr = 1"
    file = written(tmp_path, MINI.replace("steps = 60", more) + "\n[hparams.coral]\nlr = 0.1\n")
    assert len(expand(file, None)[1]) == 4
    (said,) = (line.getMessage() for line in caplog.records)
    assert said.startswith(f"{file} has settings of methods that it does not compare, so that nothing comes of them: ")
    assert ": coral (line 24), irm (line 11), mixup (line 13); add the methods to algorithms, or" in said


def test_cells_may_be_exceptions_and_the_last_that_holds_has_the_last_word(tmp_path):
    text = MINI.replace('["neon"]', '["neon", "ink"]').replace('unknown = ["4"]', 'unknown = ["4", ["4", "5"]]')
    text = text.replace("steps = 60", "steps = 60\nlengths.madod = 7\nhparams.madod.shots = 3\n" + EXCEPTIONS)
    specs = [job.spec for job in expand(written(tmp_path, text), None)[1]]
    lengths = {(s.test_domain, s.ood_classes): s.steps for s in specs if s.algorithm == "erm"}
    assert lengths == {("neon", ("4",)): 60, ("neon", ("4", "5")): 20, ("ink", ("4",)): 30, ("ink", ("4", "5")): 20}
    usual = hparams("madod")["lr"]
    rates = {(s.test_domain, s.ood_classes): s.hparams["lr"] for s in specs if s.algorithm == "madod"}
    assert rates == {
        ("neon", ("4",)): usual,
        ("neon", ("4", "5")): 0.25,
        ("ink", ("4",)): 0.5,
        ("ink", ("4", "5")): 0.25,
    }
    shared = {(s.steps, s.hparams["shots"], s.hparams["margin"]) for s in specs if s.algorithm == "madod"}
    assert shared == {(7, 3, 0.0)}  # a variant's own margin comes after every exception


def test_the_folds_of_a_cell_are_run_as_the_cell_is(tmp_path):
    text = MINI.replace('["neon"]', '["neon", "ink"]').replace("seeds", 'selection = "leave_one_domain_out"\nseeds')
    text = text.replace("steps = 60", "steps = 60\n[[datasets.exceptions]]\ntest_domains = ['ink']\nlengths.erm = 30")
    agenda, jobs = expand(written(tmp_path, text), None)
    steps = {job.folder: job.spec.steps for job in jobs if job.spec.algorithm == "erm"}
    found = {(e.cell.test_domain, e.fold is None, steps[e.folder]) for e in agenda.entries if e.folder in steps}
    assert found == {("neon", True, 60), ("neon", False, 60), ("ink", True, 30), ("ink", False, 30)}


def test_a_variant_may_compute_in_another_precision(tmp_path):
    text = MINI.replace('algorithm = "madod"', 'algorithm = "madod"\nprecision = "bfloat16"')
    _, jobs = expand(written(tmp_path, text), None)
    assert {(job.spec.algorithm, job.spec.precision) for job in jobs} == {("erm", "float32"), ("madod", "bfloat16")}


def test_draw_zero_is_the_published_setting_and_others_stay_in_their_ranges():
    for name in ALGORITHMS:
        for pretrained in (False, True):
            assert settings(name, 0, {}, pretrained=pretrained) == hparams(name, pretrained=pretrained)
    one, other, same = (settings("madod", k, {}, pretrained=True) for k in (1, 2, 1))
    assert one == same != other
    assert -11 <= one["margin_in"] <= -9
    assert 10**-5.5 <= one["lr"] <= 1e-4
    scratch = settings("madod", 1, {"shots": 9}, pretrained=False)
    assert -7 <= scratch["margin_in"] <= -5  # around the preset of -6
    assert scratch["lr"] / one["lr"] == pytest.approx(1e-3 / 3e-5)
    assert (scratch["shots"], scratch["tasks"]) == (9, hparams("madod")["tasks"])


def test_a_range_in_a_plan_takes_the_place_of_the_declared_one_and_of_no_other():
    ranges = {"margin_in": {"uniform": [-9, -7]}, "lr": {"log_uniform": [1e-4, 1e-2]}, "shots": {"uniform": [2, 5]}}
    found = [settings("madod", k, ranges, pretrained=False) for k in range(20)]
    assert (found[0]["margin_in"], found[0]["lr"], found[0]["shots"]) == (-8.0, pytest.approx(1e-3), 4)
    for name, low, high in (("margin_in", -9, -7), ("lr", 1e-4, 1e-2), ("shots", 2, 5)):
        values = [one[name] for one in found[1:]]
        assert low <= min(values) < max(values) <= high
        assert max(values) - min(values) > 0.6 * (high - low)
        assert {type(value) for value in values} == {type(found[0][name])}
    for k, one in enumerate(found):
        plain = settings("madod", k, {}, pretrained=False)
        assert {name: one[name] for name in plain if name not in ranges} == {
            name: plain[name] for name in plain if name not in ranges
        }
        alone = settings("madod", k, {"margin_in": ranges["margin_in"]}, pretrained=False)
        assert alone["margin_in"] == one["margin_in"]


def test_draws_last():
    """A draw that changes has everybody run a search again."""
    one = settings("madod", 3, {"shots": 9}, pretrained=True)
    assert (one["lr"], one["margin_out"]) == pytest.approx((2.1508698938411096e-05, -7.316046004598413), rel=1e-12)
    ours = settings("madod", 3, {"margin_in": {"uniform": [-9, -7]}}, pretrained=True)["margin_in"]
    assert ours == pytest.approx(-8.504786538103444, rel=1e-12)


def test_the_papers_search_has_the_ranges_of_the_release():
    plan, _ = load_plan(PLANS / "paper.toml")
    for name, low, high in (("vlcs", -9, -5), ("colored_mnist", -5.5, -3.5), ("pacs", -11, -7)):
        entry = next(entry for entry in plan.datasets if entry.name == name)
        found = [settings("madod", k, entry.hparams.get("madod", {}), pretrained=True) for k in range(20)]
        assert low <= min(one["margin_in"] for one in found) < max(one["margin_out"] for one in found) <= high
        middle = (found[0]["margin_in"], found[0]["margin_out"])
        assert middle == {"vlcs": (-8, -6), "colored_mnist": (-5.25, -4), "pacs": (-10, -8)}[name]


@pytest.mark.parametrize("count", [2, 5, 7, 10])
@pytest.mark.parametrize("seeds", [(0,), (0, 1), (3, 1, 2), tuple(range(12))])
def test_a_rotation_gives_two_fifths_of_the_classes_their_turn(count, seeds):
    units = tuple("abcdefghij"[:count])
    dealt = rotated(units, seeds)
    assert set(dealt) == set(seeds)
    assert all(groups for groups in dealt.values())
    turns = {name for groups in dealt.values() for (name,) in groups}
    assert len(turns) >= 0.4 * count
    assert len(turns) - 1 < 0.4 * count
    assert rotated(units, seeds) == dealt


def test_unknown_classes_are_named_all_or_several_at_once():
    units = ("a", "b", "c")
    assert unknown_of("all", units, [5]) == {5: [("a",), ("b",), ("c",)]}
    assert unknown_of(("a", ("b", "c")), units, [0, 1]) == {k: [("a",), ("b", "c")] for k in (0, 1)}


def test_selection_inside_the_sources_hides_the_test_domain_and_the_unknown_class(tmp_path):
    agenda, jobs = expand(written(tmp_path, 'selection = "leave_one_domain_out"\ndraws = 2\n' + MINI), None)
    inner = [entry for entry in agenda.entries if entry.fold]
    assert len(inner) == 2 * 2 * 3  # variants x draws x folds, one seed
    assert {entry.fold for entry in inner} == {"ink", "chalk", "outline"}
    for job in (job for job in jobs if job.folder.startswith("inner/")):
        assert job.spec.dataset == "digits~neon~4"
        assert job.hidden == (("neon",), ("4",))
        assert job.spec.ood_classes != ("4",)
        assert not job.keep_model
    assert len({job.spec.ood_classes for job in jobs if any(job.hidden)}) == 3


@pytest.mark.parametrize("file", sorted(PLANS.glob("*.toml")), ids=lambda file: file.stem)
def test_every_plan_of_the_project_is_right(file):
    plan, toml = load_plan(file)
    for k, entry in enumerate(plan.datasets):
        names = names_of(entry)
        check_cells(entry, names.domains, names.units, toml, k)
    assert re.search(rf"madod bench run plans/{file.name} --runs", file.read_text(encoding="utf-8"))


def test_a_run_with_many_unknown_classes_has_a_folder_all_the_same(tmp_path):
    one, two = (RunSpec("office_home", "Art", (*OfficeHome.classes[:40], last), "erm") for last in ("TV", "犬" * 99))
    assert one.id != two.id
    for spec in (one, two):
        assert spec.id.startswith("office_home-erm-Art-Alarm_Clock-Backpack-")
        (tmp_path / spec.id).mkdir()
    assert RunSpec("pacs", "photo", ("dog",), "erm").id.startswith("pacs-erm-photo-dog-0-")


def test_a_run_whose_domain_or_class_looks_like_a_path_has_one_folder_among_the_others(tmp_path):
    spec = RunSpec("xs", "../a/x", ("p/../q", "c\\d"), "erm")
    assert spec.id.startswith("xs-erm-.._a_x-p_.._q-c_d-0-")
    assert (tmp_path / spec.id).parent == tmp_path
    assert spec.id != replace(spec, test_domain=".._a_x").id


def test_the_ids_of_committed_records_last():
    files = list((Path(__file__).parents[2] / "results").rglob("record.json"))
    assert files
    for file in files:
        assert spec_from(json.loads(file.read_text(encoding="utf-8"))["spec"]).id == file.parent.name


def test_specs_say_in_what_they_differ():
    one = RunSpec("pacs", "photo", ("dog",), "madod", steps=20, hparams={"lr": 1e-3, "average": 0.0})
    assert apart(one, replace(one, hparams={"lr": 1e-3})) == ""  # younger than the record, and as it always was
    assert apart(one, replace(one, steps=30)) == "steps 20 there, 30 here"
    other = replace(one, steps=30, seed=1, backbone="resnet50", hparams={"lr": 0.5})
    told = "seed 0 there, 1 here; steps 20 there, 30 here; backbone small_cnn there, resnet50 here; and 1 more"
    assert apart(one, other) == told


def test_a_run_with_a_hyper_parameter_that_went_is_the_same_and_can_be_run_again():
    now = RunSpec("pacs", "photo", ("dog",), "madod", hparams=hparams("madod"))
    then = replace(now, hparams={**now.hparams, "both_ways": False})
    assert then.id == now.id
    assert config_of(then) == config_of(now)


@pytest.mark.parametrize("algorithm", ["erm", "mbdg"])
def test_a_control_that_varies_nothing_is_refused_where_a_method_asks_for_it(tmp_path, algorithm):
    dataset = 'name = "colored_mnist"\ntest_domains = ["-90%"]\nunknown = ["4"]\ntranslate = "augment"\n'
    (tmp_path / "plan.toml").write_text(f'algorithms = ["{algorithm}"]\n[[datasets]]\n{dataset}')
    if algorithm == "erm":
        assert len(expand(tmp_path / "plan.toml", None)[1]) == 1
    else:
        with pytest.raises(
            InputError, match=r"leaves the images of this dataset as they are.*: set translate to munit"
        ):
            expand(tmp_path / "plan.toml", None)
