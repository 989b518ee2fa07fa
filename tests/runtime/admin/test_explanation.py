"""Why a payment ended as it did: every outcome has its sentence."""

from __future__ import annotations

import json

import pytest
from attrs import evolve

from mmo_sansio.http.exchange import DeliveryOutcome
from mmo_sansio.messages.changes import CallbackRecorded, SuspenseReason
from mmo_sansio.messages.inputs import BeginSubmission, Input, WithheldReason
from mmo_sansio.payments.decide import decide
from mmo_sansio.payments.gateway import Gateway
from mmo_sansio.testing import builders as a
from mmo_sansio.values.clock import HOUR, SECOND, Span, later
from mmo_sansio.values.error_codes import EXPLANATIONS, ErrorCode
from mmo_sansio.values.model import DepositTrust, Evidence, Stage
from mmo_trio.admin.explanation import (
    PaymentHistory,
    alarms,
    conclusions,
    load_payment_history,
    remarks,
)
from mmo_trio.admin.timeline import timeline
from mmo_trio.storage.interface.admin_types import BrandRecord, StoredApiKey, SuspenseEntry
from mmo_trio.storage.sqlite import SqliteStore
from tests.support.stored_ledger import store_ledger

IN_USE = StoredApiKey(7, "acme", b"d", b"s", a.START)
RETIRED = evolve(IN_USE, id=6, retired_at=later(a.START, Span(1)))


def case(
    *inputs: Input, keys: tuple[StoredApiKey, ...] = (IN_USE,), enabled: bool = True
) -> PaymentHistory:
    """What a store has about the payment after these inputs."""
    gateway = Gateway()
    for number, input_ in enumerate((a.a_create_payment(), *inputs)):
        gateway.receive(input_, now=later(a.START, Span(number)))
    return PaymentHistory(
        gateway.transaction(a.REFERENCE),
        gateway.journal,
        gateway.callbacks,
        [],
        BrandRecord(a.a_brand(enabled=enabled), keys),
    )


def explained(history: PaymentHistory) -> str:
    return " ".join(conclusions(history))


OUTCOMES = [
    (DeliveryOutcome.DELIVERED, 200, "was called back and answered 200"),
    (DeliveryOutcome.NON_2XX, 503, "the merchant's server answered 503"),
    (DeliveryOutcome.NON_2XX, 401, "refused our X-API-KEY"),
    (DeliveryOutcome.TIMEOUT, None, "took longer than it may"),
    (DeliveryOutcome.TRANSPORT_ERROR, None, "could not be reached or trusted"),
    (DeliveryOutcome.EGRESS_REFUSED, None, "doesn't call"),
    (DeliveryOutcome.BREAKER_OPEN, None, "had failed just before"),
]


@pytest.mark.spec("K3")
@pytest.mark.parametrize(("outcome", "status", "sentence"), OUTCOMES)
def test_every_outcome_of_a_callback_is_told(
    outcome: DeliveryOutcome, status: int | None, sentence: str
) -> None:
    history = case(a.a_begin_submission(), a.succeeded())
    attempt = a.an_attempt(outcome, status=status)
    history = evolve(history, callbacks=[CallbackRecorded(a.REFERENCE, "acme", attempt, a.START)])
    assert sentence in explained(history)
    is_delivered = outcome is DeliveryOutcome.DELIVERED
    assert ("It is not sent again." in explained(history)) is not is_delivered
    assert "." + ")" not in explained(history)


@pytest.mark.spec("E1")
@pytest.mark.parametrize("code", ErrorCode)
def test_every_error_code_is_told_with_its_advice(code: ErrorCode) -> None:
    text = explained(case(a.a_begin_submission(), a.failed(error_code=code)))
    assert f"failed with {code}" in text
    assert "Who can act: " in text
    assert "the operator." not in text


SAID = (
    "It ended as {0}, as the provider notified us; {1} later mpesa reported {2}. Entry 3 of the "
    "suspense book is to do."
)
LATER = later(a.START, Span(90 * SECOND))


def an_entry(reason: SuspenseReason, **content: str | bool) -> SuspenseEntry:
    """Entry 3 of the suspense book, with this report."""
    report = json.dumps(content)
    return SuspenseEntry(3, reason, "mpesa", report, a.REFERENCE, "acme", LATER, LATER, 1)


FAILED, SUCCEEDED = a.failed(), a.succeeded()
CONFLICT, RECEIPT = SuspenseReason.CONFLICTING_RESULT, {"providerReference": "SG632NMUAB"}
UNCONFIRMED, DEPOSIT = SuspenseReason.UNCONFIRMED_RECEIPT, SuspenseReason.CONFLICTING_DEPOSIT
UNPAID = an_entry(CONFLICT, result="failed", errorCode="user_timeout")
PAID_LESS = an_entry(CONFLICT, result="success", amount="74.00 KES")
PAID_AFTER_ALL = an_entry(CONFLICT, result="success", **RECEIPT)
ALL_PAID = an_entry(CONFLICT, result="success", amount="75.00 KES", **RECEIPT)
DEPOSITED = an_entry(DEPOSIT, result="deposit", amount="75.00 KES", msisdn="254700000001")
HINTED = an_entry(UNCONFIRMED, result="success", confirmed=False, **RECEIPT)


@pytest.mark.spec("S5")
@pytest.mark.parametrize(
    ("ended", "entry", "said"),
    [
        (FAILED, ALL_PAID, "success, 75.00 KES, SG632NMUAB"),
        (SUCCEEDED, UNPAID, "failed, user_timeout"),
        (SUCCEEDED, PAID_LESS, "success, 74.00 KES"),
        (FAILED, DEPOSITED, "deposit, 75.00 KES"),
        (FAILED, HINTED, "success, SG632NMUAB, and has not confirmed it"),
    ],
)
def test_what_the_provider_said_otherwise_after_the_end_comes_first(
    ended: Input, entry: SuspenseEntry, said: str
) -> None:
    history = evolve(case(a.a_begin_submission(), ended), suspense=[entry])
    ended_as = "failed" if ended is FAILED else "success"
    assert conclusions(history)[0] == SAID.format(ended_as, "1 min 29 s", said)
    assert not any("in the suspense book: entry 3" in each for each in remarks(history)), (
        "it is said once"
    )


@pytest.mark.spec("S5")
@pytest.mark.parametrize("is_open", [True, False], ids=["to do", "closed"])
def test_nobody_is_advised_to_pay_again_what_was_paid_after_all(is_open: bool) -> None:
    entry = evolve(PAID_AFTER_ALL, closed_at=None if is_open else a.START)
    text = explained(evolve(case(a.a_begin_submission(), FAILED), suspense=[entry]))
    code = FAILED.error_code
    assert f"failed with {code}" in text
    assert EXPLANATIONS[code].advice not in text
    assert "which of its results is right, and tell the merchant what to correct." in text
    assert "Until then nobody should pay again." in text


@pytest.mark.spec("S5")
def test_what_was_paid_and_is_reported_as_failed_is_not_delivered() -> None:
    text = explained(evolve(case(a.a_begin_submission(), SUCCEEDED), suspense=[UNPAID]))
    assert "the merchant may not have the money, and should not deliver" in text


@pytest.mark.spec("S5")
@pytest.mark.parametrize(
    ("ended", "entry"),
    [
        pytest.param(FAILED, (SuspenseReason.LATE_RESULT, "failed"), id="the same late"),
        pytest.param(SUCCEEDED, (SuspenseReason.REPEATED_RESULT, "success"), id="the same again"),
        pytest.param(None, (DEPOSIT, "deposit"), id="pending"),
        pytest.param(SUCCEEDED, (UNCONFIRMED, "success"), id="settled by its receipt"),
    ],
)
def test_nothing_else_in_the_suspense_book_says_otherwise(
    ended: Input | None, entry: tuple[SuspenseReason, str]
) -> None:
    reason, result = entry
    history = case(a.a_begin_submission(), *([ended] if ended else []))
    assert not alarms(evolve(history, suspense=[an_entry(reason, result=result)]))


@pytest.mark.spec("S5")
def test_what_is_closed_says_nothing_otherwise() -> None:
    closed = evolve(an_entry(SuspenseReason.LATE_RESULT, result="success"), closed_at=a.START)
    assert not alarms(evolve(case(a.a_begin_submission(), FAILED), suspense=[closed]))


def test_a_payment_that_was_not_sent_is_told_apart_from_one_that_the_provider_refused() -> None:
    history = case(BeginSubmission(a.REFERENCE, WithheldReason.PROVIDER_CLOSED))
    assert "The gateway did not send it: staff had closed the provider" in explained(history)
    assert timeline(history)[-1].description.startswith("did not send the payment to its provider")
    assert "provider:" not in " ".join(line.actor for line in timeline(history))


def test_the_state_of_the_brand_and_its_keys_is_told() -> None:
    assert "API key" not in explained(case())
    assert "no API key in use" in explained(case(keys=(RETIRED,)))
    assert "acme is disabled" in explained(case(enabled=False))
    assert "acme was removed" in explained(evolve(case(), brand=None))


@pytest.mark.spec("A4")
@pytest.mark.parametrize(("maker", "carried"), [("8", 8), ("6", 7), (None, 7)])
def test_the_key_is_told_that_a_callback_carries(maker: str | None, carried: int) -> None:
    history = case(keys=(RETIRED, IN_USE, evolve(IN_USE, id=8)))
    order = evolve(history.transaction.order, api_key_id=maker)
    history = evolve(history, transaction=evolve(history.transaction, order=order))
    assert f"2 API keys in use; this callback carries number {carried}." in explained(history)


def test_nobody_is_told_to_look_up_what_nobody_can() -> None:
    history = case(a.a_begin_submission(), a.succeeded())
    attempt = evolve(
        a.an_attempt(DeliveryOutcome.TRANSPORT_ERROR, status=None), detail="Connecting failed."
    )
    history = evolve(history, callbacks=[CallbackRecorded(a.REFERENCE, "acme", attempt, a.START)])
    assert "(Connecting failed). It is not sent again." in explained(history)
    assert "learns the result by a look-up" in explained(history)
    assert "learns the result by a look-up" not in explained(evolve(history, brand=None))


@pytest.mark.parametrize(
    ("is_confirmed", "waits"), [(False, "the operator's confirmation"), (True, "the payment's end")]
)
async def test_an_open_claim_that_names_the_payment_is_told(
    store: SqliteStore, is_confirmed: bool, waits: str
) -> None:
    transaction = a.a_transaction(Stage.AWAITING_RESULT, provider_reference="ws_CO_1")
    trust = DepositTrust.CONFIRMED if is_confirmed else DepositTrust.UNCONFIRMED
    ledger = a.ledger_with(transaction)
    deposit = a.a_deposit(payment=transaction.reference, trust=trust, brand=None)
    decision = decide(ledger, deposit, now=a.START)
    ledger.apply(decision.changes, decision.intents)
    await store_ledger(store, ledger)
    found = conclusions(await load_payment_history(store, transaction))
    said = f"A deposit of 75.00 KES with the receipt DEP-1 names it, and waits for {waits}."
    assert said in found


@pytest.mark.spec("C12", "L2")
async def test_another_payment_under_the_same_reference_is_told(store: SqliteStore) -> None:
    """A look-up by the reference finds the newest alone, so staff would never learn of the older
    one."""
    older = a.a_transaction(Stage.SUCCEEDED)
    newer = evolve(
        older,
        order=evolve(
            older.order,
            gateway_reference="01ARZ3NDEKTSV4RRFFQ69G5FAV",
            created_at=later(older.order.created_at, Span(1)),
        ),
    )
    stranger = evolve(
        newer,
        order=evolve(newer.order, gateway_reference="01ARZ3NDEKTSV4RRFFQ69G5FAW", brand="other"),
    )
    await store_ledger(store, a.ledger_with(older, stranger))
    await store_ledger(store, a.ledger_with(newer))
    of_newer = conclusions(await load_payment_history(store, newer))
    of_older = conclusions(await load_payment_history(store, older))
    assert [each for each in of_newer if "same merchantReference" in each] == [
        f"An older payment has the same merchantReference: {older.reference}, success, created at"
        " 2026-09-21T14:13:20.000000Z."
    ]
    [told] = [each for each in of_older if "same merchantReference" in each]
    assert told.startswith(
        f"A newer payment has the same merchantReference: {newer.reference}, success"
    )


@pytest.mark.spec("S5")
def test_what_a_provider_has_reported_is_told_with_its_code_and_receipt() -> None:
    reported = Evidence("SG632NMUAB", "0", settles=True)
    hint = a.hinted(content="?", native_code="0", evidence=reported)
    history = case(a.a_begin_submission(), a.accepted(), hint)
    assert "reported the result 0 with the receipt SG632NMUAB" in explained(history)
    assert "it has not confirmed that yet" in explained(history)
    (line,) = [
        each.text
        for each in timeline(history, with_free_text=False)
        if each.kind == "ProviderHinted"
    ]
    assert "nativeCode 0" in line
    assert "providerReference SG632NMUAB" in line
    denied = case(a.a_begin_submission(), a.accepted(), hint, a.failed(native_code="1037"))
    assert "it has contradicted that" in explained(denied)
    assert "had reported a receipt: it is asked again" in " ".join(
        each.text for each in timeline(denied)
    )


@pytest.mark.spec("S2")
def test_a_payment_that_its_reported_receipt_ended_says_so() -> None:
    gateway = Gateway()
    hint = a.hinted(native_code="0", evidence=Evidence("SG632NMUAB", "0", settles=True))
    for input_ in (a.a_create_payment(), a.a_begin_submission(), a.accepted(), hint):
        gateway.receive(input_, now=a.START)
    gateway.wake(now=later(a.START, HOUR))
    history = PaymentHistory(gateway.transaction(a.REFERENCE), gateway.journal, [], [], None)
    (line,) = [each.text for each in timeline(history) if each.kind == "TransactionWoke"]
    assert "ended it by the receipt that the provider had reported" in line
    assert "providerReference SG632NMUAB" in line
