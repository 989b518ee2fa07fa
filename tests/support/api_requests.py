"""Builds requests to the merchant API, and a brand that sends them."""

from __future__ import annotations

import json
from typing import Any

from mmo_sansio.api.incoming import requests
from mmo_sansio.api.incoming.requests import ApiSettings
from mmo_sansio.api.outgoing import problem_response
from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.messages.inputs import CreatePayment, Draft
from mmo_sansio.values.model import Brand, Limits, Method, Operation, Terms
from mmo_sansio.values.money import Money
from mmo_sansio.values.problems import Problem, ProblemError

ULID = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
TOKEN = "page-token"
NOW = 1_795_250_096_123_456
"""2026-11-21T08:34:56.123456Z."""

SETTINGS = ApiSettings(
    "https://docs.example/errors", "https://pay.example", (b"cursor key of tests",)
)


def limits(currency: str, minimum: int, maximum: int) -> dict[str, Limits]:
    return {currency: Limits(Money(minimum, currency), Money(maximum, currency))}


BRAND = Brand(
    "acme",
    "Acme Ltd",
    (
        Method(
            "mpesa_ke",
            "sandbox",
            "Sandbox",
            "KE",
            frozenset(Operation),
            limits("KES", 10_00, 150_000_00)
            | limits("UGX", 10, 150_000)
            | limits("KWD", 1, 150_000)
            | limits("EUR", 1, 150_000),
        ),
        Method("payin_only", "sandbox", "Sandbox", "KE", frozenset({Operation.DIRECT_PAYIN}), {}),
    ),
    redirect_schemes=frozenset({"acme"}),
)


def body(operation: Operation = Operation.DIRECT_PAYIN, **changes: Any) -> dict[str, Any]:
    """Return a valid body for this operation; `...` removes a member, `payer__msisdn=` changes a
    nested one."""
    party = {"id": "user-1", "msisdn": "+254700000000"}
    members: dict[str, Any] = {"amount": {"value": 150, "currency": "KES"}}
    if operation is Operation.DIRECT_PAYOUT:
        members["payee"] = party
    elif operation is not Operation.DIRECT_TAXPAYOUT:
        members["payer"] = party
    members |= {
        "country": "KE",
        "resultUrl": "https://merchant.example/callbacks",
        "merchantReference": "order-1",
    }
    if operation is Operation.QR_PAYIN:
        members["displayQrUrl"] = "https://merchant.example/qr"
    if operation is Operation.DIRECT_TAXPAYOUT:
        members["reconciliationReference"] = "tax-2026-11"
    for path, value in changes.items():
        *outer, name = path.split("__")
        target = members
        for each in outer:
            target = target[each]
        if value is ...:
            target.pop(name, None)
        else:
            target[name] = value
    return members


def text(members: dict[str, Any]) -> bytes:
    return json.dumps(members).encode()


def request(
    content: bytes | None = None,
    *,
    method: str = "POST",
    target: bytes = b"/gateway/mmo/v2/direct/payin/mpesa_ke",
    headers: tuple[tuple[bytes, bytes], ...] = (
        (b"x-api-key", b"a-key"),
        (b"content-type", b"application/json"),
    ),
) -> HttpRequest:
    return HttpRequest(method, target, headers, text(body()) if content is None else content)


def call(
    http_request: HttpRequest, *, brand: Brand = BRAND, settings: ApiSettings = SETTINGS
) -> CreatePayment:
    """Check a creation request completely, in the order of C9."""
    route = requests.find_route(http_request)
    assert isinstance(route, requests.CreateRoute)
    requests.read_api_key(http_request)
    creation = requests.check_head(http_request, route, brand, settings)
    assert isinstance(creation, requests.CreationHead)
    return requests.parse_creation(
        creation,
        http_request.body,
        settings,
        gateway_reference=ULID,
        page_token=TOKEN,
        terms=Terms(),
    )


def draft(content: bytes, operation: Operation = Operation.DIRECT_PAYIN) -> Draft:
    """Parse this body; raises RefusedError."""
    target = b"/gateway/mmo/v2/%s/mpesa_ke" % operation.value.encode()
    return call(request(content, target=target)).draft


def problem_of(content: bytes, operation: Operation = Operation.DIRECT_PAYIN) -> Problem:
    """Return the problem for which this body is rejected."""
    try:
        accepted = draft(content, operation)
    except ProblemError as error:
        return error.problem
    raise AssertionError(f"accepted: {accepted}")


def document(answer: HttpResponse) -> Any:
    """Return the parsed body of an answer."""
    return json.loads(answer.body)


def refusal_document(problem: Problem) -> Any:
    return document(problem_response(problem, SETTINGS.error_docs_url))
