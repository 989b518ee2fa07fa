"""Makes the addresses of callbacks: their last segment describes the callback, and is signed.

Daraja signs nothing itself. But only Daraja gets the address, so a sender of a callback knows at
least that address. It names the payment, its amount and the poll, so that a callback can be read
without a look-up. It is hexadecimal, because Daraja rejects addresses with certain words."""

from __future__ import annotations

import hmac
from enum import StrEnum, unique
from hashlib import sha256
from typing import Final

from attrs import frozen

from mmo_sansio.values.clock import Instant

# 128 bits, half of the digest: nobody guesses an address, and it stays short enough.
_MAC_BYTES: Final = 16


@unique
class MpesaCallbackKind(StrEnum):
    PUSH = "p"
    """The result of a push."""
    RESULT = "r"
    """The result of a pay-out."""
    TAX_RESULT = "x"
    """The result of a tax payout."""
    QUEUE_TIMEOUT = "q"
    """A request has waited for too long in Daraja's queue."""
    POLL_RESULT = "a"
    """The answer to a poll of a pay-out or a tax payout."""
    DEPOSIT_RESULT = "d"
    """The answer to a question about a deposit; its reference is the receipt."""
    REVERSAL_RESULT = "b"
    """The result of a reversal; its reference is the reversal's id, and its receipt that of the
    payment."""
    REVERSAL_QUEUE_TIMEOUT = "t"
    """A reversal has waited for too long in Daraja's queue."""
    REVERSAL_STATE = "s"
    """The answer to a question about a reversal."""
    CHECK_RESULT = "k"
    """The answer to the question of an account's check."""
    BALANCE_RESULT = "f"
    """The answer to the question for a balance."""
    CONFIRMATION = "c"
    """A deposit that was made."""
    VALIDATION = "v"
    """The request to permit a deposit."""


@frozen
class CallbackContext:
    """Describes the subject of a callback."""

    kind: MpesaCallbackKind
    reference: str = ""
    """The gatewayReference, or the id of a reversal; for a question about a deposit its receipt;
    empty for confirmations and validations."""
    minor: int = 0
    """The requested amount in cents."""
    version: int = 0
    """The version of the payment or the reversal when what is answered was recorded; 0: it is about
    neither."""
    asked_at: Instant = Instant(0)
    """When the question was asked: its answer counts once."""
    not_found_is_final: bool = False
    """Whether the answer "not found" proves that the submission was never received."""
    reported_code: str = ""
    """The result code of an earlier callback."""
    refusal_is_final: bool = False
    """Whether that code ends the payment when the question about it is refused as well, or finds
    nothing."""
    receipt: str = ""
    """The receipt that the question is about; empty: it is about a conversation."""
    conversation: str = ""
    """The OriginatorConversationID of the payment, by which an answer about a receipt is known to
    be about it."""
    party: str = ""
    """The same by the payment's other party, whose number does not stand in an address: see
    `party_digest`."""
    credential: str = ""
    """The API operator that has asked or paid: `ApiOperator.credential`."""

    @property
    def answered_version(self) -> int | None:
        """Return what a report at this address answers; None: no version is known."""
        return self.version or None

    def to_segment(self, key: bytes) -> str:
        """Return the context as the last segment of a URL, signed with this key."""
        parts = (
            self.kind,
            self.reference,
            self.minor,
            self.version,
            self.asked_at,
            int(self.not_found_is_final),
            self.reported_code,
            int(self.refusal_is_final),
            self.receipt,
            self.conversation,
            self.party,
            self.credential,
        )
        plain = "|".join(map(str, parts)).encode()
        return (plain + _mac(key, plain)).hex()


def parse_callback_url(target: bytes, key: bytes) -> CallbackContext | None:
    """Return the context at the end of a request's target; None when this key did not sign it."""
    # A proxy may have added a query.
    path = target.partition(b"?")[0]
    try:
        octets = bytes.fromhex(path.rpartition(b"/")[2].decode("ascii"))
    except ValueError:
        return None

    # Compared in constant time, before a single member of it is read.
    plain = octets[:-_MAC_BYTES]
    mac = octets[-_MAC_BYTES:]
    if not hmac.compare_digest(mac, _mac(key, plain)):
        return None

    # Our own writing, as the signature shows: nothing in it has to be checked.
    kind, reference, minor, version, asked_at, not_found, code, refusal, *receipt = (
        plain.decode().split("|")
    )
    return CallbackContext(
        MpesaCallbackKind(kind),
        reference,
        int(minor),
        int(version),
        Instant(int(asked_at)),
        not_found == "1",
        code,
        refusal == "1",
        *receipt,
    )


def party_digest(key: bytes, number: str) -> str:
    """Return what stands for the number of a payment's other party in an address; only this key can
    make it."""
    # Proxies log addresses: the number of a person must not be found from what stands in one.
    return hmac.new(key, b"party\0" + number.encode(), sha256).hexdigest()[:_MAC_BYTES]


def _mac(key: bytes, plain: bytes) -> bytes:
    # The text in front keeps signatures and digests of one key apart.
    return hmac.new(key, b"return address\0" + plain, sha256).digest()[:_MAC_BYTES]
