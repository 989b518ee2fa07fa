"""Describes the payments that a merchant requests, one class for each endpoint, and writes their
bodies (C1 to C5)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import TypeAlias, assert_never

from attrs import field, frozen

from mmo_sansio.api.outgoing import money_object
from mmo_sansio.values.model import Operation, Party
from mmo_sansio.values.money import Money

LabelValue: TypeAlias = str | int | Decimal | bool | None
"""The value of a label; it comes back unchanged (M4)."""


@frozen(kw_only=True)
class _Shared:
    """Holds what every request for a payment has; the gateway checks it, and names what it
    rejects."""

    method: str
    """The method key that is configured for the brand, such as `mpesa_ke`."""
    amount: Money
    country: str
    """ISO 3166-1 alpha-2."""
    result_url: str
    """HTTPS URL that the result is sent to."""
    merchant_reference: str
    """The merchant's own name of this payment, at most 255 characters: the key of idempotency
    (C12). Store it before the request, and use it again in every repetition."""
    labels: Mapping[str, LabelValue] | None = None
    """At most 10 entries; None: none."""


@frozen(kw_only=True)
class DirectPayIn(_Shared):
    """Requests money from a payer by a prompt on the phone (C1)."""

    payer: Party = field(repr=False)
    reconciliation_reference: str | None = None
    """None: the same as the merchantReference (C7)."""


@frozen(kw_only=True)
class WebPayIn(_Shared):
    """Requests money from a payer on the hosted payment page (C4)."""

    payer: Party = field(repr=False)
    reconciliation_reference: str | None = None
    success_redirect_url: str | None = None
    """Where the payer's browser is sent after a success; no proof of one."""
    error_redirect_url: str | None = None


@frozen(kw_only=True)
class QrPayIn(_Shared):
    """Requests money from a payer who scans a code (C3)."""

    payer: Party = field(repr=False)
    display_qr_url: str
    """HTTPS URL that the code is sent to (Q1)."""
    reconciliation_reference: str | None = None


@frozen(kw_only=True)
class PayOut(_Shared):
    """Requests that money is sent to a payee (C2)."""

    payee: Party = field(repr=False)
    reconciliation_reference: str | None = None


@frozen(kw_only=True)
class TaxPayOut(_Shared):
    """Requests that money is sent to the tax authority of method and country (C5)."""

    reconciliation_reference: str
    """Required here (C7)."""


NewPayment: TypeAlias = DirectPayIn | WebPayIn | QrPayIn | PayOut | TaxPayOut


def operation_of(payment: NewPayment) -> Operation:
    """Return the endpoint that takes this payment."""
    match payment:
        case DirectPayIn():
            return Operation.DIRECT_PAYIN
        case WebPayIn():
            return Operation.WEB_PAYIN
        case QrPayIn():
            return Operation.QR_PAYIN
        case PayOut():
            return Operation.DIRECT_PAYOUT
        case TaxPayOut():
            return Operation.DIRECT_TAXPAYOUT
        case _:
            assert_never(payment)


def creation_body(payment: NewPayment) -> bytes:
    """Return the JSON body of the creation request; amounts are exact decimals, and absent members
    are left out."""
    # "null" as JSON text: a member whose value is absent. The text "null" has quotes here.
    members = (
        f"{json.dumps(name)}:{value}" for name, value in _members(payment) if value != "null"
    )
    return ("{" + ",".join(members) + "}").encode("ascii")


def _members(payment: NewPayment) -> Iterator[tuple[str, str]]:
    """Yield each member with its JSON text."""
    yield "amount", money_object(payment.amount)
    # One party, or none: a tax payout goes to the authority of method and country (C5).
    match payment:
        case DirectPayIn() | WebPayIn() | QrPayIn():
            yield "payer", _party_object(payment.payer)
        case PayOut():
            yield "payee", _party_object(payment.payee)
        case TaxPayOut():
            pass
        case _:
            assert_never(payment)

    yield "country", json.dumps(payment.country)
    yield "resultUrl", json.dumps(payment.result_url)
    if isinstance(payment, QrPayIn):
        yield "displayQrUrl", json.dumps(payment.display_qr_url)

    if isinstance(payment, WebPayIn):
        yield "successRedirectUrl", json.dumps(payment.success_redirect_url)
        yield "errorRedirectUrl", json.dumps(payment.error_redirect_url)

    yield "merchantReference", json.dumps(payment.merchant_reference)
    yield "reconciliationReference", json.dumps(payment.reconciliation_reference)
    if payment.labels is not None:
        labels = (f"{json.dumps(name)}:{_label(value)}" for name, value in payment.labels.items())
        yield "labels", "{" + ",".join(labels) + "}"


def _party_object(party: Party) -> str:
    members = {
        "id": party.id,
        "msisdn": party.msisdn,
        "firstName": party.first_name,
        "lastName": party.last_name,
        "email": party.email,
    }
    return json.dumps({name: value for name, value in members.items() if value is not None})


def _label(value: LabelValue) -> str:
    # A decimal has no form in Python's JSON, and a float would lose digits (G6); "f" writes no
    # exponent.
    if isinstance(value, Decimal):
        return format(value, "f")
    return json.dumps(value)
