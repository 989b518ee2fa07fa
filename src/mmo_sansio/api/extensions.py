"""Writes what merchants read beside the specification, below `/extensions/v1`: the methods of their
brand, their payments of which money was asked back, and whose account is behind a number."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from typing import Final, TypeAlias

from attrs import frozen

from mmo_sansio.api.outgoing import JSON_HEADERS, money_object
from mmo_sansio.http.messages import HttpResponse
from mmo_sansio.values.clock import format_with_microseconds
from mmo_sansio.values.model import Brand, Limits, Method, Operation, Status, Transaction
from mmo_sansio.values.money import Money
from mmo_sansio.values.payees import (
    PayeeCompared,
    PayeeNamed,
    PayeePredicted,
    PayeeReport,
    outcome_of,
)
from mmo_sansio.values.reversals import Reversal

_json_string: Final = json.encoder.encode_basestring


class OperationState(StrEnum):
    """Says what would become of a payment that is created now."""

    OPEN = "open"
    """It would be sent to the operator."""
    HELD = "held"
    """It would be taken, and wait until the operator works again."""
    CLOSED = "closed"
    """It would not be sent: staff have closed the operator, or a restored store is not in use
    yet."""


FindState: TypeAlias = Callable[[Method, Operation], OperationState]

# Returns how many decimals the amounts of a method may have in a currency.
FindDecimals: TypeAlias = Callable[[Method, str], int]


def methods_response(
    brand: Brand, *, find_state: FindState, find_decimals: FindDecimals
) -> HttpResponse:
    """Return the methods of a brand in the order of its configuration: what may be paid by each,
    and whether it would be sent now."""
    methods = [_method_object(method, find_state, find_decimals) for method in brand.methods]
    body = f'{{"brand":{_json_string(brand.id)},"data":[{",".join(methods)}]}}'
    return HttpResponse(200, JSON_HEADERS, body.encode())


def _method_object(method: Method, find_state: FindState, find_decimals: FindDecimals) -> str:
    # Sorted, so that the same configuration gives the same bytes.
    limits = [
        _limits_object(currency, bounds, find_decimals(method, currency))
        for currency, bounds in sorted(method.limits.items())
    ]
    operations = [
        f'{{"operation":"{operation.value}","state":"{find_state(method, operation).value}"}}'
        for operation in Operation
        if operation in method.operations
    ]
    return (
        f'{{"method":{_json_string(method.key)}'
        f',"country":"{method.country}"'
        f',"title":{_json_string(method.provider_title)}'
        f',"currencies":[{",".join(limits)}]'
        f',"operations":[{",".join(operations)}]}}'
    )


def _limits_object(currency: str, limits: Limits, decimals: int) -> str:
    daily = ",".join(
        f'"{type.value}":{amount.text}' for type, amount in sorted(limits.daily.items())
    )
    return (
        f'{{"currency":"{currency}"'
        f',"decimals":{decimals}'
        f',"minimum":{limits.minimum.text}'
        f',"maximum":{limits.maximum.text}'
        f',"daily":{{{daily}}}}}'
    )


@frozen
class ReversedPayment:
    """Is a payment of which money was asked back."""

    payment: Transaction
    reversals: Sequence[Reversal]
    """All of them, in the order of their numbers; one at least."""


def reversed_payment_object(reversed: ReversedPayment) -> bytes:
    """Return the JSON object of a payment with its reversals. What staff wrote about them, and who
    they are, is not in it."""
    order, progress = reversed.payment.order, reversed.payment.progress

    # What was moved after the payment had failed: the payment itself shows nothing of it.
    late = next((reversal.reported for reversal in reversed.reversals if reversal.reported), None)
    changed_at = max(reversal.changed_at for reversal in reversed.reversals)
    return (
        f'{{"gatewayReference":"{order.gateway_reference}"'
        f',"merchantReference":{_text(order.merchant_reference)}'
        f',"reconciliationReference":{_text(order.reconciliation_reference)}'
        f',"providerReference":{_text(progress.provider_reference)}'
        f',"type":"{order.type.value}"'
        f',"method":{_json_string(order.method)}'
        f',"country":"{order.country}"'
        f',"status":"{reversed.payment.status.value}"'
        f',"finalAmount":{_money(progress.final)}'
        f',"lateAmount":{_money(late)}'
        f',"changedAt":"{format_with_microseconds(changed_at)}"'
        f',"reversals":[{",".join(_reversal_objects(reversed.reversals))}]}}'
    ).encode()


def payee_response(method: Method, msisdn: str, report: PayeeReport) -> HttpResponse:
    """Return what is known of the account behind a number; what is not known is null. It is for the
    merchant alone, so nothing on the way may keep it."""
    # Every member is there, whatever is known: clients need not ask which ones are.
    told: dict[str, object] = dict.fromkeys(
        ("name", "isMasked", "isBarred", "matches", "operator", "isServed")
    )
    match report:
        case PayeeNamed():
            told |= {
                "name": report.name,
                "isMasked": report.is_masked,
                "isBarred": report.is_barred,
            }
        case PayeeCompared():
            told["matches"] = report.matches
        case PayeePredicted():
            told |= {"operator": report.operator, "isServed": report.is_served}

    about = {"method": method.key, "country": method.country, "msisdn": msisdn}
    body = json.dumps({**about, "outcome": outcome_of(report), **told}, ensure_ascii=False)
    headers = (*JSON_HEADERS, (b"cache-control", b"no-store"))
    return HttpResponse(200, headers, body.encode())


def _reversal_objects(reversals: Sequence[Reversal]) -> Iterator[str]:
    for reversal in reversals:
        ended_at = reversal.ended_at
        ended = None
        if ended_at is not None:
            ended = format_with_microseconds(ended_at)

        yield (
            f'{{"id":"{reversal.id}"'
            f',"status":"{status_of(reversal).value}"'
            f',"amount":{money_object(reversal.amount)}'
            f',"providerReference":{_text(reversal.provider_reference)}'
            f',"askedAt":"{format_with_microseconds(reversal.asked_at)}"'
            f',"endedAt":{_text(ended)}}}'
        )


def status_of(reversal: Reversal) -> Status:
    """Return what a merchant sees of the state of a reversal."""
    # Money first: what has moved has succeeded, whatever is still open about it.
    if reversal.state.has_moved:
        return Status.SUCCESS
    if reversal.state.has_ended:
        return Status.FAILED
    return Status.PENDING


def _text(value: str | None) -> str:
    if value is None:
        return "null"
    return _json_string(value)


def _money(amount: Money | None) -> str:
    if amount is None:
        return "null"
    return money_object(amount)
