"""Reads what a gateway tells beside the specification: the methods of a brand, its payments of
which money was asked back, and whose account is behind a number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from attrs import field, frozen

from mmo_merchant.api.tolerant_json import (
    JsonObject,
    UnreadableBody,
    checked_object,
    read_gateway_reference,
    read_money,
    read_object,
    read_optional_money,
    read_optional_text,
    read_optional_time,
    read_status,
    read_text,
    read_time,
)
from mmo_sansio.values.model import Status
from mmo_sansio.values.money import Money, parse_number, to_money
from mmo_sansio.values.strict_json import JsonNumber


@frozen(kw_only=True)
class CurrencyLimits:
    """Says which amounts a method takes in one currency."""

    decimals: int
    """How many decimals an amount may have; an operator may take fewer than the currency has."""
    minimum: Money
    maximum: Money
    daily: Mapping[str, Money]
    """The largest sum of a day, by type of payment; a type without an entry has no such limit."""


@frozen(kw_only=True)
class MethodObject:
    """Is a method of the brand."""

    method: str
    country: str
    title: str
    """The display name of the operator."""
    currencies: Mapping[str, CurrencyLimits]
    operations: Mapping[str, str]
    """The state of each operation, such as `direct/payin`: `open`, `held` where a payment would
    wait until the operator works again, or `closed` where it would not be sent."""


@frozen
class BrandMethods:
    """Holds the methods of the brand that asked."""

    brand: str
    methods: Sequence[MethodObject]


@frozen(kw_only=True)
class ReversalObject:
    """Is money of a payment that the gateway's staff have asked back."""

    id: str
    status: Status
    """Success: the money has gone back. Pending: it may go back still."""
    amount: Money
    provider_reference: str | None
    """The operator's own reference of the reversal."""
    asked_at: datetime
    ended_at: datetime | None


@frozen(kw_only=True)
class ReversedPayment:
    """Is a payment of which money was asked back. Its own status and amount never change."""

    gateway_reference: str
    merchant_reference: str | None
    reconciliation_reference: str | None
    provider_reference: str | None
    type: str
    method: str
    country: str
    status: Status
    final_amount: Money | None
    late_amount: Money | None
    """What the operator had moved although the payment has failed; None of others."""
    changed_at: datetime
    """When one of its reversals was asked for or ended: the last time."""
    reversals: Sequence[ReversalObject]
    """All of them, in the order in which they were asked for."""


@frozen
class ReversalsPage:
    """Holds a page of reversed payments."""

    payments: Sequence[ReversedPayment]
    next: str | None
    """The cursor of the next page; None on the last one."""
    previous: str | None


@frozen(kw_only=True)
class PayeeObject:
    """Is what an operator tells of the account behind a number. What it does not tell is None."""

    method: str
    country: str
    msisdn: str = field(repr=False)
    outcome: str
    """`named`, `compared`, `predicted`, `unknown` where there is no such account, or `unanswered`;
    newer gateways may have others."""
    name: str | None = field(default=None, repr=False)
    """The operator's text: escape it where it is shown."""
    is_masked: bool | None = None
    """Whether the operator has put `*` for letters of the name."""
    is_barred: bool | None = None
    matches: bool | None = None
    """Whether the name that was asked about is the account's."""
    operator: str | None = None
    """Who probably has the number."""
    is_served: bool | None = None
    """Whether the method pays to that operator."""


def parse_methods(body: bytes) -> BrandMethods:
    """Return the methods in an answer. Raises UnreadableBody."""
    members = read_object(body)
    methods = tuple(_read_method(method) for method in _objects(members, "data"))
    return BrandMethods(read_text(members, "brand"), methods)


def parse_reversals(body: bytes) -> ReversalsPage:
    """Return the page of reversed payments in an answer. Raises UnreadableBody."""
    members = read_object(body)
    pages = checked_object(members.get("pages"), "pages")
    payments = tuple(reversed_payment_from(payment) for payment in _objects(members, "data"))
    return ReversalsPage(
        payments, read_optional_text(pages, "next"), read_optional_text(pages, "previous")
    )


def reversed_payment_from(members: JsonObject) -> ReversedPayment:
    """Return the reversed payment with these members. Raises UnreadableBody."""
    return ReversedPayment(
        gateway_reference=read_gateway_reference(members),
        merchant_reference=read_optional_text(members, "merchantReference"),
        reconciliation_reference=read_optional_text(members, "reconciliationReference"),
        provider_reference=read_optional_text(members, "providerReference"),
        type=read_text(members, "type"),
        method=read_text(members, "method"),
        country=read_text(members, "country"),
        status=read_status(members),
        final_amount=read_optional_money(members, "finalAmount"),
        late_amount=read_optional_money(members, "lateAmount"),
        changed_at=read_time(members, "changedAt"),
        reversals=tuple(_read_reversal(reversal) for reversal in _objects(members, "reversals")),
    )


def parse_payee(body: bytes) -> PayeeObject:
    """Return what is told of a payee in an answer. Raises UnreadableBody."""
    members = read_object(body)
    return PayeeObject(
        method=read_text(members, "method"),
        country=read_text(members, "country"),
        msisdn=read_text(members, "msisdn"),
        outcome=read_text(members, "outcome"),
        name=read_optional_text(members, "name"),
        is_masked=_read_truth(members, "isMasked"),
        is_barred=_read_truth(members, "isBarred"),
        matches=_read_truth(members, "matches"),
        operator=read_optional_text(members, "operator"),
        is_served=_read_truth(members, "isServed"),
    )


def _read_truth(members: JsonObject, name: str) -> bool | None:
    # No bool(): the text "false" would be true, and somebody be paid whose account is barred.
    value: object = members.get(name)
    if value is not None and not isinstance(value, bool):
        raise UnreadableBody(f"{name} is neither true nor false.")
    return value


def _read_reversal(members: JsonObject) -> ReversalObject:
    return ReversalObject(
        id=read_text(members, "id"),
        status=read_status(members),
        amount=read_money(members, "amount"),
        provider_reference=read_optional_text(members, "providerReference"),
        asked_at=read_time(members, "askedAt"),
        ended_at=read_optional_time(members, "endedAt"),
    )


def _read_method(members: JsonObject) -> MethodObject:
    currencies = {
        read_text(limits, "currency"): _read_limits(limits)
        for limits in _objects(members, "currencies")
    }
    operations = {
        read_text(operation, "operation"): read_text(operation, "state")
        for operation in _objects(members, "operations")
    }
    return MethodObject(
        method=read_text(members, "method"),
        country=read_text(members, "country"),
        title=read_text(members, "title"),
        currencies=currencies,
        operations=operations,
    )


def _read_limits(members: JsonObject) -> CurrencyLimits:
    currency = read_text(members, "currency")
    decimals = members.get("decimals")

    # JsonNumber keeps the text: 2.0 and 1e0 are numbers of decimals that no gateway sends.
    if not isinstance(decimals, JsonNumber) or decimals.text not in ("0", "1", "2", "3", "4"):
        raise UnreadableBody("decimals is no number of decimals.")

    daily = checked_object(members.get("daily"), "daily")
    return CurrencyLimits(
        decimals=int(decimals.text),
        minimum=_read_amount(members.get("minimum"), "minimum", currency),
        maximum=_read_amount(members.get("maximum"), "maximum", currency),
        daily={type: _read_amount(value, "daily", currency) for type, value in daily.items()},
    )


def _read_amount(value: object, name: str, currency: str) -> Money:
    # Limits have no currency of their own in the answer: it stands once beside them.
    if not isinstance(value, JsonNumber):
        raise UnreadableBody(f"{name} is no number.")
    try:
        return to_money(parse_number(value.text), currency)
    except (ValueError, KeyError):
        raise UnreadableBody(f"{name} is no amount of {currency}.") from None


def _objects(members: JsonObject, name: str) -> Sequence[JsonObject]:
    """Return the objects of an array. Raises UnreadableBody."""
    value: Any = members.get(name)
    # Not any sequence: text is one too, and would be read letter by letter.
    if not isinstance(value, list):
        raise UnreadableBody(f"{name} is no array.")
    return [checked_object(item, f"An element of {name}") for item in value]
