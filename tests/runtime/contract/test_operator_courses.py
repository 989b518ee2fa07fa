"""Each flow of each operator through sockets: merchant API, adapter, simulator, and back to the
merchant. What else can go wrong is played in virtual time, by `test_operator_table.py`, and what
each code means stands in the tests of the adapters."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import trio
from attrs import evolve, frozen

from mmo_sansio.http.messages import HttpResponse
from mmo_sansio.values.clock import SECOND
from mmo_simulators.common.faults import (
    AnswerInstead,
    CutAnswer,
    EndAfter,
    EndWith,
    Fault,
    LoseAnswer,
    PlannedFault,
)
from mmo_simulators.common.simulator import Simulator
from mmo_simulators.operators.mpesa.keys import open_mpesa
from mmo_simulators.operators.mtn.api import MtnSimulator
from tests.support import airtel_account as airtel
from tests.support.operator_gateway import NEVER, Market, OperatorGateway, run_operator_gateway
from tests.support.simulated_accounts import account_options, mpesa_options
from tests.support.time_limits import HANGS_AFTER_S

SOON = EndAfter(SECOND)
PAID: Mapping[str, tuple[Fault, ...]] = {
    "success": (SOON,),
    "time-out": (LoseAnswer(NEVER), SOON),
    "half an answer": (CutAnswer(), SOON),
    "token refused": (AnswerInstead(HttpResponse(401)), SOON),
}
"""What happens to payments that succeed all the same."""


@frozen
class Way:
    """Is a flow of an operator."""

    operation: str
    at: str
    """The simulator's name for the submission."""
    code: str
    """The operator's code for a short balance,"""
    means: str
    """and the errorCode."""


@frozen
class Operator:
    """Is a kind of provider with its simulator."""

    kind: str
    market: Market
    open: Callable[[], Simulator]
    options: Callable[[Any], Mapping[str, str]]
    payer: Callable[[Any, int], str]
    """Returns the payer or payee of one of several payments."""
    ways: tuple[Way, ...]
    refusal: tuple[int, object]
    """The status and document of an answer that rejects a payment at once,"""
    refused: tuple[str, str]
    """with its code and errorCode."""


def mpesa_payer(simulator: Any, number: int) -> str:
    """Return a different telephone for each payment, as M-Pesa prompts a payer once at a time."""
    msisdn = f"254700001{number:03d}"
    simulator.open_accounts([{"account": msisdn, "balance": "1000.00"}])
    return msisdn


PAYER_IS_SHORT, WE_ARE_SHORT = "user_insufficient_funds", "merchant_insufficient_funds"
OPERATORS = (
    Operator(
        "mpesa_daraja",
        Market("KE", "KES", "254708374149"),
        open_mpesa,
        lambda simulator: mpesa_options(simulator.certificate),
        mpesa_payer,
        (
            Way("direct/payin", "stk_push", "1", PAYER_IS_SHORT),
            Way("web/payin", "stk_push", "1", PAYER_IS_SHORT),
            Way("direct/payout", "b2c", "1", WE_ARE_SHORT),
            Way("direct/taxpayout", "tax", "1", WE_ARE_SHORT),
        ),
        (400, {"requestId": "1", "errorCode": "400.002.02", "errorMessage": "Bad PhoneNumber"}),
        ("400.002.02", "user_not_found"),
    ),
    Operator(
        "mtn_momo",
        Market("UG", "EUR", "46733123999"),
        MtnSimulator,
        lambda _: account_options("mtn"),
        lambda _, number: f"46733124{number:03d}",
        (
            Way("direct/payin", "requesttopay", "NOT_ENOUGH_FUNDS", PAYER_IS_SHORT),
            Way("web/payin", "requesttopay", "NOT_ENOUGH_FUNDS", PAYER_IS_SHORT),
            Way("direct/payout", "transfer", "NOT_ENOUGH_FUNDS", WE_ARE_SHORT),
        ),
        (500, {"code": "VALIDATION_ERROR", "message": "no"}),
        ("VALIDATION_ERROR", "merchant_misconfigured"),
    ),
    Operator(
        "airtel_money",
        Market("UG", "UGX", f"+256{airtel.PAYER}"),
        lambda: airtel.a_simulator(callback_key="callback-key", ambiguous_status="TF"),
        lambda _: airtel.options("", callback_key="callback-key", collection_version="2"),
        lambda _, number: f"+256{airtel.PAYER}",
        (
            Way("direct/payin", "collection", "DP00800001007", PAYER_IS_SHORT),
            Way("web/payin", "collection", "DP00800001007", PAYER_IS_SHORT),
            Way("direct/payout", "disbursement", "DP00900001007", WE_ARE_SHORT),
        ),
        (400, {"status": {"response_code": "ROUTER006", "message": "no", "success": False}}),
        ("ROUTER006", "merchant_misconfigured"),
    ),
)


@frozen
class Begun:
    """Is a payment that has begun: what it meets, and how it has to end."""

    name: str
    faults: tuple[Fault, ...]
    error_code: str | None = None
    native: str | None = None
    is_refused: bool = False
    """Whether the operator never has it in its book."""
    msisdn: str = ""


@pytest.mark.spec("C1", "C2", "C4", "C5", "E1", "K1", "S2", "S3", "S5", "S6", "T3")
@pytest.mark.parametrize("operator", OPERATORS, ids=lambda operator: operator.kind)
async def test_the_books_agree_and_the_merchant_hears_each_end_once(
    tmp_path: Path, operator: Operator
) -> None:
    simulator = operator.open()
    async with run_operator_gateway(
        tmp_path,
        kind=operator.kind,
        simulator=simulator,
        market=operator.market,
        options={**operator.options(simulator), "answer_within_s": "1"},
    ) as operated:
        if operator.kind == "airtel_money":  # Its callback address is set in a portal.
            portal = {"account": "collection", "callback_url": operated.hook_url()}
            simulator.open_accounts([portal])

        begun: dict[str, Begun] = {}
        for way in operator.ways:
            for payment in payments(operator, way, simulator, len(begun)):
                begun[await begin(operated, way, payment)] = payment
        found = await ended(operated, begun)

    came_to = {
        begun[name].name: (each["errorCode"], (each["providerData"] or {}).get("errorCode"))
        for name, each in found.items()
    }
    assert came_to == {each.name: (each.error_code, each.native) for each in begun.values()}
    received = Counter(each.gateway_reference for each in operated.running.received)
    assert received == dict.fromkeys(begun, 1)
    paid = Counter(
        name
        for row in simulator.snapshot()["payments"]
        if row["result"] == "success"
        for name in begun
        if name.endswith(row["reference"])
    )
    succeeded = [name for name, each in begun.items() if each.error_code is None]
    assert paid == dict.fromkeys(succeeded, 1)


def payments(operator: Operator, way: Way, simulator: Simulator, first: int) -> list[Begun]:
    """Return what is played of a flow."""
    status, document = operator.refusal
    body = json.dumps(document).encode()
    refusal = HttpResponse(status, ((b"content-type", b"application/json"),), body)
    code, means = operator.refused

    played = [Begun(name, faults) for name, faults in PAID.items()]
    played.append(Begun("fails", (EndWith(way.code), SOON), way.means, way.code))
    played.append(Begun("refused", (AnswerInstead(refusal),), means, code, is_refused=True))
    return [
        evolve(
            payment,
            name=f"{way.operation}: {payment.name}",
            msisdn=operator.payer(simulator, number),
        )
        for number, payment in enumerate(played, first)
    ]


async def begin(operated: OperatorGateway, way: Way, payment: Begun) -> str:
    """Create a payment, and wait until it has met what is in store for it; its gatewayReference."""
    planned = [PlannedFault(way.at, fault) for fault in payment.faults]
    operated.simulator.faults.plan(planned)
    reference = await operated.pay(
        way.operation, msisdn=payment.msisdn, reconciliationReference="PRN1234XN"
    )
    with trio.fail_after(HANGS_AFTER_S):
        while True:
            book = operated.simulator.snapshot()["payments"]
            is_taken = any(reference.endswith(row["reference"] or "?") for row in book)
            if is_taken or (payment.is_refused and not any(fault.times for fault in planned)):
                return reference
            await trio.sleep(0.01)


async def ended(operated: OperatorGateway, begun: Mapping[str, Begun]) -> dict[str, Any]:
    """Let time pass until all have ended."""
    found: dict[str, Any] = {}
    with trio.fail_after(HANGS_AFTER_S):
        while found.keys() != begun.keys():
            for name in begun.keys() - found.keys():
                now = await operated.running.merchant.status(name)
                found |= {name: now} if now["status"] != "pending" else {}
            await operated.advance(40)
            await trio.sleep(0.05)
    return found
