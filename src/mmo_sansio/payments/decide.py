"""Decides inputs: `decide` turns ledger, input and time into a decision; `reads` names the keys that it will look at.

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

from typing import assert_never

from attrs import evolve

from mmo_sansio.messages import inputs
from mmo_sansio.messages.intents import IntentKind
from mmo_sansio.messages.replies import Ignored
from mmo_sansio.payments import answers, journal, receipts, reference_reuse, settlement
from mmo_sansio.payments.brand_usage import usage_keys
from mmo_sansio.payments.decision import Decision
from mmo_sansio.payments.ledger import Ledger, Reads
from mmo_sansio.payments.personal_data import is_masked, mask_members
from mmo_sansio.payments.rules import (
    correction,
    creation,
    deliveries,
    deposits,
    payment_page,
    polling,
    results,
    submission,
    timers,
)
from mmo_sansio.values.clock import Instant, Moment


def reads(input_: inputs.Input) -> Reads:
    """Return the keys that `decide` will look at for this input."""
    match input_:
        case inputs.CreatePayment():
            key = (input_.brand.id, input_.draft.merchant_reference)
            is_reserved = input_.reserved_provider is not None
            return Reads(references=frozenset((key,)), usage=usage_keys(input_), held_brands=is_reserved)
        case inputs.CallbackConcluded(reference):
            return Reads(transactions=frozenset((reference,)), intents=frozenset(((reference, IntentKind.CALLBACK),)))
        case inputs.QrConcluded(reference):
            return Reads(transactions=frozenset((reference,)), intents=frozenset(((reference, IntentKind.QR),)))
        case inputs.EndedPollConcluded(reference):
            return Reads(transactions=frozenset((reference,)), intents=frozenset(((reference, IntentKind.POLL),)))
        case inputs.DepositNotified():
            keys = frozenset(((input_.provider, input_.provider_reference),))
            return Reads(transactions=_optional(input_.payment), deposits=keys, claims=keys)
        case inputs.DepositClaimWoke() | inputs.DepositAnswered():
            keys = frozenset(((input_.provider, input_.receipt),))
            return Reads(transactions=_optional(input_.payment), deposits=keys, claims=keys)
        case inputs.ProviderSucceeded() | inputs.ProviderHinted() | inputs.ResolveManually():
            receipt = receipts.receipt_key(input_)
            keys = frozenset() if receipt is None else frozenset((receipt,))
            return Reads(transactions=frozenset((input_.gateway_reference,)), deposits=keys, claims=keys)
        case inputs.UnmatchedNotified():
            return Reads()
        case inputs.RecordLostUse(brand, merchant_reference):
            return Reads(references=frozenset(((brand, merchant_reference),)))
        case inputs.BeginSubmission(reference):
            return Reads(transactions=frozenset((reference,)), held_brands=True)
        case (
            inputs.ConfirmPage()
            | inputs.StopPayment()
            | inputs.MarkRestored()
            | inputs.CorrectTimes()
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
    return frozenset() if reference is None else frozenset((reference,))


def decide(ledger: Ledger, input_: inputs.Input, *, now: Instant, utc: Instant | None = None) -> Decision:
    """Decide an input. A decision that changes something adds one entry to the journal: about a payment without
    personal data, an entry without them.

    `now` is the gateway's own time, `utc` the wall time to record; None says that the two agree. See
    :class:`mmo_sansio.values.clock.Moment`.
    """
    moment = Moment(now, now if utc is None else utc)
    decision = answers.answer_once(ledger, input_, lambda: _decide(ledger, input_, now=moment))
    if not decision.changes:
        return decision
    written = journal.journal_entry(input_, decision.changes, now=moment)
    if isinstance(decision.reply, Ignored) and is_masked(decision.reply.transaction):
        written = evolve(written, detail=mask_members(written.detail))
    return Decision(decision.reply, (*decision.changes, written), decision.intents)


def _decide(ledger: Ledger, input_: inputs.Input, *, now: Moment) -> Decision:
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
            return reference_reuse.record_lost_use(ledger, input_, now=now)
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
            return payment_page.confirm_page(ledger, input_, now=now)
        case inputs.DepositNotified():
            return deposits.record_deposit(ledger, input_, now=now)
        case inputs.DepositClaimWoke():
            return deposits.wake_claim(ledger, input_, now=now)
        case inputs.DepositAnswered():
            return deposits.apply_answer(ledger, input_, now=now)
        case inputs.UnmatchedNotified():
            return deposits.record_unmatched(input_, now=now)
        case inputs.ResolveManually():
            return results.resolve(ledger, input_, now=now)
        case inputs.CorrectTimes():
            return correction.correct_times(ledger, input_, now=now)
        case _:
            assert_never(input_)
