"""Decides about results: the first valid one ends the payment, any other waits for staff (clauses
S1, S2, S5)."""

from __future__ import annotations

from typing import Final, TypeAlias, assert_never

from attrs import evolve

from mmo_sansio.messages.changes import SuspenseReason
from mmo_sansio.messages.inputs import ProviderFailed, ResolveManually
from mmo_sansio.messages.replies import Applied
from mmo_sansio.payments import settlement
from mmo_sansio.payments.answers import Answer, what_is_answered
from mmo_sansio.payments.decision import (
    Decision,
    advance,
    complete,
    end,
    fail_payment,
    ignore,
    transition_changes,
)
from mmo_sansio.payments.evidence import ask_on, find_contradiction, unproved_entries
from mmo_sansio.payments.ledger import Ledger, Reads
from mmo_sansio.payments.rules.timers import (
    POLL_INTERVAL_MAX,
    POLL_INTERVAL_MIN,
    next_poll_at,
)
from mmo_sansio.payments.states import target_stages
from mmo_sansio.values.clock import Moment
from mmo_sansio.values.error_codes import EXPLANATIONS
from mmo_sansio.values.model import Refusal, Source, Stage, Transaction

# The inputs that this module decides. A success is decided by `settlement`, as hints and deposits
# lead to one, too.
ResultInput: TypeAlias = ProviderFailed | ResolveManually

_GIVE_ITS_OWN_RECEIPT: Final = (
    "Name the payment's own receipt, or resolve it as failed if no other money has moved."
)


def reads(input_: ResultInput) -> Reads:
    """Return the keys that `decide` will look at."""
    match input_:
        case ProviderFailed():
            return Reads(transactions=frozenset((input_.gateway_reference,)))
        case ResolveManually():
            return settlement.receipt_reads(input_)
        case _:
            assert_never(input_)


def decide(ledger: Ledger, input_: ResultInput, *, now: Moment) -> Decision:
    """Decide whether this result ends the payment."""
    match input_:
        case ProviderFailed():
            return fail(ledger, input_, now=now)
        case ResolveManually():
            return resolve(ledger, input_, now=now)
        case _:
            assert_never(input_)


def actor(input_: ResultInput) -> str:
    """Return who acts, for the journal."""
    match input_:
        case ProviderFailed(provider=provider):
            return f"provider:{provider}"
        case ResolveManually(user=user):
            return f"user:{user}"
        case _:
            assert_never(input_)


def detail(input_: ResultInput) -> dict[str, object]:
    """Return what the journal holds of the input."""
    match input_:
        case ProviderFailed():
            return {
                "source": input_.source,
                "errorCode": input_.error_code,
                "nativeCode": input_.native_code,
                "nativeMessage": input_.native_message,
            }
        case ResolveManually():
            return {
                "reason": input_.reason,
                "evidence": input_.evidence or None,
                "errorCode": input_.error_code,
            }
        case _:
            assert_never(input_)


def fail(ledger: Ledger, input_: ProviderFailed, *, now: Moment) -> Decision:
    """Record that the provider did not and will not move the money (S2), unless something else is
    known of it: then it is asked again, or staff have to look."""
    # 1. The payment must wait for a result of this provider.
    before = ledger.transaction(input_.gateway_reference)
    if (fault := settlement.why_not_applied(before, input_)) is not None:
        return settlement.reject_result(before, input_, fault, now=now)

    assert before is not None

    # 2. What answers an earlier submission says nothing of one that may be under way: a payment
    # failed by it could be paid all the same (S6).
    answered = what_is_answered(input_.version, before.progress)
    is_sent = not before.progress.stage.is_unsent
    if answered is Answer.OLDER and is_sent:
        return ignore("It answers an earlier submission: the latest one is polled.", before)

    # 3. The provider has called it paid before: it contradicts itself, and staff decide.
    if before.progress.receipt_awaited_since is not None:
        reason = SuspenseReason.CONFLICTING_RESULT
        return settlement.reject_result(before, input_, reason, now=now)

    # 4. It has reported a receipt: the merchant is not told "failed" while that stands.
    if (known := before.progress.evidence) is not None:
        at = next_poll_at(before.order, POLL_INTERVAL_MAX, now=now)
        return ask_on(before, input_, evolve(known, is_denied=True), at, now=now)

    # 5. The refusal of a further submission may be due to an earlier one that has arrived.
    if answered is Answer.REQUEST and is_sent and before.progress.is_resubmission:
        return _ask_about_earlier(before, input_, now=now)

    # 6. It has failed. A hint that has called it paid is then left to staff.
    failed = fail_payment(
        before,
        input_,
        input_.error_code,
        input_.source,
        now=now,
        provider_reference=input_.provider_reference or before.progress.provider_reference,
        provider_data=evolve(
            settlement.require_provider_data(before),
            error_code=input_.native_code,
            error_message=input_.native_message,
        ),
    )
    return evolve(failed, changes=(*failed.changes, *unproved_entries(before, now=now)))


def _ask_about_earlier(before: Transaction, input_: ProviderFailed, *, now: Moment) -> Decision:
    """Poll soon, as the refusal of a further submission may be due to an earlier one."""
    version = before.progress.version + 1
    after = advance(
        before,
        input_,
        before.progress.stage,
        wake_at=next_poll_at(before.order, POLL_INTERVAL_MIN, now=now),
        refusal=Refusal(input_.error_code, input_.native_code, input_.native_message, version),
    )
    return Decision(Applied(after), transition_changes(before, after))


def resolve(ledger: Ledger, input_: ResolveManually, *, now: Moment) -> Decision:
    """End a payment by hand, unless what is known of its money is against that. A payment that was
    never sent to a provider cannot become a success, and no receipt makes two of them."""
    # 1. The table of stages says which ends are possible: what was never sent cannot succeed.
    before = ledger.transaction(input_.gateway_reference)
    if before is None or before.order.provider != input_.provider:
        return ignore("There is no such transaction.", before)

    to = Stage.SUCCEEDED if input_.error_code is None else Stage.FAILED
    if to not in target_stages(before.progress.stage, input_):
        return ignore(_why_not_ended_so(before.progress.stage, to), before)

    # 2. Nothing that is known of the money may speak against it.
    final = input_.final or before.order.requested
    if final.currency != before.order.requested.currency:
        return ignore(f"The amount must be in {before.order.requested.currency}.", before)

    against = find_contradiction(before, succeeded=to is Stage.SUCCEEDED, now=now.time)
    if against is not None:
        return ignore(against, before)

    # 3. One receipt settles one thing: another payment or deposit may have it (S4).
    key = settlement.receipt_key(input_)
    owner = None
    if key is not None:
        owner = settlement.receipt_owner(ledger, key, before.reference)

    if key is not None and owner is not None:
        return ignore(
            f"The provider's reference {key[1]} is the receipt of {owner}. {_GIVE_ITS_OWN_RECEIPT}",
            before,
        )

    # 4. It ends. A success without a receipt has room for it: a notification may bring it.
    evidence = before.progress.evidence
    receipt = input_.provider_reference
    if receipt is None and to is Stage.SUCCEEDED and evidence is not None and evidence.settles:
        receipt = evidence.receipt  # It is claimed for this payment.

    message = None
    if input_.error_code is not None:
        message = EXPLANATIONS[input_.error_code].meaning

    is_without_receipt = to is Stage.SUCCEEDED and receipt is None
    after = end(
        before,
        input_,
        to,
        Source.MANUAL,
        now=now,
        provider_reference=receipt or before.progress.provider_reference,
        final=final if to is Stage.SUCCEEDED else None,
        receipt_awaited_since=now.time if is_without_receipt else None,
        error_code=input_.error_code,
        error_message=message,
    )
    return complete(before, after, *settlement.claim_receipt(ledger, key, after, now=now))


def _why_not_ended_so(stage: Stage, to: Stage) -> str:
    if stage is to:
        return f"The transaction has already {stage}."
    if stage.is_terminal:
        return f"The transaction has {stage}, and a result does not change."
    return f"A transaction that is {stage} can't be made {to}."
