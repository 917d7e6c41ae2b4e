"""Dataclasses filled from TOML: a field is a key, and whatever does not fit is refused with its line."""

import types
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from madod.benchmark.toml import Keys, Toml
from madod.errors import nearest

F = TypeVar("F")
KINDS: dict[Any, str] = {str: "a text in quotes", int: "a whole number", float: "a number", bool: "true or false"}
PLURAL: dict[Any, str] = {str: "texts", int: "whole numbers", float: "numbers"}


class Misfit(ValueError):  # noqa: N818  # caught where its line is known
    """A value of another kind than its field."""


def filled(form: type[F], table: Mapping[str, Any], toml: Toml, keys: Keys = ()) -> F:
    """Return a dataclass with the values of a table; a key without a field is refused with the nearest right one."""
    hints = get_type_hints(form)
    own = [field for field in fields(form) if field.init]  # type: ignore[arg-type]  # every form is a dataclass
    for key in table:
        if key not in hints:
            raise toml.refusal(
                (*keys, key), f"there is no key {key!r} here{nearest(key, tuple(hints))}; there are: {', '.join(hints)}"
            )
    for field in own:
        if field.default is MISSING and field.default_factory is MISSING and field.name not in table:
            raise toml.refusal(keys, f"the key {field.name!r} is missing: add {field.name} = ...")
    return form(**{key: _field(hints[key], value, toml, (*keys, key)) for key, value in table.items()})


def _field(hint: Any, value: Any, toml: Toml, keys: Keys) -> Any:
    inner = get_args(hint)[0] if get_origin(hint) is tuple else None
    if is_dataclass(inner) and isinstance(inner, type):
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            raise toml.refusal(keys, f"{keys[-1]} has to be a list of tables: write [[{keys[-1]}]]")
        return tuple(filled(inner, item, toml, (*keys, k)) for k, item in enumerate(value))
    try:
        return taken(hint, value)
    except Misfit:
        raise toml.refusal(
            keys, f"{keys[-1]} cannot be {value!r}{_near(hint, value)}: it has to be {kind(hint)}"
        ) from None


def taken(hint: Any, value: Any) -> Any:
    """Return a value as its field wants it: lists as tuples, whole numbers as floats."""
    origin, inside = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        for one in inside:
            try:
                return taken(one, value)
            except Misfit:
                continue
        raise Misfit(value)
    if origin is tuple and isinstance(value, list):
        return tuple(taken(inside[0], item) for item in value)
    if origin is Literal and value in inside:
        return value
    if origin is not None and _is_mapping(origin) and isinstance(value, dict):
        return {key: taken(inside[1], item) for key, item in value.items()}
    if hint is Any or type(value) is hint:
        return value
    if hint is float and type(value) is int:
        return float(value)
    raise Misfit(value)


def _is_mapping(origin: Any) -> bool:
    return isinstance(origin, type) and issubclass(origin, Mapping)


def kind(hint: Any) -> str:
    """Say what a field wants."""
    origin, inside = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return " or ".join(kind(one) for one in inside if one is not type(None))
    if origin is tuple:
        return f"a list of {PLURAL.get(inside[0], 'texts or lists of texts')}"
    if origin is not None and _is_mapping(origin) and inside[1] in PLURAL:
        return f"a table of {PLURAL[inside[1]]}"
    if origin is Literal:
        return "one of " + ", ".join(map(str, inside))
    return KINDS.get(hint, "a table")


def _near(hint: Any, value: Any) -> str:
    words = get_args(hint) if get_origin(hint) is Literal else ()
    return nearest(str(value), tuple(map(str, words)))
