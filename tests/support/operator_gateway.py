"""Runs a gateway with one operator's account; the operator is a simulator behind a real socket."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import trio
from attrs import define, field, frozen

from mmo_sansio.values.clock import HOUR, SECOND, Instant, Span, later
from mmo_simulators.common.simulator import Simulator
from mmo_simulators.server.serving import serve
from mmo_trio.brands.keyring import KeyRing
from mmo_trio.brands.master_key import load_master_keys
from mmo_trio.settings.providers import provider_variable
from mmo_trio.system.clock import GatewayClock
from tests.support.merchant import TIMEOUT_S, ask
from tests.support.merchants import FLOWS, a_brand
from tests.support.sandbox_gateway import Running, serving

API_KEY = "operators-test-key-01234567"
METHOD = "operator"
NEVER: Span = HOUR
"""Longer than any client waits for an answer."""
FORM = {"Content-Type": "application/x-www-form-urlencoded"}

PAGES_URL = "https://pay.example"
"""The address of payment pages that are behind a proxy, which isn't there."""


@frozen
class Market:
    """Describes the payments of one market."""

    country: str
    currency: str
    msisdn: str


@define(eq=False)
class RunningSimulator:
    """Holds an operator's simulator on its socket; tests move its clock."""

    simulator: Simulator
    origin: str = field(init=False)
    """`http://127.0.0.1:PORT`."""
    ahead: Span = Span(0)
    """How far its clock is ahead."""

    def now(self) -> Instant:
        """Return the simulator's time."""
        return later(GatewayClock().wall_time(), self.ahead)

    async def advance(self, seconds: int) -> None:
        """Advance its clock and run everything that is due."""
        self.ahead = Span(self.ahead + seconds * SECOND)
        await ask(f"{self.origin}/_simulator/book")  # Whoever asks has it look at its clock.


@asynccontextmanager
async def run_simulator(simulator: Simulator) -> AsyncIterator[RunningSimulator]:
    """Run the simulator during the block."""
    running = RunningSimulator(simulator)
    async with serve(simulator, now=running.now) as running.origin:
        yield running


@define(eq=False)
class OperatorGateway:
    """Holds a serving gateway and its operator's simulator."""

    running: Running
    running_simulator: RunningSimulator
    market: Market

    @property
    def simulator(self) -> Simulator:
        """The operator."""
        return self.running_simulator.simulator

    async def advance(self, seconds: int) -> None:
        """Advance both clocks, the operator's first."""
        await self.running_simulator.advance(seconds)
        await self.running.advance(f"{seconds}s")

    def hook_url(self) -> str:
        """Return the URL for the operator's callbacks."""
        ring = KeyRing(*load_master_keys(self.running.directory / "master.key"))
        return f"{self.running.ready.api}/hooks/operator/{ring.webhook_tokens('operator')[0]}"

    async def pay(self, operation: str = "direct/payin", amount: int = 150, **changes: Any) -> str:
        """Create a payment and return its gatewayReference; a web pay-in is confirmed on its
        page."""
        accepted = await self.running.merchant.accepted(
            operation,
            **{
                "msisdn": self.market.msisdn,
                "country": self.market.country,
                "amount": {"value": amount, "currency": self.market.currency},
                **changes,
            },
        )
        if operation == "web/payin":
            await ask(accepted["pageUrl"], method="POST", headers=FORM, body=b"")
        return str(accepted["gatewayReference"])

    async def wait_for_end(self, reference: str) -> dict[str, Any]:
        """Return the transaction once it has ended; the clock is advanced so that polls come
        early."""
        with trio.fail_after(TIMEOUT_S):
            while True:
                found = await self.running.merchant.status(reference)
                if found["status"] != "pending":
                    return found
                await self.running.advance("5s")
                await trio.sleep(0.05)


@asynccontextmanager
async def run_operator_gateway(
    directory: Path,
    *,
    kind: str,
    simulator: Simulator,
    market: Market,
    options: Mapping[str, str],
    confirms_elsewhere: bool = False,
) -> AsyncIterator[OperatorGateway]:
    """Run the simulator and a gateway with an account of this kind, called `operator`. The
    account's base_url is the simulator's, whose clock `OperatorGateway.advance` moves.
    `confirms_elsewhere`: its payers approve at a page of the operator, or with a code of it, and
    the payment pages have the address PAGES_URL."""
    async with run_simulator(simulator) as played:
        account = {"kind": kind, **options, "base_url": played.origin}
        environment = {provider_variable("operator", key): text for key, text in account.items()}
        flows: Sequence[str] = FLOWS
        if confirms_elsewhere:
            environment["MMO_GATEWAY_HPP_URL"] = PAGES_URL
            flows = FLOWS[1:]
        brands = a_brand(
            "acme",
            API_KEY,
            method=METHOD,
            provider="operator",
            country=market.country,
            currency=market.currency,
            flows=flows,
        )
        async with serving(
            directory, environment=environment, brands=brands, api_key=API_KEY
        ) as running:
            running.merchant.method = METHOD
            yield OperatorGateway(running, played, market)
