"""The selection of a list of payments is read from the query of its address, and written into links."""

from __future__ import annotations

from datetime import UTC, datetime

from attrs import frozen
from werkzeug.exceptions import BadRequest

from mmo_sansio.values.clock import DAY, Instant, from_datetime, later
from mmo_sansio.values.error_codes import ErrorCode
from mmo_sansio.values.model import Status
from mmo_trio.console.parameters import PAGE_SIZE, format_position, parse_choice, parse_position, query_argument
from mmo_trio.storage.interface.admin_types import PaymentFilter, PaymentPage

_DAY_FORMAT = "%Y-%m-%d"
_TIME_FORMATS = ("%Y-%m-%dT%H:%M", "%Y-%m-%dT%H")
TIME_FAULT = "A time is a day, as in 2026-11-21, or a day and an hour, as in 2026-11-21T15:00 (UTC)."


@frozen
class PaymentSelection:
    """A selection of payments as a user has made it."""

    payment_filter: PaymentFilter
    fields: dict[str, str]
    """The query parameters that make this selection, without the position in the list."""

    def next_page(self, page: PaymentPage) -> dict[str, str] | None:
        """Return the query parameters of the next page; None when there is none."""
        if page.next_position is None:
            return None
        return self.fields | {"before": format_position(page.next_position)}


FIELDS = ("brand", "method", "provider", "status", "code", "from", "until")


def read_selection() -> PaymentSelection:
    """Return the selection of the current request. Raises BadRequest."""
    fields = {name: text for name in FIELDS if (text := query_argument(name)) is not None}
    code = parse_choice(ErrorCode, fields.get("code"), "There is no such error code.")
    status = parse_choice(Status, fields.get("status"), "There is no such status.")
    return PaymentSelection(
        PaymentFilter(
            brand=fields.get("brand"),
            method=fields.get("method"),
            provider=fields.get("provider"),
            status=Status.FAILED if code is not None and status is None else status,
            error_code=code,
            begin=_parse_time(fields.get("from"), is_end=False),
            end=_parse_time(fields.get("until"), is_end=True),
            before=parse_position(query_argument("before")),
            limit=PAGE_SIZE,
        ),
        fields,
    )


def _parse_time(text: str | None, *, is_end: bool) -> Instant | None:
    """Parse a day or a time in UTC; a day as the end of a selection is included in it. Raises BadRequest."""
    if text is None:
        return None
    for form in (_DAY_FORMAT, *_TIME_FORMATS):
        try:
            at = from_datetime(datetime.strptime(text, form).replace(tzinfo=UTC))
        except ValueError:
            continue
        return later(at, DAY) if is_end and form == _DAY_FORMAT else at
    raise BadRequest(TIME_FAULT)
