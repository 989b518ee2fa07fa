"""Applies a provider's success to a payment, decides which results may be applied (clauses S1, S2,
S5), and lets one receipt of a provider settle one thing only (clause S4): each word of the provider
about one claims it, also a late or a conflicting one, and who finds it taken says so."""

from __future__ import annotations

from typing import Final

from attrs import evolve

from mmo_sansio.messages.changes import (
    Change,
    DepositClaimChanged,
    SuspenseReason,
    TransactionAdvanced,
)
from mmo_sansio.messages.inputs import (
    ProviderFailed,
    ProviderHinted,
    ProviderSucceeded,
    ResolveManually,
    TransactionWoke,
)
from mmo_sansio.messages.intents import PollProvider
from mmo_sansio.messages.replies import Applied
from mmo_sansio.payments.decision import (
    Decision,
    advance,
    complete,
    end,
    ignore,
    transition_changes,
)
from mmo_sansio.payments.evidence import receipt_entry
from mmo_sansio.payments.ledger import DepositKey, Ledger, Reads
from mmo_sansio.payments.states import is_legal
from mmo_sansio.payments.suspense import record_in_suspense, suspense_entry
from mmo_sansio.values.clock import SECOND, Moment, Span, later
from mmo_sansio.values.model import DepositClaim, Evidence, ProviderData, Source, Stage, Transaction
from mmo_sansio.values.money import Money

# How long a payment that its provider calls paid, without its receipt, waits for the notification
# that brings it. M-Pesa's was seen 26 s after the prompt, some 10 s after a question knew the end.
RECEIPT_AWAITED_FOR: Final = Span(20 * SECOND)


def reads(input_: ProviderSucceeded) -> Reads:
    """Return the keys that `decide` will look at."""
    return receipt_reads(input_)


def decide(ledger: Ledger, input_: ProviderSucceeded, *, now: Moment) -> Decision:
    """Decide whether this success ends the payment."""
    return succeed(ledger, input_, now=now)


def actor(input_: ProviderSucceeded) -> str:
    """Return who acts, for the journal."""
    return f"provider:{input_.provider}"


def detail(input_: ProviderSucceeded) -> dict[str, object]:
    """Return what the journal holds of the input."""
    final = None
    if input_.final:
        final = str(input_.final)

    return {
        "source": input_.source,
        "providerReference": input_.provider_reference,
        "finalAmount": final,
    }


def succeed(ledger: Ledger, input_: ProviderSucceeded, *, now: Moment) -> Decision:
    """Record that the money moved: set finalAmount and fee, and call the merchant back (S2).

    A success with another amount than was requested also leaves an entry in the suspense book, for
    a person to see. One that lacks its receipt waits for that first; one that comes later with the
    receipt only adds it."""
    before = ledger.transaction(input_.gateway_reference)

    # 1. A success that lacks its receipt takes it, also where the payment has ended before.
    if (
        input_.settles_receipt
        and before is not None
        and is_missing_receipt(before, receipt_key(input_), input_.final)
    ):
        return add_receipt(ledger, before, input_, now=now)

    # 2. What may not be applied is for staff; its receipt is this payment's all the same.
    if (fault := why_not_applied(before, input_)) is not None:
        return _reject_success(ledger, before, input_, fault, now=now)

    assert before is not None

    # 3. Where the provider names no receipt, the one that a confirmed deposit has named is at hand.
    named_by = before.progress.named_by_receipt
    # A receipt that was reported for the prompt itself comes before one that only names it.
    if input_.lacks_receipt and named_by is not None and before.progress.evidence is None:
        input_ = evolve(input_, provider_reference=named_by, lacks_receipt=False)

    # 4. An amount in another currency cannot be the settlement of this payment.
    final = input_.final or before.order.requested
    if final.currency != before.order.requested.currency:
        return _reject_success(ledger, before, input_, SuspenseReason.WRONG_CURRENCY, now=now)

    # 5. It is paid: the receipt may follow within seconds, and the merchant gets one callback only.
    if input_.lacks_receipt and not before.progress.stage.is_unsent:
        return _await_receipt(before, input_, now=now)

    after = end(
        before,
        input_,
        Stage.SUCCEEDED,
        input_.source,
        now=now,
        provider_reference=input_.provider_reference or before.progress.provider_reference,
        provider_data=evolve(
            require_provider_data(before), fee=input_.fee, party_data=input_.party_data
        ),
        final=final,
        receipt_awaited_since=now.time if input_.lacks_receipt else None,
    )

    # 6. The receipt settles this payment only, and another amount is left to staff.
    changes = receipt_changes(ledger, input_, after, now=now)
    if final != before.order.requested:
        is_less = final.minor < before.order.requested.minor
        reason = SuspenseReason.SETTLED_LESS if is_less else SuspenseReason.SETTLED_MORE
        changes = (*changes, suspense_entry(evolve(input_, final=final), reason, before, now=now))

    return complete(before, after, *changes)


def _await_receipt(before: Transaction, input_: ProviderSucceeded, *, now: Moment) -> Decision:
    """Let the payment wait for its receipt, once."""
    # The same answer again must not prolong the wait.
    if before.progress.receipt_awaited_since is not None:
        return ignore("It is paid, and waits for its receipt.", before)

    after = advance(
        before,
        input_,
        before.progress.stage,
        provider_reference=input_.provider_reference or before.progress.provider_reference,
        # Never beyond the expiry, which is the latest end that a merchant is promised (S3).
        wake_at=min(later(now.time, RECEIPT_AWAITED_FOR), before.order.expires_at),
        receipt_awaited_since=now.time,
    )
    changes = transition_changes(before, after)
    if before.progress.evidence is None:
        return Decision(Applied(after), changes)

    # A notification has brought the receipt while the question was under way: the next one has it.
    return Decision(Applied(after), changes, (PollProvider(before.reference),))


def end_without_receipt(before: Transaction, input_: TransactionWoke, *, now: Moment) -> Decision:
    """End a payment that is paid, once its receipt was awaited for long enough; one that was
    reported while the question was under way is taken for its own. Where that is not claimed for
    this payment, something else may have it: a person has to look."""
    since, known = before.progress.receipt_awaited_since, before.progress.evidence
    assert since is not None
    ends_at = min(later(since, RECEIPT_AWAITED_FOR), before.order.expires_at)
    # What came meanwhile may have moved its wake ahead of that.
    if now.time < ends_at:
        waiting = advance(before, input_, before.progress.stage, wake_at=ends_at)
        return Decision(Applied(waiting), transition_changes(before, waiting))

    receipt = before.progress.provider_reference
    if known is not None:
        receipt = known.receipt

    after = end(
        before,
        input_,
        Stage.SUCCEEDED,
        Source.POLL,
        now=now,
        provider_reference=receipt,
        final=before.order.requested,
        receipt_awaited_since=since if known is None else None,
    )
    # A receipt that settles was claimed for this payment when it was reported.
    if known is None or known.settles:
        return complete(before, after)

    return complete(before, after, receipt_entry(before, known, now=now))


def is_missing_receipt(paid: Transaction, key: DepositKey | None, amount: Money | None) -> bool:
    """Tell whether the receipt of this key and amount may be the one that a success lacks; None:
    the amount is not told."""
    progress = paid.progress
    return (
        key is not None
        and key[0] == paid.order.provider
        and progress.stage is Stage.SUCCEEDED
        and progress.receipt_awaited_since is not None
        and amount in (None, progress.final)
    )


def add_receipt(
    ledger: Ledger,
    paid: Transaction,
    input_: ProviderSucceeded | ProviderHinted,
    *,
    now: Moment,
) -> Decision:
    """Add the receipt to the success that lacks it, and claim it; one that has settled something
    else is left to a person."""
    key = receipt_key(input_)
    assert key is not None
    if receipt_owner(ledger, key, paid.reference) is not None:
        return record_in_suspense(input_, SuspenseReason.CONFLICTING_DEPOSIT, paid, now=now)

    after = with_receipt(paid, key[1])
    claims = claim_receipt(ledger, key, paid, now=now)
    return Decision(Applied(after), (TransactionAdvanced(paid, after), *claims))


def with_receipt(paid: Transaction, receipt: str) -> Transaction:
    """Return the success with the receipt that it lacked; its stage stays."""
    progress = evolve(
        paid.progress,
        version=paid.progress.version + 1,
        provider_reference=receipt,
        receipt_awaited_since=None,
    )
    return Transaction(paid.order, progress)


def _reject_success(
    ledger: Ledger,
    before: Transaction | None,
    input_: ProviderSucceeded,
    reason: SuspenseReason,
    *,
    now: Moment,
) -> Decision:
    """Put a success that may not be applied into the suspense book. Its receipt is of this payment
    all the same, so it settles nothing else."""
    rejected = reject_result(before, input_, reason, now=now)
    if before is None or reason is SuspenseReason.WRONG_PROVIDER:
        return rejected

    if reason is SuspenseReason.REPEATED_RESULT:  # What its receipt meets was said the first time.
        claims = claim_receipt(ledger, receipt_key(input_), before, now=now)
    else:
        claims = receipt_changes(ledger, input_, before, now=now)

    return evolve(rejected, changes=(*rejected.changes, *claims))


def require_provider_data(before: Transaction) -> ProviderData:
    """Return what the provider has reported of a submitted payment."""
    assert before.progress.provider_data is not None  # What was never submitted has no result.
    return before.progress.provider_data


def why_not_applied(
    before: Transaction | None, input_: ProviderSucceeded | ProviderFailed
) -> SuspenseReason | None:
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


def _late_result_reason(
    before: Transaction, input_: ProviderSucceeded | ProviderFailed
) -> SuspenseReason:
    # Of what the clock has failed any result is late: nobody has told one before.
    if before.progress.completion_source is Source.EXPIRY:
        return SuspenseReason.LATE_RESULT
    if _matches_record(before, input_):
        return SuspenseReason.REPEATED_RESULT
    return SuspenseReason.CONFLICTING_RESULT


def _matches_record(before: Transaction, input_: ProviderSucceeded | ProviderFailed) -> bool:
    """Tell whether a second result agrees with the one on record."""
    if isinstance(input_, ProviderFailed):
        return before.progress.error_code is input_.error_code
    # A name that one of the two lacks contradicts nothing.
    references = {input_.provider_reference, before.progress.provider_reference} - {None}
    if input_.lacks_receipt:  # It names another id than the receipt on record.
        references = set()
    final = input_.final or before.order.requested
    return before.progress.final == final and len(references) <= 1


def reject_result(
    before: Transaction | None,
    input_: ProviderSucceeded | ProviderFailed,
    reason: SuspenseReason,
    *,
    now: Moment,
) -> Decision:
    """Put a result that may not be applied into the suspense book, unless it only confirms what we
    know."""
    # Only a provider that tells by itself twice may mean two payments.
    if reason is SuspenseReason.REPEATED_RESULT and input_.source is Source.POLL:
        return ignore("An answer that we asked for agrees with what is on record.", before)
    return record_in_suspense(input_, reason, before, now=now)


def receipt_key(input_: ProviderSucceeded | ProviderHinted | ResolveManually) -> DepositKey | None:
    """Return the provider and the receipt that this reports of a payment; None where there is
    none."""
    match input_:
        case ProviderSucceeded(settles_receipt=True) | ResolveManually(error_code=None):
            receipt = input_.provider_reference
        case ProviderHinted(evidence=Evidence() as reported):
            receipt = reported.receipt
        case ProviderSucceeded() | ResolveManually() | ProviderHinted():
            return None

    # An empty text is no receipt: all that lack one would share it.
    if receipt:
        return (input_.provider, receipt)

    return None


def receipt_reads(input_: ProviderSucceeded | ProviderHinted | ResolveManually) -> Reads:
    """Return the keys of the payment, and of the receipt that this reports of it."""
    key = receipt_key(input_)
    keys = frozenset(() if key is None else (key,))
    return Reads(transactions=frozenset((input_.gateway_reference,)), deposits=keys, claims=keys)


def receipt_owner(ledger: Ledger, key: DepositKey, payment: str) -> str | None:
    """Return in words what else than this payment has the receipt; None where nothing has."""
    deposit = ledger.deposit(*key)
    if deposit is not None:
        return f"the deposit {deposit}"

    claim = ledger.claim(*key)
    if claim is None or claim.payment == payment:
        return None
    if claim.payment is None:
        return "a deposit that belongs to no payment yet"
    return f"the payment {claim.payment}"


def receipt_changes(
    ledger: Ledger,
    input_: ProviderSucceeded | ProviderHinted,
    paid: Transaction,
    *,
    now: Moment,
) -> tuple[Change, ...]:
    """Return the changes by which the receipt of a payment's success settles that payment only.

    Where something else has the receipt, a person has to look at both.
    """
    key = receipt_key(input_)
    if key is not None and receipt_owner(ledger, key, paid.reference) is not None:
        return (suspense_entry(input_, SuspenseReason.CONFLICTING_DEPOSIT, paid, now=now),)

    # A notification alone tells of a receipt; a success is the provider's own word.
    is_confirmed = isinstance(input_, ProviderSucceeded)
    amount = _reported_amount(input_)
    return claim_receipt(ledger, key, paid, amount=amount, is_confirmed=is_confirmed, now=now)


def _reported_amount(input_: ProviderSucceeded | ProviderHinted) -> Money | None:
    if isinstance(input_, ProviderSucceeded):
        return input_.final
    if input_.evidence is None:
        return None
    return input_.evidence.amount


def claim_receipt(
    ledger: Ledger,
    key: DepositKey | None,
    paid: Transaction,
    *,
    amount: Money | None = None,
    is_confirmed: bool = True,
    now: Moment,
) -> tuple[Change, ...]:
    """Return the change that lets a receipt without another owner settle this payment only. An open
    claim that names the payment stays: it is explained when it wakes. `amount`: what was reported;
    None: what the payment has settled, or requested. `is_confirmed`: whether the operator has
    confirmed the receipt, and not a notification alone told it; a confirmation counts still
    then."""
    # A claim that is there is this payment's own, or was found to be another's before.
    if key is None or ledger.claim(*key) is not None:
        return ()

    claimed = settle_receipt(key[1], paid, amount=amount, is_confirmed=is_confirmed, now=now)
    return (claimed,)


def settle_receipt(
    receipt: str,
    paid: Transaction,
    *,
    amount: Money | None = None,
    is_confirmed: bool = True,
    now: Moment,
) -> DepositClaimChanged:
    """Return the settled claim of the receipt, new to the gateway, with which this payment or
    deposit was paid."""
    order, progress = paid.order, paid.progress
    settled = DepositClaim(
        provider=order.provider,
        receipt=receipt,
        provider_title=order.provider_title,
        gateway_reference=order.gateway_reference,
        # What only a notification of a deposit tells.
        account="",
        bill_reference="",
        amount=amount or progress.final or order.requested,
        party=order.party,
        payment=order.gateway_reference,
        brand=order.brand,
        # It is settled as it begins: nothing of it waits.
        received_at=now.time,
        expires_at=now.time,
        wake_at=None,
        is_confirmed=is_confirmed,
        is_simulated=order.is_simulated,
    )
    return claim_change(None, settled)


def claim_change(stored: DepositClaim | None, after: DepositClaim | None) -> DepositClaimChanged:
    """Return the change of a claim, with its version counted on."""
    if after is None:
        return DepositClaimChanged(stored, None)

    version = 1 if stored is None else stored.version + 1
    return DepositClaimChanged(stored, evolve(after, version=version))
