"""When to ask a provider about a payment, and when nobody can be asked (clauses S5, S6)."""

from __future__ import annotations

from mmo_sansio.messages.changes import SuspenseReason
from mmo_sansio.messages.inputs import ProviderCannotTell, ProviderHinted
from mmo_sansio.messages.intents import PollProvider
from mmo_sansio.messages.replies import Applied
from mmo_sansio.payments.decision import Decision, advance, ignore, transition_changes
from mmo_sansio.payments.ledger import Ledger
from mmo_sansio.payments.rules.timers import POLL_INTERVAL_MIN
from mmo_sansio.payments.states import is_legal
from mmo_sansio.payments.suspense import record_in_suspense
from mmo_sansio.values.clock import Instant
from mmo_sansio.values.model import Source, Stage, Transaction

HINT_CHARACTERS_MAX = 2_000
"""How much of what a hint told is kept with its payment."""


def apply_hint(ledger: Ledger, input_: ProviderHinted, *, now: Instant) -> Decision:
    """Ask at once, whoever sent it; what names nothing of ours is kept for a person.

    A payment has at most one question in POLL_INTERVAL_MIN because of hints, so a flood of them does no harm. One that has
    ended otherwise than by the provider's own word of success is asked about too: what the provider then says goes to
    the suspense book.
    """
    was = ledger.transaction(input_.gateway_reference)
    if was is None:
        return record_in_suspense(input_, SuspenseReason.UNKNOWN_TRANSACTION, None, now=now)
    if was.order.provider != input_.provider:
        return record_in_suspense(input_, SuspenseReason.WRONG_PROVIDER, was, now=now)
    if was.progress.provider_data is None:
        return record_in_suspense(input_, SuspenseReason.UNKNOWN_TRANSACTION, was, now=now)
    if was.progress.stage.is_terminal:
        return _poll_after_completion(was, input_)
    if not is_legal(was.progress.stage, input_):
        return ignore("The payment waits for no result.", was)
    assert was.progress.wake_at is not None
    soon = now + POLL_INTERVAL_MIN
    if _is_submission_in_flight(was) or was.progress.wake_at <= soon:
        return _store_hint(was, input_)
    after = advance(was, input_, was.progress.stage, wake_at=soon, hint=_merge_hint(was, input_))
    return Decision(Applied(after), transition_changes(was, after), (PollProvider(was.reference),))


def stop_polling(ledger: Ledger, input_: ProviderCannotTell, *, now: Instant) -> Decision:
    """Nobody can be asked: leave it until it expires, for a notification or a person to end, and never guess (S6)."""
    was = ledger.transaction(input_.gateway_reference)
    if was is None or was.order.provider != input_.provider or was.progress.provider_data is None:
        return ignore("No such payment waits for this provider.")
    if not is_legal(was.progress.stage, input_):
        return ignore("The payment waits for no result.", was)
    if was.progress.wake_at == was.order.expires_at:
        return ignore("It waits for a notification or a person.", was)
    after = advance(was, input_, was.progress.stage, wake_at=was.order.expires_at)
    return Decision(Applied(after), transition_changes(was, after))


def _store_hint(before: Transaction, input_: ProviderHinted) -> Decision:
    """Keep what was told; the payment is about to be asked about, or its submission may be under way."""
    told = _merge_hint(before, input_)
    if told == before.progress.hint:
        return ignore("It is about to be asked about.", before)
    after = advance(before, input_, before.progress.stage, hint=told)
    return Decision(Applied(after), transition_changes(before, after))


def _merge_hint(before: Transaction, input_: ProviderHinted) -> str | None:
    """All that was told, a line each; when that is too much, the latest."""
    known, told = before.progress.hint or "", input_.content[:HINT_CHARACTERS_MAX]
    if told in ("", *known.split("\n")):
        return before.progress.hint
    together = f"{known}\n{told}" if known else told
    return together if len(together) <= HINT_CHARACTERS_MAX else told


def _poll_after_completion(before: Transaction, input_: ProviderHinted) -> Decision:
    progress = before.progress
    if progress.stage is Stage.SUCCEEDED and progress.completion_source is not Source.MANUAL:
        return ignore("The provider has told its success.", before)
    return Decision(
        Applied(before), intents=(PollProvider(before.reference, _merge_hint(before, input_)),)
    )


def _is_submission_in_flight(before: Transaction) -> bool:
    """Whether nobody has asked since the submission began: an answer now could miss it."""
    return before.progress.stage is Stage.SUBMITTING and before.progress.polls == 0
