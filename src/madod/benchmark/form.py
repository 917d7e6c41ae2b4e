"""Dataclasses filled from TOML: a field is a key, and whatever does not fit is refused with its line."""

from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, TypeVar, get_args, get_origin

from madod.benchmark.toml import Keys, Toml, dotted
from madod.errors import nearest
from madod.kinds import hints, inside, taken

F = TypeVar("F")


def filled(form: type[F], table: Mapping[str, Any], toml: Toml, keys: Keys = ()) -> F:
    """Return a dataclass with the values of a table; a key without a field is refused with the nearest right one."""
    wanted = hints(form)
    own = [field for field in fields(form) if field.init]  # type: ignore[arg-type]  # every form is a dataclass
    for key in table:
        if key not in wanted:
            close, there = nearest(key, tuple(wanted)), ", ".join(wanted)
            raise toml.refusal((*keys, key), f"there is no key {key!r} here{close}; there are: {there}")
    for field in own:
        if field.default is MISSING and field.default_factory is MISSING and field.name not in table:
            add = f"[[{field.name}]] and keys below it" if _tables(wanted[field.name]) else f"{field.name} = ..."
            raise toml.refusal(keys, f"the key {field.name!r} is missing: add {add}")
    return form(**{key: _field(wanted[key], value, toml, (*keys, key)) for key, value in table.items()})


def _field(hint: Any, value: Any, toml: Toml, keys: Keys) -> Any:
    if inner := _tables(hint):
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            raise toml.refusal(keys, f"{keys[-1]} has to be a list of tables: write [[{keys[-1]}]]")
        return tuple(filled(inner, item, toml, (*keys, k)) for k, item in enumerate(value))
    values = inside(hint)
    if values is not None and isinstance(value, dict):
        return {key: _field(values, item, toml, (*keys, key)) for key, item in value.items()}
    with toml.at(keys):
        return taken(dotted(keys), hint, value)


def _tables(hint: Any) -> type[Any] | None:
    """Return what each of a list of tables is to be filled into; nothing where a field is no such list."""
    inner = get_args(hint)[0] if get_origin(hint) is tuple else None
    return inner if isinstance(inner, type) and is_dataclass(inner) else None
