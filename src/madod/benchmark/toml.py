"""TOML that remembers its lines, so that a wrong word can be pointed at."""

import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from madod.errors import InputError
from madod.storage import ordinary

Keys = tuple[str | int, ...]
"""The way to a value: names of tables and keys, numbers in lists of tables."""
_HEADER = re.compile(r"\s*(\[\[?)([^\[\]]+)\]\]?")
_KEY = re.compile(r"""\s*((?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*)\s*=""")


def dotted(keys: Keys) -> str:
    """Return what a value is called in its own table: steps, or lengths.erm."""
    return ".".join(key for key in keys[-2:] if isinstance(key, str))


class Span(NamedTuple):
    """A header or a key, and the lines (from 0) that belong to it."""

    keys: Keys
    start: int
    end: int


class Toml:
    """A TOML file: its values, and the line that each of them is written on."""

    def __init__(self, file: Path) -> None:
        self.file = file
        try:
            self.text = ordinary(file).read_text(encoding="utf-8-sig")  # some editors put a mark at its start
            self.values: dict[str, Any] = tomllib.loads(self.text)
        except OSError as error:
            raise InputError(f"the plan {file} cannot be read ({error.strerror}): check the path") from error
        except UnicodeDecodeError as error:
            raise InputError(f"{file} is no text in UTF-8, which a plan has to be: save it as such") from error
        except (ValueError, RecursionError) as error:  # wrong TOML, or brackets without end
            raise InputError(f"{file} is no TOML: {error}") from error
        self.lines = self.text.splitlines()

    def line(self, keys: Keys, word: object = None) -> int:
        """Return the line (from 1) of a value, or of a word in it; of what it belongs to where it has none."""
        spans = list(_spans(self.lines))
        for length in range(len(keys), 0, -1):
            for span in spans:
                if span.keys == keys[:length]:
                    sought = keys[length] if length < len(keys) and isinstance(keys[length], str) else word
                    return self._within(span, sought) + 1
        return 1

    def _within(self, span: Span, word: object) -> int:
        mark = re.compile(rf"(?<![\w-]){re.escape(str(word))}(?![\w-])")
        found = (n for n in range(span.start, span.end) if word is not None and mark.search(self.lines[n]))
        return next(found, span.start)

    def refusal(self, keys: Keys, sentence: str, word: object = None) -> InputError:
        """Return the error that says where in the file something is wrong, and what."""
        return InputError(f"{self.file}, line {self.line(keys, word)}: {sentence}")

    @contextmanager
    def at(self, keys: Keys, word: object = None) -> Iterator[None]:
        """Give what is refused inside the place where it is written."""
        try:
            yield
        except InputError as error:
            raise self.refusal(keys, str(error), word) from error


def _spans(lines: list[str]) -> Iterator[Span]:
    """Yield every header and key with its lines; a header's end at the next header."""
    counts: Counter[Keys] = Counter()
    marks: list[tuple[Keys, int, bool]] = []
    table: Keys = ()
    for number, line in enumerate(lines):
        if header := _HEADER.fullmatch(line.partition("#")[0].rstrip()):
            table = _resolved(_names(header[2]), counts)
            if header[1] == "[[":
                counts[table] += 1
                table = (*table, counts[table] - 1)
            marks.append((table, number, True))
        elif key := _KEY.match(line):
            marks.append(((*table, *_names(key[1])), number, False))
    for k, (keys, start, is_header) in enumerate(marks):
        following = (other[1] for other in marks[k + 1 :] if other[2] or not is_header)
        yield Span(keys, start, next(following, len(lines)))


def _names(dotted: str) -> tuple[str, ...]:
    return tuple(part.strip().strip("\"'") for part in dotted.split("."))


def _resolved(names: tuple[str, ...], counts: Counter[Keys]) -> Keys:
    """Put the number of the latest table of a list behind the name of the list, all but at the end."""
    keys: Keys = ()
    for k, name in enumerate(names):
        keys = (*keys, name)
        if counts[keys] and k < len(names) - 1:
            keys = (*keys, counts[keys] - 1)
    return keys
