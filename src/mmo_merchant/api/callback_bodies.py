"""Verifies and reads what the gateway sends to a merchant: results and QR codes (K1, Q1, A4)."""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final, Protocol, TypeAlias

from attrs import field, frozen

from mmo_merchant.api.tolerant_json import (
    JsonObject,
    UnreadableBody,
    read_base64,
    read_gateway_reference,
    read_money,
    read_object,
    read_optional_text,
    read_time,
)
from mmo_merchant.api.transaction_objects import TransactionObject, transaction_from
from mmo_sansio.values.money import Money

# The size limit of a body. Transaction objects are smaller; an operator's `partyData` is the most
# of a big one.
CALLBACK_BYTES_MAX: Final = 1024 * 1024


class HasItems(Protocol):
    """Is what the header collections of all frameworks have."""

    def items(self) -> Iterable[tuple[str, str]]:
        """Return the name and value of each header."""


class CallbackRejected(Exception):
    """Is the base of the reasons for which a callback is not taken; answer it with `status`."""

    status: int = 400


class WrongKey(CallbackRejected):
    """Raised when `X-API-KEY` is missing, repeated or none of the keys: the gateway has not sent
    this."""

    status = 401


class UnreadableCallback(CallbackRejected):
    """Raised for a body that is neither a result nor a QR code."""


@frozen(kw_only=True)
class QrDelivery:
    """Is the code of a QR pay-in, to be shown to the payer (Q1). It says nothing about the
    payment's result."""

    gateway_reference: str
    merchant_reference: str | None
    reconciliation_reference: str | None
    amount: Money
    payload: str | None
    """The EMVCo text; None where the operator gives only a picture."""
    image: bytes = field(repr=False)
    """The picture as PNG."""
    expires_at: datetime


Callback: TypeAlias = TransactionObject | QrDelivery


def verify_key(headers: HasItems, keys: Sequence[str]) -> None:
    """Check `X-API-KEY` against every key that is valid, in constant time; during a change of keys
    there are two (A4).

    Raises WrongKey, and ValueError when there is no key to compare with."""
    # An empty key among ours would let everybody in who sends an empty X-API-KEY.
    if not keys or not all(keys):
        raise ValueError("Name at least one API key, and no empty one.")

    # Two of them may be read differently by something on the way: none of them counts (A1).
    received = [value for name, value in headers.items() if name.lower() == "x-api-key"]
    if len(received) == 1:
        text = received[0]
    else:
        text = ""

    # All keys are compared, so that the time does not tell which one was right.
    matches = [hmac.compare_digest(text.encode(errors="replace"), key.encode()) for key in keys]
    if not any(matches):
        raise WrongKey("X-API-KEY is none of our keys.")


def read_callback(headers: HasItems, body: bytes, keys: Sequence[str]) -> Callback:
    """Return the result or the QR code of a request to one of the merchant's URLs, after its key
    was verified.

    Members and codes that are unknown are no error, as the gateway may add some. Raises WrongKey or
    UnreadableCallback."""
    # First the key: nothing of a body is read that anybody may have sent.
    verify_key(headers, keys)
    if len(body) > CALLBACK_BYTES_MAX:
        raise UnreadableCallback(f"The body has more than {CALLBACK_BYTES_MAX} bytes.")

    try:
        members = read_object(body)
        # Codes may come to the URL of results; they have no status (Q1).
        if "status" not in members and "qrImage" in members:
            return _read_qr_delivery(members)

        transaction = transaction_from(members)
    except UnreadableBody as error:
        raise UnreadableCallback(str(error)) from None

    # The gateway sends none (K1), so it would be booked as an end that nobody has reported.
    if not transaction.has_ended:
        raise UnreadableCallback("A pending payment has no result.")

    return transaction


def _read_qr_delivery(members: JsonObject) -> QrDelivery:
    return QrDelivery(
        gateway_reference=read_gateway_reference(members),
        merchant_reference=read_optional_text(members, "merchantReference"),
        reconciliation_reference=read_optional_text(members, "reconciliationReference"),
        amount=read_money(members, "amount"),
        payload=read_optional_text(members, "qrPayload"),
        image=read_base64(members, "qrImage"),
        expires_at=read_time(members, "expiresAt"),
    )
