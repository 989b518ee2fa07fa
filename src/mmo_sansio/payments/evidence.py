"""Decides what is known of a payment's money before it has a result: a receipt that an operator has
reported and not confirmed is asked about, ends the payment where nobody answers, and stands in the
suspense book where the operator contradicts itself (clauses S2, S5, S6)."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final

from attrs import evolve

from mmo_sansio.messages.changes import SuspenseReason, SuspenseRecorded
from mmo_sansio.messages.inputs import ProviderHinted, TransactionWoke
from mmo_sansio.messages.replies import Applied
from mmo_sansio.payments.decision import Decision, advance, complete, end, transition_changes
from mmo_sansio.payments.suspense import suspense_entry
from mmo_sansio.values.clock import HOUR, MINUTE, SECOND, Instant, Moment, Span, elapsed, later
from mmo_sansio.values.model import (
    DepositClaim,
    Evidence,
    Order,
    Progress,
    Source,
    Stage,
    Transaction,
)

# How long a submission may be in flight before the provider is polled about it; longer than any
# conversation with a provider may take.
SUBMISSION_TIMEOUT: Final = Span(30 * SECOND)

# How long a report waits for an answer of the operator before it ends its payment.
SETTLES_AFTER: Final = Span(10 * MINUTE)

# How long after a report an answer that contradicts it may be too early to say.
DENIAL_STANDS_AFTER: Final = HOUR

# The reasons of the entries that can say of a payment which has ended that its merchant was told
# something wrong.
CONTRARY_REASONS: Final = (
    SuspenseReason.LATE_RESULT,
    SuspenseReason.CONFLICTING_RESULT,
    SuspenseReason.UNCONFIRMED_RECEIPT,
    SuspenseReason.UNPROVED_SUCCESS,
)

# What another provider reports, or what cannot be read, says nothing about this payment.
_NOT_EVIDENCE = frozenset({SuspenseReason.WRONG_PROVIDER, SuspenseReason.UNREADABLE})


def find_contradiction(
    transaction: Transaction,
    *,
    succeeded: bool,
    claims: Iterable[DepositClaim] = (),
    entries: Iterable[tuple[SuspenseReason, str]] = (),
    now: Instant | None = None,
) -> str | None:
    """Return in a sentence what is known against this end of a payment; None when nothing is.

    `claims` are the open claims that name the payment, `entries` the reasons and texts of its
    entries in the suspense book; a caller passes what it has. `now` is the gateway's own time."""
    provider, progress = transaction.order.provider_title, transaction.progress
    # What was reported about it and not applied.
    if any(contradicts(succeeded, reason, text) for reason, text in entries):
        result = "failed" if succeeded else "success"
        return f"{provider} has reported a result '{result}', which is in the suspense book."

    # Money that is known of speaks against a failure only.
    if succeeded:
        return None
    if progress.receipt_awaited_since is not None and not progress.stage.is_terminal:
        return f"{provider} has called it paid."
    if progress.evidence is not None:
        return f"{provider} has reported the receipt {progress.evidence.receipt}."

    # A confirmed one first: it is certain.
    if (claim := max(claims, key=lambda claim: claim.is_confirmed, default=None)) is not None:
        said = "has confirmed" if claim.is_confirmed else "must first answer whether it has"
        return f"{provider} {said} the receipt {claim.receipt}, which names this payment."

    # Whoever ends a payment as failed may pay it by another way: not while it may be arriving.
    if now is not None and is_in_flight(progress, now=now):
        return (
            f"{provider} may be receiving it just now: try again in "
            f"{SUBMISSION_TIMEOUT // SECOND} seconds."
        )

    return None


def contradicts(succeeded: bool, reason: SuspenseReason, content: str) -> bool:
    """Tell whether an entry of the suspense book, by its reason and text, reports the opposite of
    this outcome. The confirmed deposit of one who named the payment is a success."""
    if reason in _NOT_EVIDENCE:
        return False

    told = json.loads(content)
    result: object = told.get("result")
    if succeeded:
        return result == "failed"
    return result == "success" or (result == "deposit" and told.get("confirmed") is True)


def is_in_flight(progress: Progress, *, now: Instant) -> bool:
    """Tell whether the submission on record may be under way."""
    if progress.stage is not Stage.SUBMITTING or progress.submitted_at is None:
        return False
    return elapsed(progress.submitted_at, now) < SUBMISSION_TIMEOUT


def may_have_arrived(progress: Progress) -> bool:
    """Tell whether the provider may have the submission on record, whatever it says: a notification
    has come since it began, a confirmed receipt names the payment, or the store was restored."""
    is_told = progress.hint is not None or progress.evidence is not None
    return is_told or progress.named_by_receipt is not None or progress.is_restored


def merge_evidence(
    known: Evidence | None, reported: Evidence | None, *, is_contradicted: bool, now: Moment
) -> Evidence | None:
    """Return what is known after a report. The first counts; where two reports differ, as with
    another receipt, neither ends the payment by itself."""
    if known is None:
        if reported is None:
            return None
        settles = reported.settles and not is_contradicted
        return evolve(reported, reported_at=now.time, settles=settles)

    is_other_receipt = reported is not None and reported.receipt != known.receipt
    return evolve(known, settles=known.settles and not is_contradicted and not is_other_receipt)


def is_settled_by(known: Evidence, *, now: Moment) -> bool:
    """Tell whether the report ends its payment now: the operator has not contradicted it, and
    confirmed nothing."""
    return (
        known.settles
        and not known.is_denied
        and elapsed(known.reported_at, now.time) >= SETTLES_AFTER
    )


def settle(
    before: Transaction, input_: TransactionWoke, known: Evidence, *, now: Moment
) -> Decision:
    """End the payment with its reported success. Its source is the notification that has reported
    it; that nobody has answered since is only why it counts now."""
    # A notification may name no amount.
    final = known.amount or before.order.requested
    after = end(
        before,
        input_,
        Stage.SUCCEEDED,
        Source.WEBHOOK,
        now=now,
        provider_reference=known.receipt,
        final=final,
    )
    return complete(before, after)


def ask_on(
    before: Transaction,
    input_: object,
    known: Evidence | None,
    at: Instant,
    *,
    now: Moment,
    **progress: Any,
) -> Decision:
    """Leave the payment pending and ask again, at the latest `at`; a contradiction that stands goes
    to the suspense book."""
    # An answer soon after a report may be older than what it reports, so that a denial has to stand
    # for a while; and the contradiction is on record once.
    entries: tuple[SuspenseRecorded, ...] = ()
    if (
        known is not None
        and known.is_denied
        and elapsed(known.reported_at, now.time) >= DENIAL_STANDS_AFTER
    ):
        if not known.is_in_suspense:
            entries = (receipt_entry(before, known, now=now),)

        known = evolve(known, is_in_suspense=True)

    wake_at = next_question_at(before.order, known, at, now=now)
    after = advance(
        before, input_, before.progress.stage, evidence=known, wake_at=wake_at, **progress
    )
    return Decision(Applied(after), (*transition_changes(before, after), *entries))


def next_question_at(order: Order, known: Evidence | None, at: Instant, *, now: Moment) -> Instant:
    """Return the time of the next question, at the latest `at`: a reported payment is asked about
    after a minute, then in intervals that double up to an hour, and when its report would end
    it."""
    if known is None:
        return at
    # As long as the report is old: the intervals double, between a minute and an hour.
    age = elapsed(known.reported_at, now.time)
    asked_at = later(now.time, Span(min(max(age, MINUTE), HOUR)))
    # The last question comes just when the report would end the payment.
    if known.settles and not known.is_denied and age < SETTLES_AFTER:
        asked_at = min(asked_at, later(known.reported_at, SETTLES_AFTER))
    return min(asked_at, at, order.expires_at)


def receipt_entry(before: Transaction, known: Evidence, *, now: Moment) -> SuspenseRecorded:
    """Return the suspense book's entry that names the receipt of a report which nobody has
    confirmed."""
    report = ProviderHinted(
        before.reference, before.order.provider, native_code=known.code, evidence=known
    )
    return suspense_entry(report, SuspenseReason.UNCONFIRMED_RECEIPT, before, now=now)


def unproved_entries(before: Transaction, *, now: Moment) -> tuple[SuspenseRecorded, ...]:
    """Return the suspense book's entry about a payment that fails now, and that a hint has called
    paid. One whose receipt was reported has an entry of that."""
    progress = before.progress
    # Two entries about the same money would be looked into twice.
    if not progress.is_said_paid or progress.evidence is not None:
        return ()
    report = ProviderHinted(
        before.reference, before.order.provider, progress.hint or "", says_paid=True
    )
    return (suspense_entry(report, SuspenseReason.UNPROVED_SUCCESS, before, now=now),)
