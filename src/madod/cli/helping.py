"""Help texts that wrap where the terminal does."""

import ast
import inspect
import textwrap
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import fields, is_dataclass
from itertools import pairwise
from typing import Annotated, Any

import tyro


def let_flow(form: Any) -> None:
    """Have a dataclass's help texts of several lines wrap as one: the parser breaks them where their source does."""
    options = {field.name for field in fields(form)}  # which what belongs to the class alone is not
    for cls in (cls for cls in form.__mro__ if is_dataclass(cls)):
        for name, text in help_texts(cls):
            if name in options and "\n" in text:
                flowing = tyro.conf.arg(help=" ".join(text.split()))
                cls.__annotations__[name] = Annotated[cls.__annotations__[name], flowing]
    for field in fields(form):
        if isinstance(field.type, type) and is_dataclass(field.type):
            let_flow(field.type)


def help_texts(form: Any) -> Iterator[tuple[str, str]]:
    """Yield the fields of a dataclass, as its source has them, with the text below each; nothing without a source."""
    with suppress(OSError, TypeError):
        (found,) = ast.parse(textwrap.dedent(inspect.getsource(form))).body
        for field, below in pairwise(getattr(found, "body", ())):
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
                match below:
                    case ast.Expr(value=ast.Constant(value=str(text))):
                        yield field.target.id, text
