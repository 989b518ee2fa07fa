"""`kill -9` between sending and knowing, for every operator: then it is asked about, and paid once (S6)."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
from airtel_stage import PAYER as UGANDAN
from airtel_stage import a_simulator as an_airtel
from airtel_stage import options as airtel_options
from attrs import define, frozen

from mmo_sansio.clock import HOUR, MINUTE, SECOND, Instant, Span
from mmo_sansio.egress import EgressRules
from mmo_trio.certificates import ensure_authority
from mmo_trio.http.client import Client, tls_context
from mmo_trio.simulators.base import EndAfter, LoseAnswer, Planned, Simulator
from mmo_trio.simulators.mpesa_book import SANDBOX_PASSKEY
from mmo_trio.simulators.mpesa_keys import open_mpesa
from mmo_trio.simulators.mtn import (
    API_KEY,
    API_USER,
    COLLECTION_KEY,
    DISBURSEMENT_KEY,
    MtnSimulator,
)
from mmo_trio.simulators.serving import serve_simulator
from mmo_trio.wallclock import WallClock

from .merchant import PATIENCE_S, Merchant, ask
from .operators import API_KEY as KEY
from .operators import BRANDS, METHOD, Market
from .program import Keeper, Process, keeping, serving_process

KENYA = Market("KE", "KES", "254708374149")
UGANDA = Market("UG", "UGX", f"256{UGANDAN}")
SANDBOX = Market("UG", "EUR", "46733123999")

NEVER = HOUR
"""Longer than anybody waits for an answer."""


@frozen
class Operator:
    """A kind of provider and its simulator."""

    kind: str
    market: Market
    make: Callable[[], Simulator]
    options: Callable[[str, Any], Mapping[str, str]]
    """From the simulator's address, and itself."""


def mpesa_options(url: str, simulator: Any) -> Mapping[str, str]:
    return {
        "base_url": url,
        "consumer_key": "consumer-key",
        "consumer_secret": "consumer-secret",
        "shortcode": "174379",
        "passkey": SANDBOX_PASSKEY,
        "payout_shortcode": "600997",
        "initiator": "testapi",
        "initiator_password": "Safaricom999!*!",
        "certificate": simulator.certificate,
    }


def momo_options(url: str, simulator: Any) -> Mapping[str, str]:
    return {
        "base_url": url,
        "market": "sandbox",
        "collection_subscription_key": COLLECTION_KEY,
        "collection_api_user": API_USER,
        "collection_api_key": API_KEY,
        "disbursement_subscription_key": DISBURSEMENT_KEY,
        "disbursement_api_user": API_USER,
        "disbursement_api_key": API_KEY,
    }


MPESA = Operator("mpesa_daraja", KENYA, open_mpesa, mpesa_options)
MOMO = Operator("mtn_momo", SANDBOX, MtnSimulator, momo_options)
AIRTEL = Operator("airtel_money", UGANDA, an_airtel, lambda url, _: airtel_options(url))

CASES = [
    pytest.param(MPESA, "direct/payin", "stk_push", id="mpesa-pay-in"),
    pytest.param(MPESA, "direct/payout", "b2c", id="mpesa-pay-out"),
    pytest.param(MPESA, "direct/taxpayout", "tax", id="mpesa-tax"),
    pytest.param(MOMO, "direct/payin", "requesttopay", id="momo-pay-in"),
    pytest.param(MOMO, "direct/payout", "transfer", id="momo-pay-out"),
    pytest.param(AIRTEL, "direct/payin", "collection", id="airtel-pay-in"),
    pytest.param(AIRTEL, "direct/payout", "disbursement", id="airtel-pay-out"),
]


@define(eq=False)
class Stage:
    """A simulator that serves, in a time of its own, and what a gateway needs to be started beside it."""

    directory: Path
    operator: Operator
    simulator: Simulator
    keeper: Keeper
    url: str
    port: int
    """The gateway's, the same after a restart, so that callbacks still find it."""
    ahead: Span = 0

    async def let_pass(self, span: Span) -> None:
        """Let time pass at the operator."""
        self.ahead += span
        await ask(f"{self.url}/_simulator/book")

    @asynccontextmanager
    async def gateway(self) -> AsyncIterator[tuple[Process, Merchant]]:
        """`mmo sandbox` with an account at the operator."""
        words: list[str | Path] = [
            "sandbox", "--data", self.directory, "--config", self.directory / "mmo.toml",
            "--brands", self.directory / "brands.toml", "--api", f"127.0.0.1:{self.port}",
            "--pages", "127.0.0.1:0", "--console", "127.0.0.1:0",
        ]  # fmt: skip
        log = self.directory / "gateway.log"
        async with serving_process(*words, log=log) as process:
            merchant = Merchant(
                process.ready["api"], KEY, result_url=self.keeper.url, method=METHOD
            )
            yield process, merchant


@asynccontextmanager
async def staging(directory: Path, operator: Operator) -> AsyncIterator[Stage]:
    ensure_authority(directory)
    simulator, wall = operator.make(), WallClock()
    client = Client(rules=EgressRules(allow_private=True), context=tls_context())
    async with trio.open_nursery() as nursery, keeping(directory) as keeper:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        url = f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}"
        [free] = await trio.open_tcp_listeners(0, host="127.0.0.1")
        port = free.socket.getsockname()[1]
        await free.aclose()
        stage = Stage(directory, operator, simulator, keeper, url, port)

        def now() -> Instant:
            return wall.now() + stage.ahead

        await nursery.start(
            partial(serve_simulator, simulator, listeners, tell=client.ask, now=now)
        )
        account = {"kind": operator.kind, **operator.options(url, simulator)}
        lines = [f"{key} = {json.dumps(value)}" for key, value in account.items()]
        (directory / "mmo.toml").write_text("\n".join(["[provider.operator]", *lines]), "utf-8")
        market = operator.market
        brands = BRANDS.format(
            key=KEY,
            method=METHOD,
            name="operator",
            country=market.country,
            currency=market.currency,
        )
        (directory / "brands.toml").write_text(brands, "utf-8")
        yield stage
        nursery.cancel_scope.cancel()


@pytest.mark.own_store
@pytest.mark.spec("S6", "K1")
@pytest.mark.parametrize(("operator", "operation", "at"), CASES)
async def test_a_kill_between_sending_and_knowing(
    tmp_path: Path, operator: Operator, operation: str, at: str
) -> None:
    async with staging(tmp_path, operator) as stage:
        book = stage.simulator.book
        lost = [Planned(at, LoseAnswer(NEVER)), Planned(at, EndAfter(MINUTE))]
        stage.simulator.faults.plan(lost)
        market = operator.market
        async with stage.gateway() as (process, merchant):
            taken = await merchant.accepted(
                operation,
                msisdn=market.msisdn,
                country=market.country,
                amount={"value": 150, "currency": market.currency},
                reconciliationReference="PRN1234XN",
            )
            reference = taken["gatewayReference"]
            with trio.fail_after(PATIENCE_S):
                while True:
                    if book()["payments"]:
                        break
                    await trio.sleep(0.02)
            await process.kill()
        async with stage.gateway() as (process, merchant):
            assert (await merchant.status(reference))["status"] == "pending"
            await stage.let_pass(2 * MINUTE)
            with trio.fail_after(PATIENCE_S):
                while (done := await merchant.status(reference))["status"] == "pending":
                    await _let_pass(process, stage, 10 * SECOND)
        assert done["status"] == "success"
        assert [each["result"] for each in book()["payments"]] == ["success"]
        assert {each.gateway_reference for each in stage.keeper.called} == {reference}


async def _let_pass(process: Process, stage: Stage, span: Span) -> None:
    """Let time pass everywhere."""
    await stage.let_pass(span)
    answer = await ask(
        f"{process.ready['pages']}/sandbox/clock",
        method="POST",
        headers={"Content-Type": "application/json"},
        body=json.dumps({"advance": f"{span // SECOND}s"}).encode(),
    )
    assert answer.status == 200, answer.body
    await trio.sleep(0.1)
