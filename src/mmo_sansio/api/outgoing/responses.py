"""Turns replies of the core and results of the store into responses (clauses C6, G5, L1, L2, R6, T4)."""

from __future__ import annotations

import json
from typing import Final, assert_never

from mmo_sansio.api.cursor import Cursor, Direction, encode_cursor
from mmo_sansio.api.incoming.query_string import RecordsRequest, unknown_transaction_problem
from mmo_sansio.api.settings import ApiSettings
from mmo_sansio.http.messages import Headers, HttpResponse
from mmo_sansio.messages.queries import Position, Records
from mmo_sansio.messages.replies import Accepted, Applied, ClaimDue, Ignored, Rejected, Reply
from mmo_sansio.values.clock import format_with_seconds
from mmo_sansio.values.model import Order
from mmo_sansio.values.problems import Problem

_JSON_HEADERS: Final[Headers] = ((b"content-type", b"application/json"),)

_json_string: Final = json.encoder.encode_basestring


def creation_response(reply: Reply, settings: ApiSettings) -> HttpResponse | Problem:
    """Return the Initiate Payment response, the Web Pay In response, or the problem."""
    match reply:
        case Accepted(order):
            return HttpResponse(200, _JSON_HEADERS, _creation_body(order, settings.hpp_url).encode())
        case Rejected(problem):
            return problem
        case Applied() | Ignored() | ClaimDue():
            raise AssertionError(f"{reply} is no reply to a creation")
        case _:
            assert_never(reply)


def _creation_body(order: Order, hpp_url: str) -> str:
    assert order.merchant_reference is not None
    assert order.reconciliation_reference is not None
    page = ""
    if order.page is not None:
        page_url = _json_string(f"{hpp_url}/pay/{order.page.token}")
        page = f',"pageUrl":{page_url},"pageOpenMode":"redirect"'
    return (
        f'{{"status":"pending"'
        f',"gatewayReference":"{order.gateway_reference}"'
        f',"merchantReference":{_json_string(order.merchant_reference)}'
        f',"reconciliationReference":{_json_string(order.reconciliation_reference)}'
        f',"createdAt":"{format_with_seconds(order.created_at)}"{page}}}'
    )


def look_up_response(transaction: bytes | None) -> HttpResponse | Problem:
    """Return the transaction object as the store has it, or 404 (L1, L2)."""
    if transaction is None:
        return unknown_transaction_problem()
    return HttpResponse(200, _JSON_HEADERS, transaction)


def records_response(records: Records, request: RecordsRequest, settings: ApiSettings) -> HttpResponse:
    """Return a page of transaction objects, byte for byte as everywhere (T4), with the cursors of its neighbours
    (R6)."""
    before = records.first if records.has_previous else None
    after = records.last if records.has_next else None
    cursors = [
        _cursor_text(request, direction, position, settings.cursor_keys[0])
        for direction, position in ((Direction.AFTER, after), (Direction.BEFORE, before))
    ]
    begin = b'{"data":['
    end = f'],"pages":{{"next":{cursors[0]},"previous":{cursors[1]}}}}}'.encode("ascii")
    # One join: a page may have megabytes, and a second one would copy them all.
    *others, last = records.objects or (b"",)
    pieces = [*others, last + end]
    pieces[0] = begin + pieces[0]
    return HttpResponse(200, _JSON_HEADERS, b",".join(pieces))


def _cursor_text(request: RecordsRequest, direction: Direction, position: Position | None, key: bytes) -> str:
    if position is None:
        return "null"
    cursor = Cursor(request.filters, direction, position)
    return f'"{encode_cursor(cursor, brand=request.query.brand, key=key)}"'
