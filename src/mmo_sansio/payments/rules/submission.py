"""Decides what happens between sending and knowing: a request is sent once, and an unknown outcome
is polled (clause S6)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias, assert_never

from attrs import evolve

from mmo_sansio.messages import inputs
from mmo_sansio.messages.changes import SuspenseReason
from mmo_sansio.messages.intents import DeliverQr, Intent, PollEnded, SubmitToProvider
from mmo_sansio.messages.replies import Applied
from mmo_sansio.payments.answers import Answer, what_is_answered
from mmo_sansio.payments.decision import Decision, advance, fail_payment, ignore, transition_changes
from mmo_sansio.payments.evidence import (
    SUBMISSION_TIMEOUT,
    ask_on,
    may_have_arrived,
    merge_evidence,
    next_question_at,
    receipt_entry,
)
from mmo_sansio.payments.ledger import Ledger, Reads
from mmo_sansio.payments.payer_actions import action_after, ask_payer, asked_by_end
from mmo_sansio.payments.rules.timers import (
    POLL_INTERVAL_MAX,
    POLL_INTERVAL_MIN,
    next_poll_at,
    poll_interval,
)
from mmo_sansio.payments.states import is_legal
from mmo_sansio.payments.suspense import suspense_entry
from mmo_sansio.values.clock import Instant, Moment, Span, earlier, later
from mmo_sansio.values.error_codes import ErrorCode
from mmo_sansio.values.model import (
    Evidence,
    Order,
    ProviderData,
    Refusal,
    Source,
    Stage,
    Transaction,
)

# The inputs that this module decides.
SubmissionInput: TypeAlias = (
    inputs.BeginSubmission
    | inputs.StopPayment
    | inputs.MarkRestored
    | inputs.ProviderAccepted
    | inputs.ProviderUnreachable
    | inputs.ProviderNeverReceived
)

# Who ends a payment that is not sent: staff by what they have changed, or the clock (S2).
_WITHHELD_SOURCES: Final[Mapping[inputs.WithheldReason, Source]] = MappingProxyType(
    {
        inputs.WithheldReason.PROVIDER_CLOSED: Source.MANUAL,
        inputs.WithheldReason.TOO_LATE: Source.EXPIRY,
        inputs.WithheldReason.ACCOUNT_CHANGED: Source.MANUAL,
    }
)


def reads(input_: SubmissionInput) -> Reads:
    """Return the keys that `decide` will look at."""
    return Reads(
        transactions=frozenset((input_.gateway_reference,)),
        held_brands=isinstance(input_, inputs.BeginSubmission),
    )


def decide(ledger: Ledger, input_: SubmissionInput, *, now: Moment) -> Decision:
    """Decide what is sent, and what an answer says about it."""
    match input_:
        case inputs.BeginSubmission():
            return begin(ledger, input_, now=now)
        case inputs.ProviderAccepted():
            return accept(ledger, input_, now=now)
        case inputs.ProviderUnreachable():
            return record_unreachable(ledger, input_, now=now)
        case inputs.ProviderNeverReceived():
            return resubmit(ledger, input_, now=now)
        case inputs.StopPayment():
            return stop(ledger, input_, now=now)
        case inputs.MarkRestored():
            return mark_restored(ledger, input_, now=now)
        case _:
            assert_never(input_)


def actor(input_: SubmissionInput) -> str:
    """Return who acts, for the journal."""
    match input_:
        case inputs.BeginSubmission():
            return "gateway"
        case inputs.StopPayment() | inputs.MarkRestored():
            return f"user:{input_.user}"
        case (
            inputs.ProviderAccepted()
            | inputs.ProviderUnreachable()
            | inputs.ProviderNeverReceived()
        ):
            return f"provider:{input_.provider}"
        case _:
            assert_never(input_)


def detail(input_: SubmissionInput) -> dict[str, object]:
    """Return what the journal holds of the input."""
    match input_:
        case inputs.BeginSubmission(withheld=None):
            return {}
        case inputs.BeginSubmission(withheld=withheld):
            return {"withheld": withheld}
        case inputs.ProviderAccepted():
            return {"source": input_.source, "providerReference": input_.provider_reference}
        case inputs.ProviderUnreachable(evidence=Evidence() as reported):
            return {"reason": input_.reason, "providerReference": reported.receipt}
        case inputs.ProviderUnreachable():
            return {"reason": input_.reason}
        case inputs.StopPayment() | inputs.MarkRestored() | inputs.ProviderNeverReceived():
            return {}
        case _:
            assert_never(input_)


def begin(ledger: Ledger, input_: inputs.BeginSubmission, *, now: Moment) -> Decision:
    """Record that the request is about to be sent; a payment of a brand on hold, or that may not be
    sent or might be in flight at its expiry, fails instead. `Applied` with the stage SUBMITTING
    lets the worker send the request, anything else forbids it. An attempt whose outcome its worker
    could not learn is answered alike when it is repeated."""
    # 1. The repeated attempt: its worker did not learn whether it was recorded, and nothing has
    # left.
    before = ledger.transaction(input_.gateway_reference)
    if before is not None and _is_recorded(before, input_):
        return Decision(Applied(before))

    # 2. Of two workers only the first may send: the second finds the stage moved on.
    if before is None or not is_legal(before.progress.stage, input_):
        return ignore("The payment was submitted before or has ended.", before)
    # It expires now: the scheduler ends it.
    if before.progress.wake_at is not None and now.time >= before.progress.wake_at:
        return ignore("Its time is over.", before)

    # 3. What must not be sent fails at once, instead of waiting for days.
    if ledger.is_held(before.order.brand):
        return fail_payment(before, input_, ErrorCode.PAYMENT_STOPPED, Source.MANUAL, now=now)

    # A submission that begins now might still be in flight when the order expires.
    withheld = input_.withheld
    if before.order.expires_within(SUBMISSION_TIMEOUT, now=now):
        withheld = inputs.WithheldReason.TOO_LATE

    if withheld is not None:
        return fail_payment(
            before, input_, ErrorCode.PROVIDER_UNAVAILABLE, _WITHHELD_SOURCES[withheld], now=now
        )

    # 4. It is on record before the request leaves. A crash from here on leads to a question, never
    # to a second request (S6).
    after = advance(
        before,
        input_,
        Stage.SUBMITTING,
        wake_at=later(now.time, SUBMISSION_TIMEOUT),
        polls=0,
        submitted_at=now.time,
        submissions=before.progress.submissions + 1,
        sent_version=before.progress.version + 1,
        provider_data=_initial_provider_data(before.order),
        attempt=input_.attempt,
    )
    return Decision(Applied(after), transition_changes(before, after))


def _is_recorded(before: Transaction, input_: inputs.BeginSubmission) -> bool:
    """Tell whether this very attempt began the submission on record. Its worker has sent nothing
    yet, and knows until when it may. A payment that was marked as restored is never sent."""
    known = before.progress
    is_same = input_.attempt is not None and known.attempt == input_.attempt
    return is_same and known.stage is Stage.SUBMITTING and not known.is_restored


def stop(ledger: Ledger, input_: inputs.StopPayment, *, now: Moment) -> Decision:
    """Fail a payment that was not submitted yet, because its brand is on hold. One that was
    submitted goes on."""
    before = ledger.transaction(input_.gateway_reference)
    if before is None or not is_legal(before.progress.stage, input_):
        return ignore("The payment was submitted before or has ended.", before)
    return fail_payment(before, input_, ErrorCode.PAYMENT_STOPPED, Source.MANUAL, now=now)


def mark_restored(ledger: Ledger, input_: inputs.MarkRestored, *, now: Moment) -> Decision:
    """Take a payment for submitted that had not ended in the backup: it is asked about, and never
    sent again (S6)."""
    before = ledger.transaction(input_.gateway_reference)
    if before is None or not is_legal(before.progress.stage, input_) or before.progress.is_restored:
        return ignore("The payment has ended, or is marked.", before)

    progress, order = before.progress, before.order
    to = Stage.SUBMITTING
    if progress.stage is Stage.AWAITING_RESULT:
        to = Stage.AWAITING_RESULT

    after = advance(
        before,
        input_,
        to,
        # Before the expiry even where that is past: who expires with a poll overdue is asked about.
        wake_at=min(later(now.time, POLL_INTERVAL_MIN), earlier(order.expires_at, Span(1))),
        submitted_at=progress.submitted_at or now.time,
        # Without this a report of the provider would name a payment that was never sent to it.
        provider_data=progress.provider_data or _initial_provider_data(order),
        is_restored=True,
    )
    return Decision(Applied(after), transition_changes(before, after))


def accept(ledger: Ledger, input_: inputs.ProviderAccepted, *, now: Moment) -> Decision:
    """Record that the provider has the payment: wait for its result, and poll when it does not
    come."""
    before = _find_pending(ledger, input_)
    if before is None:
        return _accept_after_end(ledger.transaction(input_.gateway_reference), input_, now=now)

    progress = before.progress
    action = action_after(before, input_)
    learnt: dict[str, Any] = {
        "provider_reference": input_.provider_reference or progress.provider_reference,
        # It has the payment, so what it has said of "none such" is over.
        "denied_since": None,
        "payer_action": action,
        "is_told_when_asked": progress.is_told_when_asked or input_.is_told_when_asked,
    }
    # The same stage, and no advice for the next poll: the schedule stays as it is.
    if progress.stage is Stage.AWAITING_RESULT and input_.poll_after is None:
        # So it is with most answers to polls: nothing is written for them.
        if all(getattr(progress, name) == value for name, value in learnt.items()):
            return ignore("Still pending.", before)

        after = advance(before, input_, Stage.AWAITING_RESULT, **learnt)
    else:
        at = _poll_at(before, input_.poll_after or poll_interval(0), now=now)
        # A slow answer to an earlier submission must not put off what is asked of the latest.
        if _is_about_older(before, input_):
            at = min(at, progress.wake_at or at)

        at = asked_by_end(action, at, now=now)
        after = advance(
            before,
            input_,
            Stage.AWAITING_RESULT,
            wake_at=next_question_at(before.order, progress.evidence, at, now=now),
            qr=progress.qr or input_.qr,
            **learnt,
        )

    return Decision(Applied(after), transition_changes(before, after), _qr_intents(before))


def _accept_after_end(
    before: Transaction | None, input_: inputs.ProviderAccepted, *, now: Moment
) -> Decision:
    """Poll a payment that has ended without its provider's word, once; a new id of the provider's
    goes to the suspense book (S5). The answer to that poll names no further one."""
    ignored = ignore("No such payment waits for this provider.", before)
    # The answer to that poll advises no further one, so this does not go on for ever.
    if before is None or before.order.provider != input_.provider or input_.poll_after is None:
        return ignored

    progress = before.progress
    if progress.provider_data is None or progress.completion_source not in (
        Source.EXPIRY,
        Source.MANUAL,
    ):
        return ignored

    # Its submission was accepted after the end: the money may move all the same.
    poll = PollEnded(before.reference, now.time, provider_reference=input_.provider_reference)
    if input_.provider_reference in (None, progress.provider_reference):
        return Decision(Applied(before), intents=(poll,))

    return Decision(
        Applied(before),
        (suspense_entry(input_, SuspenseReason.LATE_RESULT, before, now=now),),
        (poll,),
    )


def _qr_intents(before: Transaction) -> tuple[Intent, ...]:
    """Return the intent to deliver a QR pay-in's code to the merchant, once, when the provider
    first has the payment (Q1); also when there is no code, so that this is on record."""
    # A second acceptance, as after a restart, must not send a second code.
    is_first = before.progress.stage is not Stage.AWAITING_RESULT
    is_delivered = is_first and before.order.display_qr_url is not None
    if is_delivered:
        return (DeliverQr(before.reference),)
    return ()


def record_unreachable(
    ledger: Ledger, input_: inputs.ProviderUnreachable, *, now: Moment
) -> Decision:
    """Record that there was no usable response: the request may have been received, so poll
    soon."""
    # Without a usable response nothing is known, so nothing may fail or be sent again (S6).
    before = _find_pending(ledger, input_)
    if before is None or before.progress.wake_at is None:
        return _record_doubtful_success(ledger.transaction(input_.gateway_reference), input_, now)
    if _is_about_older(before, input_) and not (input_.denies_receipt or input_.evidence):
        return ignore("The payment was submitted again since.", before)

    # Where a receipt is reported, the schedule of its questions replaces the usual one.
    known = merge_evidence(
        before.progress.evidence, input_.evidence, is_contradicted=False, now=now
    )
    if known is not None:
        is_denied = input_.denies_receipt or input_.evidence is not None
        known = evolve(known, is_denied=known.is_denied or is_denied)
        return ask_on(
            before, input_, known, next_poll_at(before.order, POLL_INTERVAL_MAX, now=now), now=now
        )

    # Never later than was planned: the answers of an unreachable provider must not postpone the
    # poll before the expiry.
    if input_.poll_after is None:
        at = min(later(now.time, poll_interval(before.progress.polls)), before.progress.wake_at)
    else:
        at = _poll_at(before, input_.poll_after, now=now)

    # The first denial counts: how long the provider has held to it is what tells.
    since = before.progress.denied_since
    if input_.denies_payment and since is None:
        since = now.time

    after = advance(before, input_, before.progress.stage, wake_at=at, denied_since=since)
    return Decision(Applied(after), transition_changes(before, after))


def _record_doubtful_success(
    before: Transaction | None, input_: inputs.ProviderUnreachable, now: Moment
) -> Decision:
    """Put a success that can't be used as it is into the suspense book, when the payment has failed
    by then (S5)."""
    has_failed = (
        before is not None
        and before.order.provider == input_.provider
        and before.progress.stage is Stage.FAILED
    )
    if before is None or not has_failed or input_.evidence is None:
        return ignore("No such payment waits for this provider.", before)

    known = evolve(input_.evidence, reported_at=now.time, is_denied=True)
    return Decision(Applied(before), (receipt_entry(before, known, now=now),))


def _poll_at(before: Transaction, after: Span, *, now: Moment) -> Instant:
    """Return the time of the next poll: after this span, but soon where a notification came while
    the submission was open, because the result may have come with it."""
    progress = before.progress
    # What notified of it had the result, perhaps, and the hint caused no question.
    if progress.is_unpolled and progress.hint is not None:
        after = min(after, POLL_INTERVAL_MIN)

    return next_poll_at(before.order, after, now=now)


def resubmit(ledger: Ledger, input_: inputs.ProviderNeverReceived, *, now: Moment) -> Decision:
    """Submit again after the provider's word that nothing reached it: the one way back to a
    submission (S6)."""
    before = _find_pending(ledger, input_)
    if before is None:
        return ignore("No such payment waits for this provider.")

    # 1. What answers an earlier submission says nothing of the one on record: sending again after
    # it would pay twice.
    answered = what_is_answered(input_.version, before.progress)
    if answered is Answer.OLDER:
        return ignore("The payment was submitted again since the provider was polled.", before)

    progress = before.progress

    # 2. Something has told of it since it began: it is asked about, and not sent.
    if may_have_arrived(progress):
        return ask_on(
            before, input_, progress.evidence, _poll_at(before, POLL_INTERVAL_MAX, now=now), now=now
        )

    # 3. The latest submission was refused, and with this no earlier one has arrived: it has failed.
    if (refusal := progress.refusal) is not None:
        if input_.version < refusal.version:
            return ignore(
                "It was refused since the provider was polled: it is polled again.", before
            )
        return _fail_as_refused(before, input_, refusal, now=now)

    # 4. It is sent again, or waits for its payer. A submission of which its own
    # response says so has certainly not arrived, and is counted apart.
    unsent = progress.unsent + (answered is Answer.REQUEST)
    if (asked := input_.payer_action) is not None:
        return ask_payer(before, input_, asked, unsent=unsent, now=now)

    after = advance(before, input_, Stage.CREATED, wake_at=before.order.expires_at, unsent=unsent)
    return Decision(
        Applied(after), transition_changes(before, after), (SubmitToProvider(before.reference),)
    )


def _fail_as_refused(
    before: Transaction, input_: inputs.ProviderNeverReceived, refusal: Refusal, *, now: Moment
) -> Decision:
    data = before.progress.provider_data
    assert data is not None  # It was sent.
    return fail_payment(
        before,
        input_,
        refusal.error_code,
        Source.POLL,
        now=now,
        provider_data=evolve(
            data, error_code=refusal.native_code, error_message=refusal.native_message
        ),
        refusal=None,
    )


def _is_about_older(
    before: Transaction, input_: inputs.ProviderAccepted | inputs.ProviderUnreachable
) -> bool:
    return what_is_answered(input_.version, before.progress) is Answer.OLDER


def _find_pending(
    ledger: Ledger,
    input_: inputs.ProviderAccepted | inputs.ProviderUnreachable | inputs.ProviderNeverReceived,
) -> Transaction | None:
    """Return the transaction that this report may move, if there is one."""
    before = ledger.transaction(input_.gateway_reference)
    if before is None or before.order.provider != input_.provider:
        return None
    if before.progress.provider_data is None:
        return None  # Nothing of ours was sent to this provider.
    if before.progress.receipt_awaited_since is not None:
        return None  # It is paid, and waits for nothing but its receipt.
    if is_legal(before.progress.stage, input_):
        return before

    return None


def _initial_provider_data(order: Order) -> ProviderData:
    return ProviderData(order.provider, order.provider_title)
