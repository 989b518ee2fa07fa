"""Bringing the QR code to the merchant: once, where it may, and of no consequence to the payment
(clause Q1)."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Sequence
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio

from mmo_sansio.providers.common.emv_qr import reference_label
from mmo_trio.sandbox.callback_receiver import ReceivedRequest, receive_callbacks
from mmo_trio.sandbox.local_ca import ensure_authority
from tests.support.emv_qr_reader import parse_objects, parse_payload
from tests.support.hostile_receivers import (
    Behaviour,
    only_accepts,
    resets_after_the_request,
)
from tests.support.merchant import TIMEOUT_S, Merchant
from tests.support.mmo_process import FREE_PORTS, mmo, serving_process
from tests.support.qr_reader import read_qr_code
from tests.support.receivers import (
    Call,
    answers_status,
    calls_to,
    receiver,
    sort_requests,
    url_of,
    wait_for_requests,
)
from tests.support.sandbox_gateway import Running, Serve
from tests.support.storages import storages

SOON = {"MMO_LIMITS_CALLBACK_TIMEOUT": "1s"}


async def outcome_of(sandbox: Running, reference: str) -> dict[str, Any]:
    """The recorded outcome of this payment's QR code, once there is one."""
    with trio.fail_after(TIMEOUT_S):
        async with storages.of(sandbox.directory).open_for_admin() as store:
            while True:
                for each in await store.admin.timeline(reference):
                    if each.input_name == "QrConcluded":
                        assert (each.actor, each.brand) == ("gateway", "demo")
                        assert each.stage_before is each.stage_after is None
                        detail: dict[str, Any] = json.loads(each.detail)
                        return detail
                await trio.sleep(0.02)


async def come(codes: Sequence[ReceivedRequest]) -> ReceivedRequest:
    """The first code, once it has come."""
    with trio.fail_after(TIMEOUT_S):
        while True:
            if codes:
                return codes[0]
            await trio.sleep(0.02)


@pytest.mark.spec("Q1", "C3", "G5", "G6", "A4")
async def test_the_code_is_posted_once_to_display_qr_url(sandbox: Running, tmp_path: Path) -> None:
    async with receiver(tmp_path) as found:
        accepted = await sandbox.merchant.accepted(
            "qr/payin",
            displayQrUrl=url_of(found) + "?till=7",
            merchantReference="order é 1",
            reconciliationReference="r-1",
        )
        reference = accepted["gatewayReference"]
        await wait_for_requests(found)
        (call,) = calls_to(found)
        assert call.line == "POST /callback?till=7 HTTP/1.1"
        assert call.headers["content-type"] == "application/json"
        assert call.headers["x-api-key"] == sandbox.merchant.key
        code = json.loads(call.body, parse_float=Decimal)
        assert set(code) == {
            "gatewayReference", "merchantReference", "reconciliationReference", "amount",
            "qrPayload", "qrImage", "expiresAt",
        }  # fmt: skip
        assert (code["gatewayReference"], code["merchantReference"]) == (reference, "order é 1")
        assert code["reconciliationReference"] == "r-1"
        assert code["amount"] == {"value": Decimal("150.00"), "currency": "KES"}
        assert b'"value":150.00' in call.body
        assert code["expiresAt"].endswith("Z")
        assert len(code["expiresAt"]) == len("2026-11-21T16:00:00.000000Z")

        objects = parse_payload(code["qrPayload"])
        assert (objects["01"], objects["54"], objects["58"]) == ("12", "150.00", "KE")
        assert parse_objects(objects["62"])["05"] == reference_label(reference)
        assert read_qr_code(b64decode(code["qrImage"])) == code["qrPayload"]

        await sandbox.merchant.ended(reference)
        assert len(calls_to(found)) == 1
        detail = await outcome_of(sandbox, reference)
        assert (detail["outcome"], detail["status"]) == ("delivered", 204)


@pytest.mark.spec("Q1")
@pytest.mark.parametrize(
    ("behaviour", "outcome", "status"),
    [
        (answers_status("500 Oh"), "non_2xx", 500),
        (only_accepts, "timeout", None),
        (resets_after_the_request, "transport_error", None),
    ],
    ids=["500", "silent", "reset"],
)
async def test_a_failed_delivery_is_recorded_and_changes_nothing(
    serve: Serve, tmp_path: Path, behaviour: Behaviour, outcome: str, status: int | None
) -> None:
    async with receiver(tmp_path, behaviour) as found, serve(environment=SOON) as sandbox:
        accepted = await sandbox.merchant.accepted("qr/payin", displayQrUrl=url_of(found))
        reference = accepted["gatewayReference"]
        assert (await sandbox.merchant.ended(reference))["status"] == "success"
        assert (await sandbox.callback_for(reference)).content["status"] == "success"
        detail = await outcome_of(sandbox, reference)
        assert (detail["outcome"], detail["status"]) == (outcome, status)
        assert found.connections == 1


@pytest.mark.own_store
@pytest.mark.spec("Q1")
async def test_a_failed_delivery_is_explained(sandbox: Running, tmp_path: Path) -> None:
    async with receiver(tmp_path, answers_status("500 Oh")) as found:
        made = await sandbox.merchant.accepted("qr/payin", displayQrUrl=url_of(found))
        await outcome_of(sandbox, made["gatewayReference"])
        told = await mmo("explain", made["gatewayReference"], "--data", sandbox.directory)
        assert "QR code: not delivered (not accepted)" in told
        assert "The QR code was not brought to the merchant: The receiver answered 500." in told


@pytest.mark.spec("Q1", "K5")
async def test_it_is_outside_the_breaker(sandbox: Running, tmp_path: Path) -> None:
    async with receiver(tmp_path, answers_status("500 Oh")) as broken, receiver(tmp_path) as sound:
        for _ in range(6):
            made = await sandbox.merchant.accepted("qr/payin", displayQrUrl=url_of(broken))
            callback = await sandbox.outcome_of(made["gatewayReference"])
            assert callback["outcome"] == "delivered", "failed codes open no breaker"
        for _ in range(12):
            made = await sandbox.merchant.accepted(resultUrl=url_of(broken))
            await sandbox.outcome_of(made["gatewayReference"])
        assert callback["outcome"] == "delivered"
        assert (await sandbox.outcome_of(made["gatewayReference"]))["outcome"] == "breaker_open"
        await sandbox.merchant.accepted("qr/payin", displayQrUrl=url_of(sound))
        await wait_for_requests(sound)  # An open breaker stops no code.


@pytest.mark.spec("Q1", "K7")
async def test_the_same_egress_rules_hold(serve: Serve, tmp_path: Path) -> None:
    async with (
        receiver(tmp_path) as found,
        serve(environment={"MMO_EGRESS_ALLOWED_PORTS": "443"}) as sandbox,
    ):
        answer = await sandbox.merchant.create("qr/payin", displayQrUrl=url_of(found))
        assert answer.status == 400
        refused = await sandbox.merchant.create(
            "qr/payin", displayQrUrl="https://169.254.169.254/", resultUrl="https://m.example/"
        )
        assert refused.json["errors"][0]["field"] == "displayQrUrl"


@pytest.mark.own_store
@pytest.mark.spec("Q1")
async def test_a_code_that_was_not_delivered_when_the_gateway_died_is_delivered_by_the_next(
    tmp_path: Path,
) -> None:
    log, received = tmp_path / "log", list[ReceivedRequest]()
    context = ensure_authority(tmp_path).issue("localhost")
    codes: list[ReceivedRequest] = []
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listeners[0].socket.getsockname()[1]
    sandbox = partial(serving_process, "sandbox", "--data", tmp_path, *FREE_PORTS, log=log)
    async with sandbox() as first:
        merchant = Merchant(first.ready["api"], first.ready["api_key"])
        made = await merchant.accepted(
            "qr/payin", scenario="never", displayQrUrl=f"https://localhost:{port}/qr"
        )
        with trio.fail_after(TIMEOUT_S):
            stream = await listeners[0].accept()  # It is about to be sent, and isn't answered.
        await first.kill()
        await stream.aclose()
    async with trio.open_nursery() as nursery, sandbox() as second:
        key = second.ready["api_key"].encode()
        await nursery.start(
            partial(
                receive_callbacks, listeners, tls=lambda: context, expected_keys=[key],
                on_request=sort_requests(received, codes),
            )
        )  # fmt: skip
        await come(codes)
        nursery.cancel_scope.cancel()
    assert [each.gateway_reference for each in codes] == [made["gatewayReference"]]


def code_of(call: Call) -> dict[str, Any]:
    """The code that came."""
    found: dict[str, Any] = json.loads(call.body)
    return found


@pytest.mark.spec("Q1")
async def test_whom_the_code_pays_is_the_accounts_option(serve: Serve, tmp_path: Path) -> None:
    options = {
        "MMO_PROVIDER__SANDBOX__KIND": "sandbox",
        "MMO_PROVIDER__SANDBOX__QR_NAME": "Duka la Asha",
        "MMO_PROVIDER__SANDBOX__QR_CITY": "Kisumu",
        "MMO_PROVIDER__SANDBOX__QR_SCHEME": "com.example.till",
        "MMO_PROVIDER__SANDBOX__QR_ACCOUNT": "174379",
    }
    async with receiver(tmp_path) as found, serve(environment=options) as sandbox:
        await sandbox.merchant.accepted("qr/payin", displayQrUrl=url_of(found))
        await wait_for_requests(found)
        objects = parse_payload(code_of(calls_to(found)[0])["qrPayload"])
        assert (objects["59"], objects["60"]) == ("Duka la Asha", "Kisumu")
        assert parse_objects(objects["26"]) == {"00": "com.example.till", "01": "174379"}
