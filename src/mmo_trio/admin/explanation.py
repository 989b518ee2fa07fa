"""Explains in sentences why a payment ended as it did, from what the store has about it; see also
`timeline`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, assert_never

from attrs import frozen

from mmo_sansio.http.exchange import DeliveryOutcome
from mmo_sansio.messages.changes import CallbackRecorded, JournalEntry, SuspenseReason
from mmo_sansio.messages.inputs import WithheldReason
from mmo_sansio.payments.evidence import CONTRARY_REASONS, contradicts, find_contradiction
from mmo_sansio.values.clock import elapsed, format_with_microseconds
from mmo_sansio.values.error_codes import EXPLANATIONS
from mmo_sansio.values.model import DepositClaim, Source, Stage, Status, Transaction, Type
from mmo_sansio.values.reversals import Reversal, ReversalState
from mmo_trio.admin.told_wrong import ToldWrong
from mmo_trio.storage.interface.admin_types import BrandRecord, SuspenseEntry
from mmo_trio.storage.sql.store import Store
from mmo_trio.system.display_text import format_span

# Payments under one merchantReference that are read, the newest first; there are rarely two.
SAME_REFERENCE_READ_MAX = 11


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
    same_reference: Sequence[Transaction] = ()
    """The brand's other payments under the same merchantReference, the newest first (C12)."""
    reversals: Sequence[Reversal] = ()


async def load_payment_history(store: Store, transaction: Transaction) -> PaymentHistory:
    """Load what the store has about a payment."""
    reference = transaction.reference
    order = transaction.order
    same_reference: Sequence[Transaction] = ()
    if order.merchant_reference is not None:
        same_reference = await store.admin.find_transactions(
            reference=order.merchant_reference, brand=order.brand, limit=SAME_REFERENCE_READ_MAX
        )

    # The search finds a text in any reference; only the same merchantReference counts here.
    others = [
        other
        for other in same_reference
        if other.order.merchant_reference == order.merchant_reference
        and other.reference != reference
    ]
    return PaymentHistory(
        transaction=transaction,
        journal=await store.admin.timeline(reference),
        callbacks=await store.admin.callbacks(gateway_reference=reference),
        suspense=await store.admin.suspense_of_payment(reference),
        brand=await store.brand_record(order.brand),
        claims=await store.open_claims(reference),
        same_reference=others,
        reversals=await store.reversals(reference),
    )


@frozen
class Alarm:
    """Says what is wrong about a payment, and needs a person."""

    text: str
    entry: int | None = None
    """The entry of the suspense book that says so; None for a callback."""


def conclusions(history: PaymentHistory) -> list[str]:
    """Return sentences that say what is wrong, how a payment ended, whether the merchant knows, and
    what to do."""
    return [*(alarm.text for alarm in alarms(history)), *remarks(history)]


def alarms(history: PaymentHistory) -> list[Alarm]:
    """Return what is wrong about a payment: reports that contradict its end, and a callback that
    was not delivered."""
    return [*_contradictions(history), *_undelivered(history)]


def remarks(history: PaymentHistory) -> list[str]:
    """Return the conclusions without what is wrong."""
    return [
        *_outcome_sentences(history),
        *_reversal_sentences(history),
        *_withheld_sentences(history),
        *_same_reference_sentences(history),
        *_qr_code_sentences(history),
        *_callback_sentences(history),
        *_brand_sentences(history),
        *_open_suspense_sentences(history),
        *_claim_sentences(history),
    ]


_CONTRADICTIONS = (*CONTRARY_REASONS, SuspenseReason.CONFLICTING_DEPOSIT)


def _contradictions(history: PaymentHistory) -> Iterator[Alarm]:
    """Tell what was reported and says otherwise than the end, as long as nobody has looked into
    it."""
    progress = history.transaction.progress
    ended = {Status.SUCCESS: "success", Status.FAILED: "failed"}.get(history.transaction.status)
    if ended is None:
        return

    for entry in history.suspense:
        if not says_otherwise(history.transaction, entry):
            continue

        content = json.loads(entry.content)
        # What the provider has named of the payment, in its order.
        words = (
            content.get(name) for name in ("result", "amount", "errorCode", "providerReference")
        )
        report = ", ".join(word for word in words if word)
        at = progress.completed_at or entry.first_at
        # A report may have come first, and have been overtaken by a time limit or by staff.
        when = "before that"
        if entry.first_at >= at:
            when = f"{format_span(elapsed(at, entry.first_at))} later"

        doubt = ""
        if content.get("confirmed") is False:
            doubt = ", and has not confirmed it"

        end = f"It ended as {ended}, {_source_text(progress.completion_source)}"
        report = f"{entry.provider} reported {report}{doubt}"
        yield Alarm(
            f"{end}; {when} {report}. Entry {entry.id} of the suspense book is to do.", entry.id
        )


def says_otherwise(transaction: Transaction, entry: SuspenseEntry) -> bool:
    """Tell whether an entry of the suspense book, which nobody has looked into, says otherwise than
    the end of its payment."""
    # Somebody has looked into it, or it is about something else than the result.
    if entry.closed_at is not None or entry.reason not in _CONTRADICTIONS:
        return False
    content = json.loads(entry.content)
    # A reversal's report says nothing about the payment itself.
    if transaction.status is Status.PENDING or "reversal" in content:
        return False
    # Another success of the same payment contradicts it too: by another receipt, or another amount.
    is_same = content.get("result") == transaction.status.value
    return not is_same or entry.reason is SuspenseReason.CONFLICTING_RESULT


def _outcome_sentences(history: PaymentHistory) -> Iterator[str]:
    transaction = history.transaction
    order = transaction.order
    progress = transaction.progress
    if order.is_simulated:
        yield (
            f"It is simulated, as the account {order.provider} was when it was accepted: no money "
            f"moves by it."
        )

    match transaction.status:
        case Status.PENDING:
            until = format_with_microseconds(order.to_utc(order.expires_at))
            yield f"It is pending ({_pending_reason(progress.stage)}); it expires at {until}."
            # A receipt that was reported and not confirmed ends nothing, and must be known to
            # staff.
            if (evidence := progress.evidence) is not None:
                at = format_with_microseconds(order.to_utc(evidence.reported_at))
                answer = "it has not confirmed that yet"
                if evidence.is_denied:
                    answer = "it has contradicted that"
                yield (
                    f"{order.provider_title} reported the result {evidence.code} with the receipt "
                    f"{evidence.receipt} at {at};"
                    f" {answer}."
                )
        case Status.SUCCESS:
            yield f"It succeeded with {progress.final}, {_source_text(progress.completion_source)}."
            # Whoever books what was asked for would book another amount.
            if progress.final != order.requested:
                yield (
                    f"The merchant asked for {order.requested}: the provider settled "
                    f"another amount."
                )
            if _is_contradicted(history):
                if order.type is Type.PAYIN:
                    doubt = "the merchant may not have the money, and should not deliver"
                else:
                    doubt = "the payee may not have the money, and nobody should pay again"

                yield f"{_ASK_WHICH_IS_RIGHT.format(order.provider_title)} Until then {doubt}."
        case Status.FAILED:
            assert progress.error_code is not None
            why = EXPLANATIONS[progress.error_code]
            learnt = _source_text(progress.completion_source)
            yield f"It failed with {progress.error_code}, {learnt}: {why.meaning}"
            # The advice of a code lets people pay again what may have been paid after all.
            if _is_contradicted(history):
                asked = _ASK_WHICH_IS_RIGHT.format(order.provider_title)
                yield f"{asked} Until then nobody should pay again."
            else:
                yield f"Who can act: {_WHO_ACTS[why.who_acts]}. {why.advice}"


_ASK_WHICH_IS_RIGHT: Final = (
    "Who can act: the staff of the gateway. Ask {} which of its results is right, and tell the "
    "merchant what to correct."
)


def _is_contradicted(history: PaymentHistory) -> bool:
    """Tell whether something says the opposite of the end of a payment, also where staff have
    looked into it; not where all that a failed payment has moved has gone back."""
    transaction = history.transaction
    succeeded = transaction.status is Status.SUCCESS
    contrary = [
        entry for entry in history.suspense if contradicts(succeeded, entry.reason, entry.content)
    ]

    # Each report by its own receipt and amount: a payment may have been paid twice, and more may
    # have been paid than was requested.
    if contrary and not succeeded:
        reports = (ToldWrong(transaction, entry, None, history.reversals) for entry in contrary)
        is_left = any(report.back.minor < report.reported_money.minor for report in reports)
        return is_left or bool(history.claims)

    evidence = find_contradiction(
        transaction,
        succeeded=succeeded,
        claims=history.claims,
        entries=[(entry.reason, entry.content) for entry in contrary],
    )
    return evidence is not None


def _reversal_sentences(history: PaymentHistory) -> Iterator[str]:
    to = "to the payer"
    if history.transaction.order.type is Type.PAYOUT:
        to = "from the payee"

    for reversal in history.reversals:
        at = ""
        if reversal.ended_at is not None:
            at = format_with_microseconds(reversal.ended_at)

        match reversal.state:
            case ReversalState.REQUESTED:
                yield f"{reversal.amount} is asked back, and waits for an approval."
            case ReversalState.SUCCEEDED:
                yield f"{reversal.amount} went back {to} at {at}."
            case ReversalState.MOVED_AFTER_ALL:
                yield (
                    f"{reversal.amount} went back {to}: reversal {reversal.number} had failed, and "
                    f"has moved its money after all, {_source_text(reversal.source)} at {at}."
                )
            case ReversalState.FAILED:
                # Without a source it gave way to others, and the remark is the gateway's own.
                why = "."
                if reversal.source is None:
                    why = f": {reversal.remark}"
                yield f"{reversal.amount} did not go back {to} by reversal {reversal.number}{why}"
            case ReversalState.APPROVED | ReversalState.SENT | ReversalState.UNKNOWN:
                yield f"{reversal.amount} is being sent back {to}."
            case _:
                assert_never(reversal.state)


def _same_reference_sentences(history: PaymentHistory) -> Iterator[str]:
    """Name the other payments under the same merchantReference: a look-up by it finds the newest
    alone."""
    own = history.transaction.order
    for other in history.same_reference:
        order = other.order
        age = "A newer"
        if (order.created_at, order.gateway_reference) < (own.created_at, own.gateway_reference):
            age = "An older"

        yield (
            f"{age} payment has the same merchantReference: {order.gateway_reference}, "
            f"{other.status.value}, created at"
            f" {format_with_microseconds(order.to_utc(order.created_at))}."
        )


_WITHHELD_TEXTS = {
    WithheldReason.PROVIDER_CLOSED: "staff had closed the provider to new payments"
    " (`mmo providers list`)",
    WithheldReason.TOO_LATE: "the time in which it could be sent was over",
    WithheldReason.ACCOUNT_CHANGED: "its account is simulated now and was not when it was"
    " accepted, or the other way round",
}


def _withheld_sentences(history: PaymentHistory) -> Iterator[str]:
    for entry in history.journal:
        reason = None
        if entry.input_name == "BeginSubmission":
            reason = json.loads(entry.detail).get("withheld")
        if reason is not None:
            yield f"The gateway did not send it: {_WITHHELD_TEXTS[WithheldReason(reason)]}."


_WHO_ACTS = {"payer": "the payer", "merchant": "the merchant", "staff": "the staff of the gateway"}


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


# The outcomes of callbacks in a few words, by which console and command line name them.
DELIVERY_TEXTS: Mapping[str, str] = {
    DeliveryOutcome.DELIVERED: "delivered",
    DeliveryOutcome.NON_2XX: "not delivered (not accepted)",
    DeliveryOutcome.TIMEOUT: "not delivered (no answer in time)",
    DeliveryOutcome.TRANSPORT_ERROR: "not delivered (not reached)",
    DeliveryOutcome.EGRESS_REFUSED: "not delivered (address refused)",
    DeliveryOutcome.KEY_REVOKED: "not delivered (key revoked)",
    DeliveryOutcome.BREAKER_OPEN: "not delivered (callbacks stopped)",
}

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

    # One attempt each (Q1); a crash may have repeated it.
    deliveries = [
        json.loads(entry.detail) for entry in history.journal if entry.input_name == "QrConcluded"
    ]
    for delivery in deliveries:
        if delivery["outcome"] == DeliveryOutcome.DELIVERED:
            yield f"The QR code was brought to the merchant, who answered {delivery['status']}."
        else:
            yield (
                f"The QR code was not brought to the merchant: {delivery['detail']} It is not "
                f"sent again."
            )

    if not deliveries:
        yield "The QR code has not been brought to the merchant."


def _callback_sentences(history: PaymentHistory) -> Iterator[str]:
    transaction = history.transaction
    # The first case that fits is the reason why there is no outcome.
    if not transaction.progress.stage.is_terminal:
        yield "The merchant is called back once it has ended; a look-up says pending."
        return

    if transaction.order.result_url is None:
        yield "There is no address to call back: the brand has no push_result_url."
        return

    if not history.callbacks:
        yield "The callback has no outcome yet: a gateway that serves this store sends it."
        return

    for callback in history.callbacks:
        attempt = callback.attempt
        if attempt.outcome is DeliveryOutcome.DELIVERED:
            yield f"The merchant was called back and answered {attempt.status}."
            continue

        # One attempt and no second one (K3): look-ups and records have the result.
        if history.brand is not None:
            yield "The merchant learns the result by a look-up or from the records."

        if attempt.status in (401, 403):
            yield "The merchant's server refused our X-API-KEY: it compares with another key."


def _undelivered(history: PaymentHistory) -> Iterator[Alarm]:
    for callback in history.callbacks:
        attempt = callback.attempt
        if attempt.outcome is not DeliveryOutcome.DELIVERED:
            why = _DELIVERY_FAILURE_TEXTS[attempt.outcome].format(status=attempt.status)
            detail = ""
            if attempt.detail:
                detail = f" ({attempt.detail.rstrip('.')})"
            yield Alarm(f"The callback was not delivered: {why}{detail}. It is not sent again.")


def _brand_sentences(history: PaymentHistory) -> Iterator[str]:
    if history.brand is None:
        yield f"The brand {history.transaction.order.brand} was removed: nobody can look this up."
        return

    brand = history.brand.brand
    # A merchant who cannot read the result anywhere needs to know why.
    in_use = [key for key in history.brand.keys if key.retired_at is None]
    if not brand.enabled:
        yield f"The brand {brand.id} is disabled: its requests are refused with merchant_disabled."

    if not in_use:
        yield (
            f"The brand {brand.id} has no API key in use: it can't look this up nor verify "
            f"callbacks."
        )
    elif len(in_use) > 1:
        # The key that made the payment while it is in use, else the oldest in use (A4).
        made_with = history.transaction.order.api_key_id
        carried = next((key.id for key in in_use if str(key.id) == made_with), in_use[0].id)
        yield (
            f"The brand {brand.id} has {len(in_use)} API keys in use; this callback carries "
            f"number {carried}."
        )


def _open_suspense_sentences(history: PaymentHistory) -> Iterator[str]:
    # What contradicts the end has a sentence of its own.
    contradicting = {contradiction.entry for contradiction in _contradictions(history)}
    waiting = [
        f"entry {entry.id}"
        for entry in history.suspense
        if entry.closed_at is None and entry.id not in contradicting
    ]
    if waiting:
        yield f"To do in the suspense book: {', '.join(waiting)}. A person must look at it."


def _claim_sentences(history: PaymentHistory) -> Iterator[str]:
    for claim in history.claims:
        waits = "the operator's confirmation"
        if claim.is_confirmed:
            waits = "the payment's end"

        yield (
            f"A deposit of {claim.amount} with the receipt {claim.receipt} names it, and waits "
            f"for {waits}."
        )


def suspense_entry_to_json(entry: SuspenseEntry) -> dict[str, object]:
    """Return an entry of the suspense book as a JSON object."""
    closed_at = None
    if entry.closed_at is not None:
        closed_at = format_with_microseconds(entry.closed_at)

    return {
        "id": entry.id,
        "reason": entry.reason,
        "provider": entry.provider,
        "brand": entry.brand,
        "gatewayReference": entry.gateway_reference,
        "told": json.loads(entry.content),
        "firstAt": format_with_microseconds(entry.first_at),
        "lastAt": format_with_microseconds(entry.last_at),
        "times": entry.times,
        "closedAt": closed_at,
        "closedBy": entry.closed_by,
        "note": entry.note,
    }
