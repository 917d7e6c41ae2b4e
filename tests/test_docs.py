"""The pages under docs/ name things that exist, miss nothing that they promise, and their code runs."""

import ast
import importlib
import re
import runpy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import NamedTuple
from xml.etree import ElementTree

import pytest

import madod
from madod.algorithms.base import ALGORITHMS
from madod.cli.main import VERBS
from madod.data.base import DATASETS
from madod.detectors.base import DETECTORS
from madod.models.backbones import BACKBONES

ROOT = Path(__file__).parent.parent
SOURCE, DOCS = ROOT / "src" / "madod", ROOT / "docs"
CITATION = re.compile(r"\[[^\[\]]*(?:\b(?:19|20)\d\d|\bMADOD,|\bDomainBed(?=[\];]))[^\[\]]*\]")
PAPER = re.compile(r"[A-Z][\w-]+(?: et al\.| & [A-Z]\w+)? (?:19|20)\d\d")
PAGES = sorted(DOCS.glob("*.md"))


class Row(NamedTuple):
    paper: str
    formula: str
    function: str
    test: str


def rows() -> list[Row]:
    text = (DOCS / "equations.md").read_text(encoding="utf-8")
    cells = [re.split(r"(?<!\\)\|", line)[1:-1] for line in text.splitlines() if line.startswith("| ")]
    stripped = [Row(*(cell.strip().strip("`") for cell in line)) for line in cells]
    return [row for row in stripped if row.function != "function"]


ROWS = rows()


def cited_in(node: ast.Module | ast.ClassDef, prefix: str) -> Iterator[tuple[str, str]]:
    """Yield the dotted name and the citations of everything public that cites a paper in brackets."""
    for item in node.body:
        if not isinstance(item, ast.FunctionDef | ast.ClassDef) or item.name.startswith("_"):
            continue
        name, found = f"{prefix}.{item.name}", CITATION.findall(ast.get_docstring(item) or "")
        if found:
            yield name, " ".join(found)
        if isinstance(item, ast.ClassDef):
            yield from cited_in(item, name)


def citations() -> dict[str, str]:
    rooms = ["equations", "meta", "algorithms", "detectors", "translation", "evaluation", "models", "report", "fitting"]
    files = [f for room in rooms for f in (SOURCE / f"{room}.py", *sorted((SOURCE / room).glob("*.py"))) if f.exists()]
    found = {}
    for file in files:
        module = ".".join(file.relative_to(SOURCE.parent).with_suffix("").parts)
        found.update(cited_in(ast.parse(file.read_text(encoding="utf-8")), module))
    return found


CITED = citations()


def resolve(path: str) -> object:
    """Return what a dotted path names, be it in a module, in a class, or a module itself."""
    words = path.split(".")
    for cut in range(len(words), 0, -1):
        try:
            found: object = importlib.import_module(".".join(words[:cut]))
        except ModuleNotFoundError:
            continue
        for word in words[cut:]:
            found = getattr(found, word)
        return found
    raise LookupError(path)


def test_there_are_rows_and_citations():
    assert len(ROWS) > 80
    assert len(CITED) > 70


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.function)
def test_every_function_and_test_of_a_row_exists(row):
    assert callable(resolve(row.function))
    file, name = row.test.split("::")
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    assert name in {item.name for item in tree.body if isinstance(item, ast.FunctionDef)}


def test_no_function_that_cites_a_paper_is_missing():
    assert not CITED.keys() - {row.function for row in ROWS}


@pytest.mark.parametrize("name", CITED)
def test_a_row_cites_the_papers_of_its_docstring(name):
    cell = " ".join(row.paper for row in ROWS if row.function == name)
    assert not set(PAPER.findall(CITED[name])) - set(PAPER.findall(cell))
    for mark in re.findall(r"eq\. [\w-]+|DomainBed|alg\. \d|app\. \w", CITED[name]):
        assert mark in cell


def test_every_method_detector_and_metric_has_a_row():
    named = {row.function for row in ROWS}
    for registry in (ALGORITHMS, DETECTORS):
        for name, entry in registry.entries.items():
            assert f"{entry.module}.{registry[name].__name__}" in named
    metrics = ast.parse((SOURCE / "evaluation" / "metrics.py").read_text(encoding="utf-8"))
    for item in metrics.body:
        if isinstance(item, ast.FunctionDef) and not item.name.startswith("_"):
            assert f"madod.evaluation.metrics.{item.name}" in named


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_dotted_names_and_files_on_a_page_exist(page):
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for path in re.findall(r"`(madod(?:\.\w+)+)", text):
        resolve(path)
    for file in re.findall(r"`((?:src|tests|docs|benchmarks)/[\w/.]+\.(?:py|md))", text):
        assert (ROOT / file).exists(), file
    for file in re.findall(r"\]\((?!http)([^)#]+)\)", text):
        assert (page.parent / file).exists(), file


def test_the_python_page_has_every_public_name():
    text = (DOCS / "guide" / "python.md").read_text(encoding="utf-8")
    for name in set(madod.__all__) - {"__version__"}:
        assert f"<!-- api: madod.{name} -->" in text or f"### madod.{name}\n" in text, name


def test_every_file_of_a_room_is_named_in_its_row():
    text = (DOCS / "architecture.md").read_text(encoding="utf-8")
    named = dict(re.findall(r"^\| `(\w+)` \|(.*)$", text, flags=re.MULTILINE))
    datasets = {entry.module.rpartition(".")[2] for entry in DATASETS.entries.values()}
    for room in (folder.parent.name for folder in SOURCE.glob("*/__init__.py")):
        if room in ("algorithms", "detectors"):  # one file a method or detector, and what several of them share
            continue
        alike = {"data": datasets, "cli": set(VERBS)}.get(room, set())
        for file in (SOURCE / room).glob("[!_]*.py"):
            assert file.stem in alike or f"`{file.stem}`" in named[room], f"{room}/{file.name}"


def blocks(page: Path) -> Iterator[tuple[int, str]]:
    """Yield every Python block of a page with the line that it starts on."""
    text = page.read_text(encoding="utf-8")
    for found in re.finditer(r"^```python\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE):
        yield text.count("\n", 0, found.start(1)), found[1]


def test_the_code_of_extending_runs_as_it_stands(monkeypatch, tmp_path):
    page = DOCS / "extending.md"
    for registry in (ALGORITHMS, DETECTORS, DATASETS):  # what the page registers is gone afterwards
        monkeypatch.setattr(registry, "_classes", dict(registry._classes))
    monkeypatch.setattr("madod.models.backbones.BACKBONES", dict(BACKBONES))
    monkeypatch.chdir(tmp_path)
    module = ModuleType("extending")
    monkeypatch.setitem(sys.modules, "extending", module)
    found = list(blocks(page))
    assert len(found) >= 3
    for line, code in found:
        exec(compile("\n" * line + code, str(page), "exec"), module.__dict__)


def test_what_extending_registers_is_a_whole_file(tmp_path):
    """An author pastes a block into a file of its own: nothing in it may come from the blocks above it."""
    found = [code for _, code in blocks(DOCS / "extending.md") if ".register(" in code]
    assert len(found) == 4
    for number, code in enumerate(found):
        (tmp_path / f"{number}.py").write_text(code, encoding="utf-8")
    words = [sys.executable, "-m", "ruff", "check", "--isolated", "--select", "F821,F401", str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_the_drawing_of_the_method_is_the_one_that_its_program_makes():
    images = DOCS / "images"
    drawn = runpy.run_path(str(images / "overview.py"))["overview"]()
    assert ElementTree.fromstring(drawn).tag == "{http://www.w3.org/2000/svg}svg"
    pictures = r"base64,[^\"]*"  # packed as the machine's zlib packs them
    assert re.sub(pictures, "", drawn) == re.sub(pictures, "", (images / "overview.svg").read_text(encoding="utf-8"))
