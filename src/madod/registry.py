"""Names to classes, found by folder: a new method, detector or dataset is one new file and no other change."""

import ast
import importlib.util
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from inspect import isfunction, signature
from itertools import chain
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

from madod.errors import InputError, nearest

T = TypeVar("T")

PACKAGES = {"algorithm": "madod.algorithms", "detector": "madod.detectors", "dataset": "madod.data"}
"""What can be registered, and the package whose files do."""
VARIABLES = {kind: f"{kind}s".upper() for kind in PACKAGES}
"""What their registries are called; a plugin's text, which is read before it is imported, has to call them so too."""

METRICS = ("accuracy", "ece", "val_accuracy", "val_accuracy_before_deploy")
ROWS = ("declared", "mean", "best")
RESERVED = {"detector": (*METRICS, *ROWS, "detector")}
"""What a kind cannot be called, as it means something else where its names stand: in a record, or as a table's row."""
NAME = re.compile(r"[^\W_][\w-]*")
"""What a name has to be: it goes into names of folders, and stands between commas."""

PLUGINS = "MADOD_PLUGINS"
"""Names modules outside the package that register too, with commas between them."""

REMEDIES = {"cannot inherit non-frozen dataclass": "write @dataclass(frozen=True) there, as it stands above BaseConfig"}
"""What to do where an import ends in an error of Python's own, by words of it."""


class Entry(NamedTuple):
    """Where a registered class is written and what it says of itself."""

    module: str
    cls: str
    summary: str
    file: str


class Registry(Mapping[str, type[T]], Generic[T]):
    """The classes that a package's files, and those of `PLUGINS`, register, imported when first asked for.

    Names and summaries are read from the source text, so that listing them imports nothing heavy.
    """

    def __init__(self, kind: str, base: type[object] = object) -> None:
        self.kind = kind
        self.package = PACKAGES[kind]
        self.base = base
        self._classes: dict[str, type[T]] = {}

    def register(self, name: str) -> Callable[[type[T]], type[T]]:
        """Put a class into the registry under a name; works from any module, the package's own or a user's.

        The same class may come again, from a module that is loaded anew; another one under its name is refused, and so
        is one that does not inherit from `base`, or lacks what a class of its kind has to write. A name that no folder
        could have, or that means something else, is refused too; and so is a method that takes other arguments.
        """

        def add(cls: type[T]) -> type[T]:
            self._refuse_name(name, f"{cls.__qualname__} in {_file(cls)}")
            self._refuse_another(name, cls)
            self._refuse_unfinished(name, cls)
            cls.name = name  # type: ignore[attr-defined]  # every registered class knows its name
            self._classes[name] = cls
            return cls

        return add

    @cached_property
    def entries(self) -> dict[str, Entry]:
        """The registrations of the package and of plugins, by name."""
        found: dict[str, Entry] = {}
        for name, entry in chain(self._of_package(), self._of_plugins()):
            self._refuse_name(name, f"{entry.cls} in {entry.file}")
            if name in found:
                raise self._twice(name, (found[name].cls, found[name].file), (entry.cls, entry.file))
            found[name] = entry
        return found

    def _of_package(self) -> Iterator[tuple[str, Entry]]:
        folder = Path(__file__).parent.joinpath(*self.package.split(".")[1:])
        for file in sorted(folder.glob("*.py")):
            for _, mark, entry in _registrations(file, f"{self.package}.{file.stem}"):
                yield _name(mark, file), entry

    def _of_plugins(self) -> Iterator[tuple[str, Entry]]:
        named = map(str.strip, os.environ.get(PLUGINS, "").split(","))
        for module in dict.fromkeys(filter(None, named)):  # one that is named twice counts once
            file = _source(module)
            found = [each for each in _registrations(file, module) if each[0] in VARIABLES.values()]
            if not found:
                raise InputError(
                    f"{PLUGINS} names {module!r}, but {file} registers no class: name the module that a class with its "
                    f"decorator is written in, such as @{VARIABLES[self.kind]}.register, the registry by that very name"
                )
            for registry, mark, entry in found:
                if registry == VARIABLES[self.kind]:
                    yield _name(mark, file), entry

    def _refuse_name(self, name: str, where: str) -> None:
        if not NAME.fullmatch(name):
            raise InputError(
                f"{where} is registered as the {self.kind} {name!r}, and folders are called by its name: let that be "
                "letters, digits, _ and -, the first a letter or a digit"
            )
        if name in RESERVED.get(self.kind, ()):
            raise InputError(
                f"{where} is registered as the {self.kind} {name!r}, which means something else in records and tables: "
                "give it another name"
            )

    def _refuse_another(self, name: str, cls: type[T]) -> None:
        mine = cls.__qualname__, _file(cls)
        if name in self._classes:
            first = self._classes[name].__qualname__, _file(self._classes[name])
        elif name in self.entries and cls.__module__ != self.entries[name].module:
            first = self.entries[name].cls, self.entries[name].file
        else:
            return
        if first != mine:
            raise self._twice(name, first, mine)

    def _refuse_unfinished(self, name: str, cls: type[T]) -> None:
        if not issubclass(cls, self.base):
            raise InputError(
                f"{cls.__qualname__} in {_file(cls)} is registered as the {self.kind} {name!r}, but is no "
                f"{self.base.__name__}: write class {cls.__qualname__}({self.base.__name__})"
            )
        if missing := sorted(getattr(cls, "__abstractmethods__", ())):
            raise InputError(
                f"{cls.__qualname__} in {_file(cls)} is registered as the {self.kind} {name!r}, but has no method "
                f"{', '.join(missing)}: write it, as every {self.kind} does"
            )
        for method, usual in vars(self.base).items():
            if isfunction(usual) or isinstance(usual, classmethod):
                self._refuse_uncallable(method, cls)

    def _refuse_uncallable(self, method: str, cls: type[T]) -> None:
        """Refuse a method that cannot be called as that of `base` is."""
        wanted = signature(getattr(self.base, method)).parameters.values()
        given = [each.name for each in wanted if each.kind == each.POSITIONAL_OR_KEYWORD and each.default is each.empty]
        own = signature(getattr(cls, method))
        try:
            own.bind(*given)
        except TypeError as error:
            raise InputError(
                f"{method} of {cls.__qualname__} in {_file(cls)} takes {own}, but is called with ({', '.join(given)}), "
                f"as that of every {self.kind}: let it take these, and give a default to what else it takes"
            ) from error

    def _twice(self, name: str, *classes: tuple[str, str]) -> InputError:
        where = " and ".join(f"{cls} in {file}" for cls, file in classes)
        return InputError(f"two classes are registered as the {self.kind} {name!r}, {where}: give one another name")

    def summary(self, name: str) -> str:
        """Return the first sentence of a class's docstring."""
        if name in self.entries:
            return self.entries[name].summary
        return (self[name].__doc__ or "").strip().split("\n")[0]

    def __getitem__(self, name: str) -> type[T]:
        if name not in self._classes:
            if name not in self.entries:
                known = ", ".join(self)
                raise InputError(f"no {self.kind} {name!r}{nearest(name, tuple(self))}; there are: {known}")
            entry = self.entries[name]
            try:
                self._classes[name] = getattr(importlib.import_module(entry.module), entry.cls)
            except Exception as error:
                _refuse_broken(error)
                raise
        return self._classes[name]

    def __contains__(self, name: object) -> bool:
        return name in self.entries or name in self._classes

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self.entries.keys() | self._classes.keys()))

    def __len__(self) -> int:
        return len(self.entries.keys() | self._classes.keys())


def _file(cls: type) -> str:
    """Return the file that a class is written in, or its module where there is none."""
    return getattr(sys.modules.get(cls.__module__), "__file__", None) or cls.__module__


def _source(module: str) -> Path:
    """Return the file of a plugin."""
    try:
        found = importlib.util.find_spec(module)
    except Exception as error:  # of the package that it lies in, or that is not there, or it is no name of a module
        _refuse_broken(error)
        found = None
    if found is None or found.origin is None or not found.origin.endswith(".py"):
        raise InputError(f"{PLUGINS} names {module!r}, but no such module is found: is its folder in PYTHONPATH?")
    return Path(found.origin)


def _refuse_broken(error: Exception) -> None:
    """Refuse a module that ended in an error when it was imported, with file and line; not one that is not there."""
    if isinstance(error, InputError):
        raise error
    if isinstance(error, (MemoryError, OSError)):  # no fault of the file
        return
    steps = [(Path(step.filename), step.lineno) for step in traceback.extract_tb(error.__traceback__)]
    importing = (Path(__file__).parent, Path(importlib.__file__).parent)
    ran = [(file, line) for file, line in steps if file.parent not in importing and file.suffix == ".py"]
    if ran and Path(__file__).parent not in ran[0][0].parents:
        file, line = [step for step in ran if step[0].parent == ran[0][0].parent][-1]  # not deep in a library
        remedy = next((todo for words, todo in REMEDIES.items() if words in str(error)), "mend it there")
        said = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
        raise InputError(f"{file}, line {line}, cannot be imported, {said}; {remedy}") from error


def _registrations(file: Path, module: str) -> Iterator[tuple[str, ast.Call, Entry]]:
    """Yield the registry's variable, the decorator and the class of everything that a file registers."""
    for node in _parsed(file).body:
        if not isinstance(node, ast.ClassDef):
            continue
        for mark in node.decorator_list:
            if isinstance(mark, ast.Call) and isinstance(mark.func, ast.Attribute) and mark.func.attr == "register":
                summary = (ast.get_docstring(node) or "").split("\n")[0]
                entry = Entry(module, node.name, summary, str(file))
                yield ast.unparse(mark.func.value).split(".")[-1], mark, entry


def _parsed(file: Path) -> ast.Module:
    """Return a file's text as code, or say where it is none: one such file is in everybody's way."""
    try:
        return ast.parse(file.read_bytes())  # which says itself what letters are written in
    except SyntaxError as error:
        where = f", line {error.lineno}," if error.lineno else ""
        raise InputError(f"{file}{where} is no Python: {error.msg}") from error


def _name(mark: ast.Call, file: Path) -> str:
    """Return the name in a decorator, which has to stand there itself, since nothing is imported to find it."""
    given = mark.args[0] if mark.args else None
    if isinstance(given, ast.Constant) and isinstance(given.value, str):
        return given.value
    raise InputError(f'{file}, line {mark.lineno}: write the name itself into the decorator, as in register("erm")')
