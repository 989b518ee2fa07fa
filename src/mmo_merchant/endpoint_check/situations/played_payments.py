"""Builds the bodies that are sent to a merchant's endpoint, with the gateway's own serializers."""

from __future__ import annotations

from typing import Any

from attrs import frozen

from mmo_sansio.api.outgoing import qr_code_request, transaction_object
from mmo_sansio.testing.builders import a_transaction, ulid_digits
from mmo_sansio.values import clock
from mmo_sansio.values.clock import Instant, Span, earlier, later
from mmo_sansio.values.error_codes import EXPLANATIONS, ErrorCode
from mmo_sansio.values.model import Flow, Party, ProviderData, QrCode, Source, Stage, Transaction

# An EMVCo code of 150.00 KES.
QR_TEXT = (
    "00020101021226300016com.example.till01061743795204599953034045406150.005802KE5"
    "909Your Shop6007Nairobi622905251JDC0NF0RM0000000000000006304F7F1"
)

# The same code as a PNG picture in Base64.
QR_PICTURE = (
    "iVBORw0KGgoAAAANSUhEUgAAAGoAAABqAQAAAAB8Wvk6AAABe0lEQVR42sVUsYpgMQiUSxvIrwRsBX9dsA3kVwK2guvu"
    "NXfs1LvCKx6DzugYqf4No5/7pVG1To67Se0P/R+lQcRrVEYBdHPGvGozBkQ5+/NkjBpdmvEgqrEkVO6FvDT4b0DNHS1K"
    "59Ju8HvulgqaL88B6E6ZN9OuJuIlKVuUTA5yS13ijj16pN/RYac4ZpWj3CVM9+TO+QCvOPlb47Ipqqwcce+QYoB+WvyY"
    "zN4FaGjoynolgjwyya1UDvuNY8VXbAnqV3pWTOpOWPPsGQurbsBrLOo8ljHqyNvbVr2Wbsi7xEjy0UKV7z4vxLMOQI/r"
    "8RY2aoHKuej0Wr4Np5HEylO9lSF/D9F54rqRv0Viwyw8UWVfHr1ctOkB9PqhWPRioX3uIcgJaaMM8W5hny6Y1/SKt0mT"
    "HO0kX93tsdOEb3DSUR0C/aWhaUwP+6vxeVSmMvS3L4r2C7OiCdF94ojPyxDVHOEydsGbM+tR2tBAk/x6Xw1RFrw5v3C9"
    "PwAmjSqYW8vrNAAAAABJRU5ErkJggg=="
)


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

    def transaction(
        self, which: int = 0, stage: Stage = Stage.SUCCEEDED, **members: Any
    ) -> Transaction:
        """Return a payment that has just ended; members are those of its order or progress."""
        created_at = earlier(self.now, Span(20 * clock.SECOND))
        # A payment by M-PESA in Kenya; a situation changes what it is about.
        standard: dict[str, Any] = {
            "gateway_reference": self.reference(which),
            "merchant_reference": self.order_reference(which),
            "reconciliation_reference": self.order_reference(which),
            "method": "mpesa_ke",
            "provider": "sandbox",
            "provider_reference": f"CONFORM{self.reference(which)[10:]}",
            "provider_data": ProviderData("sandbox", "Sandbox"),
            "party": Party("customer-7", "254700000007"),
            "created_at": created_at,
            "expires_at": later(created_at, Span(3 * clock.DAY)),
        }
        if stage.is_terminal:
            standard["completed_at"] = self.now

        return a_transaction(stage, **{**standard, **members})

    def success(self, which: int = 0, **members: Any) -> bytes:
        """Return the callback of a payment that has succeeded."""
        # What was requested is paid in full, unless a situation says otherwise.
        if (requested := members.get("requested")) is not None:
            members.setdefault("final", requested)
        return transaction_object(self.transaction(which, **members))

    def failure(
        self, which: int = 0, code: ErrorCode = ErrorCode.USER_CANCELLED, **members: Any
    ) -> bytes:
        """Return the callback of a payment that has failed."""
        failed = {"error_code": code, "error_message": EXPLANATIONS[code].meaning, **members}
        return transaction_object(self.transaction(which, Stage.FAILED, **failed))

    def qr_code(self, which: int = 0, *, payload: str | None = QR_TEXT) -> bytes:
        """Return the delivery of a QR code (Q1), which comes before the result."""
        waiting = self.transaction(
            which,
            Stage.AWAITING_RESULT,
            flow=Flow.QR,
            display_qr_url="https://shop.example/qr",
            qr=QrCode(payload),
        )
        return qr_code_request(waiting, b"", image=QR_PICTURE).body

    def deposit(self, which: int = 0) -> bytes:
        """Return the callback of an offline deposit, which no merchant has requested (S4)."""
        # An operator's report creates it, so it is created and completed at once, and nobody asked
        # for it.
        return transaction_object(
            self.transaction(
                which,
                flow=Flow.PUSH,
                created_at=self.now,
                merchant_reference=None,
                reconciliation_reference=None,
                party=Party("INVOICE-7", "254700000007"),
                completion_source=Source.WEBHOOK,
            )
        )
