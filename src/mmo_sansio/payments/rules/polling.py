"""Decides about notifications that prove nothing: when one leads to a poll, and which one waits for
staff; and what happens when a provider cannot be polled (clauses S5, S6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, assert_never

from attrs import evolve

from mmo_sansio.messages.changes import Change, SuspenseReason
from mmo_sansio.messages.inputs import (
    ProviderCannotTell,
    ProviderHinted,
    ProviderSucceeded,
    UnmatchedNotified,
)
from mmo_sansio.messages.intents import HINT_CHARACTERS_MAX, PollEnded, PollProvider
from mmo_sansio.messages.replies import Applied
from mmo_sansio.payments.answers import Answer, what_is_answered
from mmo_sansio.payments.decision import Decision, advance, ignore, transition_changes
from mmo_sansio.payments.evidence import merge_evidence, next_question_at
from mmo_sansio.payments.ledger import Ledger, Reads
from mmo_sansio.payments.rules.timers import POLL_INTERVAL_MIN
from mmo_sansio.payments.settlement import (
    add_receipt,
    claim_receipt,
    is_missing_receipt,
    receipt_changes,
    receipt_key,
    receipt_owner,
    receipt_reads,
    succeed,
)
from mmo_sansio.payments.states import is_legal
from mmo_sansio.payments.suspense import record_in_suspense, suspense_entry
from mmo_sansio.values.clock import Moment, later
from mmo_sansio.values.model import Evidence, Source, Stage, Transaction

# The inputs that this module decides.
PollingInput: TypeAlias = ProviderHinted | ProviderCannotTell | UnmatchedNotified


def reads(input_: PollingInput) -> Reads:
    """Return the keys that `decide` will look at."""
    match input_:
        case ProviderHinted():
            return receipt_reads(input_)
        case ProviderCannotTell():
            return Reads(transactions=frozenset((input_.gateway_reference,)))
        case UnmatchedNotified():
            return Reads()
        case _:
            assert_never(input_)


def decide(ledger: Ledger, input_: PollingInput, *, now: Moment) -> Decision:
    """Decide what follows from a notification without proof, or a poll without an answer."""
    match input_:
        case ProviderHinted():
            return apply_hint(ledger, input_, now=now)
        case ProviderCannotTell():
            return stop_polling(ledger, input_, now=now)
        case UnmatchedNotified():
            return record_in_suspense(input_, SuspenseReason.UNREADABLE, None, now=now)
        case _:
            assert_never(input_)


def actor(input_: PollingInput) -> str:
    """Return who acts, for the journal."""
    return f"provider:{input_.provider}"


def detail(input_: PollingInput) -> dict[str, object]:
    """Return what the journal holds of the input."""
    if not isinstance(input_, ProviderHinted):
        return {}

    evidence = input_.evidence
    reported = {
        "nativeCode": input_.native_code,
        "providerReference": None if evidence is None else evidence.receipt,
        "saysPaid": input_.says_paid or None,
    }
    return {name: value for name, value in reported.items() if value is not None}


def apply_hint(ledger: Ledger, input_: ProviderHinted, *, now: Moment) -> Decision:
    """Poll at once; a hint about no payment of ours goes to the suspense book.

    Hints cause at most one poll of a payment in POLL_INTERVAL_MIN, so a flood of them does no harm;
    in the last of these intervals before the expiry each causes one, as the payment is not polled
    by itself any more. A payment that has ended without the provider's own report of success is
    polled as well: what the provider then reports goes to the suspense book. A receipt that may end
    a payment by itself is claimed for it now, and ends none where another has it."""
    # 1. What names no payment that this provider was ever sent is for staff (S5).
    before = ledger.transaction(input_.gateway_reference)
    if before is None:
        return record_in_suspense(input_, SuspenseReason.UNKNOWN_TRANSACTION, None, now=now)
    if before.order.provider != input_.provider:
        return record_in_suspense(input_, SuspenseReason.WRONG_PROVIDER, before, now=now)
    if before.progress.provider_data is None:
        return record_in_suspense(input_, SuspenseReason.UNKNOWN_TRANSACTION, before, now=now)

    # 2. An end stays; the question may show that it is wrong.
    if before.progress.stage.is_terminal:
        return _poll_after_completion(ledger, before, input_, now=now)

    # 3. What was never sent can have no result, unless the provider names a receipt of it.
    stage = before.progress.stage
    is_unsent = stage.is_unsent  # With a receipt it is not sent again, whatever was said before.
    if not is_legal(stage, input_) or (is_unsent and input_.evidence is None):
        return ignore("The payment waits for no result.", before)

    wake_at = before.progress.wake_at
    expires_at = before.order.expires_at
    soon = later(now.time, POLL_INTERVAL_MIN)
    assert wake_at is not None

    # 4. The notification that brings the receipt of a payment that is called paid ends it.
    if before.progress.receipt_awaited_since is not None and input_.evidence is not None:
        return succeed(ledger, _success_with_receipt(input_, input_.evidence), now=now)

    # 5. A receipt that could end the payment alone is claimed now, so that no deposit is booked of
    # the same money.
    may_end = input_.evidence is not None and input_.evidence.settles
    key = None
    if may_end:
        key = receipt_key(input_)

    is_anothers = key is not None and receipt_owner(ledger, key, before.reference) is not None
    claims: tuple[Change, ...] = ()
    if not is_anothers:
        claims = claim_receipt(ledger, key, before, is_confirmed=False, now=now)

    known = _merge_hint(before, input_, is_anothers=is_anothers, now=now)

    # 6. While the submission may be under way a question could miss the payment, and a poll that is
    # due soon needs no second one: the hint is only kept.
    if not is_unsent and (
        before.progress.is_unpolled or (wake_at <= soon and wake_at < expires_at)
    ):
        return _store_hint(before, input_, known, claims)

    if is_unsent:
        known["payer_action"] = None  # What it has needs no code.

    # 7. What the provider has must not be submitted again, whatever it said before (S6).
    to = Stage.AWAITING_RESULT if is_unsent else stage
    after = advance(before, input_, to, wake_at=min(soon, expires_at), **known)
    changes = (*transition_changes(before, after), *claims)
    return Decision(Applied(after), changes, (PollProvider(before.reference),))


def _success_with_receipt(input_: ProviderHinted, known: Evidence) -> ProviderSucceeded:
    """Return the success of a payment that its provider has called paid, when asked, with the
    receipt that its notification brings."""
    return ProviderSucceeded(
        input_.gateway_reference,
        input_.provider,
        Source.POLL,
        known.receipt,
        known.amount,
        settles_receipt=True,
    )


def stop_polling(ledger: Ledger, input_: ProviderCannotTell, *, now: Moment) -> Decision:
    """Leave a payment that cannot be polled until it expires, or until a notification or staff end
    it: never guess (S6). What has been learned since the poll began may tell by what to poll, so
    the next poll decides then."""
    before = ledger.transaction(input_.gateway_reference)
    if (
        before is None
        or before.order.provider != input_.provider
        or before.progress.provider_data is None
    ):
        return ignore("No such payment waits for this provider.")

    if not is_legal(before.progress.stage, input_):
        return ignore("The payment waits for no result.", before)
    if before.progress.receipt_awaited_since is not None:
        return ignore("It is paid, and waits for its receipt.", before)
    # The same answer again changes nothing, so it needs no new version.
    if before.progress.wake_at == before.order.expires_at:
        return ignore("It waits for a notification or a person.", before)
    # A later acceptance or hint may have told by what id to ask.
    if input_.version != before.progress.version:
        return ignore("More is known of the payment since that poll began.", before)

    # It sleeps until it expires, or until a reported receipt is to be asked about.
    wake_at = next_question_at(
        before.order, before.progress.evidence, before.order.expires_at, now=now
    )
    after = advance(before, input_, before.progress.stage, wake_at=wake_at)
    return Decision(Applied(after), transition_changes(before, after))


def _store_hint(
    before: Transaction, input_: ProviderHinted, known: Mapping[str, Any], claims: Sequence[Change]
) -> Decision:
    """Store the hint; the payment is about to be polled, or its submission may be in flight."""
    if all(getattr(before.progress, name) == value for name, value in known.items()):
        return ignore("It is about to be polled.", before)
    after = advance(before, input_, before.progress.stage, **known)
    return Decision(Applied(after), (*transition_changes(before, after), *claims))


def _merge_hint(
    before: Transaction, input_: ProviderHinted, *, is_anothers: bool = False, now: Moment
) -> dict[str, Any]:
    """Return what is known with this hint, as members of the payment's progress. `is_anothers`:
    something else has its receipt."""
    hint, evidence = before.progress.hint, before.progress.evidence
    # The text is stored with the payment, so its length has a bound.
    content = input_.content[:HINT_CHARACTERS_MAX]
    if what_is_answered(input_.version, before.progress) is Answer.OLDER:
        content = ""  # What was refused then may be paid by the latest submission.

    if is_new := content not in ("", *(hint or "").split("\n")):
        hint = _merge_texts(hint, content)

    # A second, different notification leaves it open which one is right: neither ends it alone.
    is_contradicted = is_anothers or (is_new and before.progress.hint is not None)
    return {
        "hint": hint,
        "is_said_paid": before.progress.is_said_paid or input_.says_paid,
        "evidence": merge_evidence(
            evidence, input_.evidence, is_contradicted=is_contradicted, now=now
        ),
    }


def _merge_texts(known: str | None, hint: str) -> str:
    """Return all hints, one line each; when they are too long, the latest of them."""
    if known:
        together = f"{known}\n{hint}"
    else:
        together = hint
    if len(together) <= HINT_CHARACTERS_MAX:
        return together
    return hint


def _poll_after_completion(
    ledger: Ledger, before: Transaction, input_: ProviderHinted, *, now: Moment
) -> Decision:
    """Poll a payment that has ended. A receipt is added to a success that lacks it; that of one
    which has failed, or was ended by hand with another, is kept, whatever the provider answers
    (S5)."""
    progress, known = before.progress, input_.evidence
    is_by_hand = progress.completion_source is Source.MANUAL
    hint = _merge_hint(before, input_, now=now)["hint"]
    poll = PollEnded(before.reference, now.time, hint)

    # 1. A success that lacks its receipt takes it.
    if known is not None and is_missing_receipt(before, receipt_key(input_), known.amount):
        added = add_receipt(ledger, before, input_, now=now)
        if is_by_hand:
            return evolve(added, intents=(poll,))
        return added

    # 2. The provider itself has reported the success: there is nothing to ask.
    if progress.stage is Stage.SUCCEEDED and not is_by_hand:
        # Where the provider names no id of its own, an adapter may give ours.
        own = {progress.provider_reference} - {None, before.reference}
        if known is not None and own and known.receipt not in own:
            return record_in_suspense(input_, SuspenseReason.CONFLICTING_RESULT, before, now=now)
        return ignore("The provider has reported its success.", before)

    # 3. It failed and is called paid without proof: asked about, and on record for staff.
    if known is None and input_.says_paid and progress.stage is Stage.FAILED:
        entry = suspense_entry(input_, SuspenseReason.UNPROVED_SUCCESS, before, now=now)
        return Decision(Applied(before), (entry,), (poll,))

    # 4. No receipt, or the one that staff have named: asking is enough.
    agrees = known is not None and known.receipt == progress.provider_reference
    if known is None or (progress.stage is Stage.SUCCEEDED and agrees):
        return Decision(Applied(before), intents=(poll,))

    # 5. A receipt of money that this end does not know: kept for staff whatever the answer (S5).
    is_late = progress.completion_source is Source.EXPIRY
    reason = SuspenseReason.LATE_RESULT if is_late else SuspenseReason.CONFLICTING_RESULT
    changes: tuple[Change, ...] = (suspense_entry(input_, reason, before, now=now),)
    if known.settles:
        changes += receipt_changes(ledger, input_, before, now=now)

    return Decision(Applied(before), changes, (poll,))
