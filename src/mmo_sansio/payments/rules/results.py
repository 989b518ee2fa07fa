"""Decides about results: the first valid one ends the payment, any other waits for staff (clauses S1, S2, S5)."""

from __future__ import annotations

from attrs import evolve

from mmo_sansio.messages.changes import SuspenseReason, SuspenseRecorded
from mmo_sansio.messages.inputs import ProviderFailed, ProviderSucceeded, ResolveManually
from mmo_sansio.messages.intents import DeliverCallback
from mmo_sansio.messages.replies import Applied
from mmo_sansio.payments.decision import Decision, advance, ignore, transition_changes
from mmo_sansio.payments.ledger import Ledger
from mmo_sansio.payments.states import is_legal, target_stages
from mmo_sansio.payments.suspense import record_in_suspense, suspense_entry
from mmo_sansio.values.clock import Moment
from mmo_sansio.values.error_codes import EXPLANATIONS, ErrorCode
from mmo_sansio.values.model import ProviderData, Source, Stage, Transaction


def succeed(ledger: Ledger, input_: ProviderSucceeded, *, now: Moment) -> Decision:
    """Record that the money moved: set finalAmount and fee, and call the merchant back (S2).

    A success with less than was requested also leaves an entry in the suspense book, for a person to see.
    """
    before = ledger.transaction(input_.gateway_reference)
    if (fault := _why_not_applied(before, input_)) is not None:
        return _reject_result(before, input_, fault, now=now)
    assert before is not None
    final = input_.final or before.order.requested
    if final.currency != before.order.requested.currency:
        return _reject_result(before, input_, SuspenseReason.WRONG_CURRENCY, now=now)
    after = advance(
        before,
        input_,
        Stage.SUCCEEDED,
        wake_at=None,
        provider_reference=input_.provider_reference or before.progress.provider_reference,
        provider_data=evolve(_provider_data(before), fee=input_.fee, party_data=input_.party_data),
        final=final,
        completed_at=now.utc,
        completion_source=input_.source,
    )
    if final.minor >= before.order.requested.minor:
        return _complete(before, after)
    noted = suspense_entry(evolve(input_, final=final), SuspenseReason.SETTLED_LESS, before, now=now)
    return _complete(before, after, noted)


def fail(ledger: Ledger, input_: ProviderFailed, *, now: Moment) -> Decision:
    """Record that the provider did not and will not move the money (S2)."""
    before = ledger.transaction(input_.gateway_reference)
    if (fault := _why_not_applied(before, input_)) is not None:
        return _reject_result(before, input_, fault, now=now)
    assert before is not None
    after = advance(
        before,
        input_,
        Stage.FAILED,
        wake_at=None,
        provider_reference=input_.provider_reference or before.progress.provider_reference,
        provider_data=evolve(
            _provider_data(before), error_code=input_.native_code, error_message=input_.native_message
        ),
        completed_at=now.utc,
        completion_source=input_.source,
        error_code=input_.error_code,
        error_message=EXPLANATIONS[input_.error_code].meaning,
    )
    return _complete(before, after)


def resolve(ledger: Ledger, input_: ResolveManually, *, now: Moment) -> Decision:
    """End a payment by hand. A payment that was never sent to a provider cannot become a success."""
    before = ledger.transaction(input_.gateway_reference)
    if before is None:
        return ignore("There is no such transaction.")
    to = Stage.SUCCEEDED if input_.error_code is None else Stage.FAILED
    if to not in target_stages(before.progress.stage, input_):
        return ignore(f"A transaction that is {before.progress.stage} can't be made {to}.", before)
    final = input_.final or before.order.requested
    if final.currency != before.order.requested.currency:
        return ignore(f"The amount must be in {before.order.requested.currency}.", before)
    after = advance(
        before,
        input_,
        to,
        wake_at=None,
        provider_reference=input_.provider_reference or before.progress.provider_reference,
        final=final if to is Stage.SUCCEEDED else None,
        completed_at=now.utc,
        completion_source=Source.MANUAL,
        error_code=input_.error_code,
        error_message=_message(input_.error_code),
    )
    return _complete(before, after)


def _message(code: ErrorCode | None) -> str | None:
    return None if code is None else EXPLANATIONS[code].meaning


def _complete(before: Transaction, after: Transaction, *noted: SuspenseRecorded) -> Decision:
    changes = (*transition_changes(before, after), *noted)
    return Decision(Applied(after), changes, (DeliverCallback(before.reference),))


def _provider_data(before: Transaction) -> ProviderData:
    assert before.progress.provider_data is not None  # What was never submitted has no result.
    return before.progress.provider_data


def _why_not_applied(before: Transaction | None, input_: ProviderSucceeded | ProviderFailed) -> SuspenseReason | None:
    """Return why this result may not be applied; None when it may."""
    if before is None:
        return SuspenseReason.UNKNOWN_TRANSACTION
    if before.order.provider != input_.provider:
        return SuspenseReason.WRONG_PROVIDER
    if before.progress.stage.is_terminal:
        return _late_result_reason(before, input_)
    if not is_legal(before.progress.stage, input_) or before.progress.provider_data is None:
        return SuspenseReason.UNKNOWN_TRANSACTION  # Nothing of ours was sent to this provider.
    return None


def _late_result_reason(before: Transaction, input_: ProviderSucceeded | ProviderFailed) -> SuspenseReason:
    if before.progress.completion_source is Source.EXPIRY:
        return SuspenseReason.LATE_RESULT
    return SuspenseReason.REPEATED_RESULT if _matches_record(before, input_) else SuspenseReason.CONFLICTING_RESULT


def _matches_record(before: Transaction, input_: ProviderSucceeded | ProviderFailed) -> bool:
    """Tell whether a second result agrees with the one on record."""
    if isinstance(input_, ProviderFailed):
        return before.progress.error_code is input_.error_code
    references = {input_.provider_reference, before.progress.provider_reference} - {None}
    final = input_.final or before.order.requested
    return before.progress.final == final and len(references) <= 1


def _reject_result(
    before: Transaction | None, input_: ProviderSucceeded | ProviderFailed, reason: SuspenseReason, *, now: Moment
) -> Decision:
    if reason is SuspenseReason.REPEATED_RESULT and input_.source is Source.POLL:
        return ignore("An answer that we asked for agrees with what is on record.", before)
    return record_in_suspense(input_, reason, before, now=now)
