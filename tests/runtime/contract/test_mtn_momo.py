"""MTN MoMo through sockets: callbacks that nobody signed or that are repeated, and an operator that
staff have closed."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import trio

from mmo_sansio.providers.mtn_momo.adapter import reference_id
from mmo_sansio.values.clock import HOUR, SECOND, Instant, Span
from mmo_simulators.common.faults import CallBack, EndAfter, Fault, PlannedFault
from mmo_simulators.operators.mtn.accounts import SimulatedMtnAccounts
from mmo_simulators.operators.mtn.api import MtnSimulator
from mmo_trio.storage.interface.admin_types import ClosedProvider
from tests.support.merchant import TIMEOUT_S, ask
from tests.support.operator_gateway import Market, OperatorGateway, run_operator_gateway
from tests.support.simulated_accounts import account_options

JSON = {"Content-Type": "application/json"}
OPTIONS = account_options("mtn")
KINDS = {"direct/payin": "requesttopay", "web/payin": "requesttopay", "direct/payout": "transfer"}
BOTH = pytest.mark.parametrize("operation", ["direct/payin", "direct/payout"])


@pytest.fixture
async def momo(tmp_path: Path) -> AsyncIterator[OperatorGateway]:
    async with run_operator_gateway(
        tmp_path,
        kind="mtn_momo",
        simulator=MtnSimulator(accounts=SimulatedMtnAccounts(approval_delay=Span(SECOND // 10))),
        market=Market("UG", "EUR", "46733123999"),
        options=OPTIONS,
    ) as operated:
        yield operated


async def began(momo: OperatorGateway, operation: str, faults: Sequence[Fault] = ()) -> str:
    """A payment that the operator has taken, with this in store for it."""
    simulator = momo.simulator
    simulator.faults.plan([PlannedFault(KINDS[operation], each) for each in faults])
    reference = await momo.pay(operation)
    if operation == "web/payin":
        paid = await momo.running.control("pay", gatewayReference=reference)
        assert paid.status == 200, paid.body
    with trio.fail_after(TIMEOUT_S):
        while True:
            if any(each["reference"] == reference for each in simulator.snapshot()["payments"]):
                return reference
            await trio.sleep(0.02)


@pytest.mark.spec("S5", "S6")
@BOTH
async def test_a_callback_that_nobody_has_signed_ends_nothing(
    momo: OperatorGateway, operation: str
) -> None:
    reference = await began(momo, operation, faults=[EndAfter(HOUR), CallBack(())])
    address, body = told(momo, reference)
    assert (await ask(address, method="PUT", headers=JSON, body=body)).status == 200
    assert (await momo.running.merchant.status(reference))["status"] == "pending"
    strange = body.replace(reference.encode(), b"01K5TESTTESTTESTTESTTEST0Z")
    hook = address.rpartition("/")[0]
    for method in ("PUT", "POST"):
        assert (await ask(hook, method=method, headers=JSON, body=strange)).status == 200
    assert (await ask(hook, method="PUT", headers=JSON, body=b"no JSON")).status == 200
    noted = await momo.running.seen("suspense")
    assert len(noted) == 2
    assert (await momo.running.merchant.status(reference))["status"] == "pending"


async def call_back(momo: OperatorGateway, reference: str, times: int) -> None:
    address, body = told(momo, reference)
    for _ in range(times):
        assert (await ask(address, method="PUT", headers=JSON, body=body)).status == 200


@pytest.mark.spec("S2", "K1")
async def test_a_callback_that_is_repeated_50_times_ends_its_payment_once(
    momo: OperatorGateway,
) -> None:
    reference = await began(momo, "direct/payin", faults=[CallBack(())])
    await call_back(momo, reference, times=50)
    assert (await momo.wait_for_end(reference))["status"] == "success"
    await call_back(momo, reference, times=50)
    assert await momo.running.seen("suspense") == []
    assert len(await momo.running.seen("callbacks")) == 1


@pytest.mark.spec("S5")
async def test_a_late_callback_that_is_repeated_50_times_is_one_entry_of_the_suspense_book(
    momo: OperatorGateway,
) -> None:
    """And what the operator says when it is asked is another one."""
    reference = await began(momo, "direct/payout", faults=[EndAfter(Span(80 * HOUR)), CallBack(())])
    await momo.running.advance("73h")
    assert (await momo.wait_for_end(reference))["errorCode"] == "transaction_expired"
    await momo.running_simulator.advance(81 * 3_600)
    entries: dict[str, Any] = {}
    with trio.fail_after(TIMEOUT_S):
        while entries.get("late_result", {"times": 0})["times"] < 2:
            await call_back(momo, reference, times=50)
            noted = await momo.running.seen("suspense")
            entries = {entry["reason"]: entry for entry in noted}
    assert [entry["gatewayReference"] for entry in noted] == [reference, reference]
    assert entries.keys() == {"unproved_success", "late_result"}


def told(momo: OperatorGateway, reference: str) -> tuple[str, bytes]:
    """Where the operator would call back about this payment, and what it would say if that had
    succeeded."""
    assert isinstance(momo.simulator, MtnSimulator)
    till = momo.simulator.accounts
    payment = till.find_payment(reference_id(reference))
    assert payment is not None
    assert payment.callback_url is not None
    return payment.callback_url, json.dumps(
        {**till.payment_document(payment), "status": "SUCCESSFUL"}
    ).encode()


def paid(operated: OperatorGateway) -> list[tuple[str, str]]:
    """Reference and result of every payment in the operator's book."""
    return [
        (each["reference"], each["result"]) for each in operated.simulator.snapshot()["payments"]
    ]


@pytest.mark.spec("E1", "S6")
async def test_a_closed_provider_is_sent_nothing_that_moves_money(momo: OperatorGateway) -> None:
    pending = await momo.pay()
    async with momo.running.storage.open_for_admin() as administration:
        closed = ClosedProvider("operator", Instant(1), "amina", "out of order")
        assert await administration.admin.close_provider(closed)
        with trio.fail_after(TIMEOUT_S):
            while (await momo.wait_for_end(await momo.pay()))["status"] != "failed":
                pass
        book = paid(momo)
        done = await momo.wait_for_end(await momo.pay())
        assert (done["status"], done["errorCode"]) == ("failed", "provider_unavailable")
        assert (done["completionSource"], done["providerData"]) == ("manual", None)
        assert (await momo.wait_for_end(pending))["status"] == "success"
        assert [each for each in paid(momo) if each not in book] == []
        assert await administration.admin.open_provider("operator")
        with trio.fail_after(TIMEOUT_S):
            while (await momo.wait_for_end(await momo.pay()))["status"] != "success":
                pass
