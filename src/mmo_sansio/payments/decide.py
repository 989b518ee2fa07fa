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
from typing import Any, Final, Protocol, assert_never

from attrs import evolve

from mmo_sansio.messages import changes, inputs
from mmo_sansio.messages import reversals as reversal_inputs
from mmo_sansio.messages.replies import Applied, Ignored
from mmo_sansio.payments import misdated, settlement
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
from mmo_sansio.values.clock import Instant, Moment
from mmo_sansio.values.model import Progress, Stage, Transaction
from mmo_sansio.values.payer_actions import EnterCode, OpenUrl


class Rules(Protocol):
    """What a module offers that decides some of the inputs: one of `rules/`, `settlement`, or
    `misdated`."""

    def reads(self, input_: Any) -> Reads:
        """Return the keys that `decide` will look at."""

    def decide(self, ledger: Ledger, input_: Any, *, now: Moment) -> Decision:
        """Return what follows from the input."""

    def actor(self, input_: Any) -> str:
        """Return who acts, for the journal."""

    def detail(self, input_: Any) -> dict[str, object]:
        """Return what the journal holds of the input: no key, token or party."""


def _rules_of(input_: inputs.Input) -> Rules:
    """Return the module that decides this input: the one place that knows all of them."""
    match input_:
        # What most payments meet comes first.
        case inputs.CreatePayment() | inputs.RecordLostUse():
            return creation
        case inputs.ProviderSucceeded():
            return settlement
        case inputs.TransactionWoke():
            return timers
        case inputs.CallbackConcluded() | inputs.QrConcluded() | inputs.EndedPollConcluded():
            return deliveries
        case (
            inputs.BeginSubmission()
            | inputs.StopPayment()
            | inputs.MarkRestored()
            | inputs.ProviderAccepted()
            | inputs.ProviderUnreachable()
            | inputs.ProviderNeverReceived()
        ):
            return submission
        case inputs.ProviderFailed() | inputs.ResolveManually():
            return results
        case inputs.ProviderHinted() | inputs.ProviderCannotTell() | inputs.UnmatchedNotified():
            return polling
        case inputs.ConfirmPage() | inputs.PayerReturned():
            return payer
        case inputs.DepositNotified() | inputs.DepositClaimWoke() | inputs.DepositAnswered():
            return deposits
        case inputs.CorrectTimes():
            return misdated
        case (
            reversal_inputs.RequestReversal()
            | reversal_inputs.DecideReversal()
            | reversal_inputs.ReversalWoke()
            | reversal_inputs.MarkReversalRestored()
            | reversal_inputs.ResolveReversal()
            | reversal_inputs.ReversalAccepted()
            | reversal_inputs.ReversalSucceeded()
            | reversal_inputs.ReversalFailed()
            | reversal_inputs.ReversalUnreachable()
            | reversal_inputs.ReversalNeverReceived()
            | reversal_inputs.ReversalCannotTell()
            | reversal_inputs.ReversalHinted()
        ):
            return reversals
        case _:
            assert_never(input_)


def reads(input_: inputs.Input) -> Reads:
    """Return the keys that `decide` will look at for this input."""
    return _rules_of(input_).reads(input_)


def decide(
    ledger: Ledger, input_: inputs.Input, *, now: Instant, utc: Instant | None = None
) -> Decision:
    """Decide an input. A decision that changes something adds one entry to the journal: about a
    payment without personal data, an entry without them.

    `now` is the gateway's own time, `utc` the wall time to record; None says that the two agree.
    See :class:`mmo_sansio.values.clock.Moment`."""
    # Both times travel together from here on: one judges, the other is recorded.
    moment = Moment(now, now if utc is None else utc)
    rules = _rules_of(input_)
    decision = _answer_once(rules, ledger, input_, now=moment)
    # A rejected request, and a report that says nothing new, leave no entry.
    if not decision.changes:
        return decision

    written = _journal_entry(rules, input_, decision, now=moment)
    # A late report about a payment whose personal data are removed must not bring them back.
    if isinstance(decision.reply, Ignored) and is_masked(decision.reply.transaction):
        written = evolve(written, detail=mask_members(written.detail))

    return Decision(decision.reply, (*decision.changes, written), decision.intents)


# How many of the latest answered questions a payment remembers; older ones count as answered.
ANSWERED_MAX: Final = 8


def _answer_once(rules: Rules, ledger: Ledger, input_: inputs.Input, *, now: Moment) -> Decision:
    """Decide, and let an answer count once that came, unsigned, to an address of its own question
    (clause S5).

    Only the operator was given that address, and only until the answer came: from then on it may be
    read in an access log. So the answer is on record then, and a second one changes nothing."""
    if not isinstance(input_, inputs.ProviderAnswer) or input_.asked_at is None:
        return rules.decide(ledger, input_, now=now)

    before = ledger.transaction(input_.gateway_reference)
    if before is None:
        return rules.decide(ledger, input_, now=now)

    answered = before.progress.answered
    # Which questions were answered is on record for the latest only; an older one counts as
    # answered.
    if input_.asked_at in answered or (
        len(answered) == ANSWERED_MAX and input_.asked_at < answered[0]
    ):
        return ignore("This question was answered before, or later ones were.", before)

    answered = tuple(sorted((*answered, input_.asked_at))[-ANSWERED_MAX:])
    return _on_record(rules.decide(ledger, input_, now=now), before, answered)


def _on_record(decision: Decision, before: Transaction, answered: tuple[Instant, ...]) -> Decision:
    """Return the decision with the answered question in the payment's progress. One that has ended
    changes no more."""
    moves = [
        change for change in decision.changes if isinstance(change, changes.TransactionAdvanced)
    ]
    others = tuple(
        change for change in decision.changes if not isinstance(change, changes.TransactionAdvanced)
    )
    # The move of the rule, and the answered question, are one version of the payment.
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


def _asked_of_payer(before: Progress, after: Progress) -> Mapping[str, object]:
    """Return what the payer has to do from now on, without the address and the code: each may be
    used by whoever reads it."""
    match before.payer_action, after.payer_action:
        # The same page again is nothing new, as most polls bring it.
        case (OpenUrl(url=known), OpenUrl(url=told)) if known == told:
            return {}
        case (_, OpenUrl(host=host)):
            return {"payerAction": "openUrl", "host": host}
        case (None | OpenUrl() | EnterCode(code=str()), EnterCode(code=None)):
            return {"payerAction": "enterCode"}
        case _:
            return {}


# One encoder for all: `json.dumps` makes one at each call. Nothing here can contain itself.
_to_json: Final = json.JSONEncoder(ensure_ascii=False, check_circular=False).encode


def _journal_entry(
    rules: Rules, input_: inputs.Input, decision: Decision, *, now: Moment
) -> changes.JournalEntry:
    """Return the journal entry of this decision. It contains no key, token or party."""
    reference = None
    brand = None
    before: str | None = None
    after: str | None = None
    detail = rules.detail(input_)
    for change in decision.changes:
        match change:
            case changes.TransactionCreated(made):
                reference, brand, after = made.reference, made.order.brand, made.progress.stage
                # Whoever adds up the journal must not take it for money.
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
            # Another change says more of the payment, so what it has said stays.
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
            # Counters, intents and breakers have no place in a payment's timeline.
            case _:
                pass

    return changes.JournalEntry(
        at=now.utc,
        input_name=type(input_).__name__,
        actor=rules.actor(input_),
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
