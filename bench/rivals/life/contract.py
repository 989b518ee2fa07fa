"""Defines what both rivals of whole lives agree on: requests, the transaction object, and the
operator's requests."""

from __future__ import annotations

import datetime as dt
import os
import uuid
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Protocol

from pydantic import BaseModel, Field, HttpUrl, field_validator

OPERATOR = os.environ["RIVAL_OPERATOR"]
"""The URL of the operator."""
WEBHOOKS = os.environ["RIVAL_WEBHOOKS"]
"""The URL where the operator's notifications arrive, without the payment's id."""
AUTHORITY = os.environ["RIVAL_AUTHORITY"]
"""The file of the authority that the merchants' certificates are from."""
ASKS = os.environ.get("RIVAL_ASKS") == "1"
"""Whether the operator is asked before a notification is believed."""

REFERENCE_WINDOW = dt.timedelta(minutes=15)
CALLBACK_TIMEOUT_S = 15
KEPT_CONNECTION_S = 2.5
"""How long an idle connection to a merchant is used again: half of what the receivers announce."""
STAMP = "%Y-%m-%dT%H:%M:%S.%fZ"


class Money(BaseModel):
    value: Decimal = Field(gt=0, max_digits=18, decimal_places=2)
    currency: str = Field(pattern=r"^[A-Z]{3}$")


class Party(BaseModel):
    id: str = Field(min_length=1, max_length=255)
    msisdn: str = Field(pattern=r"^[1-9][0-9]{6,14}$")
    firstName: str | None = Field(None, max_length=255)
    lastName: str | None = Field(None, max_length=255)
    email: str | None = Field(None, max_length=320)


class Payment(BaseModel):
    amount: Money
    payer: Party
    country: str = Field(pattern=r"^[A-Z]{2}$")
    resultUrl: HttpUrl
    merchantReference: str = Field(min_length=1, max_length=255)
    reconciliationReference: str | None = Field(None, max_length=255)
    labels: dict[str, str] | None = None

    @field_validator("resultUrl")
    @classmethod
    def is_https(cls, url: HttpUrl) -> HttpUrl:
        if url.scheme != "https":
            raise ValueError("must be an https URL")
        return url


class Row(Protocol):
    """A row of `payments`."""

    id: uuid.UUID
    merchant_reference: str
    reconciliation_reference: str
    status: str
    method: str
    country: str
    amount: Decimal
    currency: str
    provider_reference: str | None
    error_code: str | None
    created_at: dt.datetime
    completed_at: dt.datetime | None


def refusal(payment: Payment, methods: Mapping[str, Any], method: str) -> str | None:
    """Return why a merchant can't use the method for this payment; None if it can."""
    terms = methods.get(method)
    if terms is None or terms["country"] != payment.country:
        return "The method is not available."

    limits = terms["limits"].get(payment.amount.currency)
    if limits is None:
        return "The currency is not available."
    lowest, highest = map(Decimal, limits)
    return None if lowest <= payment.amount.value <= highest else "The amount is out of range."


def rendered(row: Row, party: Any, labels: Any) -> dict[str, Any]:
    """Return the transaction object of answers and callbacks."""
    amount = {"value": float(row.amount), "currency": row.currency}
    return {
        "status": row.status,
        "type": "payin",
        "flow": "direct",
        "gatewayReference": str(row.id),
        "merchantReference": row.merchant_reference,
        "reconciliationReference": row.reconciliation_reference,
        "providerReference": row.provider_reference,
        "party": party,
        "method": row.method,
        "country": row.country,
        "requestedAmount": amount,
        "finalAmount": amount if row.status == "success" else None,
        "labels": labels,
        "createdAt": _stamp(row.created_at),
        "completedAt": _stamp(row.completed_at),
        "completionSource": "webhook" if row.completed_at else None,
        "errorCode": row.error_code,
        "errorMessage": None,
        "providerData": None,
    }


def submission(row: Row, msisdn: str) -> tuple[str, dict[str, str], dict[str, Any]]:
    """Return URL, headers and body of the request that submits a payment."""
    reference = str(row.id)
    headers = {
        "X-Reference-Id": reference,
        "X-Callback-Url": f"{WEBHOOKS}/{reference}",
        "X-Target-Environment": "bench",
        "Authorization": "Bearer bench",
    }
    body = {
        "amount": str(row.amount),
        "currency": row.currency,
        "externalId": reference,
        "payer": {"partyIdType": "MSISDN", "partyId": msisdn},
        "payerMessage": "Payment",
        "payeeNote": row.merchant_reference[:100],
    }
    return f"{OPERATOR}/collection/v1_0/requesttopay", headers, body


def question(payment_id: uuid.UUID) -> str:
    """Return the URL that tells how a payment stands with the operator."""
    return f"{OPERATOR}/collection/v1_0/requesttopay/{payment_id}"


def result(told: Mapping[str, Any]) -> tuple[str, str | None, str | None] | None:
    """Return status, operator's reference and error of an operator's report; None while it is
    pending."""
    match told.get("status"):
        case "SUCCESSFUL":
            return "success", told.get("financialTransactionId"), None
        case "FAILED":
            return "failed", None, str(told.get("reason"))
        case _:
            return None


def _stamp(at: dt.datetime | None) -> str | None:
    return None if at is None else at.astimezone(dt.UTC).strftime(STAMP)
