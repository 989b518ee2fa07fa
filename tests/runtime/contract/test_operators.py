"""Real operators through real sockets: merchant API, adapter, simulator, and back to the merchant."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio

from mmo_sansio.values.clock import Instant
from mmo_trio.simulators.mtn.api import (
    API_KEY,
    API_USER,
    COLLECTION_KEY,
    DISBURSEMENT_KEY,
    MtnSimulator,
)
from mmo_trio.storage.interface.admin_types import ClosedProvider
from tests.support.merchant import PATIENCE_S, ask
from tests.support.operator_gateway import Market, Operated, operating

MOMO = {
    "market": "sandbox",
    "collection_subscription_key": COLLECTION_KEY,
    "collection_api_user": API_USER,
    "collection_api_key": API_KEY,
    "disbursement_subscription_key": DISBURSEMENT_KEY,
    "disbursement_api_user": API_USER,
    "disbursement_api_key": API_KEY,
}
BOTH = pytest.mark.parametrize(
    ("operation", "kind"),
    [("direct/payin", "requesttopay"), ("direct/payout", "transfer")],
    ids=["pay-in", "pay-out"],
)


@pytest.fixture
async def momo(tmp_path: Path) -> AsyncIterator[Operated]:
    async with operating(
        tmp_path,
        kind="mtn_momo",
        simulator=MtnSimulator(),
        market=Market("UG", "EUR", "46733123999"),
        options=MOMO,
    ) as operated:
        yield operated


def paid(operated: Operated) -> list[tuple[str, str]]:
    """Reference and result of every payment in the operator's book."""
    return [
        (each["reference"], each["result"]) for each in operated.simulator.snapshot()["payments"]
    ]


@pytest.mark.spec("S5", "S6")
async def test_who_does_not_know_the_token_is_not_heard(momo: Operated) -> None:
    for path in ("operator/0123", "nobody/0123", "operator/0123/01K5"):
        answer = await ask(
            f"{momo.running.ready.api}/hooks/{path}", method="PUT", headers={}, body=b"{}"
        )
        assert answer.status == 404
    assert await momo.running.seen("suspense") == []


@pytest.mark.spec("E1", "S6")
async def test_a_closed_provider_is_sent_nothing_that_moves_money(momo: Operated) -> None:
    pending = await momo.pay()
    async with momo.running.storage.beside() as administration:
        closed = ClosedProvider("operator", Instant(1), "amina", "out of order")
        assert await administration.admin.close_provider(closed)
        with trio.fail_after(PATIENCE_S):
            while (await momo.ended(await momo.pay()))["status"] != "failed":
                pass
        book = paid(momo)
        done = await momo.ended(await momo.pay())
        assert (done["status"], done["errorCode"]) == ("failed", "provider_unavailable")
        assert (await momo.ended(pending))["status"] == "success"
        assert [each for each in paid(momo) if each not in book] == []
        assert await administration.admin.open_provider("operator")
        with trio.fail_after(PATIENCE_S):
            while (await momo.ended(await momo.pay()))["status"] != "success":
                pass
