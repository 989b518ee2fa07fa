"""Defines the actions to take after a decision is durable; each names its transaction and is taken
by one worker."""

from __future__ import annotations

from enum import StrEnum
from typing import TypeAlias

from attrs import frozen


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
    until the provider was asked (S3, S5)."""

    gateway_reference: str
    hint: str | None = None
    """The text of the hint that caused it, which is not stored; see `Progress.hint`."""
    provider_reference: str | None = None
    """The provider's id of the payment, where it is not stored with it; it is not stored with this
    either."""
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


def durable_intent(kind: IntentKind, gateway_reference: str, fence: int = 0) -> DurableIntent:
    """Return the intent that a store holds under this kind and reference, with the fence of its
    latest claim."""
    match kind:
        case IntentKind.SUBMIT:
            return SubmitToProvider(gateway_reference)
        case IntentKind.CALLBACK:
            return DeliverCallback(gateway_reference, fence)
        case IntentKind.QR:
            return DeliverQr(gateway_reference)
        case IntentKind.POLL:
            return PollEnded(gateway_reference)
