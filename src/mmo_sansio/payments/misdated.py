"""Decides the correction of what a wrong clock has dated: which payments, reversals and claims of
deposits those are, and what their times have to be (clause S3)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeVar

from attrs import evolve

from mmo_sansio.messages.changes import (
    Change,
    DepositClaimChanged,
    ReversalChanged,
    TransactionAdvanced,
)
from mmo_sansio.messages.inputs import CorrectTimes
from mmo_sansio.messages.replies import Applied, Ignored, ReversalApplied
from mmo_sansio.payments.decision import Decision, ignore
from mmo_sansio.payments.ledger import Ledger, Reads
from mmo_sansio.values.clock import (
    DAY,
    HOUR,
    MINUTE,
    Moment,
    Span,
    earlier,
    elapsed,
    later,
)
from mmo_sansio.values.model import (
    DepositClaim,
    Evidence,
    Order,
    Page,
    Progress,
    Transaction,
)
from mmo_sansio.values.payer_actions import EnterCode, OpenUrl
from mmo_sansio.values.reversals import Reversal

T = TypeVar("T", Order, Page, Progress, Evidence, OpenUrl, EnterCode, Reversal, DepositClaim)

# How far in the future a time must lie: more than the clocks of synchronised machines differ.
MISDATED_FROM: Span = MINUTE

# The members that hold times of the gateway's own, or values with such.
OWN_TIMES: Final[Mapping[type, tuple[str, ...]]] = {
    Order: ("expires_at", "page"),
    Page: ("closes_at",),
    Progress: (
        "wake_at",
        "submitted_at",
        "answered",
        "evidence",
        "denied_since",
        "receipt_awaited_since",
        "payer_action",
    ),
    OpenUrl: ("ends_at", "returned_at"),
    EnterCode: ("ends_at",),
    Evidence: ("reported_at",),
    Reversal: ("wake_at", "due_since", "sent_at"),
    DepositClaim: ("received_at", "expires_at", "wake_at", "answered_at"),
}

# The members that hold wall times.
WALL_TIMES: Final[Mapping[type, tuple[str, ...]]] = {
    Order: ("created_at",),
    Progress: ("completed_at",),
    Reversal: ("asked_at", "approved_at", "ended_at"),
}


def shifted(value: T, excess: Span) -> T:
    """Return the value with each of its own times this much earlier."""

    # A member is a time, or holds times itself, or is not set.
    def moved(member: Any) -> Any:
        if member is None:
            return None
        if isinstance(member, tuple):
            return tuple(moved(element) for element in member)
        if type(member) in OWN_TIMES:
            return shifted(member, excess)
        return earlier(member, excess)

    members: dict[str, Any] = {name: moved(getattr(value, name)) for name in OWN_TIMES[type(value)]}
    return evolve(value, **members)


def is_misdated(transaction: Transaction, *, now: Moment) -> bool:
    """Tell whether a payment was created in the future: by a wall clock that was ahead, or by a
    time of the gateway's own that began with such a clock."""
    order = transaction.order
    return (
        # Either clock may have been wrong: the wall clock alone, or both since the store began.
        elapsed(now.utc, order.created_at) > MISDATED_FROM
        or elapsed(now.time, order.accepted_at) > MISDATED_FROM
    )


def _corrected(transaction: Transaction, *, now: Moment) -> Transaction:
    """Return the payment with the times that it would have, had the wall clock been right.

    The gateway's own time was right all along, so wall time follows from it. Where even that lies
    in the future, it began with a wrong clock, and nothing tells when the payment was taken: now is
    the earliest moment that ends it too early for nobody."""
    order, progress = transaction.order, transaction.progress
    # How far own time was ahead, if at all; and from this how far wall time was.
    excess = Span(max(0, elapsed(now.time, order.accepted_at)))
    utc_offset = elapsed(now.time, now.utc)
    error = Span(order.utc_offset - utc_offset + excess)
    return Transaction(
        _corrected_order(order, excess=excess, error=error, utc_offset=utc_offset),
        _corrected_progress(progress, excess=excess, error=error, now=now),
    )


def _corrected_order(order: Order, *, excess: Span, error: Span, utc_offset: Span) -> Order:
    return evolve(
        shifted(order, excess),
        created_at=earlier(order.created_at, error),
        utc_offset=utc_offset,
    )


def _corrected_progress(progress: Progress, *, excess: Span, error: Span, now: Moment) -> Progress:
    completed_at = progress.completed_at
    if completed_at is not None:
        completed_at = min(earlier(completed_at, error), now.utc)

    return evolve(
        shifted(progress, excess),
        version=progress.version + 1,
        completed_at=completed_at,
    )


def is_reversal_misdated(reversal: Reversal, *, now: Moment) -> bool:
    """Tell whether a reversal was asked for or sent in the future, or waits for longer than any
    question does."""
    return (
        elapsed(now.utc, reversal.asked_at) > MISDATED_FROM
        or _reversal_excess(reversal, now=now) > MISDATED_FROM
        # No question about a reversal is planned more than an hour ahead.
        or elapsed(now.time, reversal.wake_at or now.time) > DAY
    )


def _reversal_excess(reversal: Reversal, *, now: Moment) -> Span:
    """Return by how much a reversal was sent, or was to be sent, in the future."""
    # Of these two the past is certain; `wake_at` may rightly lie ahead.
    past = [reversal.due_since or now.time, reversal.sent_at or now.time]
    return Span(max(0, elapsed(now.time, max(past))))


def _corrected_reversal(reversal: Reversal, *, now: Moment) -> Reversal:
    """Return the reversal with no time in the future but that of its next step, which is near."""
    after = shifted(reversal, _reversal_excess(reversal, now=now))
    walls: dict[str, Any] = {}
    for name in WALL_TIMES[Reversal]:
        wall = getattr(after, name)
        if wall is None:
            walls[name] = None
        else:
            walls[name] = min(wall, now.utc)

    # No question waits longer than an hour.
    wake_at = after.wake_at
    if wake_at is not None:
        wake_at = min(wake_at, later(now.time, HOUR))

    return evolve(after, version=reversal.version + 1, wake_at=wake_at, **walls)


def is_claim_misdated(claim: DepositClaim, *, now: Moment) -> bool:
    """Tell whether a claim was received in the future."""
    return elapsed(now.time, claim.received_at) > MISDATED_FROM


def reads(input_: CorrectTimes) -> Reads:
    """Return the keys that `decide` will look at."""
    payment = frozenset((input_.gateway_reference,))
    claims = frozenset() if input_.claim is None else frozenset((input_.claim,))
    return Reads(transactions=payment, reversals=payment, claims=claims)


def actor(input_: CorrectTimes) -> str:
    """Return who acts, for the journal."""
    return f"user:{input_.user}"


def detail(_: CorrectTimes) -> dict[str, object]:
    """Return what the journal holds of the input."""
    return {}


def decide(ledger: Ledger, input_: CorrectTimes, *, now: Moment) -> Decision:
    """Correct the times of a payment that was created in the future, of its reversals, and of the
    claim that is named with it. Its stage, and whatever was decided, stay."""
    # The claim and the reversals are corrected even where the payment itself is right or missing.
    before = ledger.transaction(input_.gateway_reference)
    reversals = tuple(_reversal_changes(ledger, input_.gateway_reference, now=now))
    others: tuple[Change, ...] = (*_claim_changes(ledger, input_, now=now), *reversals)

    if before is not None and is_misdated(before, now=now):
        after = _corrected(before, now=now)
        return Decision(Applied(after), (*others, TransactionAdvanced(before, after)))

    if before is not None and reversals:
        return Decision(ReversalApplied(reversals[-1].after, before), others)
    if others:
        return Decision(Ignored("The times of its deposit are corrected.", before), others)
    if before is None:
        return ignore("There is no such transaction.")

    return ignore("Its times are right.", before)


def _reversal_changes(ledger: Ledger, payment: str, *, now: Moment) -> Iterator[ReversalChanged]:
    """Yield the corrections of a payment's reversals, each after the one before."""
    known = ledger.reversals_of(payment)
    for reversal in known:
        if is_reversal_misdated(reversal, now=now):
            change = ReversalChanged(known, _corrected_reversal(reversal, now=now))
            yield change
            # The next change of the same row must fit what this one leaves.
            known = change.reversals


def _claim_changes(
    ledger: Ledger, input_: CorrectTimes, *, now: Moment
) -> Iterator[DepositClaimChanged]:
    """Yield the correction of the claim that is named."""
    claim = None
    if input_.claim is not None:
        claim = ledger.claim(*input_.claim)
    if claim is not None and is_claim_misdated(claim, now=now):
        excess = elapsed(now.time, claim.received_at)
        yield DepositClaimChanged(claim, evolve(shifted(claim, excess), version=claim.version + 1))
