"""Parses JSON as strictly as money needs it: text that two readers could understand differently is
rejected (G7; RFC 8259, I-JSON RFC 7493).

The structure of the text is limited before it is parsed: a parser makes an object for each value,
so that many small values cost a hundred times what the same length of plain text costs."""

from __future__ import annotations

import json
import re
from typing import Final, NoReturn, TypeAlias, TypeVar

from attrs import frozen

from mmo_sansio.values.problems import MALFORMED, ProblemError

# Levels of objects and arrays, the outermost included: no request needs more than three.
NESTING_MAX: Final = 32

# Members and elements of all objects and arrays together: no request needs more than thirty.
VALUES_MAX: Final = 1_000

# Possessive, so that hostile text takes no longer than its length; an open string ends the text.
_STRING_OR_STRUCTURE: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|[\[{\]},]', re.DOTALL)
# Only an escape can bring one in: UTF-8 has none.
_ESCAPED_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")


@frozen
class JsonNumber:
    """Holds a JSON number as text; its field converts it."""

    text: str
    """The number as it was written."""


ValueT = TypeVar("ValueT")

JsonValue: TypeAlias = "str | JsonNumber | bool | list[JsonValue] | dict[str, JsonValue] | None"


def structure_error(body: bytes) -> str | None:
    """Return why JSON text has too much structure, to complete the sentence `It can't be read: …`;
    None when it has not. The text need not be valid JSON."""
    # Most texts have few brackets and commas, even with those inside of strings.
    openings = body.count(b"{") + body.count(b"[")
    if openings <= NESTING_MAX and openings + body.count(b",") <= VALUES_MAX:
        return None

    depth = 0
    values = 0
    for found in _STRING_OR_STRUCTURE.finditer(body):
        token = found[0]
        if token in (b"{", b"["):
            depth += 1
            values += 1
            if depth > NESTING_MAX:
                return f"it is nested deeper than {NESTING_MAX} levels"
        elif token == b",":
            values += 1
        elif token in (b"}", b"]"):
            depth -= 1

        if values > VALUES_MAX:
            return f"it has more than {VALUES_MAX} members and elements"

    return None


def parse_object(body: bytes) -> dict[str, JsonValue]:
    """Return the members of the JSON object in the body, in their order.

    Raises ProblemError with `bad_request` for a body that is not UTF-8 or not JSON (NaN, Infinity,
    a BOM and trailing bytes included), has lone surrogates, a member twice in one object, more than
    32 levels or 1,000 values, and for any value but an object. Takes time in proportion to the
    body's length."""
    excess = structure_error(body)
    if excess is not None:
        _reject(excess)

    try:
        parsed = _DECODER.decode(body.decode())
    except UnicodeDecodeError as error:
        _reject(f"byte {error.start} is not UTF-8")
    except json.JSONDecodeError as error:
        _reject(f"{error.msg} at line {error.lineno}, column {error.colno}")
    except ValueError as error:
        _reject(str(error))

    # To look through all strings takes time, and hardly any text has such an escape.
    if _ESCAPED_SURROGATE.search(body) and _has_lone_surrogates(parsed):
        _reject("it has half of a surrogate pair")

    if not isinstance(parsed, dict):
        _reject("it is no object")

    return parsed


def _reject(reason: str) -> NoReturn:
    raise ProblemError(MALFORMED.problem(f"The body can't be read as a JSON object: {reason}."))


def unique_members(pairs: list[tuple[str, ValueT]]) -> dict[str, ValueT]:
    """Return the members of an object. Raises ValueError where two have one name."""
    # Of two members with one name one reader takes the first, another the last: for an amount that
    # is money.
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("an object has two members of one name")
    return members


def reject_constant(name: str) -> NoReturn:
    """Raise ValueError for what Python reads and JSON does not have: NaN, Infinity."""
    raise ValueError(f"{name} is not JSON")


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=unique_members,
    # Numbers stay text: a float would change amounts, and an integer of many digits costs time.
    parse_float=JsonNumber,
    parse_int=JsonNumber,
    parse_constant=reject_constant,
)


def _has_lone_surrogates(parsed: JsonValue) -> bool:
    try:
        json.dumps(parsed, ensure_ascii=False, default=lambda number: number.text).encode()
    except UnicodeEncodeError:
        return True
    return False
