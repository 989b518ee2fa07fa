"""One refusal is reported, the earliest by the order of C9: every two lines that can be broken
together, are."""

from __future__ import annotations

import json
from itertools import combinations
from typing import Any

import pytest
from attrs import evolve, frozen

from mmo_sansio.messages.replies import Rejected
from mmo_sansio.payments.gateway import Gateway
from mmo_sansio.values.clock import Instant
from mmo_sansio.values.model import Operation
from mmo_sansio.values.problems import Problem, ProblemError
from tests.support.api_requests import BRAND, body, call, request

PAYOUT, QR, WEB, TAX = list(Operation)[1:]
WITH_PARTY = frozenset(Operation) - {TAX}


@frozen
class Line:
    """A line of C9 and a way to break it."""

    segment: str
    changes: dict[str, Any]
    """What to change in a good request: parts of the head by their name, members of the body by
    `body.` and path."""
    field: str | None = None
    operations: frozenset[Operation] = frozenset(Operation)

    def __str__(self) -> str:
        return self.field or self.segment


def field(path: str, value: Any = ..., operations: frozenset[Operation] | None = None) -> Line:
    return Line(
        "validation_failed", {f"body.{path}": value}, path, operations or frozenset(Operation)
    )


LINES = (
    Line("not_found", {"prefix": "/gateway/mmo/v1"}),
    Line("method_not_allowed", {"verb": "GET"}),
    Line("unauthorized", {"key": b""}),
    Line("merchant_disabled", {"enabled": False}),
    Line("bad_request", {"content_type": b"text/plain"}),
    Line("bad_request", {"end": b"}"}),
    Line("validation_failed", {"method": "m" * 101}, "method"),
    field("amount", 1),
    field("amount.value", 0),
    field("amount.currency", "KSH!"),
    field("party", operations=WITH_PARTY),
    field("party.id", operations=WITH_PARTY),
    field("party.msisdn", operations=WITH_PARTY),
    field("party.firstName", 1, operations=WITH_PARTY),
    field("party.lastName", 1, operations=WITH_PARTY),
    field("party.email", "a@b", operations=WITH_PARTY),
    field("country", "K" * 11),
    field("resultUrl", "http://merchant.example/"),
    field("displayQrUrl", operations=frozenset({QR})),
    field("successRedirectUrl", "javascript:x", operations=frozenset({WEB})),
    field("errorRedirectUrl", "x", operations=frozenset({WEB})),
    field("merchantReference", ".."),
    field("reconciliationReference", "x" * 256),
    field("labels", 1),
    Line("config_unsupported_payment_method", {"method": "unknown"}),
    Line("config_unsupported_country", {"body.country": "ZZ"}),
    Line("config_unsupported_currency", {"body.amount.currency": "USD"}),
    Line("validation_failed", {"body.amount.value": 100.505}, "amount.value"),
    Line("config_method_transaction_min_limit", {"body.amount.value": 1}),
    Line("config_method_transaction_max_limit", {"body.amount.value": 1_000_000}),
    Line("merchant_transactionid_duplicate", {"used_before": True}),
)
"""C9 from its first line to its last. 413 stands after the content type and is the listener's."""

DECIMALS = LINES[-4]
SAME_VALUE = (
    (LINES[8], DECIMALS, -0.005),
    (LINES[8], LINES[-3], 0),
    (LINES[8], LINES[-2], 1e15 + 1),
    (DECIMALS, LINES[-3], 9.995),
    (DECIMALS, LINES[-2], 150_000.005),
)
"""Amounts that break two lines at once."""


def outcome(operation: Operation, changes: dict[str, Any]) -> Problem:
    """The refusal of a good request with these changes, by the whole way from its head to the
    law."""
    gateway = Gateway()
    members = body(operation)
    if changes.get("used_before"):
        gateway.receive(call(sent(operation, members, {})), now=Instant(0))
    for path, value in changes.items():
        if path.startswith("body."):
            put(members, in_words_of(operation, path[len("body.") :]), value)
    given = sent(operation, members, changes)
    brand = evolve(BRAND, enabled=changes.get("enabled", True))
    try:
        reply = gateway.receive(
            evolve(call(given, brand=brand), gateway_reference="01ARZ3NDEKTSV4RRFFQ69G5FAW"),
            now=Instant(1),
        )
    except ProblemError as error:
        return error.problem
    assert isinstance(reply, Rejected)
    return reply.problem


def sent(operation: Operation, members: dict[str, Any], changes: dict[str, Any]) -> Any:
    prefix = changes.get("prefix", "/gateway/mmo/v2")
    target = f"{prefix}/{operation}/{changes.get('method', 'mpesa_ke')}"
    return request(
        json.dumps(members).encode() + changes.get("end", b""),
        method=changes.get("verb", "POST"),
        target=target.encode(),
        headers=(
            (b"x-api-key", changes.get("key", b"a-key")),
            (b"content-type", changes.get("content_type", b"application/json")),
        ),
    )


def in_words_of(operation: Operation, path: str) -> str:
    return path.replace("party", "payee" if operation is PAYOUT else "payer")


def put(members: dict[str, Any], path: str, value: Any) -> None:
    *outer, name = path.split(".")
    for each in outer:
        members = members[each]
    if value is ...:
        del members[name]
    else:
        members[name] = value


def expect(problem: Problem, operation: Operation, line: Line) -> None:
    assert problem.segment == line.segment
    if line.field is None:
        assert not problem.errors
    else:
        assert problem.errors[0].field == in_words_of(operation, line.field)
        assert problem.detail == problem.errors[0].detail


def exclude(one: Line, other: Line) -> bool:
    """Whether the two ways of breaking get into each other's way."""
    return any(
        a == b or a.startswith(b + ".") or b.startswith(a + ".")
        for a in one.changes
        for b in other.changes
    )


@pytest.mark.spec("C9")
@pytest.mark.parametrize("line", LINES, ids=str)
def test_a_broken_line_is_reported(line: Line) -> None:
    for operation in line.operations:
        expect(outcome(operation, line.changes), operation, line)


@pytest.mark.spec("C9")
@pytest.mark.parametrize(
    ("earlier", "later"), [pair for pair in combinations(LINES, 2) if not exclude(*pair)], ids=str
)
def test_of_two_broken_lines_the_earlier_is_reported(earlier: Line, later: Line) -> None:
    for operation in earlier.operations & later.operations:
        problem = outcome(operation, earlier.changes | later.changes)
        expect(problem, operation, earlier)
        fields = [fault.field for fault in problem.errors]
        if earlier.field and later.field and later is not DECIMALS:
            assert fields == [in_words_of(operation, each.field or "") for each in (earlier, later)]


@pytest.mark.spec("C9")
@pytest.mark.parametrize(("earlier", "later", "value"), SAME_VALUE, ids=str)
def test_of_two_lines_broken_by_one_amount_the_earlier_is_reported(
    earlier: Line, later: Line, value: float
) -> None:
    expect(
        outcome(Operation.DIRECT_PAYIN, {"body.amount.value": value}),
        Operation.DIRECT_PAYIN,
        earlier,
    )
