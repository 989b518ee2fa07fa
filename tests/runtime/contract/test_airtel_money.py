"""Airtel Money through every socket: merchant's request, adapter, operator, callback, and back to the merchant."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import trio
from airtel_stage import PAYER
from attrs import define
from hostile_receivers import Receiver

from mmo_sansio.providers.airtel_money.codes import COLLECTION, DISBURSEMENT, Standing

from .airtel_uganda import BRANDS, JSON, KEY, NAME, Airtel, Uganda, airtel_playing, until
from .conftest import Serve
from .merchant import PATIENCE_S, Merchant, ask
from .program import Process, serving_process
from .receivers import calls_to, receiver, url_of

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

    uganda: Uganda
    airtel: Airtel
    receiver: Receiver

    async def ended(self, reference: str) -> dict[str, Any]:
        """The transaction once it has ended and the merchant was called back, once and with it."""
        found = await self.uganda.merchant.ended(reference)
        await until(lambda: self.calls(reference))
        assert [each["status"] for each in self.calls(reference)] == [found["status"]]
        return found

    def calls(self, reference: str) -> list[dict[str, Any]]:
        """What the merchant was called back with about this payment."""
        calls = [each.transaction for each in calls_to(self.receiver)]
        return [each for each in calls if each["gatewayReference"] == reference]


@pytest.fixture
async def scene(serve: Serve, tmp_path: Path) -> AsyncIterator[Scene]:
    async with airtel_playing() as airtel, receiver(tmp_path) as found:
        environment = {
            f"MMO_PROVIDER__{NAME.upper()}__{name.upper()}": str(value)
            for name, value in airtel.options(collection_version="2").items()
        }
        async with serve(brands=BRANDS, environment=environment) as running:
            merchant = Merchant(running.ready.api, KEY, url_of(found), method="airtel")
            uganda = Uganda(airtel, tmp_path, running.ready.pages, merchant)
            uganda.tell_where()
            yield Scene(uganda, airtel, found)


@pytest.mark.spec("C1", "C4", "S2", "T3")
@pytest.mark.parametrize("operation", ["direct/payin", "web/payin"])
async def test_a_payin_ends_when_the_operator_calls_back(scene: Scene, operation: str) -> None:
    scene.airtel.script(operation, {"do": "end_after", "after_s": 60})
    reference = await scene.uganda.create(operation)
    await scene.uganda.awaits_result(reference)
    await scene.airtel.pass_time(60)
    found = await scene.ended(reference)
    (paid,) = scene.airtel.simulator.book()["payments"]
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


@pytest.mark.spec("E1", "S2")
async def test_every_failure_of_a_payin_reaches_the_merchant_in_our_words(scene: Scene) -> None:
    codes = {each.native: each for each in COLLECTION if each.standing is Standing.REFUSED}
    references = {}
    for code in codes:
        scene.airtel.script(
            "direct/payin",
            {"do": "end_with", "code": code, "message": "no"},
            {"do": "call_back", "after_s": []},
        )
        references[code] = await scene.uganda.create("direct/payin")
        await scene.uganda.awaits_result(references[code])
    await scene.uganda.advance("4m", 240)
    for code, reference in references.items():
        found = await scene.ended(reference)
        assert (found["status"], found["errorCode"]) == ("failed", codes[code].error_code)
        expected = {"errorCode": code, "errorMessage": "no"}
        assert {name: found["providerData"][name] for name in expected} == expected
    assert scene.airtel.balances() == UNMOVED


@pytest.mark.spec("E1", "S2")
async def test_every_failure_of_a_payout_reaches_the_merchant_in_our_words(scene: Scene) -> None:
    for code in (each for each in DISBURSEMENT if each.standing is Standing.REFUSED):
        scene.airtel.script("direct/payout", {"do": "end_with", "code": code.native})
        found = await scene.ended(await scene.uganda.create("direct/payout"))
        assert (found["status"], found["errorCode"]) == ("failed", code.error_code)
        assert found["providerData"]["errorCode"] == code.native
    assert scene.airtel.balances() == UNMOVED


@pytest.mark.spec("S6")
@pytest.mark.parametrize(
    "fault",
    [
        {"do": "lose_answer"},
        {"do": "answer_after", "status": 504, "body": "<html>"},
        {"do": "answer_after", "status": 200, "body": {"data": {}}},
    ],
    ids=["connection broken", "gateway timed out", "senseless"],
)
@pytest.mark.parametrize("operation", OPERATIONS)
async def test_a_lost_answer_is_asked_about_and_nothing_is_paid_twice(
    scene: Scene, operation: str, fault: dict[str, Any]
) -> None:
    scene.airtel.script(operation, {"do": "call_back", "after_s": []}, fault)
    reference = await scene.uganda.create(operation)
    await scene.airtel.has(reference)
    await scene.uganda.advance("5m", 300)
    assert (await scene.ended(reference))["status"] == "success"
    assert scene.airtel.balances() == MOVED[operation]


@pytest.mark.spec("S6")
@pytest.mark.parametrize("operation", OPERATIONS)
async def test_a_lost_request_is_sent_again_when_the_operator_surely_never_had_it(
    scene: Scene, operation: str
) -> None:
    lost = scene.airtel.script(operation, {"do": "lose_request"})
    reference = await scene.uganda.create(operation)
    await scene.airtel.has_met(lost)
    await scene.uganda.advance("8m", 480)
    assert scene.airtel.payments() == {}
    with trio.fail_after(PATIENCE_S):
        while reference not in scene.airtel.payments():
            await scene.uganda.advance("20m", 1200)
            await trio.sleep(0.2)  # A submission that is repeated waits half a second.
    await scene.uganda.advance("20m", 1200)
    assert (await scene.ended(reference))["status"] == "success"
    assert scene.airtel.balances() == MOVED[operation]


@pytest.mark.spec("S6")
async def test_an_answer_that_the_operator_timed_out_is_asked_about(scene: Scene) -> None:
    scene.airtel.script(
        "direct/payout",
        {"do": "end_with", "code": "DP00900001014"},
        {"do": "end_after", "after_s": 600},
    )
    reference = await scene.uganda.create("direct/payout")
    await scene.uganda.awaits_result(reference)
    await scene.uganda.advance("5m", 300)
    assert (await scene.uganda.merchant.status(reference))["status"] == "pending"
    await scene.uganda.advance("30m", 1800)
    assert (await scene.ended(reference))["errorCode"] == "provider_timeout"
    assert scene.airtel.balances() == UNMOVED


@pytest.mark.spec("S5", "S6")
async def test_callbacks_told_twice_and_after_the_end_change_nothing(scene: Scene) -> None:
    scene.airtel.script(
        "direct/payin",
        {"do": "end_after", "after_s": 60},
        {"do": "call_back", "after_s": [0, 0, 3600]},
    )
    reference = await scene.uganda.create("direct/payin")
    await scene.uganda.awaits_result(reference)
    await scene.airtel.pass_time(60)
    assert (await scene.ended(reference))["status"] == "success"
    await scene.airtel.pass_time(3600)
    await until(lambda: scene.airtel.simulator.book()["payments"][0]["told"] == 3)
    await scene.uganda.advance("1m", 60)
    assert len(scene.calls(reference)) == 1
    assert await scene.uganda.suspense() == []
    assert scene.airtel.balances() == MOVED["direct/payin"]


@pytest.mark.spec("S3", "S5")
async def test_a_success_after_the_expiry_is_in_the_suspense_book(scene: Scene) -> None:
    days = 3 * 24 * 3600
    scene.airtel.script("direct/payin", {"do": "end_after", "after_s": days + 3600})
    reference = await scene.uganda.create("direct/payin")
    await scene.uganda.awaits_result(reference)
    await scene.uganda.advance("73h", 0)
    assert (await scene.ended(reference))["errorCode"] == "transaction_expired"
    await scene.airtel.pass_time(days + 3600)
    (kept,) = await scene.uganda.suspense(1)
    assert kept["gatewayReference"] == reference
    assert kept["reason"] == "late_result"
    assert len(scene.calls(reference)) == 1


@pytest.mark.spec("S5")
async def test_a_forged_callback_is_kept_and_changes_nothing(scene: Scene) -> None:
    scene.airtel.script("direct/payin", {"do": "end_after", "after_s": None})
    reference = await scene.uganda.create("direct/payin")
    await scene.uganda.awaits_result(reference)
    told = {"transaction": {"id": reference, "status_code": "TS"}, "hash": "AAAA"}
    body = json.dumps(told).encode()
    answer = await ask(scene.uganda.hook(), method="POST", headers=JSON, body=body)
    assert (answer.status, answer.body) == (200, b"{}")
    (kept,) = await scene.uganda.suspense()
    assert reference in json.dumps(kept)
    assert (await scene.uganda.merchant.status(reference))["status"] == "pending"
    stranger = await ask(scene.uganda.hook() + "0", method="POST", headers=JSON, body=body)
    assert stranger.status == 404


@pytest.mark.own_store
@pytest.mark.spec("S6", "P1")
async def test_after_a_kill_between_sending_and_knowing_each_payment_is_paid_once(
    tmp_path: Path,
) -> None:
    """Two pay-ins and two pay-outs, of each kind one that the operator has and one that it never got."""
    async with airtel_playing() as airtel:
        command = a_program(airtel, tmp_path)
        references = []
        async with serving_process(*command, log=tmp_path / "log") as process:
            uganda = in_process(process, airtel, tmp_path)
            for operation in ("direct/payin", "direct/payout"):
                for fault in ("lose_answer", "lose_request"):
                    held = airtel.script(operation, {"do": fault, "hold_s": 600})
                    references.append(await uganda.create(operation))
                    await airtel.has_met(held)
            await process.kill()
        assert len(airtel.payments()) == 2

        async with serving_process(*command, log=tmp_path / "log") as process:
            uganda = in_process(process, airtel, tmp_path)
            with trio.fail_after(3 * PATIENCE_S):
                for reference in references:
                    while (await uganda.merchant.status(reference))["status"] == "pending":
                        await uganda.advance("20m", 1200)
                        await trio.sleep(0.1)
            for reference in references:
                assert (await uganda.merchant.status(reference))["status"] == "success"
        assert airtel.payments() == dict.fromkeys(references, "success")
        assert airtel.balances() == {
            PAYER: "100000",
            "collection": "2000",
            "disbursement": "998000",
        }


def a_program(airtel: Airtel, directory: Path) -> list[str | Path]:
    """The command that serves a sandbox with an account at the operator."""
    config, brands = directory / "mmo.toml", directory / "brands.toml"
    lines = [f"{name} = {json.dumps(value)}" for name, value in airtel.options().items()]
    config.write_text("\n".join([f"[provider.{NAME}]", *lines]), "utf-8")
    brands.write_text(BRANDS, "utf-8")
    command: list[str | Path] = ["sandbox", "--data", directory]
    command += ["--config", config, "--brands", brands]
    for option in ("--api", "--pages", "--console"):
        command += [option, "127.0.0.1:0"]
    return command


def in_process(process: Process, airtel: Airtel, directory: Path) -> Uganda:
    """The gateway in this process, seen from outside."""
    merchant = Merchant(process.ready["api"], KEY, method="airtel")
    return Uganda(airtel, directory, process.ready["pages"], merchant)
