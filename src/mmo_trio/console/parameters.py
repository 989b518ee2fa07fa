"""Query parameters, form fields and positions are read here, and lists are cut into pages that lead
both ways."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Generic, TypeVar

from attrs import evolve, frozen
from quart import Response, request, url_for
from werkzeug.exceptions import BadRequest

from mmo_sansio.messages.queries import Position
from mmo_sansio.values.clock import Instant
from mmo_trio.console.context import console

PAGE_SIZE = 40

# Entries of a page whose entries are cards with a form each, which are larger than rows.
CARDS_PAGE_SIZE = 15

TEXT_LENGTH_MAX = 255
_PHONE_NUMBER_PATTERN = re.compile(r"\+?[0-9][0-9 ()./-]{1,30}[0-9]")

Row = TypeVar("Row")
ChoiceT = TypeVar("ChoiceT", bound=StrEnum)


def split_page(rows: Sequence[Row], size: int = PAGE_SIZE) -> tuple[Sequence[Row], Row | None]:
    """Return the rows of one page, and its last row when further rows follow."""
    page = rows[:size]
    return page, page[-1] if len(rows) > size else None


@frozen
class ListPage(Generic[Row]):
    """A page of a list, and the query parameters that lead to the pages around it."""

    rows: Sequence[Row]
    first: int | None
    """The number of its first row in the list, from 1; None where the request doesn't say how it
    came there."""
    previous: Mapping[str, object] | None
    following: Mapping[str, object] | None
    total: int | None = None
    """How many rows the list has; None where counting them would cost a scan."""

    @property
    def last(self) -> int | None:
        """Return the number of its last row."""
        if self.first is None:
            return None
        return self.first + len(self.rows) - 1


def link_page(
    rows: Sequence[Row],
    *,
    after: object | None,
    before: object | None,
    size: int = PAGE_SIZE,
    total: int | None = None,
) -> ListPage[Row]:
    """Return a page of a list whose neighbours are found by what they come after or before; None
    where there is no such page."""
    first = _first_row()
    return ListPage(
        rows,
        first,
        None
        if after is None
        else {"after": after, "row": None if first is None else max(1, first - size)},
        None
        if before is None
        else {"before": before, "row": None if first is None else first + len(rows)},
        total if before is not None or first is None else first + len(rows) - 1,
    )


def _first_row() -> int | None:
    is_moved = query_argument("before") is not None or query_argument("after") is not None
    return parse_row_number(query_argument("row")) or (None if is_moved else 1)


async def read_page(
    read: Callable[..., Awaitable[Sequence[Row]]],
    number: Callable[[Row], int],
    size: int = PAGE_SIZE,
) -> ListPage[Row]:
    """Return the page that the request asks for of a list by number, the newest first. `read` takes
    `before`, `after` and `limit`, and returns those that are the nearest."""
    before, after = (parse_row_number(query_argument(name)) for name in ("before", "after"))
    if after is not None:
        found = await read(before=None, after=after, limit=size + 1)
        if len(found) > size:
            return link_page(found[1:], after=number(found[1]), before=number(found[-1]), size=size)

        before = None

    found, last = split_page(await read(before=before, after=None, limit=size + 1), size)
    newer = None
    if found and before is not None:
        newer = number(found[0])

    page = link_page(found, after=newer, before=last and number(last), size=size)
    if before is not None:
        return page

    return evolve(page, first=1)


def cut_page(rows: Sequence[Row], size: int) -> ListPage[Row]:
    """Return the page that the request asks for of a list that is at hand."""
    first = min(parse_row_number(query_argument("row")) or 1, max(1, len(rows)))
    following = first + size
    return ListPage(
        rows[first - 1 : following - 1],
        first,
        {"row": max(1, first - size)} if first > 1 else None,
        {"row": following} if following <= len(rows) else None,
        len(rows),
    )


# Brands that a filter offers to choose from; of more it asks for the id.
BRAND_OPTIONS_MAX = 50


async def list_brand_options() -> Sequence[tuple[str, str]] | None:
    """Return the choices of a filter by brand; None where there are too many to choose from."""
    brands = [brand.brand for brand in await console().store.admin.brands()]
    if len(brands) <= BRAND_OPTIONS_MAX:
        return [("", "all"), *((brand.id, brand.name) for brand in brands)]
    return None


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
        if text:
            return kind(text)
        return None
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
    if position is None:
        return ""
    return f"{position.created_at}-{position.gateway_reference}"


def parse_phone_number(text: str) -> str | None:
    """Return the digits of a phone number in any notation; None when the text can't be one."""
    if not _PHONE_NUMBER_PATTERN.fullmatch(text):
        return None
    digits = re.sub(r"[^0-9]", "", text)
    if not text.startswith("+"):
        return digits.removeprefix("00")
    return digits


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 18
