"""Explains in sentences why a payment ended as it did, from what the store has about it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from attrs import frozen

from mmo_sansio.http.exchange import DeliveryOutcome
from mmo_sansio.messages.changes import CallbackRecorded, JournalEntry
from mmo_sansio.values.clock import LAST_INSTANT, Instant, format_with_microseconds
from mmo_sansio.values.deposit_claim import DepositClaim
from mmo_sansio.values.error_codes import EXPLANATIONS
from mmo_sansio.values.model import Source, Stage, Status, Transaction
from mmo_trio.storage.interface.admin_types import BrandRecord, SuspenseEntry
from mmo_trio.storage.interface.store import Store

CLAIMS_READ_MAX = 1_000
"""Open claims that are searched for those of a payment; more are open only while an operator does not answer."""


@frozen
class PaymentHistory:
    """Holds what the store has about one payment."""

    transaction: Transaction
    journal: Sequence[JournalEntry]
    callbacks: Sequence[CallbackRecorded]
    suspense: Sequence[SuspenseEntry]
    brand: BrandRecord | None
    """The brand of the payment; None when it was removed."""
    claims: Sequence[DepositClaim] = ()
    """The reported deposits that name the payment and are not settled."""


async def load_payment_history(store: Store, transaction: Transaction) -> PaymentHistory:
    """Load what the store has about a payment."""
    reference = transaction.reference
    records = {each.brand.id: each for each in await store.admin.brands()}
    return PaymentHistory(
        transaction,
        await store.admin.timeline(reference),
        await store.admin.callbacks(gateway_reference=reference),
        await store.admin.suspense_of_payment(reference),
        records.get(transaction.order.brand),
        [each for each in await store.due_claims(LAST_INSTANT, limit=CLAIMS_READ_MAX) if each.payment == reference],
    )


@frozen
class TimelineEntry:
    """Describes one event of a payment for a person."""

    at: Instant
    actor: str
    description: str


def timeline(history: PaymentHistory, *, with_free_text: bool = True) -> list[TimelineEntry]:
    """Return the journal's lines and the suspense entries of a payment, in order of time.

    Without free text, the words of operators and of staff, which may contain anything, are left out.
    """
    lines = [
        TimelineEntry(each.at, each.actor, _journal_text(each, with_free_text=with_free_text))
        for each in history.journal
    ]
    lines += [
        TimelineEntry(each.first_at, f"provider:{each.provider}", _suspense_text(each))
        for each in history.suspense
        if not any(line.at == each.first_at for line in history.journal)
    ]
    return sorted(lines, key=lambda line: line.at)


def conclusions(history: PaymentHistory) -> list[str]:
    """Return sentences that say how a payment ended, whether the merchant knows, and what to do."""
    return [
        *_outcome_sentences(history.transaction),
        *_qr_code_sentences(history),
        *_callback_sentences(history),
        *_brand_sentences(history),
        *_open_suspense_sentences(history),
        *_claim_sentences(history),
    ]


_INPUT_TEXTS = {
    "CreatePayment": "asked for the payment",
    "ConfirmPage": "pressed the button of the hosted page",
    "BeginSubmission": "is about to send the payment to its provider",
    "ProviderAccepted": "has the payment and has not decided yet",
    "ProviderSucceeded": "says that the money moved",
    "ProviderFailed": "says that the money will not move",
    "ProviderUnreachable": "gave no usable answer; it may or may not have the payment",
    "ProviderNeverReceived": "never received the payment; it may be sent again",
    "ProviderCannotTell": "can't be polled about the payment",
    "ProviderHinted": "sent a hint about the payment, so it is polled",
    "DepositNotified": "reported a deposit",
    "DepositClaimWoke": "reached a time to ask about a deposit that names the payment",
    "DepositAnswered": "answered a question about a deposit that names the payment",
    "TransactionWoke": "reached a time to act",
    "CallbackConcluded": "concluded the callback",
    "QrConcluded": "concluded the delivery of the QR code",
    "ResolveManually": "completed it by hand",
    "CorrectTimes": "corrected its times, which a wrong clock had written",
}


HIDDEN_TEXT = "hidden from your role"
"""Stands for free text that is left out."""

_PLAIN_MEMBERS = frozenset(
    (
        *("amount", "durationMs", "errorCode", "finalAmount", "method", "nativeCode", "operation"),
        *("outcome", "providerReference", "source", "status", "suspense"),
    )
)
"""The members of a journal line's detail that are no free text; what is not listed here counts as free text."""


def _journal_text(line: JournalEntry, *, with_free_text: bool) -> str:
    words = [_INPUT_TEXTS.get(line.input_name, line.input_name)]
    if line.stage_after is not None and line.stage_after != line.stage_before:
        before = line.stage_before or "nothing"
        words.append(f"[{before} → {line.stage_after}]")
    details = json.loads(line.detail)
    members = ", ".join(
        f"{name} {value if with_free_text or name in _PLAIN_MEMBERS else HIDDEN_TEXT}"
        for name, value in details.items()
        if value not in (None, "")
    )
    if members:
        words.append(f"({members})")
    return " ".join(words)


def _suspense_text(entry: SuspenseEntry) -> str:
    again = f", {entry.times} times" if entry.times > 1 else ""
    return f"reported a result, now in the suspense book: {entry.reason}{again}"


def _outcome_sentences(transaction: Transaction) -> Iterator[str]:
    order, progress = transaction.order, transaction.progress
    match transaction.status:
        case Status.PENDING:
            until = format_with_microseconds(order.to_utc(order.expires_at))
            yield f"It is pending ({_pending_reason(progress.stage)}); it expires at {until}."
        case Status.SUCCESS:
            yield f"It succeeded with {progress.final}, {_source_text(progress.completion_source)}."
            if progress.final != order.requested:
                yield (f"The merchant asked for {order.requested}: the provider settled another amount.")
        case Status.FAILED:
            assert progress.error_code is not None
            why = EXPLANATIONS[progress.error_code]
            learnt = _source_text(progress.completion_source)
            yield f"It failed with {progress.error_code}, {learnt}: {why.meaning}"
            yield f"Who can act: the {why.who_acts}. {why.advice}"


def _pending_reason(stage: Stage) -> str:
    return {
        Stage.CREATED: "it waits to be sent to its provider",
        Stage.AWAITING_CUSTOMER: "it waits for the payer on the hosted page",
        Stage.SUBMITTING: "it was sent, and the provider hasn't said that it has it",
        Stage.AWAITING_RESULT: "the provider has it and hasn't decided",
    }.get(stage, stage.value)


def _source_text(source: Source | None) -> str:
    return {
        Source.WEBHOOK: "as the provider notified us",
        Source.POLL: "as the provider answered when polled",
        Source.MANUAL: "as a user decided by hand",
        Source.EXPIRY: "as our own time limit passed",
    }.get(source or Source.EXPIRY, "")


_DELIVERY_FAILURE_TEXTS = {
    DeliveryOutcome.NON_2XX: "the merchant's server answered {status}",
    DeliveryOutcome.TIMEOUT: "the merchant's server took longer than it may",
    DeliveryOutcome.TRANSPORT_ERROR: "the merchant's server could not be reached or trusted",
    DeliveryOutcome.EGRESS_REFUSED: "its address is one that the gateway doesn't call",
    DeliveryOutcome.KEY_REVOKED: "it could have brought the next API key to a thief of this one",
    DeliveryOutcome.BREAKER_OPEN: "too many callbacks to this merchant had failed just before",
}


def _qr_code_sentences(history: PaymentHistory) -> Iterator[str]:
    if history.transaction.order.display_qr_url is None:
        return
    deliveries = [json.loads(each.detail) for each in history.journal if each.input_name == "QrConcluded"]
    for each in deliveries:
        if each["outcome"] == DeliveryOutcome.DELIVERED:
            yield f"The QR code was brought to the merchant, who answered {each['status']}."
        else:
            yield (f"The QR code was not brought to the merchant: {each['detail']} It is not sent again.")
    if not deliveries:
        yield "The QR code has not been brought to the merchant."


def _callback_sentences(history: PaymentHistory) -> Iterator[str]:
    transaction = history.transaction
    if not transaction.progress.stage.is_terminal:
        yield "The merchant is called back once it has ended; a look-up says pending."
        return
    if transaction.order.result_url is None:
        yield "There is no address to call back: the brand has no push_result_url."
        return
    if not history.callbacks:
        yield "The callback has no outcome yet: is a gateway serving this store?"
        return
    for each in history.callbacks:
        attempt = each.attempt
        if attempt.outcome is DeliveryOutcome.DELIVERED:
            yield f"The merchant was called back and answered {attempt.status}."
            continue
        why = _DELIVERY_FAILURE_TEXTS[attempt.outcome].format(status=attempt.status)
        detail = f" ({attempt.detail})" if attempt.detail else ""
        yield f"The callback was not delivered: {why}{detail}. It is not sent again."
        yield "The merchant learns the result by a look-up or from the records."
        if attempt.status in (401, 403):
            yield "The merchant's server refused our X-API-KEY: it compares with another key."


def _brand_sentences(history: PaymentHistory) -> Iterator[str]:
    if history.brand is None:
        yield f"The brand {history.transaction.order.brand} was removed: nobody can look this up."
        return
    brand = history.brand.brand
    in_use = [key for key in history.brand.keys if key.retired_at is None]
    if not brand.enabled:
        yield f"The brand {brand.id} is disabled: its requests are refused with merchant_disabled."
    if not in_use:
        yield (f"The brand {brand.id} has no API key in use: it can't look this up nor verify callbacks.")
    elif len(in_use) > 1:
        yield (
            f"The brand {brand.id} has {len(in_use)} API keys in use; callbacks carry the oldest,"
            f" number {in_use[0].id}."
        )


def _open_suspense_sentences(history: PaymentHistory) -> Iterator[str]:
    waiting = [each for each in history.suspense if each.closed_at is None]
    if waiting:
        ids = ", ".join(str(each.id) for each in waiting)
        yield f"The suspense book has open entries about it ({ids}): a person must look at them."


def _claim_sentences(history: PaymentHistory) -> Iterator[str]:
    for each in history.claims:
        waits = "the payment's end" if each.is_confirmed else "the operator's confirmation"
        yield f"A deposit of {each.amount} with the receipt {each.receipt} names it, and waits for {waits}."
