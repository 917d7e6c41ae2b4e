"""What a field takes, by its type: the same for a plan, the command line and Python, and refused in the same words."""

import types
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from numbers import Integral, Real
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from madod.errors import InputError, nearest

KINDS: dict[Any, str] = {str: "a text in quotes", int: "a whole number", float: "a number", bool: "true or false"}
PLURAL: dict[Any, str] = {str: "texts", int: "whole numbers", float: "numbers"}

F = TypeVar("F")

hints: Callable[[Any], dict[str, Any]] = cache(get_type_hints)
"""Gives the type of every field of a dataclass, without what is annotated."""


class Misfit(ValueError):  # noqa: N818  # caught where its field is known
    """A value of another kind than its field."""


def taken(name: str, hint: Any, value: Any) -> Any:
    """Return a value as the field of this name wants it, lists as tuples and whole numbers as floats, or refuse it.

    Of a table it is the key with a wrong value that is refused.
    """
    inner = inside(hint)
    if inner is not None and isinstance(value, dict):
        return {key: taken(f"{name}.{key}", inner, item) for key, item in value.items()}
    try:
        return _as(hint, value)
    except Misfit:
        raise InputError(f"{name} cannot be {value!r}{_near(hint, value)}: it has to be {kind(hint)}") from None


def filled(form: type[F], **given: Any) -> F:
    """Return a dataclass with these values, each as its field wants it."""
    return form(**{name: taken(name, hints(form)[name], value) for name, value in given.items()})


def _as(hint: Any, value: Any) -> Any:
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        for one in parts:
            try:
                return _as(one, value)
            except Misfit:
                continue
        raise Misfit(value)
    if origin is tuple and isinstance(value, list | tuple):
        return tuple(_as(parts[0], item) for item in value)
    if origin is Literal and value in parts:
        return value
    if inside(hint) is not None and isinstance(value, dict):
        return {key: _as(inside(hint), item) for key, item in value.items()}
    if hint is Any or type(value) is hint:
        return value
    if hint is str and isinstance(value, str):  # numpy's texts, and those of enumerations
        return str.__str__(value)
    number = {int: Integral, float: Real}.get(hint)
    if number and isinstance(value, number) and not isinstance(value, bool):
        with suppress(OverflowError):  # a whole number of hundreds of digits is no float
            return hint(value)
    raise Misfit(value)


def inside(hint: Any) -> Any | None:
    """Return what the values of a table have to be; nothing where a field is no table."""
    origin = get_origin(hint)
    return get_args(hint)[1] if isinstance(origin, type) and issubclass(origin, Mapping) else None


def kind(hint: Any) -> str:
    """Say what a field wants."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return " or ".join(kind(one) for one in parts if one is not type(None))
    if origin is tuple:
        return f"a list of {PLURAL.get(parts[0], 'texts or lists of texts')}"
    if inside(hint) in PLURAL:
        return f"a table of {PLURAL[inside(hint)]}"
    if origin is Literal:
        return "one of " + ", ".join(map(str, parts))
    return KINDS.get(hint, "a table of keys and values")


def _near(hint: Any, value: Any) -> str:
    words = get_args(hint) if get_origin(hint) is Literal else ()
    return nearest(str(value), tuple(map(str, words)))
