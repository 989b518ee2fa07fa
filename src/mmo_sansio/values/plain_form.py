"""Turns values into what JSON has, each under the name of its attribute, and back by their
types."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Hashable, Mapping
from enum import EnumType
from functools import cache
from types import UnionType
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from attrs import fields, has

T = TypeVar("T")


def to_plain(value: Any) -> Any:
    """Return a value in the form that `from_plain` reads back by its type."""
    match value:
        case bytes():
            return b64encode(value).decode()
        # Sorted, so that equal values have equal forms.
        case frozenset():
            return sorted(value)
        case tuple():
            return [to_plain(element) for element in value]
        case Mapping():
            return {key: to_plain(member) for key, member in value.items()}
        case _ if has(type(value)):
            return {
                field.name: to_plain(getattr(value, field.name)) for field in fields(type(value))
            }
        case _:
            return value


def from_plain(kind: type[T], plain: Any) -> T:
    """Return the value of this type that has this plain form. Raises ValueError, KeyError or
    TypeError where it has none."""
    value: T = _reader(cast("Hashable", kind))(plain)
    return value


@cache
def _reader(kind: Any) -> Callable[[Any], Any]:
    """Return what makes a value of this type from its plain form."""
    # Readers of the arguments: of the elements of a tuple, of the key and value of a mapping.
    parts = tuple(_reader(argument) for argument in get_args(kind) if argument is not Ellipsis)
    collection = get_origin(kind)
    # The only unions are with None.
    if collection in (UnionType, Union):  # The second is what NewType makes.
        return lambda plain: None if plain is None else parts[0](plain)
    if collection is Mapping:
        return lambda plain: {parts[0](key): parts[1](value) for key, value in plain.items()}
    if collection is not None:
        return lambda plain: collection(map(parts[0], plain))

    # An attrs class: each member by the type of its attribute.
    if has(kind):
        readers = {name: _reader(type_) for name, type_ in get_type_hints(kind).items()}
        return lambda plain: kind(**{name: read(plain[name]) for name, read in readers.items()})

    if kind is bytes:
        return b64decode
    if isinstance(kind, EnumType):
        return kind

    return _unchanged


def _unchanged(plain: Any) -> Any:
    return plain
