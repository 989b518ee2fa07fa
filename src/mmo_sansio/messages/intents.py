"""Defines the actions to take after a decision is durable; each names its transaction and is taken
by one worker."""

from __future__ import annotations

from enum import StrEnum
from typing import Final, TypeAlias

from attrs import evolve, frozen

from mmo_sansio.values.clock import Instant

# The longest text of hints that is kept of one payment.
HINT_CHARACTERS_MAX: Final = 2_000


class IntentKind(StrEnum):
    """The kinds of intent that are stored until they are concluded."""

    SUBMIT = "submit"
    CALLBACK = "callback"
    QR = "qr"
    POLL = "poll"


@frozen
class SubmitToProvider:
    """Send the payment to its provider; stored until the submission begins."""

    gateway_reference: str
    kind = IntentKind.SUBMIT


@frozen
class DeliverCallback:
    """Make the one attempt to deliver the callback; stored until its outcome is recorded (K3)."""

    gateway_reference: str
    fence: int = 0
    """The fence under which the owner of the merchant's channel sends it; 0 until the owner has
    taken it, and where one process uses the store alone."""
    kind = IntentKind.CALLBACK


@frozen
class DeliverQr:
    """Make the one attempt to deliver the payment's QR code to the merchant; stored until its
    outcome is recorded (Q1)."""

    gateway_reference: str
    kind = IntentKind.QR


@frozen
class PollEnded:
    """Poll the provider about a payment that has ended, which no `wake_at` polls again; stored
    until the provider has answered, or was asked for long enough (S3, S5)."""

    gateway_reference: str
    since: Instant
    """Own time of the oldest question about this payment that has had no answer yet."""
    hint: str | None = None
    """The text of the hints that caused it; see `Progress.hint`."""
    provider_reference: str | None = None
    """The provider's id of the payment, where it is not stored with it."""
    kind = IntentKind.POLL


@frozen
class PollProvider:
    """Poll the provider about a pending payment. It is not stored: `wake_at` polls again if it is
    lost."""

    gateway_reference: str


DurableIntent: TypeAlias = SubmitToProvider | DeliverCallback | DeliverQr | PollEnded
"""An intent that becomes durable in the commit of its decision."""

Intent: TypeAlias = DurableIntent | PollProvider
"""Everything that a decision can request."""

IntentKey: TypeAlias = tuple[str, IntentKind]
"""(gatewayReference, kind) identifies a durable intent; a transaction has at most one open of each
kind."""


def durable_intent(
    kind: IntentKind,
    gateway_reference: str,
    fence: int = 0,
    since: Instant | None = None,
    hint: str | None = None,
    provider_reference: str | None = None,
) -> DurableIntent:
    """Return the intent that a store holds under this kind and reference, with the fence of its
    latest claim, and what it knows of a question: a POLL has at least `since`."""
    match kind:
        case IntentKind.SUBMIT:
            return SubmitToProvider(gateway_reference)
        case IntentKind.CALLBACK:
            return DeliverCallback(gateway_reference, fence)
        case IntentKind.QR:
            return DeliverQr(gateway_reference)
        case IntentKind.POLL:
            assert since is not None, "a question without its time"
            return PollEnded(gateway_reference, since, hint, provider_reference)


def merge_intents(known: DurableIntent | None, later: DurableIntent) -> DurableIntent:
    """Return the intent that is open after `later` was scheduled: a question goes on from the one
    that was open about its payment."""
    # All others are scheduled once, so nothing of an earlier one is to be kept.
    if isinstance(known, PollEnded) and isinstance(later, PollEnded):
        return merge_polls(known, later)
    return later


def merge_polls(known: PollEnded, later: PollEnded) -> PollEnded:
    """Return the later question about a payment, with what the earlier one knew."""
    return evolve(
        later,
        # The oldest question counts: staff are told when nobody has answered it for days.
        since=min(known.since, later.since),
        hint=merge_hints(known.hint, later.hint),
        provider_reference=later.provider_reference or known.provider_reference,
    )


def merge_hints(known: str | None, later: str | None) -> str | None:
    """Return both texts, one a line; when they are too long, the later one."""
    if known is None or later is None:
        return known or later
    # The same notification, told again, is one hint.
    if later in known:
        return known
    if known in later:
        return later

    # What does not fit is left out whole: half a notification could be read as another one.
    together = f"{known}\n{later}"
    if len(together) <= HINT_CHARACTERS_MAX:
        return together

    return later
