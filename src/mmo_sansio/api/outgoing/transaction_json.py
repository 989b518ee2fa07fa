"""Writes the transaction as merchants see it: one serializer for look-ups, records and callbacks (clauses T1 to T5)."""

from __future__ import annotations

import json
from typing import Final

from mmo_sansio.values.clock import format_with_microseconds
from mmo_sansio.values.model import Party, ProviderData, Transaction
from mmo_sansio.values.money import Money

TRANSACTION_MEMBERS: Final = (
    "status",
    "type",
    "flow",
    "gatewayReference",
    "merchantReference",
    "reconciliationReference",
    "providerReference",
    "party",
    "method",
    "country",
    "requestedAmount",
    "finalAmount",
    "labels",
    "createdAt",
    "completedAt",
    "completionSource",
    "errorCode",
    "errorMessage",
    "providerData",
)
"""The names of the object's members, in the order in which they are written (T2)."""

PARTY_MEMBERS: Final = ("id", "msisdn", "firstName", "lastName", "email")
PROVIDER_DATA_MEMBERS: Final = ("name", "title", "fee", "partyData", "errorCode", "errorMessage")
MONEY_MEMBERS: Final = ("value", "currency")

_json_string = json.encoder.encode_basestring


def transaction_object(transaction: Transaction) -> bytes:
    """Return the JSON object of the specification's table in UTF-8: exactly its members, nulls written out (T2).

    Equal transactions give equal bytes, so a store may render once, when a transaction changes (T4)."""
    order, progress = transaction.order, transaction.progress
    completed_at = progress.completed_at
    completed = None if completed_at is None else format_with_microseconds(completed_at)
    return (
        f'{{"status":"{transaction.status.value}"'
        f',"type":"{order.type.value}"'
        f',"flow":"{order.flow.value}"'
        f',"gatewayReference":"{order.gateway_reference}"'
        f',"merchantReference":{_text(order.merchant_reference)}'
        f',"reconciliationReference":{_text(order.reconciliation_reference)}'
        f',"providerReference":{_text(progress.provider_reference)}'
        f',"party":{_party(order.party)}'
        f',"method":{_json_string(order.method)}'
        f',"country":{_json_string(order.country)}'
        f',"requestedAmount":{money_object(order.requested)}'
        f',"finalAmount":{_money(progress.final)}'
        f',"labels":{order.labels or "null"}'
        f',"createdAt":"{format_with_microseconds(order.created_at)}"'
        f',"completedAt":{_text(completed)}'
        f',"completionSource":{_text(progress.completion_source)}'
        f',"errorCode":{_text(progress.error_code)}'
        f',"errorMessage":{_text(progress.error_message)}'
        f',"providerData":{_provider_data(progress.provider_data)}}}'
    ).encode()


def money_object(amount: Money) -> str:
    """Return a Money object: the value is a JSON number with the currency's own decimals, never an exponent (G6)."""
    return f'{{"value":{amount.text},"currency":"{amount.currency}"}}'


def _text(value: str | None) -> str:
    return "null" if value is None else _json_string(value)


def _money(amount: Money | None) -> str:
    return "null" if amount is None else money_object(amount)


def _party(party: Party) -> str:
    return (
        f'{{"id":{_json_string(party.id)}'
        f',"msisdn":{_json_string(party.msisdn)}'
        f',"firstName":{_text(party.first_name)}'
        f',"lastName":{_text(party.last_name)}'
        f',"email":{_text(party.email)}}}'
    )


def _provider_data(data: ProviderData | None) -> str:
    if data is None:
        return "null"
    return (
        f'{{"name":{_json_string(data.name)}'
        f',"title":{_json_string(data.title)}'
        f',"fee":{_money(data.fee)}'
        f',"partyData":{data.party_data or "null"}'
        f',"errorCode":{_text(data.error_code)}'
        f',"errorMessage":{_text(data.error_message)}}}'
    )
