"""Decides inputs: `decide` turns ledger, input and time into a decision; `reads` names the keys
that it will look at.

Every decision that changes something writes one entry into the journal, the payment's timeline and
audit trail.

1. `decide` never changes the ledger and looks only at keys in `reads(input_)`; otherwise the ledger
   raises NotPrefetched.
2. The same ledger, input and time give the same decision: no clock, randomness or environment.
3. Terminal stages have empty rows: a later result changes nothing but the suspense book.
4. Reply, changes and intents become visible together, changes first.
5. With equal moments, any partition of a list of inputs into batches ends in the same ledger as
   deciding them one by one.
6. References and page tokens are generated at the edge and travel in the input, as do each
   input's own `now` and `utc`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Final, assert_never

from attrs import evolve

from mmo_sansio.messages import changes, inputs
from mmo_sansio.messages.intents import IntentKind
from mmo_sansio.messages.replies import Applied, Ignored
from mmo_sansio.messages.reversals import ReversalInput
from mmo_sansio.payments import misdated, settlement
from mmo_sansio.payments.brand_usage import usage_keys
from mmo_sansio.payments.decision import Decision, ignore
from mmo_sansio.payments.ledger import Ledger, Reads
from mmo_sansio.payments.personal_data import is_masked, mask_members
from mmo_sansio.payments.rules import (
    creation,
    deliveries,
    deposits,
    payer,
    polling,
    results,
    reversals,
    submission,
    timers,
)
from mmo_sansio.payments.suspense import record_in_suspense
from mmo_sansio.values.clock import Instant, Moment
from mmo_sansio.values.model import Evidence, Progress, Stage, Transaction
from mmo_sansio.values.payer_actions import EnterCode, OpenUrl


def reads(input_: inputs.Input) -> Reads:
    """Return the keys that `decide` will look at for this input."""
    if isinstance(input_, ReversalInput):
        return reversals.reads_of(input_)

    match input_:
        case inputs.CreatePayment():
            key = (input_.brand.id, input_.draft.merchant_reference)
            is_reserved = input_.reserved_provider is not None
            return Reads(
                references=frozenset((key,)), usage=usage_keys(input_), held_brands=is_reserved
            )
        case inputs.CallbackConcluded(reference):
            return Reads(
                transactions=frozenset((reference,)),
                intents=frozenset(((reference, IntentKind.CALLBACK),)),
            )
        case inputs.QrConcluded(reference):
            return Reads(
                transactions=frozenset((reference,)),
                intents=frozenset(((reference, IntentKind.QR),)),
            )
        case inputs.EndedPollConcluded(reference):
            return Reads(
                transactions=frozenset((reference,)),
                intents=frozenset(((reference, IntentKind.POLL),)),
            )
        case inputs.DepositNotified():
            keys = frozenset(((input_.provider, input_.provider_reference),))
            return Reads(transactions=_optional(input_.payment), deposits=keys, claims=keys)
        case inputs.DepositClaimWoke() | inputs.DepositAnswered():
            keys = frozenset(((input_.provider, input_.receipt),))
            return Reads(transactions=_optional(input_.payment), deposits=keys, claims=keys)
        case inputs.ProviderSucceeded() | inputs.ProviderHinted() | inputs.ResolveManually():
            receipt = settlement.receipt_key(input_)
            if receipt is None:
                keys = frozenset()
            else:
                keys = frozenset((receipt,))
            return Reads(
                transactions=frozenset((input_.gateway_reference,)), deposits=keys, claims=keys
            )
        case inputs.CorrectTimes(reference, _, claim):
            return Reads(
                transactions=frozenset((reference,)),
                reversals=frozenset((reference,)),
                claims=frozenset() if claim is None else frozenset((claim,)),
            )
        case inputs.UnmatchedNotified():
            return Reads()
        case inputs.RecordLostUse(brand, merchant_reference):
            return Reads(references=frozenset(((brand, merchant_reference),)))
        case inputs.BeginSubmission(reference):
            return Reads(transactions=frozenset((reference,)), held_brands=True)
        case (
            inputs.ConfirmPage()
            | inputs.PayerReturned()
            | inputs.StopPayment()
            | inputs.MarkRestored()
            | inputs.ProviderAccepted()
            | inputs.ProviderFailed()
            | inputs.ProviderUnreachable()
            | inputs.ProviderNeverReceived()
            | inputs.ProviderCannotTell()
            | inputs.TransactionWoke()
        ):
            return Reads(transactions=frozenset((input_.gateway_reference,)))
        case _:
            assert_never(input_)


def _optional(reference: str | None) -> frozenset[str]:
    if reference is None:
        return frozenset()
    return frozenset((reference,))


def decide(
    ledger: Ledger, input_: inputs.Input, *, now: Instant, utc: Instant | None = None
) -> Decision:
    """Decide an input. A decision that changes something adds one entry to the journal: about a
    payment without personal data, an entry without them.

    `now` is the gateway's own time, `utc` the wall time to record; None says that the two agree.
    See :class:`mmo_sansio.values.clock.Moment`."""
    moment = Moment(now, now if utc is None else utc)
    decision = _answer_once(ledger, input_, now=moment)
    if not decision.changes:
        return decision

    written = _journal_entry(input_, decision, now=moment)
    if isinstance(decision.reply, Ignored) and is_masked(decision.reply.transaction):
        written = evolve(written, detail=mask_members(written.detail))

    return Decision(decision.reply, (*decision.changes, written), decision.intents)


# How many of the latest answered questions a payment remembers; older ones count as answered.
ANSWERED_MAX: Final = 8


def _answer_once(ledger: Ledger, input_: inputs.Input, *, now: Moment) -> Decision:
    """Decide, and let an answer count once that came, unsigned, to an address of its own question
    (clause S5).

    Only the operator was given that address, and only until the answer came: from then on it may be
    read in an access log. So the answer is on record then, and a second one changes nothing."""
    if not isinstance(input_, inputs.ProviderAnswer) or input_.asked_at is None:
        return _decide(ledger, input_, now=now)

    before = ledger.transaction(input_.gateway_reference)
    if before is None:
        return _decide(ledger, input_, now=now)

    answered = before.progress.answered
    if input_.asked_at in answered or (
        len(answered) == ANSWERED_MAX and input_.asked_at < answered[0]
    ):
        return ignore("This question was answered before, or later ones were.", before)

    answered = tuple(sorted((*answered, input_.asked_at))[-ANSWERED_MAX:])
    return _on_record(_decide(ledger, input_, now=now), before, answered)


def _on_record(decision: Decision, before: Transaction, answered: tuple[Instant, ...]) -> Decision:
    """Return the decision with the answered question in the payment's progress. One that has ended
    changes no more."""
    moves = [
        change for change in decision.changes if isinstance(change, changes.TransactionAdvanced)
    ]
    others = tuple(
        change for change in decision.changes if not isinstance(change, changes.TransactionAdvanced)
    )
    if moves:
        (move,) = moves
        after = Transaction(move.after.order, evolve(move.after.progress, answered=answered))
        return Decision(
            Applied(after), (changes.TransactionAdvanced(before, after), *others), decision.intents
        )

    if before.progress.stage.is_terminal:
        return decision

    progress = evolve(before.progress, version=before.progress.version + 1, answered=answered)
    change = changes.TransactionAdvanced(before, Transaction(before.order, progress))
    return evolve(decision, changes=(change, *others))


def _decide(ledger: Ledger, input_: inputs.Input, *, now: Moment) -> Decision:
    if isinstance(input_, ReversalInput):
        return reversals.decide_reversal(ledger, input_, now=now)

    match input_:
        case inputs.CreatePayment():
            return creation.create(ledger, input_, now=now)
        case inputs.BeginSubmission():
            return submission.begin(ledger, input_, now=now)
        case inputs.StopPayment():
            return submission.stop(ledger, input_, now=now)
        case inputs.MarkRestored():
            return submission.mark_restored(ledger, input_, now=now)
        case inputs.RecordLostUse():
            return creation.record_lost_use(ledger, input_, now=now)
        case inputs.ProviderAccepted():
            return submission.accept(ledger, input_, now=now)
        case inputs.ProviderSucceeded():
            return settlement.succeed(ledger, input_, now=now)
        case inputs.ProviderFailed():
            return results.fail(ledger, input_, now=now)
        case inputs.CallbackConcluded():
            return deliveries.conclude_callback(ledger, input_, now=now)
        case inputs.QrConcluded():
            return deliveries.conclude_qr(ledger, input_, now=now)
        case inputs.EndedPollConcluded():
            return deliveries.conclude_poll(ledger, input_, now=now)
        case inputs.TransactionWoke():
            return timers.wake(ledger, input_, now=now)
        case inputs.ProviderUnreachable():
            return submission.record_unreachable(ledger, input_, now=now)
        case inputs.ProviderNeverReceived():
            return submission.resubmit(ledger, input_, now=now)
        case inputs.ProviderCannotTell():
            return polling.stop_polling(ledger, input_, now=now)
        case inputs.ProviderHinted():
            return polling.apply_hint(ledger, input_, now=now)
        case inputs.ConfirmPage():
            return payer.confirm_page(ledger, input_, now=now)
        case inputs.PayerReturned():
            return payer.record_return(ledger, input_, now=now)
        case inputs.DepositNotified():
            return deposits.record_deposit(ledger, input_, now=now)
        case inputs.DepositClaimWoke():
            return deposits.wake_claim(ledger, input_, now=now)
        case inputs.DepositAnswered():
            return deposits.apply_answer(ledger, input_, now=now)
        case inputs.UnmatchedNotified():
            return record_in_suspense(input_, changes.SuspenseReason.UNREADABLE, None, now=now)
        case inputs.ResolveManually():
            return results.resolve(ledger, input_, now=now)
        case inputs.CorrectTimes():
            return misdated.correct_times(ledger, input_, now=now)
        case _:
            assert_never(input_)


def _asked_of_payer(before: Progress, after: Progress) -> Mapping[str, object]:
    """Return what the payer has to do from now on, without the address and the code: each may be
    used by whoever reads it."""
    match before.payer_action, after.payer_action:
        case (OpenUrl(url=known), OpenUrl(url=told)) if known == told:
            return {}
        case (_, OpenUrl(host=host)):
            return {"payerAction": "openUrl", "host": host}
        case (None | OpenUrl() | EnterCode(code=str()), EnterCode(code=None)):
            return {"payerAction": "enterCode"}
        case _:
            return {}


_to_json: Final = json.JSONEncoder(ensure_ascii=False, check_circular=False).encode


def _journal_entry(
    input_: inputs.Input, decision: Decision, *, now: Moment
) -> changes.JournalEntry:
    """Return the journal entry of this decision. It contains no key, token or party."""
    reference = brand = None
    before: str | None = None
    after: str | None = None
    detail = _detail(input_)
    for change in decision.changes:
        match change:
            case changes.TransactionCreated(made):
                reference, brand, after = made.reference, made.order.brand, made.progress.stage
                if made.order.is_simulated:
                    detail["simulated"] = True
            case changes.TransactionAdvanced(old, new):
                reference, brand = new.reference, new.order.brand
                before, after = old.progress.stage, new.progress.stage
                if new.progress.payer_action is not old.progress.payer_action:
                    detail |= _asked_of_payer(old.progress, new.progress)
                if (
                    isinstance(input_, inputs.TransactionWoke)
                    and new.progress.stage is Stage.SUCCEEDED
                ):
                    detail["providerReference"] = new.progress.provider_reference
            case changes.CallbackRecorded() | changes.QrRecorded():
                reference, brand = change.gateway_reference, change.brand
            case changes.DepositClaimChanged():
                claim = change.after or change.before
                if claim is not None and claim.payment is not None:
                    reference, brand = reference or claim.payment, brand or claim.brand
            case changes.ReversalChanged(after=reversal):
                reference, brand, after = reversal.payment, reversal.brand, reversal.state
                before = None if change.before is None else change.before.state
                detail |= {"reversal": reversal.id, "amount": str(reversal.amount)}
            case changes.ReferenceConsumed() if change.is_lost:
                brand = change.brand
            case changes.SuspenseRecorded():
                reference, brand = change.gateway_reference, change.brand
                detail["suspense"] = change.reason
            case _:
                pass

    return changes.JournalEntry(
        at=now.utc,
        input_name=type(input_).__name__,
        actor=_actor(input_),
        gateway_reference=reference,
        brand=brand,
        stage_before=before,
        stage_after=after,
        detail=_to_text(input_, detail),
    )


def _to_text(input_: inputs.Input, detail: dict[str, object]) -> str:
    """Return the detail as JSON. Those of creations are few: one for each method and operation of a
    brand."""
    if isinstance(input_, inputs.CreatePayment):
        return _creation_text(*detail.items())
    return _to_json(detail)


@lru_cache(maxsize=256)
def _creation_text(*detail: tuple[str, object]) -> str:
    return _to_json(dict(detail))


def _actor(input_: inputs.Input) -> str:
    if isinstance(input_, ReversalInput):
        return reversals.actor_of(input_)

    match input_:
        case inputs.CreatePayment():
            return "merchant"
        case inputs.ConfirmPage() | inputs.PayerReturned():
            return "payer"
        case (
            inputs.ResolveManually()
            | inputs.StopPayment()
            | inputs.CorrectTimes()
            | inputs.MarkRestored()
            | inputs.RecordLostUse()
        ):
            return f"user:{input_.user}"
        case inputs.TransactionWoke() | inputs.DepositClaimWoke():
            return "clock"
        case (
            inputs.BeginSubmission()
            | inputs.CallbackConcluded()
            | inputs.QrConcluded()
            | inputs.EndedPollConcluded()
        ):
            return "gateway"
        case (
            inputs.ProviderAccepted()
            | inputs.ProviderSucceeded()
            | inputs.ProviderFailed()
            | inputs.ProviderUnreachable()
            | inputs.ProviderNeverReceived()
            | inputs.ProviderCannotTell()
            | inputs.ProviderHinted()
            | inputs.DepositNotified()
            | inputs.DepositAnswered()
            | inputs.UnmatchedNotified()
        ):
            return f"provider:{input_.provider}"
        case _:
            assert_never(input_)


def _detail(input_: inputs.Input) -> dict[str, object]:
    if isinstance(input_, ReversalInput):
        return reversals.detail_of(input_)

    match input_:
        case inputs.CreatePayment():
            return {"method": input_.draft.method, "operation": input_.draft.operation}
        case inputs.ResolveManually():
            return {
                "reason": input_.reason,
                "evidence": input_.evidence or None,
                "errorCode": input_.error_code,
            }
        case inputs.ProviderAccepted():
            return {"source": input_.source, "providerReference": input_.provider_reference}
        case inputs.ProviderSucceeded():
            final = None
            if input_.final:
                final = str(input_.final)
            return {
                "source": input_.source,
                "providerReference": input_.provider_reference,
                "finalAmount": final,
            }
        case inputs.ProviderFailed():
            native = {"nativeCode": input_.native_code, "nativeMessage": input_.native_message}
            return {"source": input_.source, "errorCode": input_.error_code, **native}
        case inputs.ProviderUnreachable(evidence=Evidence() as told):
            return {"reason": input_.reason, "providerReference": told.receipt}
        case inputs.ProviderUnreachable():
            return {"reason": input_.reason}
        case inputs.DepositNotified():
            return {"providerReference": input_.provider_reference, "amount": str(input_.amount)}
        case inputs.DepositClaimWoke():
            return {"providerReference": input_.receipt}
        case inputs.DepositAnswered():
            return {
                "providerReference": input_.receipt,
                "outcome": input_.outcome,
                "amount": str(input_.amount) if input_.amount else None,
                "detail": input_.detail or None,
            }
        case inputs.CallbackConcluded() | inputs.QrConcluded():
            return {
                "outcome": input_.attempt.outcome,
                "status": input_.attempt.status,
                "durationMs": input_.attempt.duration_ms,
                "detail": input_.attempt.detail,
            }
        case inputs.BeginSubmission():
            if input_.withheld is None:
                return {}
            return {"withheld": input_.withheld}
        case (
            inputs.ConfirmPage()
            | inputs.PayerReturned()
            | inputs.CorrectTimes()
            | inputs.TransactionWoke()
            | inputs.StopPayment()
            | inputs.MarkRestored()
            | inputs.ProviderNeverReceived()
            | inputs.ProviderCannotTell()
            | inputs.UnmatchedNotified()
            | inputs.EndedPollConcluded()
        ):
            return {}
        case inputs.RecordLostUse():
            return {"gatewayReference": input_.gateway_reference}
        case inputs.ProviderHinted():
            known = input_.evidence
            reported = {
                "nativeCode": input_.native_code,
                "providerReference": None if known is None else known.receipt,
                "saysPaid": input_.says_paid or None,
            }
            return {name: value for name, value in reported.items() if value is not None}
        case _:
            assert_never(input_)
