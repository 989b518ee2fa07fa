"""Writes what merchants receive: responses to their requests (clauses C6, G5, L1, L2, R6), problem
documents (RFC 7807; clauses G3, P1, P4), and the requests that deliver a payment's result (K1) or
its QR code (Q1).

The transaction as merchants see it has one serializer, for look-ups, records and callbacks (clauses
T1 to T4)."""

from __future__ import annotations

import json
from typing import Any, Final, assert_never

from mmo_sansio.api.cursor import Cursor, Direction, PagedList, encode_cursor
from mmo_sansio.api.incoming.query_string import RecordsRequest, ReversalsRequest
from mmo_sansio.api.incoming.requests import ApiSettings, unknown_transaction_problem
from mmo_sansio.http.exchange import DeliveryAttempt, DeliveryOutcome
from mmo_sansio.http.messages import Headers, HttpRequest, HttpResponse
from mmo_sansio.messages.queries import Position, Records
from mmo_sansio.messages.replies import (
    Accepted,
    Applied,
    ClaimDue,
    Ignored,
    Rejected,
    Reply,
    ReversalApplied,
)
from mmo_sansio.values.clock import format_with_microseconds, format_with_seconds
from mmo_sansio.values.model import Order, Party, ProviderData, Transaction
from mmo_sansio.values.money import Money
from mmo_sansio.values.problems import Problem

# The names of the object's members, in the order in which they are written (T2).
TRANSACTION_MEMBERS: Final = (
    "status",
    "type",
    "flow",
    "gatewayReference",
    "merchantReference",
    "reconciliationReference",
    "providerReference",
    "party",
    "method",
    "country",
    "requestedAmount",
    "finalAmount",
    "labels",
    "createdAt",
    "completedAt",
    "completionSource",
    "errorCode",
    "errorMessage",
    "providerData",
)

PARTY_MEMBERS: Final = ("id", "msisdn", "firstName", "lastName", "email")
PROVIDER_DATA_MEMBERS: Final = ("name", "title", "fee", "partyData", "errorCode", "errorMessage")
MONEY_MEMBERS: Final = ("value", "currency")
PROBLEM_JSON: Final = b"application/problem+json"

# The prefix of the request id in `instance`: a URI that names the occurrence and leads nowhere.
INSTANCE_PREFIX: Final = "urn:x-request-id:"

JSON_HEADERS: Final[Headers] = ((b"content-type", b"application/json"),)
_json_string: Final = json.encoder.encode_basestring


def creation_response(reply: Reply, settings: ApiSettings) -> HttpResponse | Problem:
    """Return the Initiate Payment response, the Web Pay In response, or the problem."""
    match reply:
        case Accepted(order):
            return HttpResponse(200, JSON_HEADERS, _creation_body(order, settings.hpp_url).encode())
        case Rejected(problem):
            return problem
        case Applied() | Ignored() | ClaimDue() | ReversalApplied():
            raise AssertionError(f"{reply} is no reply to a creation")
        case _:
            assert_never(reply)


def _creation_body(order: Order, hpp_url: str) -> str:
    # Only deposits have none, and nobody creates them.
    assert order.merchant_reference is not None
    assert order.reconciliation_reference is not None

    # A web pay-in has two members more (C6).
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
    return HttpResponse(200, JSON_HEADERS, transaction)


def page_response(
    records: Records, request: RecordsRequest | ReversalsRequest, settings: ApiSettings
) -> HttpResponse:
    """Return a page of objects, such as transaction objects byte for byte as everywhere (T4), with
    the cursors of its neighbours (R6)."""
    # A cursor is made only where there is a neighbour: null ends the client's loop (R6).
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
    return HttpResponse(200, JSON_HEADERS, b",".join(pieces))


def _cursor_text(
    request: RecordsRequest | ReversalsRequest,
    direction: Direction,
    position: Position | None,
    key: bytes,
) -> str:
    if position is None:
        return "null"

    cursor = Cursor(request.filters, direction, position)
    if isinstance(request, RecordsRequest):
        of = PagedList.RECORDS
    else:
        of = PagedList.REVERSALS

    return f'"{encode_cursor(cursor, of=of, brand=request.query.brand, key=key)}"'


def problem_response(
    problem: Problem, error_docs_url: str, request_id: str | None = None
) -> HttpResponse:
    """Return the response for a problem.

    `error_docs_url` is the base of its `type` URI, without a slash at its end; the request id names
    this occurrence. A 405 names its methods in `Allow`, a 503 its seconds in `Retry-After` (P4)."""
    headers = [(b"content-type", PROBLEM_JSON)]
    if problem.allow is not None:
        headers.append((b"allow", problem.allow.encode("ascii")))

    if problem.retry_after_s is not None:
        headers.append((b"retry-after", b"%d" % problem.retry_after_s))

    body = json.dumps(problem_document(problem, error_docs_url, request_id))
    return HttpResponse(problem.status, tuple(headers), body.encode("ascii"))


def problem_document(
    problem: Problem, error_docs_url: str, request_id: str | None = None
) -> dict[str, Any]:
    """Return the members of P1, in its order, with `instance` (RFC 7807 section 3.1) where the
    request has an id, and `errors` only where fields are invalid."""
    document: dict[str, Any] = {
        "type": f"{error_docs_url}/{problem.segment}",
        "title": problem.title,
        "status": problem.status,
        "detail": problem.detail,
        "errorCode": problem.error_code,
    }
    if request_id is not None:
        document["instance"] = f"{INSTANCE_PREFIX}{request_id}"

    if problem.errors:
        document["errors"] = [
            {"field": fault.field, "detail": fault.detail} for fault in problem.errors
        ]

    return document


def transaction_object(transaction: Transaction) -> bytes:
    """Return the JSON object of the specification's table in UTF-8: exactly its members, nulls
    written out (T2).

    Equal transactions give equal bytes, so a store may render once, when a transaction changes
    (T4)."""
    order, progress = transaction.order, transaction.progress
    completed_at = progress.completed_at
    completed = None
    if completed_at is not None:
        completed = format_with_microseconds(completed_at)

    return (
        f'{{"status":"{transaction.status.value}"'
        f',"type":"{order.type.value}"'
        f',"flow":"{order.flow.value}"'
        f',"gatewayReference":"{order.gateway_reference}"'
        f',"merchantReference":{_text(order.merchant_reference)}'
        f',"reconciliationReference":{_text(order.reconciliation_reference)}'
        f',"providerReference":{_text(progress.provider_reference)}'
        f',"party":{_party(order.party)}'
        f',"method":{_json_string(order.method)}'
        f',"country":{_json_string(order.country)}'
        f',"requestedAmount":{money_object(order.requested)}'
        f',"finalAmount":{_money(progress.final)}'
        f',"labels":{order.labels or "null"}'
        f',"createdAt":"{format_with_microseconds(order.created_at)}"'
        f',"completedAt":{_text(completed)}'
        f',"completionSource":{_text(progress.completion_source)}'
        f',"errorCode":{_text(progress.error_code)}'
        f',"errorMessage":{_text(progress.error_message)}'
        f',"providerData":{_provider_data(progress.provider_data)}}}'
    ).encode()


def money_object(amount: Money) -> str:
    """Return a Money object: the value is a JSON number with the currency's own decimals, never an
    exponent (G6)."""
    return f'{{"value":{amount.text},"currency":"{amount.currency}"}}'


def _text(value: str | None) -> str:
    if value is None:
        return "null"
    return _json_string(value)


def _money(amount: Money | None) -> str:
    if amount is None:
        return "null"
    return money_object(amount)


def _party(party: Party) -> str:
    return (
        f'{{"id":{_json_string(party.id)}'
        f',"msisdn":{_json_string(party.msisdn)}'
        f',"firstName":{_text(party.first_name)}'
        f',"lastName":{_text(party.last_name)}'
        f',"email":{_text(party.email)}}}'
    )


def _provider_data(data: ProviderData | None) -> str:
    if data is None:
        return "null"
    return (
        f'{{"name":{_json_string(data.name)}'
        f',"title":{_json_string(data.title)}'
        f',"fee":{_money(data.fee)}'
        f',"partyData":{data.party_data or "null"}'
        f',"errorCode":{_text(data.error_code)}'
        f',"errorMessage":{_text(data.error_message)}}}'
    )


def callback_request(transaction: Transaction, key: bytes) -> HttpRequest:
    """Return the request that tells the merchant how this transaction ended (K1), authenticated
    with one of the merchant's own API keys (A4).

    The transaction is terminal and has a result URL: no other one is ever called back."""
    url = transaction.order.result_url
    assert transaction.progress.stage.is_terminal, "a pending transaction is never called back"
    assert url is not None, "a transaction without a result URL is never called back"
    return _post(url, key, transaction_object(transaction))


def qr_code_request(transaction: Transaction, key: bytes, *, image: str) -> HttpRequest:
    """Return the request that brings the code to `displayQrUrl`, with one of the merchant's own API
    keys (A4).

    `image` is the picture in base64. The transaction has a `displayQrUrl` and a code."""
    order, code = transaction.order, transaction.progress.qr
    assert order.display_qr_url is not None, "only a QR pay-in is shown"
    assert code is not None, "there is nothing to show"
    body = (
        f'{{"gatewayReference":"{order.gateway_reference}"'
        f',"merchantReference":{_text(order.merchant_reference)}'
        f',"reconciliationReference":{_text(order.reconciliation_reference)}'
        f',"amount":{money_object(order.requested)}'
        f',"qrPayload":{_text(code.payload)}'
        f',"qrImage":{_json_string(image)}'
        f',"expiresAt":"{format_with_microseconds(order.to_utc(order.expires_at))}"}}'
    )

    return _post(order.display_qr_url, key, body.encode())


def _post(url: str, key: bytes, body: bytes) -> HttpRequest:
    headers = ((b"content-type", b"application/json"), (b"x-api-key", key))
    return HttpRequest("POST", url.encode(), headers, body)


def not_sent_attempt(
    transaction: Transaction,
    detail: str,
    outcome: DeliveryOutcome = DeliveryOutcome.TRANSPORT_ERROR,
) -> DeliveryAttempt:
    """Return the record of a QR code that was not sent, and why: it takes the place of an attempt
    to deliver what `qr_code_request` would have made."""
    url = transaction.order.display_qr_url or ""
    return DeliveryAttempt(outcome, url, detail=detail)
