"""The journal: who, what, when, from where to where (the payment's timeline)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mmo_sansio.http.exchange import DeliveryOutcome
from mmo_sansio.messages.changes import JournalEntry
from mmo_sansio.messages.inputs import Input, UnmatchedNotified
from mmo_sansio.payments.decide import decide
from mmo_sansio.testing import (
    KES,
    REFERENCE,
    START,
    UNUSED_REFERENCE,
    World,
    a_begin_submission,
    a_confirmation,
    a_create_payment,
    a_deposit,
    a_party,
    a_resolution,
    a_transaction,
    a_wake,
    accepted,
    callback_concluded,
    failed,
    ledger_with,
    never_received,
    succeeded,
    unreachable,
)
from mmo_sansio.values.clock import DAY, SECOND, Instant, Span, later
from mmo_sansio.values.error_codes import ErrorCode
from mmo_sansio.values.model import Source, Stage, Transaction

NOW = later(START, Span(5 * SECOND))
C, W, S, A, OK = (
    Stage.CREATED,
    Stage.AWAITING_CUSTOMER,
    Stage.SUBMITTING,
    Stage.AWAITING_RESULT,
    Stage.SUCCEEDED,
)


def line_of(was: Transaction | None, given: Input, *, now: Instant = NOW) -> JournalEntry:
    ledger = ledger_with() if was is None else ledger_with(was)
    changes = decide(ledger, given, now=now).changes
    assert [isinstance(each, JournalEntry) for each in changes].count(True) == 1
    line = changes[-1]
    assert isinstance(line, JournalEntry)
    return line


LINES: list[tuple[Stage | None, Input, str, Stage | None, Stage | None, dict[str, Any]]] = [
    (
        None,
        a_create_payment(),
        "merchant",
        None,
        C,
        {"method": "test_ke", "operation": "direct/payin"},
    ),
    (W, a_confirmation(), "payer", W, C, {}),
    (C, a_begin_submission(), "gateway", C, S, {}),
    (
        S,
        accepted(provider_reference="P"),
        "provider:test",
        S,
        A,
        {"source": "poll", "providerReference": "P"},
    ),
    (
        A,
        succeeded(final=KES(149)),
        "provider:test",
        A,
        OK,
        {
            "source": "webhook",
            "providerReference": None,
            "finalAmount": "149.00 KES",
            "suspense": "settled_less",
        },
    ),
    (
        A,
        failed(),
        "provider:test",
        A,
        Stage.FAILED,
        {
            "source": "webhook",
            "errorCode": "user_cancelled",
            "nativeCode": "1032",
            "nativeMessage": "Request cancelled by user",
        },
    ),
    (S, unreachable(), "provider:test", S, S, {"reason": "The connection was reset."}),
    (S, never_received(), "provider:test", S, C, {}),
    (A, a_wake(), "clock", A, A, {}),
    (
        A,
        a_resolution(error_code=ErrorCode.PROVIDER_TIMEOUT),
        "user:amina",
        A,
        Stage.FAILED,
        {
            "reason": "The provider's statement of today shows it.",
            "evidence": None,
            "errorCode": "provider_timeout",
        },
    ),
    (
        None,
        a_deposit(),
        "provider:test",
        None,
        OK,
        {"providerReference": "DEP-1", "amount": "75.00 KES"},
    ),
    (
        OK,
        callback_concluded(outcome=DeliveryOutcome.NON_2XX),
        "gateway",
        None,
        None,
        {"outcome": "non_2xx", "status": None, "durationMs": 0, "detail": ""},
    ),
    (
        OK,
        succeeded(),
        "provider:test",
        None,
        None,
        {
            "source": "webhook",
            "providerReference": None,
            "finalAmount": None,
            "suspense": "repeated_result",
        },
    ),
]


@pytest.mark.parametrize(
    ("stage", "given", "actor", "before", "after", "detail"),
    LINES,
    ids=[f"{type(row[1]).__name__} in {row[0]}" for row in LINES],
)
def test_what_each_decision_leaves(
    stage: Stage | None,
    given: Input,
    actor: str,
    before: Stage | None,
    after: Stage | None,
    detail: dict[str, Any],
) -> None:
    line = line_of(a_transaction(stage) if stage else None, given)
    assert json.loads(line.detail) == detail
    assert line == JournalEntry(
        NOW, type(given).__name__, actor, REFERENCE, "acme", before, after, line.detail
    )


def test_what_names_nothing_of_ours_has_no_reference() -> None:
    line = line_of(None, UnmatchedNotified("test", "?"))
    assert (line.actor, line.gateway_reference, line.brand) == ("provider:test", None, None)
    assert json.loads(line.detail) == {"suspense": "unreadable"}
    assert line_of(None, succeeded(UNUSED_REFERENCE)).gateway_reference == UNUSED_REFERENCE


def test_an_empty_detail_is_an_empty_object() -> None:
    assert line_of(a_transaction(C), a_begin_submission()).detail == "{}"


@pytest.mark.parametrize(
    "given",
    [
        a_create_payment(method="nope"),
        a_wake(),
        succeeded(source=Source.POLL),
        a_deposit(succeeded=False),
    ],
    ids=["refused", "woke early", "agreed", "failed deposit"],
)
def test_what_changes_nothing_leaves_no_line(given: Input) -> None:
    was = a_transaction(OK)
    assert decide(ledger_with(was), given, now=NOW).changes == ()


@pytest.mark.spec("A5", "W3")
def test_no_token_or_party_stands_in_it() -> None:
    party = a_party(id="SECRET-ID", msisdn="+254799999999", email="secret@example.com")
    world = World()
    world.create(party=party, page_token="SECRET-TOKEN")
    world.receive(a_deposit(gateway_reference=UNUSED_REFERENCE, party=party))
    written = " ".join(each.detail for each in world.gateway.journal)
    for secret in ("SECRET", "secret", "254799999999"):
        assert secret not in written


def test_text_is_kept_as_it_came() -> None:
    assert "Refusé" in line_of(a_transaction(A), failed(native_message="Refusé")).detail


def test_a_timeline_tells_where_a_payment_has_been() -> None:
    world = World()
    world.create()
    world.advance(Span(4 * DAY))
    told = [
        (each.input_name, each.stage_before, each.stage_after) for each in world.gateway.journal
    ]
    assert told[:3] == [
        ("CreatePayment", None, "created"),
        ("BeginSubmission", "created", "submitting"),
        ("ProviderAccepted", "submitting", "awaiting_result"),
    ]
    assert told[-2:] == [
        ("TransactionWoke", "awaiting_result", "failed"),
        ("CallbackConcluded", None, None),
    ]
