"""Money back by staff, through a serving gateway to the operator and back."""

from __future__ import annotations

import pytest
import trio

from mmo_sansio.messages.replies import ReversalApplied
from mmo_sansio.messages.reversals import RequestReversal
from mmo_sansio.values.money import Money
from mmo_sansio.values.reversals import ReversalState
from mmo_trio.engine.engine import submit_once
from mmo_trio.system.clock import GatewayClock
from tests.support.mmo_process import mmo
from tests.support.sandbox_gateway import Serve

pytestmark = pytest.mark.own_store


@pytest.mark.spec("S1", "S6")
async def test_money_of_a_payment_goes_back_in_parts_and_the_payment_stays(serve: Serve) -> None:
    async with serve() as sandbox, sandbox.storage.open_for_admin() as store:
        paid = await sandbox.merchant.ended((await sandbox.merchant.accepted())["gatewayReference"])
        reference = paid["gatewayReference"]
        for amount in (Money(100, "KES"), None):
            asked = RequestReversal(
                reference, "demo", amount, "Paid twice.", "amina", needs_approval=False
            )
            assert isinstance(await submit_once(store, asked, GatewayClock()), ReversalApplied)
        states: list[ReversalState] = []
        for _ in range(50):
            states = [each.state for each in await store.reversals(reference)]
            if states == [ReversalState.SUCCEEDED] * 2:
                break
            await trio.sleep(0.5)
        assert states == [ReversalState.SUCCEEDED] * 2
        assert await sandbox.merchant.status(reference) == paid
        told = await mmo("explain", reference, "--data", sandbox.directory)
        assert "says that the money was moved back" in " ".join(told.split())
