"""Reads the bodies that operators document, in `tests/captures/KIND/bodies.toml`: what adapters are
told in tests, and what simulators must tell."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from attrs import frozen

from mmo_sansio.testing import REFERENCE

CAPTURES = Path(__file__).parents[1] / "captures"
DEEP = b"[" * 100_000
_REPEATED = re.compile(r"(\w)\*(\d+)")


@cache
def read_bodies(kind: str) -> Mapping[str, str]:
    """Return the texts of an operator's bodies by their names; none where it has no file."""
    path = CAPTURES / kind / "bodies.toml"
    found = tomllib.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return {name: body["text"].strip() for name, body in found.items()}


def documented(kind: str, name: str, **changes: Any) -> Any:
    """Return a body of an operator's documentation, with these members changed; None leaves one
    out."""
    document = json.loads(read_bodies(kind)[name].replace("{reference}", REFERENCE))
    for member, value in changes.items():
        put(document, member, value)
    return document


def changed_body(
    bodies: Mapping[str, str], words: Sequence[str], placeholders: Mapping[str, str]
) -> bytes:
    """Return the body that words of a row name."""
    if not words or words == ("empty",):
        return b""
    name, *changes = words
    if name == "deep":
        return DEEP
    if name.startswith("\\"):
        return name.encode().decode("unicode_escape").encode("latin-1")
    text = " ".join(words)
    if name[0] not in "{[<":
        text = _changed(bodies[name], changes)
    for placeholder, value in {"reference": REFERENCE, **placeholders}.items():
        text = text.replace(f"{{{placeholder}}}", value)
    return text.encode()


def _changed(text: str, changes: Sequence[str]) -> str:
    """Return the text of a body with changes that are written in words."""
    if not changes:
        return text
    document, as_written = json.loads(text), list[str]()
    rest = iter(changes)
    for change in rest:
        member, _, value = change.partition("=")
        if change == "without":
            put(document, next(rest), None)
        elif member.startswith("~"):
            put(document, member[1:], f"as written {len(as_written)}")
            as_written.append(value)
        else:
            put(document, member, to_value(value), is_null_kept=True)
    text = json.dumps(document, separators=(",", ":"))
    for number, value in enumerate(as_written):
        text = text.replace(f'"as written {number}"', value)
    return text


def to_value(text: str) -> Any:
    """Return the value of a JSON text, `x*41` with so many of it, else the text itself."""
    if repeated := _REPEATED.fullmatch(text):
        return repeated[1] * int(repeated[2])
    try:
        return json.loads(text)
    except ValueError:
        return text


@frozen
class Member:
    """A place in a document."""

    path: str
    holder: dict[str, Any]
    key: str
    item_of: tuple[list[Any], object] | None = None
    """The list of which the holder is an item, and the item."""

    @property
    def value(self) -> Any:
        return self.holder[self.key]

    def set(self, value: Any) -> None:
        self.holder[self.key] = value

    def remove(self) -> None:
        if self.item_of is None:
            del self.holder[self.key]
        else:
            items, item = self.item_of
            items.remove(item)


def put(document: Any, name: str, value: Any, *, is_null_kept: bool = False) -> None:
    """Set the member of a document whose path ends with this name, or make one where a plus stands
    before it; None removes it unless null is kept."""
    if name.startswith("+"):
        parent, _, last = name[1:].rpartition(".")
        holder = _find(document, parent).value if parent else document
        holder[last] = value
    elif value is None and not is_null_kept:
        _find(document, name).remove()
    else:
        _find(document, name).set(value)


def _find(document: Any, name: str) -> Member:
    """Return the only member whose path is this, or ends with it."""
    found = [each for each in members(document) if f".{each.path}".endswith(f".{name}")]
    exact = [each for each in found if each.path == name] or found
    assert len(exact) == 1, f"{name} may be each of {[each.path for each in exact]}"
    return exact[0]


def members(value: Any, before: str = "") -> Iterator[Member]:
    """Yield each member of a JSON value; an item of a list that has a name and a value is a member
    of that name."""
    if isinstance(value, dict):
        for name in list(value):
            yield Member(before + name, value, name)
            yield from members(value[name], f"{before}{name}.")
    elif isinstance(value, list):
        for item in list(value):
            name = item.get("Key", item.get("Name")) if isinstance(item, dict) else None
            if name is None:
                yield from members(item, before)
            else:
                yield Member(before + name, item, "Value", (value, item))
