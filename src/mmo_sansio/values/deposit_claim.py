"""Defines what an operator's unsigned notification says of money that was received, until that is settled (S4)."""

from __future__ import annotations

from enum import StrEnum

from attrs import frozen

from mmo_sansio.values.clock import Instant
from mmo_sansio.values.model import Party
from mmo_sansio.values.money import Money


class DepositTrust(StrEnum):
    """Says how far the report of a deposit is trusted."""

    CONFIRMED = "confirmed"
    """The operator has signed it or confirmed it, or its account is configured to trust such reports."""
    LISTED = "listed"
    """The operator has listed it when asked what was paid: confirmed, with the payer's number and name in other forms
    than in a notification."""
    UNCONFIRMED = "unconfirmed"
    """Nothing is booked before the operator has confirmed it by an answer to a request of ours."""
    FOREIGN_ACCOUNT = "foreign_account"
    """It names an account that is not ours: it goes to the suspense book."""

    @property
    def is_confirmed(self) -> bool:
        """Tell whether the money is certain to have been received."""
        return self in (DepositTrust.CONFIRMED, DepositTrust.LISTED)


class DepositAnswerOutcome(StrEnum):
    """Says what an operator answers when it is asked about a deposit by its receipt."""

    COMPLETED = "completed"
    NOT_FOUND = "not_found"
    """The operator knows no such receipt; that may be too early to say."""
    FAILED = "failed"
    """The operator has not moved the money, or has moved it back."""
    UNKNOWN = "unknown"
    """The answer says nothing that can be used."""


@frozen
class DepositClaim:
    """A claim is a notification that the operator has yet to confirm, or whose named payment has yet to end.

    Once it is settled it stays, so that its receipt settles nothing else.
    """

    provider: str
    receipt: str
    """The provider's own transaction id; with the provider, it identifies the claim."""
    provider_title: str
    gateway_reference: str
    """A fresh ULID, used if the claim becomes a deposit."""
    account: str
    """The provider's account that was paid, as the notification says."""
    bill_reference: str
    amount: Money
    party: Party
    payment: str | None
    """The gatewayReference of the payment that the bill reference names, or that the receipt has settled."""
    brand: str | None
    """The id of that payment's brand."""
    received_at: Instant
    expires_at: Instant
    """When an unconfirmed claim is left to a person."""
    wake_at: Instant | None
    """When the claim needs the clock next; None exactly when it is settled."""
    version: int = 1
    """Counts the changes, from 1."""
    polls: int = 0
    """How often it was woken."""
    answered_at: Instant | None = None
    """When the latest question was asked whose answer has come to an address of its own."""
    is_confirmed: bool = False
