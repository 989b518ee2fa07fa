"""Airtel Money through every socket: merchant's request, adapter, operator, callback, and back to
the merchant."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from attrs import define

from tests.support.airtel_account import PAYER
from tests.support.airtel_gateway import (
    BRANDS,
    JSON,
    KEY,
    NAME,
    Airtel,
    AirtelGateway,
    running_airtel,
    wait_until,
)
from tests.support.hostile_receivers import Receiver
from tests.support.merchant import Merchant, ask
from tests.support.receivers import calls_to, receiver, url_of
from tests.support.sandbox_gateway import Serve

OPERATIONS = ("direct/payin", "web/payin", "direct/payout")
MOVED = {
    "direct/payin": {PAYER: "99000", "collection": "1000", "disbursement": "1000000"},
    "web/payin": {PAYER: "99000", "collection": "1000", "disbursement": "1000000"},
    "direct/payout": {PAYER: "101000", "collection": "0", "disbursement": "999000"},
}
UNMOVED = {PAYER: "100000", "collection": "0", "disbursement": "1000000"}


@define(eq=False)
class Scene:
    """A gateway in this process, the operator, and the merchant's receiver."""

    uganda: AirtelGateway
    airtel: Airtel
    receiver: Receiver

    async def ended(self, reference: str) -> dict[str, Any]:
        """The transaction once it has ended and the merchant was called back, once and with it."""
        found = await self.uganda.merchant.ended(reference)
        await wait_until(lambda: self.calls(reference))
        assert [each["status"] for each in self.calls(reference)] == [found["status"]]
        return found

    def calls(self, reference: str) -> list[dict[str, Any]]:
        """What the merchant was called back with about this payment."""
        calls = [each.transaction for each in calls_to(self.receiver)]
        return [each for each in calls if each["gatewayReference"] == reference]


@pytest.fixture
async def scene(serve: Serve, tmp_path: Path) -> AsyncIterator[Scene]:
    async with running_airtel() as airtel, receiver(tmp_path) as found:
        environment = {
            f"MMO_PROVIDER__{NAME.upper()}__{name.upper()}": str(value)
            for name, value in airtel.options(collection_version="2").items()
        }
        async with serve(brands=BRANDS, environment=environment) as running:
            merchant = Merchant(running.ready.api, KEY, url_of(found), method="airtel")
            uganda = AirtelGateway(airtel, tmp_path, running.ready.pages, merchant)
            uganda.set_hook_url()
            yield Scene(uganda, airtel, found)


@pytest.mark.spec("C1", "C4", "S2", "T3")
@pytest.mark.parametrize("operation", ["direct/payin", "web/payin"])
async def test_a_payin_ends_when_the_operator_calls_back(scene: Scene, operation: str) -> None:
    scene.airtel.script(operation, {"do": "end_after", "after_s": 60})
    reference = await scene.uganda.create(operation)
    await scene.uganda.wait_for_acceptance(reference)
    await scene.airtel.advance(60)
    found = await scene.ended(reference)
    (paid,) = scene.airtel.simulator.snapshot()["payments"]
    assert (found["status"], found["providerReference"]) == ("success", paid["receipt"])
    assert found["finalAmount"] == {"value": 1000, "currency": "UGX"}
    assert found["providerData"]["title"] == "Airtel"
    assert found["completionSource"] == "poll"
    assert scene.airtel.balances() == MOVED[operation]
    assert await scene.uganda.suspense() == []


@pytest.mark.spec("C2", "S2")
async def test_a_payout_ends_with_its_answer(scene: Scene) -> None:
    reference = await scene.uganda.create("direct/payout")
    assert (await scene.ended(reference))["status"] == "success"
    assert scene.airtel.balances() == MOVED["direct/payout"]


@pytest.mark.spec("S6")
async def test_an_answer_that_the_operator_timed_out_is_asked_about(scene: Scene) -> None:
    scene.airtel.script(
        "direct/payout",
        {"do": "end_with", "code": "DP00900001014"},
        {"do": "end_after", "after_s": 600},
    )
    reference = await scene.uganda.create("direct/payout")
    await scene.uganda.wait_for_acceptance(reference)
    await scene.uganda.advance("5m", 300)
    assert (await scene.uganda.merchant.status(reference))["status"] == "pending"
    await scene.uganda.advance("30m", 1800)
    assert (await scene.ended(reference))["errorCode"] == "provider_timeout"
    assert scene.airtel.balances() == UNMOVED


@pytest.mark.spec("S5")
async def test_a_forged_callback_is_kept_and_changes_nothing(scene: Scene) -> None:
    scene.airtel.script("direct/payin", {"do": "end_after", "after_s": None})
    reference = await scene.uganda.create("direct/payin")
    await scene.uganda.wait_for_acceptance(reference)
    told = {"transaction": {"id": reference, "status_code": "TS"}, "hash": "AAAA"}
    body = json.dumps(told).encode()
    answer = await ask(scene.uganda.hook(), method="POST", headers=JSON, body=body)
    assert (answer.status, answer.body) == (200, b"{}")
    (kept,) = await scene.uganda.suspense()
    assert reference in json.dumps(kept)
    assert (await scene.uganda.merchant.status(reference))["status"] == "pending"
    stranger = await ask(scene.uganda.hook() + "0", method="POST", headers=JSON, body=body)
    assert stranger.status == 404
