"""Asks the gateway, before a pay-roll is paid, what it would refuse and what it has paid before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final

import anyio
from attrs import frozen

from mmo_merchant.api.api_errors import ApiRejection, GatewayUnavailable
from mmo_merchant.api.extension_objects import BrandMethods, CurrencyLimits, MethodObject
from mmo_merchant.api.gateway_requests import RecordsWindow
from mmo_merchant.api.transaction_objects import TransactionObject
from mmo_merchant.payroll.earlier_journals import RECORDS, EarlierLine
from mmo_merchant.payroll.journal import phase_of
from mmo_merchant.payroll.pay_roll import PayLine, payee_digest, reference_prefix, totals
from mmo_merchant.payroll.payment_run import RETRY_PAUSE_S, PacedClient
from mmo_merchant.tables.faults import Fault
from mmo_sansio.values.model import Operation, Type
from mmo_sansio.values.number_format import format_amount

# How far back records are read: a month and some days, so that a pay-roll under the name of the
# last month is found.
RECORDED: Final = timedelta(days=35)

# The gateway's clock may be ahead of ours.
_AHEAD: Final = timedelta(days=1)

_OUT: Final = Operation.DIRECT_PAYOUT.value
_OPEN: Final = "open"
_LEAVE_OUT: Final = "Correct it, or leave the line out."


@frozen
class MethodAnswers:
    """Is what the gateway says of the methods of a pay-roll."""

    faults: Sequence[Fault]
    """Lines that would be refused, or fail."""
    remarks: Sequence[str]
    """Sentences about what may change by itself, such as a method that is closed now."""


async def ask_methods(client: PacedClient) -> BrandMethods | None:
    """Return the methods of the brand; None where the gateway doesn't tell them. Raises
    ApiRejection or GatewayUnavailable."""
    try:
        return await client.methods()
    except ApiRejection as error:
        # 404: the gateway has no such extension, so the limits show when the lines are paid.
        if error.problem.status != 404:
            raise
        return None


def judge_lines(lines: Sequence[PayLine], brand: BrandMethods) -> MethodAnswers:
    """Return what is wrong with the lines by the limits and states of the methods."""
    methods = {method.method: method for method in brand.methods}

    # In the order of the file, each method once.
    used = {line.payment.method: line for line in lines}
    faults = [fault for line in lines for fault in _line_faults(line, methods)]
    remarks = [
        remark
        for name in used
        if name in methods
        for remark in _remarks(methods[name], [x for x in lines if x.payment.method == name])
    ]
    return MethodAnswers(faults, remarks)


def _line_faults(line: PayLine, methods: dict[str, MethodObject]) -> Iterator[Fault]:
    payment = line.payment
    method = methods.get(payment.method)
    # The first fault of a line that makes the others meaningless ends it.
    if method is None or _OUT not in method.operations:
        payers = [name for name, other in methods.items() if _OUT in other.operations]
        remedy = f"Write one of these: {', '.join(payers) or 'there is none'}."
        yield Fault(line.number, "method", "is none by which your brand pays", remedy)
        return

    if payment.country != method.country:
        problem = f"is not that of {method.method}, which pays in {method.country}"
        yield Fault(line.number, "country", problem, "Correct the country, or the method.")

    limits = method.currencies.get(payment.amount.currency)
    if limits is None:
        problem = f"is none in which {method.method} pays"
        remedy = f"Write one of these: {', '.join(method.currencies)}."
        yield Fault(line.number, "currency", problem, remedy)
        return

    problem = _amount_problem(line, method, limits)
    if problem:
        yield Fault(line.number, "amount", problem, _LEAVE_OUT)


def _amount_problem(line: PayLine, method: MethodObject, limits: CurrencyLimits) -> str:
    amount = line.payment.amount
    if amount.minor < limits.minimum.minor:
        return f"is below the minimum of {method.method}, {format_amount(limits.minimum)}"
    if amount.minor > limits.maximum.minor:
        return f"is above the maximum of {method.method}, {format_amount(limits.maximum)}"
    # By value: 100.50 has one decimal (M1).
    decimals = amount.text.partition(".")[2].rstrip("0")
    if len(decimals) > limits.decimals:
        return f"has more decimals than {method.method} takes, which is {limits.decimals}"
    return ""


def _remarks(method: MethodObject, lines: Sequence[PayLine]) -> Iterator[str]:
    """Yield what is to be known of a method that some of the lines are paid by."""
    state = method.operations.get(_OUT, _OPEN)
    if state == "held":
        yield f"{method.method} is held now: pay-outs wait until the operator works again."
    elif state != _OPEN:
        yield f"{method.method} is {state} now: pay-outs would fail. Pay the file later."

    # The operator's limit of a day is for all lines together, and no line alone breaks it.
    for total in totals([line.payment.amount for line in lines]):
        limits = method.currencies.get(total.currency)
        daily = limits and limits.daily.get(Type.PAYOUT.value)
        if daily and total.minor > daily.minor:
            yield (
                f"{method.method} pays at most {format_amount(daily)} a day, and the file has "
                f"{format_amount(total)}."
            )


async def read_recorded(
    client: PacedClient, name: str, *, now: datetime, patience_s: float = 0.0
) -> list[EarlierLine]:
    """Return the pay-outs of the last weeks by the gateway's records; those of references that
    belong to the pay-roll of this name have it. A gateway without an answer is asked again for so
    many seconds. Raises ApiRejection or GatewayUnavailable."""
    # Into the future too, so that a clock of ours that is behind hides nothing.
    window = RecordsWindow(begin=now - RECORDED, end=now + _AHEAD, type=Type.PAYOUT)
    give_up_at = anyio.current_time() + patience_s

    # A page that is not answered is asked for again: the whole list counts, or none of it.
    payments = list[EarlierLine]()
    cursor: str | None = None
    while True:
        try:
            if cursor is None:
                page = await client.records_page(window)
            else:
                page = await client.page(cursor)
        except GatewayUnavailable:
            if anyio.current_time() >= give_up_at:
                raise
            await client.pause(RETRY_PAUSE_S)
            continue

        payments += [_earlier_line(payment, name) for payment in page.transactions]
        cursor = page.next
        if cursor is None:
            return payments


def _earlier_line(payment: TransactionObject, name: str) -> EarlierLine:
    reference = payment.merchant_reference or ""
    # A name's references begin alike: the merchant's other pay-outs have none of a pay-roll.
    is_of_name = bool(name) and reference.startswith(reference_prefix(name))
    return EarlierLine(
        RECORDS,
        name if is_of_name else "",
        reference,
        payee_digest(payment.party.msisdn, payment.requested_amount),
        phase_of(payment),
        payment.completed_at or payment.created_at,
    )
