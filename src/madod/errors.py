"""What a person can mend, and words for it."""

import os
import shlex
import sysconfig
import traceback
from collections.abc import Sequence
from pathlib import Path


class InputError(ValueError):
    """One sentence: what was wrong, where, and what to do; the command line prints it and exits with 2."""


class NoSpaceError(InputError):
    """The disk is full: nothing is wrong with what was to be written, and the same command may succeed later."""


NO_MEMORY = ("out of memory", "can't allocate memory", "not enough memory", "STATUS_ALLOC_FAILED")
"""Words of torch, and of a GPU's libraries, where memory ran out."""


def is_out_of_memory(error: BaseException) -> bool:
    """Tell whether memory ran out, by the error or one that led to it; torch says so by a name, or in words alone."""
    if isinstance(error, MemoryError):
        return True
    if isinstance(error, RuntimeError) and (
        type(error).__name__ == "OutOfMemoryError" or any(words in str(error) for words in NO_MEMORY)
    ):
        return True
    before = error.__cause__ or error.__context__
    return isinstance(error, RuntimeError) and before is not None and is_out_of_memory(before)


def outside(error: BaseException) -> str:
    """Say what an error is and in which line of an outside method, detector or dataset; nothing where it is in none.

    Such a line lies neither in madod nor in Python or what is installed there.
    """
    ours, python = Path(__file__).parent, Path(sysconfig.get_path("stdlib"))
    for step in reversed(traceback.extract_tb(error.__traceback__)):
        file = Path(step.filename)
        installed = {"site-packages", "dist-packages"} & set(file.parts)
        if file.suffix == ".py" and not installed and not {ours, python} & set(file.parents):
            said = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}".removesuffix(": ")
            return f"{file}, line {step.lineno} (in {step.name}): {said}"
    return ""


def first_few(names: Sequence[object], most: int) -> str:
    """Return the first names, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(str, names[:most])) + more


def typed(path: Path) -> str:
    """Return a path as it is typed into a shell; one that starts with a dash would be taken for an option.

    Characters that cannot be seen, such as line breaks, are typed by their bytes, as bash and zsh take them: $'\\x0a'.
    """
    word = f"./{path}" if str(path).startswith("-") else str(path)
    return shlex.quote(word) if word.isprintable() else f"$'{''.join(map(_spelt, word))}'"


def _spelt(letter: str) -> str:
    """Return a letter as it stands between $' and '."""
    if letter in "\\'":
        return f"\\{letter}"
    return letter if letter.isprintable() else "".join(f"\\x{byte:02x}" for byte in os.fsencode(letter))


def nearest(word: str, words: list[str] | tuple[str, ...]) -> str:
    """Return " (did you mean 'x'?)" for the closest of the words, or nothing where none is close."""
    import difflib

    close = difflib.get_close_matches(word, words, n=1, cutoff=0.6)
    return f" (did you mean {close[0]!r}?)" if close else ""
