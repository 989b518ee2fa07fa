"""A result: the first valid one ends the payment, any other is kept for a person to see (clauses S1, S2, S5)."""

from __future__ import annotations

from attrs import evolve

from mmo_sansio.messages.changes import SuspenseReason
from mmo_sansio.messages.inputs import ProviderFailed, ProviderSucceeded, ResolveManually
from mmo_sansio.messages.intents import DeliverCallback
from mmo_sansio.messages.replies import Noted
from mmo_sansio.payments.decision import Decision, advanced, ignored, moved
from mmo_sansio.payments.ledger import Ledger
from mmo_sansio.payments.states import is_legal, targets
from mmo_sansio.payments.suspense import suspended
from mmo_sansio.values.clock import Instant
from mmo_sansio.values.error_codes import EXPLANATIONS, ErrorCode
from mmo_sansio.values.model import ProviderData, Source, Stage, Transaction


def succeed(ledger: Ledger, given: ProviderSucceeded, *, now: Instant) -> Decision:
    """The money moved: set finalAmount and fee, and call the merchant back (S2)."""
    was = ledger.transaction(given.gateway_reference)
    if (fault := _unwelcome(was, given)) is not None:
        return _kept(was, given, fault, now=now)
    assert was is not None
    final = given.final or was.order.requested
    if final.currency != was.order.requested.currency:
        return _kept(was, given, SuspenseReason.WRONG_CURRENCY, now=now)
    after = advanced(
        was,
        given,
        Stage.SUCCEEDED,
        wake_at=None,
        provider_reference=given.provider_reference or was.progress.provider_reference,
        provider_data=evolve(_data(was), fee=given.fee, party_data=given.party_data),
        final=final,
        completed_at=now,
        completion_source=given.source,
    )
    return _ended(was, after)


def fail(ledger: Ledger, given: ProviderFailed, *, now: Instant) -> Decision:
    """The provider did not and will not move the money (S2)."""
    was = ledger.transaction(given.gateway_reference)
    if (fault := _unwelcome(was, given)) is not None:
        return _kept(was, given, fault, now=now)
    assert was is not None
    after = advanced(
        was,
        given,
        Stage.FAILED,
        wake_at=None,
        provider_reference=given.provider_reference or was.progress.provider_reference,
        provider_data=evolve(
            _data(was), error_code=given.native_code, error_message=given.native_message
        ),
        completed_at=now,
        completion_source=given.source,
        error_code=given.error_code,
        error_message=EXPLANATIONS[given.error_code].meaning,
    )
    return _ended(was, after)


def resolve(ledger: Ledger, given: ResolveManually, *, now: Instant) -> Decision:
    """An operator ends a payment by hand. What was never sent to a provider can't be made a success."""
    was = ledger.transaction(given.gateway_reference)
    if was is None:
        return ignored("There is no such transaction.")
    to = Stage.SUCCEEDED if given.error_code is None else Stage.FAILED
    if to not in targets(was.progress.stage, given):
        return ignored(f"A transaction that is {was.progress.stage} can't be made {to}.", was)
    final = given.final or was.order.requested
    if final.currency != was.order.requested.currency:
        return ignored(f"The amount must be in {was.order.requested.currency}.", was)
    after = advanced(
        was,
        given,
        to,
        wake_at=None,
        provider_reference=given.provider_reference or was.progress.provider_reference,
        final=final if to is Stage.SUCCEEDED else None,
        completed_at=now,
        completion_source=Source.MANUAL,
        error_code=given.error_code,
        error_message=_message(given.error_code),
    )
    return _ended(was, after)


def _message(code: ErrorCode | None) -> str | None:
    return None if code is None else EXPLANATIONS[code].meaning


def _ended(was: Transaction, after: Transaction) -> Decision:
    return Decision(Noted(after), moved(was, after), (DeliverCallback(was.reference),))


def _data(was: Transaction) -> ProviderData:
    assert was.progress.provider_data is not None  # What was never submitted has no result.
    return was.progress.provider_data


def _unwelcome(
    was: Transaction | None, given: ProviderSucceeded | ProviderFailed
) -> SuspenseReason | None:
    """Why this result may not be applied; None when it may."""
    if was is None:
        return SuspenseReason.UNKNOWN_TRANSACTION
    if was.order.provider != given.provider:
        return SuspenseReason.WRONG_PROVIDER
    if was.progress.stage.is_terminal:
        return _second(was, given)
    if not is_legal(was.progress.stage, given) or was.progress.provider_data is None:
        return SuspenseReason.UNKNOWN_TRANSACTION  # Nothing of ours was sent to this provider.
    return None


def _second(was: Transaction, given: ProviderSucceeded | ProviderFailed) -> SuspenseReason:
    if was.progress.completion_source is Source.EXPIRY:
        return SuspenseReason.LATE_RESULT
    return (
        SuspenseReason.REPEATED_RESULT if _agrees(was, given) else SuspenseReason.CONFLICTING_RESULT
    )


def _agrees(was: Transaction, given: ProviderSucceeded | ProviderFailed) -> bool:
    """Whether a second result says what is on record already."""
    if isinstance(given, ProviderFailed):
        return was.progress.error_code is given.error_code
    references = {given.provider_reference, was.progress.provider_reference} - {None}
    final = given.final or was.order.requested
    return was.progress.final == final and len(references) <= 1


def _kept(
    was: Transaction | None,
    given: ProviderSucceeded | ProviderFailed,
    reason: SuspenseReason,
    *,
    now: Instant,
) -> Decision:
    if reason is SuspenseReason.REPEATED_RESULT and given.source is Source.POLL:
        return ignored("An answer that we asked for agrees with what is on record.", was)
    return suspended(given, reason, was, now=now)
