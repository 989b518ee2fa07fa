"""Real operators through real sockets: merchant API, adapter, simulator, and back to the
merchant."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio

from mmo_sansio.values.clock import Instant
from mmo_simulators.operators.mtn.api import MtnSimulator
from mmo_trio.storage.interface.admin_types import ClosedProvider
from tests.support.merchant import TIMEOUT_S
from tests.support.operator_gateway import Market, OperatorGateway, run_operator_gateway
from tests.support.simulated_accounts import account_options

MOMO = account_options("mtn")


@pytest.fixture
async def momo(tmp_path: Path) -> AsyncIterator[OperatorGateway]:
    async with run_operator_gateway(
        tmp_path,
        kind="mtn_momo",
        simulator=MtnSimulator(),
        market=Market("UG", "EUR", "46733123999"),
        options=MOMO,
    ) as operated:
        yield operated


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
