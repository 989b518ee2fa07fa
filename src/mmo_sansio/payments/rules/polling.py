"""When to ask a provider about a payment, and when nobody can be asked (clauses S5, S6)."""

from __future__ import annotations

from mmo_sansio.messages.changes import SuspenseReason
from mmo_sansio.messages.inputs import ProviderCannotTell, ProviderHinted
from mmo_sansio.messages.intents import AskProvider
from mmo_sansio.messages.replies import Noted
from mmo_sansio.payments.decision import Decision, advanced, ignored, moved
from mmo_sansio.payments.ledger import Ledger
from mmo_sansio.payments.rules.timers import FIRST_ASK
from mmo_sansio.payments.states import is_legal
from mmo_sansio.payments.suspense import suspended
from mmo_sansio.values.clock import Instant
from mmo_sansio.values.model import Source, Stage, Transaction

HINT_CHARACTERS_MAX = 2_000
"""How much of what a hint told is kept with its payment."""


def take_hint(ledger: Ledger, given: ProviderHinted, *, now: Instant) -> Decision:
    """Ask at once, whoever sent it; what names nothing of ours is kept for a person.

    A payment has at most one question in FIRST_ASK because of hints, so a flood of them does no harm. One that has
    ended otherwise than by the provider's own word of success is asked about too: what the provider then says goes to
    the suspense book.
    """
    was = ledger.transaction(given.gateway_reference)
    if was is None:
        return suspended(given, SuspenseReason.UNKNOWN_TRANSACTION, None, now=now)
    if was.order.provider != given.provider:
        return suspended(given, SuspenseReason.WRONG_PROVIDER, was, now=now)
    if was.progress.provider_data is None:
        return suspended(given, SuspenseReason.UNKNOWN_TRANSACTION, was, now=now)
    if was.progress.stage.is_terminal:
        return _hinted_late(was, given)
    if not is_legal(was.progress.stage, given):
        return ignored("The payment waits for no result.", was)
    assert was.progress.wake_at is not None
    soon = now + FIRST_ASK
    if _may_be_under_way(was) or was.progress.wake_at <= soon:
        return _remembered(was, given)
    after = advanced(was, given, was.progress.stage, wake_at=soon, hint=_told(was, given))
    return Decision(Noted(after), moved(was, after), (AskProvider(was.reference),))


def stop_asking(ledger: Ledger, given: ProviderCannotTell, *, now: Instant) -> Decision:
    """Nobody can be asked: leave it until it expires, for a notification or a person to end, and never guess (S6)."""
    was = ledger.transaction(given.gateway_reference)
    if was is None or was.order.provider != given.provider or was.progress.provider_data is None:
        return ignored("No such payment waits for this provider.")
    if not is_legal(was.progress.stage, given):
        return ignored("The payment waits for no result.", was)
    if was.progress.wake_at == was.order.expires_at:
        return ignored("It waits for a notification or a person.", was)
    after = advanced(was, given, was.progress.stage, wake_at=was.order.expires_at)
    return Decision(Noted(after), moved(was, after))


def _remembered(was: Transaction, given: ProviderHinted) -> Decision:
    """Keep what was told; the payment is about to be asked about, or its submission may be under way."""
    told = _told(was, given)
    if told == was.progress.hint:
        return ignored("It is about to be asked about.", was)
    after = advanced(was, given, was.progress.stage, hint=told)
    return Decision(Noted(after), moved(was, after))


def _told(was: Transaction, given: ProviderHinted) -> str | None:
    """All that was told, a line each; when that is too much, the latest."""
    known, told = was.progress.hint or "", given.told[:HINT_CHARACTERS_MAX]
    if told in ("", *known.split("\n")):
        return was.progress.hint
    together = f"{known}\n{told}" if known else told
    return together if len(together) <= HINT_CHARACTERS_MAX else told


def _hinted_late(was: Transaction, given: ProviderHinted) -> Decision:
    progress = was.progress
    if progress.stage is Stage.SUCCEEDED and progress.completion_source is not Source.MANUAL:
        return ignored("The provider has told its success.", was)
    return Decision(Noted(was), intents=(AskProvider(was.reference, _told(was, given)),))


def _may_be_under_way(was: Transaction) -> bool:
    """Whether nobody has asked since the submission began: an answer now could miss it."""
    return was.progress.stage is Stage.SUBMITTING and was.progress.polls == 0
