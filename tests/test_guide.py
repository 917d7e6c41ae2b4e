"""Every command and snippet of the site does what its page says, and the site is built of pages that hang together."""

import contextlib
import io
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import time
import tomllib
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from filelock import FileLock

from madod.cli.main import VERBS, main

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.glob("guide/*.md"), *DOCS.glob("verbs/*.md"), DOCS / "index.md", DOCS / "benchmark.md"])
FENCE = re.compile(r"^(<!-- long -->\n)?```(\w+)\n(.*?)^```", re.DOTALL | re.MULTILINE)
NUMERAL = r"-?\d+(?:\.\d+)?"
NUMBER = re.compile(f"({NUMERAL})")
VERDICTS = ("True", "False", "known", "unknown", "zero", "one", "two", "three", "four")
ANYTHING = {"...": ".*?"} | dict.fromkeys(VERDICTS, r"\w+")


class Block(NamedTuple):
    """What stands between two fences: its language, its lines, and whether it takes minutes."""

    language: str
    code: str
    long: bool


def blocks(page: Path) -> list[Block]:
    return [Block(found[2], found[3], bool(found[1])) for found in FENCE.finditer(page.read_text(encoding="utf-8"))]


def given(page: Path) -> list[str]:
    """What a page takes for granted."""
    found = re.search(r"<!-- given: (.+) -->", page.read_text(encoding="utf-8"))
    return found[1].split() if found else []


class Reader:
    """Somebody who types everything that a page says, in a folder of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.names, self.said = folder, {"__name__": "page"}, ""
        self.servers: list[subprocess.Popen[bytes]] = []
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = str(free.getsockname()[1])

    def do(self, block: Block) -> None:
        code = block.code.replace("8000", self.port)  # a port that nobody else has
        match block.language:
            case "python":
                with contextlib.redirect_stdout(io.StringIO()) as out:
                    exec(compile(code, "page", "exec"), self.names)
                self.said = out.getvalue()
            case "sh" if code.startswith("madod serve"):
                self.serve(shlex.split(code))
            case "sh":
                self.said = "".join(self.type(line) for line in code.replace("\\\n", " ").splitlines() if line)
            case "toml":
                assert tomllib.loads(code)
                if name := re.match(r"# (\S+)", code):
                    (self.folder / name[1]).write_text(code, encoding="utf-8")
            case "text":
                assert shown(block.code).search(self.said), f"expected:\n{block.code}\nsaid:\n{self.said}"
            case other:
                pytest.fail(f"nobody runs blocks of {other}")

    def type(self, line: str) -> str:
        """Run a line of a terminal; a plain `madod ...` stays in this process, where torch is loaded already."""
        if line.startswith("madod ") and not re.search(r"[|<>&;*$]", line):
            with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(out):
                assert main(shlex.split(line)[1:]) == 0, out.getvalue()
            return out.getvalue()
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", line], cwd=self.folder, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{line}\n{done.stderr}"
        return done.stdout

    def serve(self, words: list[str]) -> None:
        self.servers.append(subprocess.Popen(words, cwd=self.folder))
        for _ in range(600):
            assert self.servers[-1].poll() is None, "the server ended"
            with contextlib.suppress(urllib.error.URLError, ConnectionError):
                urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health", timeout=5)
                return
            time.sleep(0.1)
        pytest.fail("the server does not answer")

    def close(self) -> None:
        for server in self.servers:
            server.terminate()
            assert server.wait(30) in (0, -15)


def shown(text: str) -> re.Pattern[str]:
    """What output may look like, given how a page shows it: other numbers, verdicts and blanks, ... for anything."""
    return re.compile(r"\s+".join(pattern(word) for word in text.split()), re.DOTALL)


def pattern(word: str) -> str:
    if word in ANYTHING:
        return ANYTHING[word]
    return "".join(NUMERAL if NUMBER.fullmatch(part) else re.escape(part) for part in NUMBER.split(word))


@pytest.fixture(scope="session")
def home(tmp_path_factory) -> Path:
    """What pages take for granted, made once for all processes: the tutorial's pictures, and a model of them."""
    shared = tmp_path_factory.getbasetemp()
    shared = shared.parent if "PYTEST_XDIST_WORKER" in os.environ else shared
    folder = shared / "home"
    with FileLock(shared / "home.lock"):
        if not (folder / "my_model" / "record.json").exists():
            folder.mkdir(exist_ok=True)
            with contextlib.chdir(folder):
                Reader(folder).do(blocks(DOCS / "guide" / "tutorial.md")[0])
                words = "train my_images --out my_model --algorithm erm --steps 60 --check none --detector ddu --quiet"
                assert main([*words.split(), "--cache", "cache"]) == 0
    return folder


def read(page: Path, home: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, *, long: bool) -> None:
    for name in given(page):
        shutil.copytree(ROOT / name if (ROOT / name).exists() else home / name, folder / name)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("MADOD_CACHE", str(folder / "cache"))
    reader = Reader(folder)
    try:
        for block in blocks(page):
            if long or not block.long:
                reader.do(block)
    finally:
        reader.close()


RUN = [page for page in PAGES if any(not block.long for block in blocks(page))]
SLOW = [page for page in PAGES if any(block.long for block in blocks(page))]


@pytest.mark.parametrize("page", RUN, ids=lambda page: page.stem)
def test_a_page_does_what_it_says(page, home, tmp_path, monkeypatch):
    read(page, home, tmp_path, monkeypatch, long=False)


@pytest.mark.long
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("page", SLOW, ids=lambda page: page.stem)
def test_a_page_does_what_it_says_also_where_it_takes_minutes(page, home, tmp_path, monkeypatch):
    read(page, home, tmp_path, monkeypatch, long=True)


def test_there_is_a_page_for_every_verb_and_none_else():
    assert {page.stem for page in DOCS.glob("verbs/*.md")} == set(VERBS)
    for verb in VERBS:
        assert f"<!-- help: {verb} -->" in (DOCS / "verbs" / f"{verb}.md").read_text(encoding="utf-8")


def commands() -> Iterator[tuple[str, str]]:
    """Yield every `madod ...` with options that stands in running text or in a block of any page, and the page."""
    for page in (*PAGES, *DOCS.glob("*.md"), ROOT / "README.md"):
        for found in re.finditer(r"`?madod ([a-z]+)([^`|>\n]*)", page.read_text(encoding="utf-8")):
            if found[1] in VERBS and "--" in found[2]:
                yield found[1] + found[2], page.stem


@pytest.mark.parametrize(("command", "page"), list(commands()))
def test_options_that_pages_name_exist(command, page, capsys):
    verb, *words = command.split()
    with pytest.raises(SystemExit):
        main([verb, *[word for word in words[:1] if verb == "bench"], "--help"])
    said = capsys.readouterr().out
    for option in re.findall(r"--[a-z-]+", command):
        assert re.search(rf"{option}\b", said), f"{option} of {page}"


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", folder]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


def test_the_site_has_every_page_and_asks_no_network(site):
    for page in DOCS.rglob("*.md"):
        made = (site / page.relative_to(DOCS).with_suffix(".html")).read_text(encoding="utf-8")
        title = re.search(r"^# (.+)", page.read_text(encoding="utf-8"), re.MULTILINE)
        assert title
        assert page.stem == "index" or f"<title>{title[1]} - madod</title>" in made
    for file in site.rglob("*.html"):
        text = file.read_text(encoding="utf-8")
        assert not re.findall(r'(?:src|<link[^>]*href)="(?:https?:)?//[^"]*', text), file
    for file in site.rglob("*.css"):
        assert not re.findall(r"url\([\"']?(?:https?:)?//", file.read_text(encoding="utf-8")), file


def test_help_names_and_examples_are_filled_in(site):
    assert "--translate-steps" in (site / "verbs" / "train.html").read_text(encoding="utf-8")
    assert "set_threshold" in (site / "guide" / "python.html").read_text(encoding="utf-8")
    assert "custom_metadata_map" in (site / "guide" / "onnx.html").read_text(encoding="utf-8")
    for file in site.rglob("*.html"):
        assert "<!-- help" not in file.read_text(encoding="utf-8")
        assert "<!-- api" not in file.read_text(encoding="utf-8")
