"""Things to do after a decision is durable; each names its transaction and is done by one worker."""

from __future__ import annotations

from enum import StrEnum
from typing import TypeAlias

from attrs import frozen


class IntentKind(StrEnum):
    """The kinds of intent that are kept until they are concluded."""

    SUBMIT = "submit"
    CALLBACK = "callback"
    QR = "qr"


@frozen
class SubmitToProvider:
    """Send the payment to its provider: kept until the submission is begun."""

    gateway_reference: str
    kind = IntentKind.SUBMIT


@frozen
class DeliverCallback:
    """Make the one attempt to call the merchant back: kept until its outcome is recorded (K3)."""

    gateway_reference: str
    fence: int = 0
    """The number under which the owner of the merchant's channel has claimed it; 0 while nobody has, and where one
    process has the store to itself."""
    kind = IntentKind.CALLBACK


@frozen
class DeliverQr:
    """Make the one attempt to bring the payment's QR code to the merchant: kept until its outcome is recorded (Q1)."""

    gateway_reference: str
    kind = IntentKind.QR


@frozen
class PollProvider:
    """Ask the provider what became of the payment. Not kept: `wake_at` asks again if it is lost."""

    gateway_reference: str
    hint: str | None = None
    """What was told of a payment that has ended, as it isn't kept with that; see `Progress.hint`."""


DurableIntent: TypeAlias = SubmitToProvider | DeliverCallback | DeliverQr
"""An intent that is made durable in the commit that gives rise to it."""

Intent: TypeAlias = DurableIntent | PollProvider
"""Everything that a decision can ask for."""

IntentKey: TypeAlias = tuple[str, IntentKind]
"""(gatewayReference, kind): what identifies a kept intent; a transaction has at most one open of each kind."""


def durable_intent(kind: IntentKind, gateway_reference: str, fence: int = 0) -> DurableIntent:
    """The intent that a store has kept under this kind and reference, a callback as it was claimed last."""
    match kind:
        case IntentKind.SUBMIT:
            return SubmitToProvider(gateway_reference)
        case IntentKind.CALLBACK:
            return DeliverCallback(gateway_reference, fence)
        case IntentKind.QR:
            return DeliverQr(gateway_reference)
