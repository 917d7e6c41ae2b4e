"""What the site is filled with when it is built, so that it never goes stale: the help of verbs, and public names."""

import ast
import contextlib
import importlib
import inspect
import io
import os
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from madod.cli.main import VERBS, main

ROOT, WIDTH = Path(__file__).parent, 96
HELP, API = re.compile(r"^<!-- help: (.+) -->$", re.MULTILINE), re.compile(r"^<!-- api: (.+) -->$", re.MULTILINE)
FILE = re.compile(r"^<!-- file: (.+) -->$", re.MULTILINE)
OUTSIDE = re.compile(r"\[([^\]]+)\]\(\.\./([^)]+)\)")


def on_config(config: Any) -> Any:
    """Add the verbs and the pages about the inside to the menu."""
    docs = Path(config["docs_dir"])
    inside = sorted(page.name for page in docs.glob("*.md") if page.name != "index.md")
    config["nav"] += [{"Verbs": [f"verbs/{verb}.md" for verb in VERBS]}, {"Inside": inside}]
    return config


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Fill in help and public names; a link to a file that is not part of the site becomes its path."""
    if "/" not in page.file.src_uri:
        markdown = OUTSIDE.sub(r"\1 (`\2`)", markdown)
    markdown = FILE.sub(lambda found: f"```\n{(ROOT / found[1]).read_text(encoding='utf-8')}```", markdown)
    markdown = HELP.sub(lambda found: f"```text\n{help_of(found[1].split())}```", markdown)
    return API.sub(lambda found: "\n".join(described(found[1])), markdown)


def help_of(words: list[str]) -> str:
    """Return what `madod WORDS --help` prints."""
    said, before = io.StringIO(), os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = str(WIDTH)
    try:
        with contextlib.redirect_stdout(said), contextlib.suppress(SystemExit):
            main([*words, "--help"])
    finally:
        os.environ.pop("COLUMNS") if before is None else os.environ.update(COLUMNS=before)
    if "usage:" not in said.getvalue():
        raise LookupError(f"madod {' '.join(words)} --help says nothing")
    return "\n".join(line.rstrip() for text in said.getvalue().splitlines() for line in wrapped(text)) + "\n"


def wrapped(line: str) -> list[str]:
    """Break a long line of running text."""
    return textwrap.wrap(line, WIDTH) if len(line) > WIDTH else [line]


def described(name: str) -> Iterator[str]:
    """Yield heading, signature and docstring of a public name as its source has them, and those of its members."""
    module, _, last = name.rpartition(".")
    source = inspect.getsource(getattr(importlib.import_module(module), last))
    yield f"### {name}\n"
    yield from stated(ast.parse(textwrap.dedent(source)).body[0], module)


def stated(item: ast.stmt, owner: str) -> Iterator[str]:
    """Yield what a function or a class is and what it is called with."""
    if isinstance(item, ast.FunctionDef):
        marks = {ast.unparse(mark) for mark in item.decorator_list}
        call = f"{owner}.{item.name}" + ("" if "property" in marks else arguments(item))
        yield f"```python\n{call}\n```\n\n{ast.get_docstring(item)}\n"
    if isinstance(item, ast.ClassDef):
        yield f"{ast.get_docstring(item)}\n"
        for member, following in zip(item.body, [*item.body[1:], ast.Pass()], strict=True):
            if isinstance(member, ast.AnnAssign):
                yield f"- `{ast.unparse(member)}`{meaning(following)}"
            elif isinstance(member, ast.FunctionDef) and member.name[0] != "_" and ast.get_docstring(member):
                yield from stated(member, item.name)
        yield ""


def arguments(function: ast.FunctionDef) -> str:
    """Return what a function takes and returns, an argument a line where there are many."""
    function.args.args = [each for each in function.args.args if each.arg != "self"]
    taken = re.sub(r"(?<=[\w\]])=", " = ", ast.unparse(function.args))
    returned = f" -> {ast.unparse(function.returns)}" if function.returns else ""
    if len(taken) > WIDTH:
        taken = "\n    " + re.sub(r", (?=\*|\w+:)", ",\n    ", taken) + ",\n"
    return f"({taken}){returned}"


def meaning(following: ast.stmt) -> str:
    """Return what the string below a field says of it."""
    if isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant):
        return f": {following.value.value}"
    return ""
