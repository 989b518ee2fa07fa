"""Reads the transaction object, which look-ups, records and callbacks share (T1 to T4)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from attrs import field, frozen

from mmo_merchant.api.tolerant_json import (
    JsonObject,
    checked_object,
    read_gateway_reference,
    read_money,
    read_object,
    read_optional_money,
    read_optional_object,
    read_optional_text,
    read_optional_time,
    read_status,
    read_text,
    read_time,
)
from mmo_sansio.values.error_codes import EXPLANATIONS, ErrorCode
from mmo_sansio.values.model import Party, Status
from mmo_sansio.values.money import Money


@frozen
class ProviderDetails:
    """Holds what the provider reported about a payment (T3)."""

    name: str
    title: str
    fee: Money | None
    party_data: Mapping[str, Any] | None = field(repr=False)
    error_code: str | None
    """The provider's own code."""
    error_message: str | None


@frozen(kw_only=True)
class TransactionObject:
    """Is a payment as the gateway shows it to its merchant.

    Codes and names are plain text, as the gateway may add some: compare them with the members of
    `Type`, `Flow`, `ErrorCode` and `Source`, which are text too. Only the status is closed (S1)."""

    status: Status
    type: str
    flow: str
    gateway_reference: str
    merchant_reference: str | None
    """None for an offline deposit (flow `push`)."""
    reconciliation_reference: str | None
    provider_reference: str | None
    party: Party = field(repr=False)
    method: str
    country: str
    requested_amount: Money
    final_amount: Money | None
    """What was paid; None unless the status is success. It may differ from the requested amount."""
    labels: Mapping[str, Any] | None
    created_at: datetime
    completed_at: datetime | None
    completion_source: str | None
    error_code: str | None
    """Why the payment has failed; None unless it has."""
    error_message: str | None
    provider_data: ProviderDetails | None
    """None until the payment was sent to a provider."""

    @property
    def has_ended(self) -> bool:
        """Tell whether nothing about the payment can change any more (S1)."""
        return self.status is not Status.PENDING

    @property
    def is_failure_unproved(self) -> bool:
        """Tell whether the payment has failed, and money may have moved all the same: who pays
        again may pay twice. A code that is not known here proves nothing."""
        if self.status is not Status.FAILED:
            return False
        # A code that a newer gateway has added is unknown here; the catalogue says of each (E1).
        try:
            return not EXPLANATIONS[ErrorCode(self.error_code or "")].proves_nothing_moved
        except ValueError:
            return True


def parse_transaction(body: bytes) -> TransactionObject:
    """Return the transaction in the body of a look-up or a callback. Raises UnreadableBody."""
    return transaction_from(read_object(body))


def transaction_from(members: JsonObject) -> TransactionObject:
    """Return the transaction with these members; members that are unknown are ignored. Raises
    UnreadableBody."""
    # Null until the payment was sent to a provider (T3).
    provider_data = members.get("providerData")
    if provider_data is None:
        details = None
    else:
        details = _read_details(checked_object(provider_data, "providerData"))

    return TransactionObject(
        status=read_status(members),
        type=read_text(members, "type"),
        flow=read_text(members, "flow"),
        gateway_reference=read_gateway_reference(members),
        merchant_reference=read_optional_text(members, "merchantReference"),
        reconciliation_reference=read_optional_text(members, "reconciliationReference"),
        provider_reference=read_optional_text(members, "providerReference"),
        party=_read_party(members),
        method=read_text(members, "method"),
        country=read_text(members, "country"),
        requested_amount=read_money(members, "requestedAmount"),
        final_amount=read_optional_money(members, "finalAmount"),
        labels=read_optional_object(members, "labels"),
        created_at=read_time(members, "createdAt"),
        completed_at=read_optional_time(members, "completedAt"),
        completion_source=read_optional_text(members, "completionSource"),
        error_code=read_optional_text(members, "errorCode"),
        error_message=read_optional_text(members, "errorMessage"),
        provider_data=details,
    )


def _read_party(members: JsonObject) -> Party:
    party = checked_object(members.get("party"), "party")
    return Party(
        read_text(party, "id"),
        read_text(party, "msisdn"),
        read_optional_text(party, "firstName"),
        read_optional_text(party, "lastName"),
        read_optional_text(party, "email"),
    )


def _read_details(members: JsonObject) -> ProviderDetails:
    return ProviderDetails(
        read_text(members, "name"),
        read_text(members, "title"),
        read_optional_money(members, "fee"),
        read_optional_object(members, "partyData"),
        read_optional_text(members, "errorCode"),
        read_optional_text(members, "errorMessage"),
    )
