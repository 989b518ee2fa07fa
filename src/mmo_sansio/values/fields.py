"""Declares what people may write into the tables of their TOML files, and reads such a table.

A field has a name, a kind, a default and a meaning. The same declaration reads the value, words the
fault of one that can't be used, and is a row of the documentation. A value is what TOML has, or the
text of an environment variable, which has no numbers and lists. No message repeats a value, as it
may be a secret under a wrong name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date
from typing import Any, Final, TypeVar

import attrs
from attrs import NOTHING, Factory, frozen

from mmo_sansio.values.near_match import near_match

T = TypeVar("T")

# The default of a field that may not be left out.
REQUIRED: Final[Any] = NOTHING

# No whole number that people write is larger.
_NUMBER_MAX: Final = 10**9 - 1
_DIGITS = re.compile(r"[0-9]{1,9}", re.ASCII)

# Credentials go to this address. No user, query or fragment: paths are appended to it.
_HTTPS = re.compile(r"https://[^\s/?#@]+(/[^\s?#]*)?", re.ASCII)
# A simulator on this machine has no certificate; nothing leaves the machine to it.
_LOCAL_HTTP = re.compile(r"http://(localhost|127\.[0-9.]+|\[::1\])(:[0-9]+)?(/[^\s?#]*)?", re.ASCII)
# A key goes into a header: visible ASCII, so that no line break can begin another one.
_HEADER_TEXT = re.compile(r"[!-~]+", re.ASCII)

_BOOLEAN_WORDS: Final[Mapping[str, bool]] = {
    **dict.fromkeys(("true", "yes", "on", "1"), True),
    **dict.fromkeys(("false", "no", "off", "0"), False),
}


class SettingsError(Exception):
    """Reports what can't be used of what people have written; the message names the place, the
    fault and the remedy, in a line for each fault."""

    def __init__(
        self,
        location: str,
        fault: str,
        remedy: str = "",
        *,
        others: Sequence[SettingsError] = (),
    ) -> None:
        place = f"{location}: " if location else ""
        super().__init__("\n".join((f"{place}{fault} {remedy}".rstrip(), *map(str, others))))

        # The name of a field, with the tables and the file around it as far as the reader knows.
        self.location = location
        self.fault = fault
        self.remedy = remedy
        self._others = others

    @property
    def each(self) -> Sequence[SettingsError]:
        """Return the faults one by one."""
        if not self._others:
            return (self,)
        return (SettingsError(self.location, self.fault, self.remedy), *self._others)

    def within(self, outer: str, joint: str = ".") -> SettingsError:
        """Return the same of a table that stands in another one, or in a file."""
        inner, *others = self.each
        location = outer
        if inner.location:
            location = f"{outer}{joint}{inner.location}"

        placed = tuple(other.within(outer, joint) for other in others)
        return SettingsError(location, inner.fault, inner.remedy, others=placed)


class InvalidValue(SettingsError):
    """Reports a value that can't be used, whose place only its reader knows."""

    def __init__(self, fault: str, remedy: str = "") -> None:
        super().__init__("", fault, remedy)


@contextmanager
def collected(faults: list[SettingsError]) -> Iterator[None]:
    """Append the faults that are raised in the block."""
    try:
        yield
    except SettingsError as error:
        faults += error.each


def raise_faults(faults: Sequence[SettingsError]) -> None:
    """Raise one error for all of these faults, if there are any: who writes a file mends it
    once."""
    if len(faults) == 1:
        raise faults[0]
    if faults:
        first, *others = faults
        raise SettingsError(first.location, first.fault, first.remedy, others=others)


@frozen
class Kind:
    """Says how a kind of value is read and written."""

    name: str
    """Its name in the documentation."""
    parse: Callable[[Any], Any]
    """Raises ValueError or KeyError for a value that is none of this kind; InvalidValue where more
    is to be said than that."""
    demand: str
    """What a value has to be, for the sentence *must be …*."""
    example: str
    """One as it is written in a file."""
    format: Callable[[Any], str] = str
    is_secret: bool = False
    """Whether it must never be shown."""
    joint: str = "."
    """What stands between the name of a table and those of its fields."""

    def read(self, value: Any) -> Any:
        """Return the value. Raises SettingsError."""
        try:
            return self.parse(value)
        except (ValueError, KeyError):
            raise InvalidValue(
                f"must be {self.demand}.", f"Write it like {self.example}."
            ) from None


@frozen
class Field:
    """Describes one field of a table."""

    name: str
    kind: Kind
    default: Any
    """What holds without it; REQUIRED: it may not be left out."""
    meaning: str
    """What it is for, in a sentence or two, as the documentation has it."""
    default_text: str = ""
    """How people read the default, as far as its value, or *none* for None, does not say it."""
    attribute: str = Factory(lambda self: self.name, takes_self=True)
    """The name of its value in the class that the table becomes."""

    @property
    def default_words(self) -> str:
        """Return the default as the documentation has it."""
        if self.default is REQUIRED:
            return "required"
        if self.default is None and not self.default_text:
            return "none"
        return self.default_text or f"`{self.kind.format(self.default)}`"

    def read(self, values: Mapping[str, Any]) -> Any:
        """Return its value in this table. Raises SettingsError."""
        if self.name not in values:
            raise SettingsError(
                self.name, "is missing.", f"Write {self.name} = {self.kind.example}."
            )
        try:
            return self.kind.read(values[self.name])
        except SettingsError as error:
            raise error.within(self.name, self.kind.joint) from None


def setting(
    kind: Kind, default: Any, meaning: str, *, default_text: str = "", name: str = ""
) -> Any:
    """Declare an attribute of an attrs class to be a field; `name` is its name in the file, where
    that is another one."""
    return attrs.field(
        default=default,
        kw_only=True,
        repr=not kind.is_secret,
        metadata={"field": Field(name, kind, default, meaning, default_text)},
    )


def fields_of(table: type[Any]) -> tuple[Field, ...]:
    """Return the fields that an attrs class declares, in its order."""
    return tuple(
        attrs.evolve(field, name=field.name or attribute.name, attribute=attribute.name)
        for attribute in attrs.fields(table)
        if (field := attribute.metadata.get("field"))
    )


def read_fields(fields: Sequence[Field], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the table sets, by attribute. Raises SettingsError, which names the faults of all
    fields: one that is unknown, misspelt perhaps, would silently not apply."""
    faults = list(unknown_names(values, [field.name for field in fields]))
    read = {}
    for field in fields:
        if field.name in values or field.default is REQUIRED:
            with collected(faults):
                read[field.attribute] = field.read(values)

    raise_faults(faults)
    return read


def read_table(table: type[T], values: Mapping[str, Any], **given: Any) -> T:
    """Return an instance of a class that declares its fields; `given` are its other attributes.
    Raises SettingsError, which names the faults of all fields."""
    return table(**read_fields(fields_of(table), values), **given)


def among(fields: Iterable[Field], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of the values that belong to these fields."""
    return {field.name: values[field.name] for field in fields if field.name in values}


def unknown_names(values: Iterable[str], known: Iterable[str]) -> Iterator[SettingsError]:
    """Yield a fault for each name that is not among the known ones."""
    names = tuple(known)
    for name in values:
        if name not in names:
            yield SettingsError(name, "there is no such key.", near_match(name, names))


def of_text(parse: Callable[[str], T]) -> Callable[[Any], T]:
    """Return the parser of a value that is text, without white space around it. A whole number may
    stand without quotes: a shortcode, say."""

    def read(value: Any) -> T:
        if type(value) is int:
            value = str(value)
        if not isinstance(value, str) or not value.strip():
            raise ValueError("it is no text")
        return parse(value.strip())

    return read


def of_list(parse: Callable[[str], T]) -> Callable[[Any], tuple[T, ...]]:
    """Return the parser of a list, or of text with commas, as an environment variable has it."""
    parse_part = of_text(parse)

    def read(value: Any) -> tuple[T, ...]:
        parts = value
        if isinstance(value, str):
            parts = [part for part in value.split(",") if part.strip()]
        if not isinstance(parts, list):
            raise ValueError("it is no list")
        return tuple(parse_part(part) for part in parts)

    return read


def matching(pattern: re.Pattern[str], demand: str, example: str, *, name: str = "text") -> Kind:
    """Return the kind of text that is wholly of this pattern."""

    def parse(text: str) -> str:
        if pattern.fullmatch(text) is None:
            raise ValueError("it is not of the pattern")
        return text

    return Kind(name, of_text(parse), demand, example)


def one_of(*words: str) -> Kind:
    """Return the kind of a value that is one of these words."""
    name = " or ".join(f'"{word}"' for word in words)

    def parse(text: str) -> str:
        if text not in words:
            raise ValueError("it is none of the words")
        return text

    return Kind(name, of_text(parse), name, f'"{words[0]}"')


def whole_number(least: int = 0, most: int = _NUMBER_MAX, *, name: str = "number") -> Kind:
    """Return the kind of whole numbers in this range."""
    if most == _NUMBER_MAX:
        demand = f"a whole number, at least {least}"
    else:
        demand = f"a whole number from {least} to {most}"

    def parse(text: str) -> int:
        if _DIGITS.fullmatch(text) is None or not least <= int(text) <= most:
            raise ValueError("it is no such number")
        return int(text)

    return Kind(name, of_text(parse), demand, str(max(least, 1)))


def table(read: Callable[[Mapping[str, Any]], Any], example: str, *, name: str = "table") -> Kind:
    """Return the kind of a table that this function reads; it raises SettingsError."""

    def parse(value: Any) -> Any:
        if not isinstance(value, dict):
            raise ValueError("it is no table")
        return read(value)

    return Kind(name, parse, "a table", example)


def tables(
    read: Callable[[Mapping[str, Any]], Any],
    header: str,
    label: Callable[[Mapping[str, Any]], str | None] = lambda _: None,
) -> Kind:
    """Return the kind of a list of tables that this function reads, with a header for each.

    A fault names a table by its label, or else by its number, from 1."""

    def parse(values: Any) -> tuple[Any, ...]:
        if not isinstance(values, list) or not all(isinstance(value, dict) for value in values):
            raise InvalidValue("must be a list of tables.", f"Begin each with {header}.")

        faults: list[SettingsError] = []
        found = []
        for number, value in enumerate(values, 1):
            with collected(faults):
                try:
                    found.append(read(value))
                except SettingsError as error:
                    raise error.within(label(value) or str(number), ", ") from None

        raise_faults(faults)
        return tuple(found)

    return Kind(f"`{header}` tables", parse, "a list of tables", header, joint=" ")


def _switch(value: Any) -> bool:
    # TOML's true is Python's True; an environment variable holds the word.
    if isinstance(value, bool):
        return value
    word = of_text(str.lower)(value)
    if word not in _BOOLEAN_WORDS:
        raise ValueError("it is neither")
    return _BOOLEAN_WORDS[word]


def _https_url(text: str) -> str:
    # Without the slash, as callers append paths that begin with one.
    url = text.rstrip("/")
    if not (_HTTPS.fullmatch(url) or _LOCAL_HTTP.fullmatch(url)):
        raise ValueError("it is no https address")
    return url


def _header_text(text: str) -> str:
    if _HEADER_TEXT.fullmatch(text) is None:
        raise InvalidValue("holds a character that no key has.", "Copy it again.")
    return text


TEXT: Final = Kind("text", of_text(str), "text", '"…"')
SECRET: Final = Kind("text", of_text(str), "text", '"…"', is_secret=True)
HEADER_SECRET: Final = Kind("text", of_text(_header_text), "text", '"…"', is_secret=True)
NUMBER: Final = whole_number()
SWITCH: Final = Kind(
    "true or false", _switch, "true or false", "true", lambda value: str(value).lower()
)
# The address of an operator: http on this machine only, and no slash at its end.
HTTPS_URL: Final = Kind(
    "address (URL)", of_text(_https_url), "an https address", '"https://api.example"'
)
# TOML has dates of its own; an environment variable has the text of one.
DATE: Final = Kind("date", lambda value: date.fromisoformat(str(value)), "a date", '"2026-11-30"')
