"""Decides about reversals: money of a payment that staff ask back is asked for once, and never more
than was paid.

    requested ──approved by staff──▶ approved ──on record before the request leaves──▶ sent
                                        ▲                                               │
                                        └──the provider's word that it received nothing─┤
                                                                                        │
                                        succeeded or failed ◀───the provider's result───┤
                                                                                        ▼
                                        asked after until the provider or staff say ◀ unknown

Each step towards the provider looks at what is left beside the payment's other reversals: one that
has failed may turn out to have moved its money after all, which counts from then on. One that no
longer fits fails.

The payment's own state never changes. What is sent once (S6), and which results count (S5), is as
for payments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, assert_never

from attrs import evolve, frozen

from mmo_sansio.messages import reversals as inputs
from mmo_sansio.messages.changes import (
    Change,
    ReversalChanged,
    SuspenseClosed,
    SuspenseReason,
    SuspenseReopened,
    UsageChanged,
)
from mmo_sansio.messages.replies import Ignored, ReversalApplied
from mmo_sansio.payments.answers import Answer, what_is_answered
from mmo_sansio.payments.decision import Decision, ignore
from mmo_sansio.payments.evidence import SUBMISSION_TIMEOUT
from mmo_sansio.payments.ledger import DepositKey, Ledger, Reads
from mmo_sansio.payments.rules.timers import POLL_INTERVAL_MIN, poll_interval
from mmo_sansio.payments.settlement import claim_receipt, receipt_owner
from mmo_sansio.payments.suspense import record_in_suspense, suspense_entry
from mmo_sansio.values.clock import DAY, Instant, Moment, later
from mmo_sansio.values.model import Source, Stage, Transaction, UsageShare
from mmo_sansio.values.money import Money
from mmo_sansio.values.reversals import Reversal, ReversalState, left_of, reversed_payment

_NEVER_RECEIVED_AFTER_RESTORE: Final = (
    "The provider never received it. Whether it was sent before the restore was not on record, so "
    "it is not sent again:"
    " ask for a new one if it is still right."
)

_NEVER_RECEIVED_SO_OFTEN: Final = (
    "It was sent again and again, and the provider says each time that it never received it."
)

# How many requests may leave for a reversal, but for those that certainly did not arrive.
REQUESTS_MAX: Final = 5

# How often a reversal that has ended is asked about after a hint: for three days, as all but the
# first eleven questions are an hour apart.
QUESTIONS_AFTER_END_MAX: Final = 80


@frozen
class _Found:
    """Holds what is on record of a reversal's payment."""

    reversal: Reversal
    payment: Transaction
    known: tuple[Reversal, ...]
    """All reversals of the payment."""

    @property
    def paid(self) -> Money:
        """What the payment has moved, of which no more may go back."""
        paid = self.reversal.reported or self.payment.progress.final
        assert paid is not None  # Otherwise it could not have been asked for.
        return paid

    @property
    def fits(self) -> bool:
        """Tell whether so much is left beside the payment's other reversals."""
        left = left_of(self.paid, self.known, beside=self.reversal.number)
        return self.reversal.amount.minor <= left.minor

    def move(self, state: ReversalState, *, wake_at: Instant | None, **members: Any) -> Decision:
        """Return the decision that changes these members, and with them what counts against the
        limit of its day."""
        before = self.reversal
        after = evolve(before, version=before.version + 1, state=state, wake_at=wake_at, **members)
        # Of two processes that change any reversal of the payment only the first one's change fits:
        # the second is decided again beside it.
        changes: tuple[Change, ...] = (ReversalChanged(self.known, after),)
        changes += tuple(_usage_changes(before, after))
        return Decision(ReversalApplied(after, self.payment), changes)

    def end(
        self,
        state: ReversalState,
        source: Source | None,
        *,
        now: Moment,
        wake_at: Instant | None = None,
        **members: Any,
    ) -> Decision:
        """Return the decision that ends the reversal, or changes how it has ended, and with it
        whether the entry of the suspense book needs anybody."""
        decision = self.move(state, wake_at=wake_at, ended_at=now.utc, source=source, **members)
        changed = decision.changes[0]
        assert isinstance(changed, ReversalChanged)

        # Only this decides whether the entry about money that came after the failure is settled.
        entry, is_all_back = self.reversal.suspense_entry, self._is_all_back(changed.reversals)
        if entry is None or is_all_back is self._is_all_back(self.known):
            return decision
        if not is_all_back:
            return evolve(decision, changes=(*decision.changes, SuspenseReopened(entry)))

        note = f"All of {self.paid} has gone back, by reversal {self.reversal.number} at last."
        return evolve(decision, changes=(*decision.changes, SuspenseClosed(entry, now.utc, note)))

    def _is_all_back(self, reversals: Iterable[Reversal]) -> bool:
        """Tell whether these have moved back all that was paid."""
        moved = (reversal for reversal in reversals if reversal.state.has_moved)
        return left_of(self.paid, moved).minor <= 0

    def give_way(self, *, now: Moment) -> Decision:
        """Return the decision that ends a reversal which no longer fits, and names those that have
        taken its place."""
        others = [other for other in self.known if other.number != self.reversal.number]
        moved = [other for other in others if other.state.has_moved]
        # Those that have moved money are certain; before any has, those that may.
        named = moved or [other for other in others if other.is_counted]
        ids = " and ".join(other.id for other in named)
        verb = "has" if len(named) == 1 else "have"
        left = Money(max(left_of(self.paid, others).minor, 0), self.paid.currency)
        why = f"{ids} {verb} taken its place: only {left} of {self.paid} is left."
        ended = self.end(ReversalState.FAILED, None, now=now, remark=why)
        return evolve(ended, reply=Ignored(why, self.payment))


def _usage_changes(before: Reversal, after: Reversal) -> Iterator[UsageChanged]:
    """Yield what this change adds to the counters of the reversal's limits: they hold what counts
    of its amount."""
    added = after.counted_minor - before.counted_minor
    if added:
        for share in before.usage:
            yield UsageChanged(before.brand, evolve(share, amount=added))


def reads(input_: inputs.ReversalInput) -> Reads:
    """Return the keys that `decide` will look at."""
    if not isinstance(input_, inputs.RequestReversal):
        # All reversals of a payment are one row, so its sum is guarded as a whole.
        payment = frozenset((reversed_payment(input_.reversal),))
        return Reads(transactions=payment, reversals=payment)

    payment = frozenset((input_.payment,))
    counter = _limit_counter(input_)
    usage = frozenset(() if counter is None else ((input_.brand, counter),))
    key = _receipt_key(input_)
    receipts = frozenset(() if key is None else (key,))
    return Reads(
        transactions=payment, reversals=payment, usage=usage, deposits=receipts, claims=receipts
    )


def actor(input_: inputs.ReversalInput) -> str:
    """Return who acts, for the journal."""
    if isinstance(input_, inputs.ReversalReport | inputs.ReversalHinted):
        return f"provider:{input_.provider}"
    if isinstance(input_, inputs.ReversalWoke):
        return "clock"
    return f"user:{input_.user}"


def detail(input_: inputs.ReversalInput) -> dict[str, object]:
    """Return what the journal holds of the input, besides the reversal's id and amount."""
    members = {
        member: getattr(input_, member, None)
        for member in ("reason", "remark", "evidence", "source")
    }
    members["isApproved"] = getattr(input_, "is_approved", None)
    members["providerReference"] = getattr(input_, "provider_reference", None)
    members["nativeCode"] = getattr(input_, "native_code", None)
    members["version"] = getattr(input_, "version", None)
    return {name: value for name, value in members.items() if value not in (None, "")}


def decide(ledger: Ledger, input_: inputs.ReversalInput, *, now: Moment) -> Decision:
    """Decide an input about a reversal."""
    if isinstance(input_, inputs.RequestReversal):
        return _request(ledger, input_, now=now)

    payment = ledger.transaction(reversed_payment(input_.reversal))
    known = ledger.reversals_of(reversed_payment(input_.reversal))
    named = next((reversal for reversal in known if reversal.id == input_.reversal), None)
    found = None
    if named is not None and payment is not None:
        found = _Found(named, payment, known)

    # A report is looked at even where nothing is known of its reversal: it may tell of moved money.
    if isinstance(input_, inputs.ReversalReport):
        return _report(found, input_, now=now)
    if found is None:
        return ignore("There is no such reversal.")

    match input_:
        case inputs.ReversalHinted():
            return _hint(found, input_, now=now)
        case inputs.DecideReversal():
            return _decide_request(found, input_, now=now)
        case inputs.ReversalWoke():
            return _wake(found, input_, now=now)
        case inputs.MarkReversalRestored():
            return _mark_restored(found, now=now)
        case inputs.ResolveReversal():
            return _resolve(found, input_, now=now)
        case _:
            assert_never(input_)


def _limit_counter(input_: inputs.RequestReversal) -> str | None:
    """Return the counter of the day's limit that this request adds to; None where there is no
    limit."""
    limit = input_.daily_max
    if limit is None:
        return None
    return f"reversals {input_.user} {limit.currency}"


def _request(ledger: Ledger, input_: inputs.RequestReversal, *, now: Moment) -> Decision:
    """Put a reversal on record, unless the payment has not succeeded, less is left to move back, or
    a limit is reached."""
    # 1. The payment is this brand's, and has moved money: by its success, or after its failure.
    payment = ledger.transaction(input_.payment)
    if payment is None or payment.order.brand != input_.brand:
        return ignore("There is no such payment.")

    known = ledger.reversals_of(payment.reference)
    reported = None
    receipt = None
    entry = None
    if payment.progress.stage is Stage.FAILED:
        reported, receipt, entry = _reported(input_, known)

    paid = payment.progress.final or reported
    if paid is None:
        return ignore(
            "Only a payment that has succeeded, or was paid after it had failed, can be reversed.",
            payment,
        )

    # 2. Two forms of the same page, or two members of staff: only the first one asks.
    if input_.number not in (None, len(known) + 1):
        return ignore(
            "Money of this payment was asked back meanwhile: look at that first.", payment
        )

    # 3. No more than is left, and within the day's limit of this member of staff.
    left = left_of(paid, known)
    amount = input_.amount or left
    if amount.currency != paid.currency:
        return ignore(f"The amount must be in {paid.currency}.", payment)
    if left.minor <= 0:
        return ignore("All that was paid has been asked back.", payment)

    if not 0 < amount.minor <= left.minor:
        limits = f"above 0, and at most {left}: so much of {paid} has not been asked back"
        return ignore(f"The amount must be {limits}.", payment)

    added = _usage(ledger, input_, amount, now=now)
    if isinstance(added, str):
        return ignore(added, payment)

    # 4. The receipt of reported money may not be another payment's (S4).
    key = None
    if reported is not None:
        key = _receipt_key(input_)

    if key is not None and (owner := receipt_owner(ledger, key, payment.reference)) is not None:
        return ignore(f"The receipt {key[1]} is that of {owner}: look at that first.", payment)

    # 5. It is on record, and due at once unless somebody has to approve it first.
    claimed = claim_receipt(ledger, key, payment, amount=paid, now=now)
    state = ReversalState.REQUESTED
    due_at = None
    if not input_.needs_approval:
        state = ReversalState.APPROVED
        due_at = now.time

    asked = Reversal(
        payment=payment.reference,
        number=len(known) + 1,
        brand=payment.order.brand,
        provider=payment.order.provider,
        amount=amount,
        reason=input_.reason,
        asked_by=input_.user,
        asked_at=now.utc,
        state=state,
        wake_at=due_at,
        due_since=due_at,
        reported=reported,
        receipt=receipt,
        suspense_entry=entry,
        usage=tuple(counted.share for counted in added),
    )
    return Decision(
        ReversalApplied(asked, payment), (ReversalChanged(known, asked), *added, *claimed)
    )


def _receipt_key(input_: inputs.RequestReversal) -> DepositKey | None:
    """Return the receipt by which reported money was moved; None where none is named."""
    if input_.provider and input_.receipt:
        return (input_.provider, input_.receipt)
    return None


def _reported(
    input_: inputs.RequestReversal, known: Sequence[Reversal]
) -> tuple[Money | None, str | None, int | None]:
    """Return what was paid after the payment had failed, with its receipt and its entry in the
    suspense book: by an open entry, or by a closed one of which a reversal knows."""
    if input_.reported is not None or not known:
        return input_.reported, input_.receipt, input_.suspense_entry
    return known[-1].reported, known[-1].receipt, known[-1].suspense_entry


def _usage(
    ledger: Ledger, input_: inputs.RequestReversal, amount: Money, *, now: Moment
) -> tuple[UsageChanged, ...] | str:
    """Return what the reversal adds to its limit of a day, or in a sentence that this is
    reached."""
    counter, limit = _limit_counter(input_), input_.daily_max
    if counter is None or limit is None:
        return ()
    if limit.currency != amount.currency:
        return f"The limit is not in {amount.currency}."

    day = now.time // DAY
    if ledger.used_on(input_.brand, counter, day) + amount.minor > limit.minor:
        return (
            f"With this amount of {amount} the day's reversals would exceed {limit}. A new day "
            f"begins at 00:00 UTC."
        )

    return (UsageChanged(input_.brand, UsageShare(counter, day, amount.minor), limit.minor),)


def _decide_request(found: _Found, input_: inputs.DecideReversal, *, now: Moment) -> Decision:
    """Approve a requested reversal that still fits, or end one that was not sent. With four eyes
    nobody approves what they asked for."""
    before = found.reversal
    if not input_.is_approved:
        if before.state not in (ReversalState.REQUESTED, ReversalState.APPROVED):
            return ignore(f"It is {before.state}, and can't be taken back.", found.payment)
        return found.end(
            ReversalState.FAILED, Source.MANUAL, now=now, ended_by=input_.user, remark=input_.remark
        )

    if before.state is not ReversalState.REQUESTED:
        return ignore(f"It is {before.state} already.", found.payment)
    # Whoever could approve their own requests could move money alone.
    if input_.four_eyes and before.asked_by == input_.user:
        return ignore("You asked for it: another user has to approve it.", found.payment)
    # Another reversal may have moved its money since this was asked for.
    if not found.fits:
        return found.give_way(now=now)

    return found.move(
        ReversalState.APPROVED,
        wake_at=now.time,
        due_since=now.time,
        approved_by=input_.user,
        approved_at=now.utc,
        remark=input_.remark,
    )


def _wake(found: _Found, input_: inputs.ReversalWoke, *, now: Moment) -> Decision:
    """Record an approved reversal that still fits as sent, or count a question about a sent one.

    `ReversalApplied` lets this attempt send the request if `Reversal.may_send`, and ask if not;
    anything else forbids both. An attempt whose outcome its worker could not learn is answered
    alike when it is repeated, unless too little is left meanwhile."""
    before = found.reversal

    # 1. The repeated attempt: it was recorded, and its request has not left.
    if before.may_send(input_.attempt) and found.fits:
        return Decision(ReversalApplied(before, found.payment))

    # 2. Of two processes the second one finds that nothing is due any more.
    if before.wake_at is None or now.time < before.wake_at:
        return ignore("Nothing is due.", found.payment)

    # 3. What was sent is only asked about.
    if before.state is not ReversalState.APPROVED:
        return _count_question(found, now=now)

    # 4. What still fits is on record as sent before the request leaves (S6).
    if not found.fits:
        return found.give_way(now=now)

    return found.move(
        ReversalState.SENT,
        wake_at=later(now.time, SUBMISSION_TIMEOUT),
        attempt=input_.attempt,
        sent_at=now.time,
        sent_version=before.version + 1,
        submissions=before.submissions + 1,
        polls=0,
    )


def _count_question(found: _Found, *, now: Moment) -> Decision:
    """Record a question about what was sent, and when the next one is due. The last one about a
    reversal that has ended is followed by none."""
    before = found.reversal
    polls = before.polls + 1
    at = later(now.time, max(poll_interval(polls), SUBMISSION_TIMEOUT))

    # Without an end it is asked about for ever: only the provider or staff can say.
    if not before.state.has_ended:
        return found.move(_waiting_state(before), wake_at=at, polls=polls)
    is_last = polls >= QUESTIONS_AFTER_END_MAX
    return found.move(before.state, wake_at=None if is_last else at, polls=polls)


def _mark_restored(found: _Found, *, now: Moment) -> Decision:
    """Take a reversal for sent that had not ended in the backup: it is asked after, and never sent
    again (S6)."""
    if found.reversal.state.has_ended or found.reversal.is_restored:
        return ignore("The reversal has ended, or is marked.")
    return found.move(
        ReversalState.UNKNOWN,
        wake_at=later(now.time, SUBMISSION_TIMEOUT),
        sent_at=now.time,
        is_restored=True,
    )


def _resolve(found: _Found, input_: inputs.ResolveReversal, *, now: Moment) -> Decision:
    """End a sent reversal by hand, on evidence, or put its wrong end right. One that may be
    arriving just now waits."""
    before = found.reversal
    if (against := _why_not_resolved(before, input_, now=now)) is not None:
        return ignore(against, found.payment)

    # A wrong failure is put right as money that has moved after all, so that its history stays.
    if not input_.succeeded:
        to = ReversalState.FAILED
    elif before.state is ReversalState.FAILED:
        to = ReversalState.MOVED_AFTER_ALL
    else:
        to = ReversalState.SUCCEEDED

    return found.end(
        to,
        Source.MANUAL,
        now=now,
        # A question that a hint has caused after the end is still to be answered.
        wake_at=before.wake_at if before.state.has_ended else None,
        ended_by=input_.user,
        remark=input_.evidence,
        provider_reference=input_.provider_reference or before.provider_reference,
    )


def _why_not_resolved(
    before: Reversal, input_: inputs.ResolveReversal, *, now: Moment
) -> str | None:
    """Return in a sentence why staff can't end a reversal like this; None where they can."""
    if not before.may_have_arrived:
        return f"It is {before.state}, and was never sent: only one that was sent has an outcome."
    if before.state is ReversalState.APPROVED:
        return "It is about to be sent again: try again in half a minute."
    if before.state.has_ended and before.state.has_moved is input_.succeeded:
        return f"It is {before.state.words} already."
    if before.state.has_ended and not before.may_be_put_right:
        return "The provider itself has reported that it moved the money back: that stands."
    if before.is_unanswered and now.time < _arrives_until(before):
        return "The provider may be receiving it just now: try again in half a minute."

    return None


def _report(found: _Found | None, input_: inputs.ReversalReport, *, now: Moment) -> Decision:
    """Apply a provider's report. A result about no reversal that was sent, or other than the one on
    record, goes to the suspense book."""
    if found is None:
        return _report_of_none(None, input_, SuspenseReason.UNKNOWN_TRANSACTION, now=now)
    if not found.reversal.may_have_arrived:
        return _report_of_none(found.payment, input_, SuspenseReason.UNKNOWN_TRANSACTION, now=now)
    if found.reversal.provider != input_.provider:
        return _report_of_none(found.payment, input_, SuspenseReason.WRONG_PROVIDER, now=now)
    if found.reversal.state.has_ended:
        return _report_after_end(found, input_, now=now)

    return _report_in_time(found, input_, now=now)


def _report_of_none(
    payment: Transaction | None,
    input_: inputs.ReversalReport,
    reason: SuspenseReason,
    *,
    now: Moment,
) -> Decision:
    """Leave to staff a result that belongs to no reversal which this provider was sent."""
    if isinstance(input_, inputs.ReversalSucceeded | inputs.ReversalFailed):
        return record_in_suspense(input_, reason, payment, now=now)

    return ignore("No such reversal waits for this provider.")


def _report_in_time(found: _Found, input_: inputs.ReversalReport, *, now: Moment) -> Decision:
    """Apply a report to a reversal without an end."""
    before, answered = found.reversal, what_is_answered(input_.version, found.reversal)
    match input_:
        # Money that was moved, and a request that has arrived, are facts, whatever they answer.
        case inputs.ReversalAccepted():
            return _accept(found, input_, answered, now=now)
        case inputs.ReversalSucceeded():
            return _succeed(found, input_, now=now)
        # A refusal, or that nothing is known, is true only of the request that it answers.
        case _ if answered is Answer.OLDER:
            return ignore("It was sent again since what this answers.", found.payment)
        case inputs.ReversalFailed():
            return _fail(found, input_, answered, now=now)
        # Between two requests nothing is under way that could be asked about.
        case _ if before.state is ReversalState.APPROVED:
            return ignore("It is about to be sent again.", found.payment)
        case inputs.ReversalUnreachable():
            # A provider that cannot be asked is not asked again because of a failed question.
            if before.wake_at is None:
                return ignore("It waits for a notification or a person.", found.payment)
            at = later(now.time, input_.poll_after or poll_interval(before.polls))
            at = max(at, _arrives_until(before))
            return found.move(_waiting_state(before), wake_at=at, remark=input_.reason)
        case inputs.ReversalNeverReceived():
            return _send_again(found, answered, now=now)
        case inputs.ReversalCannotTell():
            # It is true of the latest question only: more may be known to ask by since.
            if input_.version != before.version:
                return ignore("More is known of it since that question.", found.payment)
            return found.move(_waiting_state(before), wake_at=None)
        case _:
            assert_never(input_)


def _arrives_until(sent: Reversal) -> Instant:
    """Return until when its latest request may be under way. No question is asked before: that the
    provider has not received it yet would let it be sent again (S6)."""
    assert sent.sent_at is not None
    return later(sent.sent_at, SUBMISSION_TIMEOUT)


def _waiting_state(before: Reversal) -> ReversalState:
    """Return the state of what was sent and has no result: what the provider has accepted is not
    unknown."""
    if before.is_accepted:
        return ReversalState.SENT
    return ReversalState.UNKNOWN


def _accept(
    found: _Found, input_: inputs.ReversalAccepted, answered: Answer, *, now: Moment
) -> Decision:
    """Record that the provider has the reversal, which is never sent again."""
    before = found.reversal
    at = later(now.time, input_.poll_after or poll_interval(before.polls))
    # What answers an earlier request postpones no question about the latest one.
    if answered is Answer.OLDER and before.wake_at is not None:
        at = min(at, before.wake_at)

    return found.move(
        ReversalState.SENT,
        wake_at=at,
        is_accepted=True,
        provider_reference=input_.provider_reference or before.provider_reference,
        remark="",
    )


def _send_again(found: _Found, answered: Answer, *, now: Moment) -> Decision:
    """Approve again what certainly never reached the provider: the one way to a further request."""
    before = found.reversal

    # 1. The provider has had it: its word that it has not is wrong somewhere.
    if before.is_accepted:
        return ignore("The provider has accepted it.", found.payment)

    # 2. Whether it was sent before the restore is not known, so it is never sent again.
    if before.is_restored:
        return found.end(
            ReversalState.FAILED, Source.POLL, now=now, remark=_NEVER_RECEIVED_AFTER_RESTORE
        )

    # 3. The latest request was refused, and no earlier one has arrived either.
    if before.native_code is not None:
        return found.end(ReversalState.FAILED, Source.POLL, now=now)

    # 4. What has left so often and never arrived needs a person.
    unsent = before.unsent + (answered is Answer.REQUEST)
    if before.submissions - unsent >= REQUESTS_MAX:
        return found.move(ReversalState.UNKNOWN, wake_at=None, remark=_NEVER_RECEIVED_SO_OFTEN)

    at = later(now.time, poll_interval(before.submissions))
    return found.move(ReversalState.APPROVED, wake_at=at, unsent=unsent)


def _succeed(found: _Found, input_: inputs.ReversalSucceeded, *, now: Moment) -> Decision:
    """Record that the money was moved back; another amount than was asked for is also left to a
    person."""
    before = found.reversal
    moved = input_.amount or before.amount
    # An amount in another currency cannot be compared with what is left of the payment.
    if moved.currency != before.amount.currency:
        return record_in_suspense(input_, SuspenseReason.WRONG_CURRENCY, found.payment, now=now)

    known_as = input_.provider_reference or before.provider_reference
    ended = found.end(
        ReversalState.SUCCEEDED,
        input_.source,
        now=now,
        provider_reference=known_as,
        amount=moved,
        remark="",
    )
    if moved == before.amount:
        return ended

    is_less = moved.minor < before.amount.minor
    reason = SuspenseReason.SETTLED_LESS if is_less else SuspenseReason.SETTLED_MORE
    return evolve(
        ended, changes=(*ended.changes, suspense_entry(input_, reason, found.payment, now=now))
    )


def _fail(
    found: _Found, input_: inputs.ReversalFailed, answered: Answer, *, now: Moment
) -> Decision:
    """Record that the money was not moved back. The refusal of a further request may mean that an
    earlier one has arrived after all: it is then asked about."""
    before = found.reversal
    # It may be refused because an earlier one has arrived: failing it would let the money be asked
    # back twice.
    if answered is Answer.REQUEST and before.submissions > before.unsent + 1:
        return found.move(
            _waiting_state(before),
            wake_at=later(now.time, poll_interval(0)),
            native_code=input_.native_code or "refused",
            remark=input_.reason,
        )

    return found.end(
        ReversalState.FAILED,
        input_.source,
        now=now,
        provider_reference=input_.provider_reference or before.provider_reference,
        native_code=input_.native_code,
        remark=input_.reason,
    )


def _report_after_end(found: _Found, input_: inputs.ReversalReport, *, now: Moment) -> Decision:
    """Apply a report to a reversal that has ended. A result that contradicts the one on record goes
    to the suspense book; money that was moved back after all counts from then on, so that it is not
    moved twice."""
    before, answered = found.reversal, what_is_answered(input_.version, found.reversal)
    match input_:
        case inputs.ReversalSucceeded():
            decision = _succeed_after_end(found, input_, now=now)
        case inputs.ReversalFailed():
            decision = _fail_after_end(found, input_, now=now)
        case inputs.ReversalAccepted():
            # It is news that the provider has what failed: the end may be wrong.
            is_news = before.wake_at is None or answered is Answer.NOTIFICATION
            if before.may_be_put_right and is_news and answered is not Answer.QUESTION:
                return _ask_soon(found, now=now)
            return ignore("The reversal has ended.", found.payment)
        case inputs.ReversalNeverReceived():
            decision = ignore("The reversal has ended.", found.payment)
            # It contradicts a success that staff have shown, as a failure would.
            if answered is Answer.QUESTION and before.wake_at is not None:
                decision = _fail_after_end(found, _failure_of(input_), now=now)
        case inputs.ReversalCannotTell():
            decision = ignore("The reversal has ended.", found.payment)
        case inputs.ReversalUnreachable():
            return ignore("The reversal has ended.", found.payment)
        case _:
            assert_never(input_)

    # What a hint has caused to be asked about is asked about until the latest question has an
    # answer: an older one may have been given before what the hint tells of.
    has_moved_on = any(isinstance(change, ReversalChanged) for change in decision.changes)
    if has_moved_on or answered is not Answer.QUESTION or before.wake_at is None:
        return decision

    stopped = found.move(before.state, wake_at=None)
    if not decision.changes:
        return stopped

    return evolve(decision, changes=(*stopped.changes, *decision.changes))


def _succeed_after_end(found: _Found, input_: inputs.ReversalSucceeded, *, now: Moment) -> Decision:
    """Compare a success with the end on record. One under another name is a second one."""
    before = found.reversal
    # Two names that differ are two movements of money.
    names = {input_.provider_reference, before.provider_reference} - {None}
    is_same = len(names) <= 1 and input_.amount in (None, before.amount)
    if before.state.has_moved and is_same:
        return ignore("It agrees with what is on record.", found.payment)

    rejected = record_in_suspense(input_, SuspenseReason.CONFLICTING_RESULT, found.payment, now=now)
    if before.state.has_moved:
        return rejected

    # In another currency it could not be counted: the amount that was asked for is.
    is_same_currency = input_.amount is None or input_.amount.currency == before.amount.currency
    moved = found.end(
        ReversalState.MOVED_AFTER_ALL,
        input_.source,
        now=now,
        ended_by=None,
        amount=(input_.amount if is_same_currency else None) or before.amount,
        provider_reference=input_.provider_reference or before.provider_reference,
    )
    return evolve(rejected, changes=(*moved.changes, *rejected.changes))


def _fail_after_end(found: _Found, input_: inputs.ReversalFailed, *, now: Moment) -> Decision:
    """Compare a failure with the end on record. It was known already of what the provider has
    reported as moved after all."""
    before = found.reversal
    # The provider's failure came first, and its success after it: the failure is nothing new.
    is_by_hand = before.source is Source.MANUAL
    was_known = before.state is ReversalState.MOVED_AFTER_ALL and not is_by_hand
    if not before.state.has_moved or was_known:
        return ignore("It agrees with what is on record.", found.payment)
    return record_in_suspense(input_, SuspenseReason.CONFLICTING_RESULT, found.payment, now=now)


def _failure_of(input_: inputs.ReversalNeverReceived) -> inputs.ReversalFailed:
    """Return as a failure that the provider has never received the reversal."""
    return inputs.ReversalFailed(
        input_.reversal,
        input_.provider,
        Source.POLL,
        "The provider never received it.",
        version=input_.version,
    )


def _hint(found: _Found, input_: inputs.ReversalHinted, *, now: Moment) -> Decision:
    """Ask now. A hint proves nothing, so it keeps nothing from being sent."""
    before = found.reversal
    if before.provider != input_.provider or not before.may_have_arrived:
        return ignore("No such reversal waits for this provider.", found.payment)
    if before.state is ReversalState.APPROVED:
        return ignore("It is about to be sent again.", found.payment)
    if before.state.has_ended and not before.may_be_put_right:
        return ignore("The reversal has ended.", found.payment)
    return _ask_soon(found, now=now)


def _ask_soon(found: _Found, *, now: Moment) -> Decision:
    """Ask about what was sent, unless a question is about to be asked, or the request may be in
    flight. Of what has ended the questions are counted anew."""
    before = found.reversal
    # No question while the request may be under way: "never received" would then let it be sent
    # again (S6).
    soon = later(now.time, POLL_INTERVAL_MIN)
    if not (before.is_accepted or before.state.has_ended):
        soon = max(soon, _arrives_until(before))
    if before.wake_at is not None and before.wake_at <= soon:
        return ignore("It is about to be asked about.", found.payment)
    polls = before.polls
    if before.state.has_ended:
        polls = 0

    return found.move(before.state, wake_at=soon, polls=polls)
