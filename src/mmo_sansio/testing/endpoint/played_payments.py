"""Builds the bodies that are sent to a merchant's endpoint, with the gateway's own serializers."""

from __future__ import annotations

from typing import Any

from attrs import frozen

from mmo_sansio.api.outgoing.delivery_requests import qr_code_request
from mmo_sansio.api.outgoing.transaction_json import transaction_object
from mmo_sansio.testing.builders import a_transaction, ulid_digits
from mmo_sansio.values import clock
from mmo_sansio.values.clock import Instant, Span, earlier, later
from mmo_sansio.values.error_codes import EXPLANATIONS, ErrorCode
from mmo_sansio.values.model import Flow, Party, QrCode, Source, Stage, Transaction
from mmo_sansio.values.money import Money

ONE_PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg=="
"""A PNG picture in Base64."""
QR_TEXT = "00020101021226200016com.example.till5204000053034045406150.005802KE5904Shop6007Nairobi6304ABCD"


@frozen
class PlayedPayments:
    """Makes the payments of one situation, which no other situation has."""

    run: str
    """The first 18 characters of a fresh ULID, which no other run has."""
    number: int
    """The number of the situation in the run."""
    now: Instant
    merchant_reference: str | None = None
    """A merchantReference that the merchant knows; None: each payment has one of its own."""

    def reference(self, which: int = 0) -> str:
        """Return the gatewayReference of one of the payments, of which there are at most 1,000."""
        return self.run + ulid_digits(self.number * 1000 + which)

    def order_reference(self, which: int = 0) -> str:
        """Return the merchantReference of one of the payments."""
        return self.merchant_reference or f"conform-{self.reference(which)}"

    def transaction(self, which: int = 0, stage: Stage = Stage.SUCCEEDED, **members: Any) -> Transaction:
        """Return a payment that has just ended; members are those of its order or progress."""
        created_at = earlier(self.now, Span(20 * clock.SECOND))
        standard: dict[str, Any] = {
            "gateway_reference": self.reference(which),
            "merchant_reference": self.order_reference(which),
            "reconciliation_reference": self.order_reference(which),
            "method": "mpesa_ke",
            "provider": "sandbox",
            "provider_reference": f"CONFORM{self.number}{which}",
            "party": Party("customer-7", "254700000007"),
            "created_at": created_at,
            "expires_at": later(created_at, Span(3 * clock.DAY)),
        }
        if stage.is_terminal:
            standard["completed_at"] = self.now
        return a_transaction(stage, **{**standard, **members})

    def success(self, which: int = 0, **members: Any) -> bytes:
        """Return the callback of a payment that has succeeded."""
        if (requested := members.get("requested")) is not None:
            members.setdefault("final", requested)
        return transaction_object(self.transaction(which, **members))

    def failure(self, which: int = 0, code: ErrorCode = ErrorCode.USER_CANCELLED, **members: Any) -> bytes:
        """Return the callback of a payment that has failed."""
        failed = {"error_code": code, "error_message": EXPLANATIONS[code].meaning, **members}
        return transaction_object(self.transaction(which, Stage.FAILED, **failed))

    def qr_code(self, which: int = 0, *, payload: str | None = QR_TEXT) -> bytes:
        """Return the delivery of a QR code (Q1), which comes before the result."""
        waiting = self.transaction(
            which, Stage.AWAITING_RESULT, flow=Flow.QR, display_qr_url="https://shop.example/qr", qr=QrCode(payload)
        )
        return qr_code_request(waiting, b"", image=ONE_PIXEL).body

    def deposit(self, which: int = 0) -> bytes:
        """Return the callback of an offline deposit, which no merchant has requested (S4)."""
        return transaction_object(
            self.transaction(
                which,
                flow=Flow.PUSH,
                merchant_reference=None,
                reconciliation_reference=None,
                party=Party("INVOICE-7", "254700000007"),
                completion_source=Source.WEBHOOK,
            )
        )


def shillings(value: int) -> Money:
    """Return an amount of Kenyan shillings in cents."""
    return Money(value, "KES")
