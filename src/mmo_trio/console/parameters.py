"""Query parameters, form fields and list positions are read here, and pages of lists are cut."""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import StrEnum
from typing import Any, TypeVar

from quart import Response, request, url_for
from werkzeug.exceptions import BadRequest

from mmo_sansio.messages.queries import Position
from mmo_sansio.values.clock import Instant

PAGE_SIZE = 50
CARDS_PAGE_SIZE = 20
"""Entries of a page whose entries are cards with a form each, which are larger than rows."""
TEXT_LENGTH_MAX = 255
_PHONE_NUMBER_PATTERN = re.compile(r"\+?[0-9][0-9 ()./-]{1,30}[0-9]")

Row = TypeVar("Row")
ChoiceT = TypeVar("ChoiceT", bound=StrEnum)


def split_page(rows: Sequence[Row], size: int = PAGE_SIZE) -> tuple[Sequence[Row], Row | None]:
    """Return the rows of one page, and its last row when further rows follow."""
    page = rows[:size]
    return page, page[-1] if len(rows) > size else None


def redirect_to(endpoint: str, **values: Any) -> Response:
    """Redirect the browser to another page, after a form."""
    return Response("", 303, {"Location": url_for(endpoint, **values)})


def query_argument(name: str) -> str | None:
    """Return a query parameter; None when it is missing or empty."""
    return request.args.get(name, "").strip()[:TEXT_LENGTH_MAX] or None


async def form_field(name: str, *, length_max: int = 2_000, is_required: bool = True) -> str:
    """Return the text of a form's field. Raises BadRequest when it is missing or too long."""
    text = str((await request.form).get(name, "")).strip()
    if is_required and not text:
        raise BadRequest(f"Please fill in: {name.replace('_', ' ')}.")
    if len(text) > length_max:
        raise BadRequest(f"{name.replace('_', ' ')} is longer than {length_max} characters.")
    return text


def parse_choice(kind: type[ChoiceT], text: str | None, fault: str) -> ChoiceT | None:
    """Return the member of an enumeration; None for no text. Raises BadRequest with the fault."""
    try:
        return kind(text) if text else None
    except ValueError:
        raise BadRequest(fault) from None


def parse_row_number(text: str | None) -> int | None:
    """Parse the number of a row at which a list continues. Raises BadRequest."""
    if not text:
        return None
    if not _is_number(text):
        raise BadRequest("This page doesn't exist: begin at the first one.")
    return int(text)


def parse_position(text: str | None) -> Position | None:
    """Parse the position at which a list of payments continues. Raises BadRequest."""
    if not text:
        return None
    at, _, reference = text.partition("-")
    if not (_is_number(at) and reference.isalnum()):
        raise BadRequest("This page doesn't exist: begin at the first one.")
    return Position(Instant(int(at)), reference[:64])


def format_position(position: Position | None) -> str:
    """Format a position as `CREATED-REFERENCE`, for :func:`parse_position`; empty for None."""
    return "" if position is None else f"{position.created_at}-{position.gateway_reference}"


def parse_phone_number(text: str) -> str | None:
    """Return the digits of a phone number in any notation; None when the text can't be one."""
    if not _PHONE_NUMBER_PATTERN.fullmatch(text):
        return None
    digits = re.sub(r"[^0-9]", "", text)
    return digits.removeprefix("00") if not text.startswith("+") else digits


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 18
