"""Records the end of the one attempt to deliver a callback (clause K3) or a QR code (clause Q1),
and of the poll of a payment that has ended.

The open intent decides: its conclusion is durable in the same commit, so a repeated input, or one
of an earlier sender, finds none and changes nothing."""

from __future__ import annotations

from typing import TypeAlias, assert_never

from mmo_sansio.messages.changes import (
    BreakerSaved,
    CallbackRecorded,
    Change,
    IntentConcluded,
    QrRecorded,
    SuspenseReason,
)
from mmo_sansio.messages.inputs import (
    CallbackConcluded,
    EndedPollConcluded,
    ProviderHinted,
    QrConcluded,
)
from mmo_sansio.messages.intents import IntentKind, PollEnded
from mmo_sansio.messages.replies import Applied
from mmo_sansio.payments.decision import Decision, ignore
from mmo_sansio.payments.ledger import Ledger, Reads
from mmo_sansio.payments.suspense import suspense_entry
from mmo_sansio.values.clock import Moment

# The inputs that this module decides.
ConclusionInput: TypeAlias = CallbackConcluded | QrConcluded | EndedPollConcluded


def reads(input_: ConclusionInput) -> Reads:
    """Return the keys that `decide` will look at."""
    match input_:
        case CallbackConcluded():
            kind = IntentKind.CALLBACK
        case QrConcluded():
            kind = IntentKind.QR
        case EndedPollConcluded():
            kind = IntentKind.POLL
        case _:
            assert_never(input_)

    reference = input_.gateway_reference
    return Reads(transactions=frozenset((reference,)), intents=frozenset(((reference, kind),)))


def decide(ledger: Ledger, input_: ConclusionInput, *, now: Moment) -> Decision:
    """Decide what the end of an attempt changes."""
    match input_:
        case CallbackConcluded():
            return conclude_callback(ledger, input_, now=now)
        case QrConcluded():
            return conclude_qr(ledger, input_, now=now)
        case EndedPollConcluded():
            return conclude_poll(ledger, input_, now=now)
        case _:
            assert_never(input_)


def actor(_: ConclusionInput) -> str:
    """Return who acts, for the journal: the gateway itself."""
    return "gateway"


def detail(input_: ConclusionInput) -> dict[str, object]:
    """Return what the journal holds of the input."""
    if isinstance(input_, EndedPollConcluded):
        return {}

    return {
        "outcome": input_.attempt.outcome,
        "status": input_.attempt.status,
        "durationMs": input_.attempt.duration_ms,
        "detail": input_.attempt.detail,
    }


def conclude_callback(ledger: Ledger, input_: CallbackConcluded, *, now: Moment) -> Decision:
    """Record the outcome, once; the transaction itself does not change."""
    transaction = ledger.transaction(input_.gateway_reference)
    key = (input_.gateway_reference, IntentKind.CALLBACK)
    # Two processes may have sent it, where the first lost its lease: the first outcome stays.
    if transaction is None or ledger.open_intent(key) is None:
        return ignore("No callback is waiting for its outcome.", transaction)

    brand = transaction.order.brand
    recorded = CallbackRecorded(input_.gateway_reference, brand, input_.attempt, now.utc)
    changes: tuple[Change, ...] = (recorded, IntentConcluded(key))
    # The breaker is stored with the outcome that changed it, so that a restart keeps it open (K5).
    if input_.breaker is not None:
        changes = (*changes, BreakerSaved(brand, input_.fence, input_.breaker))

    return Decision(Applied(transaction), changes)


def conclude_qr(ledger: Ledger, input_: QrConcluded, *, now: Moment) -> Decision:
    """Record the outcome, once; the transaction itself does not change."""
    transaction = ledger.transaction(input_.gateway_reference)
    key = (input_.gateway_reference, IntentKind.QR)
    if transaction is None or ledger.open_intent(key) is None:
        return ignore("No QR code is waiting for its outcome.", transaction)
    recorded = QrRecorded(
        input_.gateway_reference, transaction.order.brand, input_.attempt, now.utc
    )
    return Decision(Applied(transaction), (recorded, IntentConcluded(key)))


def conclude_poll(ledger: Ledger, input_: EndedPollConcluded, *, now: Moment) -> Decision:
    """Record that nothing is left to ask; what the provider reported is recorded before. A question
    that stayed without an answer goes to the suspense book with the hint that caused it (S5).

    Where more has come meanwhile than it was asked with, perhaps to another process, it is asked
    once more with all of it."""
    transaction = ledger.transaction(input_.gateway_reference)
    key = (input_.gateway_reference, IntentKind.POLL)
    question = ledger.open_intent(key)
    if transaction is None or not isinstance(question, PollEnded):
        return ignore("No poll of it is open.", transaction)
    # A hint came while the question was under way: its answer may be older than the hint.
    if not _was_asked(question, input_):
        return Decision(Applied(transaction), intents=(question,))

    # A question that nobody has answered for days must not vanish: money may have moved (S5).
    changes: tuple[Change, ...] = (IntentConcluded(key),)
    if input_.is_unanswered:
        asked = ProviderHinted(transaction.reference, transaction.order.provider, input_.hint or "")
        reason = SuspenseReason.UNANSWERED_QUESTION
        changes = (suspense_entry(asked, reason, transaction, now=now), *changes)

    return Decision(Applied(transaction), changes)


def _was_asked(question: PollEnded, asked: EndedPollConcluded) -> bool:
    """Tell whether this was asked with all that the open question knows."""
    # Hints are merged into one text, so what was asked with holds the earlier ones.
    has_hints = question.hint is None or question.hint in (asked.hint or "")
    return has_hints and question.provider_reference in (None, asked.provider_reference)
