"""Command-line arguments from dataclasses: a field is a flag, its docstring the help."""

import contextlib
import difflib
import io
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from itertools import pairwise
from pathlib import Path
from shutil import get_terminal_size
from typing import Annotated, Any, TypeVar, get_origin

import tyro

from madod.errors import InputError

A = TypeVar("A")
Switch = Annotated[bool, tyro.conf.FlagCreatePairsOff]
"""A flag that is off unless it is named."""
WANTED = {"INT": "a whole number", "FLOAT": "a number", "PATH": "a path"}
REWORDED = (
    (r"error parsing (\S+): no type matching (?:\{None\}\|)?(\w+) could be instantiated from \['(.*)'\]",
     lambda found: f"{found[1]} cannot be {found[3]!r}: it takes {WANTED.get(found[2], found[2])}"),
    (r"error parsing (\S+): could not convert string to float: (.*)",
     lambda found: f"{found[1]} cannot be {found[2]}: it takes a number"),
    (r"error parsing (\S+): invalid literal for int\(\) with base 10: (.*)",
     lambda found: f"{found[1]} cannot be {found[2]}: it takes a whole number"),
    (r"error parsing method: (.*)", lambda found: found[1]),
    (r"invalid choice (.*) for argument '(.*)'\. Expected one of \((.*)\)",
     lambda found: f"{found[2]} cannot be {found[1]}: it takes {_choices(found[3])}"),
    (r"unrecognized options: (\S+?)(?:, .*?)?(?: Perhaps you meant: (.*))?",
     lambda found: _unknown(found[1], _meant(found[1], found[2] or ''))),
    (r"missing from madod [a-z ]+: (.*?)(?: Unrecognized options: (\S+).*)?",
     lambda found: f"missing: {_apart(found[1])}"
     + (f"; {_unknown(found[2], _near(found[2], found[1]))}" if found[2] else "")),
    (r"missing value for argument '(.*)'\. Expected .*",
     lambda found: f"{found[1]} is without a value" if found[1][0] == "-" else f"missing: {found[1].upper()}"),
)  # fmt: skip
"""What the parser says of a wrong word, and how a person would."""
BOXED = 80
"""Columns that the parser's messages are drawn in, whatever the terminal's: in fewer it breaks what is looked for."""
LEAST = 40
"""Columns that help is given in at least: in five the parser comes to no end."""


def parse(form: type[A], arguments: Sequence[str], verb: str, about: str) -> A:
    """Fill a dataclass from the words behind a verb; without --help, a wrong word is refused in a sentence."""
    if "" in arguments:  # as a path it would be the folder that one is in
        raise InputError("a name is empty: name a file or a folder; the one that you are in is .")
    helping = not {"-h", "--help"}.isdisjoint(arguments)
    if helping:
        from madod.cli.helping import let_flow

        let_flow(form)
    else:
        _refuse_bare(form, arguments, verb)
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said), terminal(plain=not helping):
            words = ["--help"] if helping else list(arguments)
            return tyro.cli(
                form, prog=f"madod {verb}", description=about, args=words, config=(tyro.conf.OmitArgPrefixes,)
            )
    except SystemExit as stop:
        if stop.code in (0, None):
            raise
        refusal = sentence(said.getvalue(), verb)
        known = dict(_options(form))
        stray = next((word for word in arguments if word[:2] == "--" and word.partition("=")[0] not in known), None)
        if stray and refusal.startswith("missing: ") and stray not in refusal:  # words behind it were lost with it
            refusal = f"{_unknown(stray, _near(stray, ' '.join(known)))}; madod {verb} --help says what there is"
        raise InputError(refusal + _dashed(arguments, known)) from None


@contextlib.contextmanager
def terminal(*, plain: bool) -> Iterator[None]:
    """Have the parser draw for a terminal as it is, but wide enough; or for a plain one, where its words are read."""
    before = {name: os.environ.get(name) for name in ("COLUMNS", "TERM")}
    os.environ["COLUMNS"] = str(BOXED if plain else max(LEAST, get_terminal_size().columns))
    if plain or os.environ.get("NO_COLOR"):
        os.environ["TERM"] = "dumb"  # which is all that it heeds
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def left_open(metavar: str) -> Any:
    """Return how help shows an option that is chosen by rule unless it is given: it has no default to speak of."""
    return tyro.conf.arg(metavar=metavar, help_behavior_hint="")


def _meant(wrong: str, offered: str) -> str:
    """Return which of the options that the parser offers was meant: one that starts so, or else the most alike."""
    word, options = wrong.partition("=")[0], re.findall(r"--[\w-]+", offered)
    longer = sorted((option for option in options if option.startswith(word)), key=len)
    found = longer or difflib.get_close_matches(word, options, n=1, cutoff=0)
    return f" (did you mean {found[0]}?)" if found else ""


def _unknown(word: str, meant: str = "") -> str:
    """Return what is said of a word that has no place; not every one looks like an option."""
    return f"there is no option {word}{meant}" if word.startswith("-") else f"{word} is a word too many"


def _dashed(arguments: Sequence[str], known: Mapping[str, Any]) -> str:
    """Return how to give a value that starts with a dash, where one may be meant: it is taken for an option."""
    for option, word in pairwise(arguments):
        if known.get(option, Switch) != Switch and re.match(r"-[^-\d.]", word):
            return f"; a value that starts with a dash is given as {option}={word}"
    return ""


def _options(form: Any) -> Iterator[tuple[str, Any]]:
    """Yield the options of a dataclass and of those inside it, with their types; what goes by its place is none."""
    for field in fields(form):
        if tyro.conf.Positional in getattr(field.type, "__metadata__", ()):
            continue
        inside = field.type if isinstance(field.type, type) and is_dataclass(field.type) else None
        yield from _options(inside) if inside else ((f"--{field.name.replace('_', '-')}", field.type),)


def _near(wrong: str, offered: str) -> str:
    """Return which of these options was meant, where one is near enough."""
    near = difflib.get_close_matches(wrong.partition("=")[0], re.findall(r"--[\w-]+", offered), cutoff=0.7)
    return _meant(wrong, " ".join(near))


def _refuse_bare(form: Any, arguments: Sequence[str], verb: str) -> None:
    """Refuse an option that takes one word or more and has none: the parser would take it for not given."""
    kinds = {option: get_origin(getattr(kind, "__origin__", kind)) for option, kind in _options(form)}
    for option, word in pairwise([*arguments, "--"]):
        if kinds.get(option.replace("_", "-")) is tuple and word.startswith("--"):
            raise InputError(f"{option} is without a value; madod {verb} --help says what there is")


def _apart(missing: str) -> str:
    """Return what is missing, each with what it is, told apart."""
    return "; and ".join(part.strip() for part in missing.split(". (required)") if part.strip())


def _choices(listed: str) -> str:
    words = sorted(word for word in re.findall(r"'([^']*)'", listed) if word != "None")
    return f"{', '.join(words[:-1])} or {words[-1]}" if len(words) > 1 else words[0]


def sentence(panel: str, verb: str) -> str:
    """Return what a boxed message says, as one plain sentence."""
    inside = [line.strip("│ ") for line in panel.splitlines()[1:]]  # below the title; drawn in ASCII it has no sides
    said = [line for line in inside if line.strip("─-╰╯")]
    reason = " ".join(line for line in said if "full helptext" not in line)
    for aside in (". Got errors:", " Argument helptext:", f" madod {verb} --help"):
        reason = reason.partition(aside)[0]
    reason = f"{reason[:1].lower()}{reason[1:]}".rstrip(". ")
    for pattern, reworded in REWORDED:
        if found := re.fullmatch(pattern, reason):
            reason = reworded(found)
    return f"{reason}; madod {verb} --help says what there is"


def torch_device(name: str) -> Any:
    """Return the device of a name; torch is imported only when one is asked for."""
    from madod.models.device import device_named

    return device_named(name)


def cache_folder(given: Path | None) -> Path:
    """Return where decoded images and generators are kept."""
    from madod.data.cache import cache_dir

    return given or cache_dir()
