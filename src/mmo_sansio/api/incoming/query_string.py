"""Turns the query string of the records into a query for a store (clauses R1 to R6), and that of
the reversals, which are read in the same way; the name of a payee comes in a query string, too."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from attrs import frozen

from mmo_sansio.api.cursor import (
    Cursor,
    CursorError,
    Direction,
    Filters,
    PagedList,
    decode_cursor,
)
from mmo_sansio.api.incoming.creation_body import CONTROL_CHARACTERS, TEXT_MAX, FieldErrors
from mmo_sansio.http.messages import percent_decode
from mmo_sansio.messages.queries import (
    RECORDS_PAGE_DEFAULT,
    RECORDS_PAGE_MAX,
    ListRecords,
    ListReversals,
    Position,
)
from mmo_sansio.values.clock import LAST_INSTANT, MICROSECOND, Instant, later, parse_exact_timestamp
from mmo_sansio.values.model import Status, Type

_INTEGER: Final = re.compile(r"([+-]?)([0-9]++)")
_FILTERS: Final = ("from", "to", "type", "method", "status", "pageSize")
_REVERSAL_FILTERS: Final = ("from", "to", "pageSize")
# The bounds of the window, which a query without a cursor must have.
_TIMES: Final = ("from", "to")
_NAMES: Final = (*_FILTERS, "page", "name")
_DEFAULTS: Final = {"pageSize": str(RECORDS_PAGE_DEFAULT)}


def _spellings(name: str) -> bytes:
    """Return the expression that matches every spelling of a name, with any of its letters
    percent-encoded."""
    return b"".join(b"(?:%b|%%(?i:%02x))" % (letter.encode(), ord(letter)) for letter in name)


_NAME: Final = re.compile(b"|".join(b"(" + _spellings(name) + b")" for name in _NAMES))
_PAIR: Final = re.compile(rb"[^&]++")
_SPACE_FOR_PLUS: Final = re.compile(r" (?=\d\d(?::?\d\d)?\Z)", re.ASCII)
_TYPES: Final = tuple(type_.value for type_ in Type)
_STATUSES: Final = tuple(status.value for status in Status)


@frozen
class RecordsRequest:
    """Asks for a page of records, and keeps the filters for the cursors of its neighbours."""

    query: ListRecords
    filters: Filters


@frozen
class ReversalsRequest:
    """Asks for a page of reversed payments, and keeps the filters for the cursors of its
    neighbours."""

    query: ListReversals
    filters: Filters


def parse_records_query(
    brand: str, query: bytes, *, cursor_keys: Sequence[bytes]
) -> RecordsRequest:
    """Return the page of records that a raw query string asks for (R1 to R5).

    Raises ProblemError with all errors: the cursor's first, then the filters' in the order of the
    specification's table."""
    filters, cursor = _read_page_query(
        query, _FILTERS, PagedList.RECORDS, brand=brand, cursor_keys=cursor_keys
    )
    return RecordsRequest(_list_records(brand, filters, cursor), filters)


def parse_reversals_query(
    brand: str, query: bytes, *, cursor_keys: Sequence[bytes]
) -> ReversalsRequest:
    """Return the page of reversed payments that a raw query string asks for. Raises ProblemError as
    `parse_records_query` does."""
    filters, cursor = _read_page_query(
        query, _REVERSAL_FILTERS, PagedList.REVERSALS, brand=brand, cursor_keys=cursor_keys
    )
    asked = ListReversals(
        brand,
        begin=_bound(filters["from"]),
        end=_bound(filters["to"]),
        page_size=int(filters.get("pageSize", RECORDS_PAGE_DEFAULT)),
        after=_position(cursor, Direction.AFTER),
        before=_position(cursor, Direction.BEFORE),
    )
    return ReversalsRequest(asked, filters)


def parse_payee_name(query: bytes) -> str:
    """Return the name that a raw query string has for a payee; empty without one. Raises
    ProblemError."""
    errors = FieldErrors()
    name = _text("name", _parameters(query), errors) or ""
    if len(name) > TEXT_MAX:
        errors.add("name", f"must have at most {TEXT_MAX} characters")
    errors.raise_if_any()
    return name


def _read_page_query(
    query: bytes,
    names: Sequence[str],
    of: PagedList,
    *,
    brand: str,
    cursor_keys: Sequence[bytes],
) -> tuple[Filters, Cursor | None]:
    """Return the filters with these names, which a cursor of the list brings with it, and the
    cursor. Raises ProblemError."""
    # 1. The cursor: with a good one, all filters are known.
    errors = FieldErrors()
    parameters = _parameters(query)
    page = _text("page", parameters, errors)
    cursor = None
    if page is not None:
        cursor = _decode_page(page, of, brand, cursor_keys, errors)

    # 2. The filters, in the order of the specification's table.
    filters: dict[str, str] = {}
    for name in names:
        text = _text(name, parameters, errors, required=page is None and name in _TIMES)
        if text is not None:
            filters[name] = _canonical(name, text, errors)

        # Only once both are good times; a cursor's window was checked when it was made.
        if name == "to" and page is None and not errors.errors:
            begin = parse_exact_timestamp(filters["from"])
            end = parse_exact_timestamp(filters["to"])
            if end <= begin:
                errors.add("to", "must be later than 'from'")

    # 3. The cursor's own filters count. Those that are repeated must be the same; absent ones need
    # not be repeated (R5).
    if cursor is not None:
        for name, text in filters.items():
            of_cursor = cursor.filters.get(name, _DEFAULTS.get(name))
            if _meaning(name, of_cursor) != _meaning(name, text):
                errors.add(name, "differs from the query of this cursor; send 'page' alone")
        filters = dict(cursor.filters)

    errors.raise_if_any()
    return filters, cursor


def _parameters(query: bytes) -> Mapping[str, list[bytes]]:
    """Return the encoded values of each parameter of ours, with spaces for the `+` that forms
    write. Unknown parameters are ignored (R3), so that thousands of them cost little."""
    parameters: dict[str, list[bytes]] = {}
    # `urllib.parse.parse_qsl` would decode every pair first, wanted or not.
    for pair in _PAIR.findall(query.replace(b"+", b" ")):
        encoded, _, value = pair.partition(b"=")
        name = _NAME.fullmatch(encoded)
        if name is not None and name.lastindex is not None:
            parameters.setdefault(_NAMES[name.lastindex - 1], []).append(value)
    return parameters


def _text(
    name: str, parameters: Mapping[str, list[bytes]], errors: FieldErrors, *, required: bool = False
) -> str | None:
    """Return the trimmed text of a parameter; None if it is absent, blank or invalid."""
    values = parameters.get(name, [b""])

    # Which of two is meant nobody can tell, and programs differ.
    if len(values) > 1:
        errors.add(name, "may be given only once")
        return None

    try:
        text = percent_decode(values[0]).strip()
    except ValueError:
        errors.add(name, "must be UTF-8, percent-encoded once")
        return None

    if CONTROL_CHARACTERS.search(text):
        errors.add(name, "may not contain control characters")
        return None

    if required and not text:
        errors.add(name, "is required")

    return text or None


def _canonical(name: str, text: str, errors: FieldErrors) -> str:
    """Return the text in the form that is compared when filters are resent (R5); unchanged if
    invalid."""
    match name:
        case "from" | "to":
            # The `+` of an offset arrives as a space when it was not encoded (R1).
            return _check_timestamp(name, _SPACE_FOR_PLUS.sub("+", text), errors)
        case "type":
            return _one_of(name, text, _TYPES, errors)
        case "status":
            return _one_of(name, text, _STATUSES, errors)
        case "pageSize":
            return _page_size(text, errors)
        case _:
            return text


def _meaning(name: str, text: str | None) -> object:
    """Return what a filter is compared by: of a time, the instant (R5)."""
    try:
        if text is None or name not in _TIMES:
            return text
        return parse_exact_timestamp(text)
    except ValueError:
        return text


def _check_timestamp(name: str, text: str, errors: FieldErrors) -> str:
    try:
        parse_exact_timestamp(text)
    except ValueError:
        errors.add(name, "must be an ISO 8601 date or date-time, such as 2026-11-21T08:30:00Z")
    return text


def _bound(text: str) -> Instant:
    """Return the first instant that is not before this time (R1)."""
    instant, finer = parse_exact_timestamp(text)
    # `createdAt` is exact to the microsecond, so a bound between two of them means the later one.
    if finer:
        return min(later(instant, MICROSECOND), LAST_INSTANT)
    return instant


def _one_of(name: str, text: str, values: Collection[str], errors: FieldErrors) -> str:
    folded = text.lower()
    if folded not in values:
        errors.add(name, f"must be one of: {', '.join(values)}")
    return folded


def _page_size(text: str, errors: FieldErrors) -> str:
    """Clamp the number before it is converted: any number of digits costs the same (R4)."""
    match = _INTEGER.fullmatch(text)
    if match is None:
        errors.add("pageSize", "must be an integer")
        return text

    # The specification clamps a number, and refuses only what is none (R4).
    sign, digits = match.groups()
    digits = digits.lstrip("0")
    if sign == "-" or not digits:
        return "1"

    many = len(digits) > len(str(RECORDS_PAGE_MAX))
    return str(RECORDS_PAGE_MAX if many else min(int(digits), RECORDS_PAGE_MAX))


def _decode_page(
    page: str, of: PagedList, brand: str, keys: Sequence[bytes], errors: FieldErrors
) -> Cursor | None:
    try:
        return decode_cursor(page, of=of, brand=brand, keys=keys)
    except CursorError:
        errors.add("page", "is no cursor that was given to this brand; start again without it")
        return None


def _position(cursor: Cursor | None, direction: Direction) -> Position | None:
    """Return the position of a cursor in this direction; None of any other."""
    if cursor and cursor.direction is direction:
        return cursor.position
    return None


def _list_records(brand: str, filters: Filters, cursor: Cursor | None) -> ListRecords:
    return ListRecords(
        brand,
        begin=_bound(filters["from"]),
        end=_bound(filters["to"]),
        type=Type(filters["type"]) if "type" in filters else None,
        method=filters.get("method"),
        status=Status(filters["status"]) if "status" in filters else None,
        page_size=int(filters.get("pageSize", RECORDS_PAGE_DEFAULT)),
        after=_position(cursor, Direction.AFTER),
        before=_position(cursor, Direction.BEFORE),
    )
