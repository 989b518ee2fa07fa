"""Runs Airtel Money's simulator on a socket, and gateways with an account; tests move its clock."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import trio
from attrs import define, field

from mmo_sansio.values.clock import SECOND, Instant, Span, later
from mmo_sansio.values.model import Stage
from mmo_simulators.common.faults import PlannedFault, parse_planned_fault
from mmo_simulators.operators.airtel.api import AirtelSimulator
from mmo_simulators.server.serving import serve
from mmo_trio.brands.keyring import KeyRing
from mmo_trio.brands.master_key import load_master_keys
from mmo_trio.system.clock import GatewayClock
from tests.support.airtel_account import PAYER, a_simulator, options
from tests.support.merchant import TIMEOUT_S, Merchant, ask
from tests.support.storages import storages

NAME = "airtel_ug"
KEY = "a-key-for-uganda"
CALLBACK_KEY = "SECRET-callback-key"
BRANDS = f"""
[[brand]]
id = "acme"
name = "Acme"
api_keys = ["{KEY}"]

[[brand.method]]
key = "airtel"
provider = "{NAME}"
country = "UG"
flows = ["direct/payin", "web/payin", "direct/payout"]
limits.UGX = {{ min = "1", max = "1000000" }}
"""
AT = {"direct/payin": "collection", "web/payin": "collection", "direct/payout": "disbursement"}
"""The simulator's name of the operation."""


async def wait_until(condition: Callable[[], object]) -> None:
    """Return once the condition holds."""
    with trio.fail_after(TIMEOUT_S):
        while True:
            if condition():
                return
            await trio.sleep(0.01)


@define(eq=False)
class Airtel:
    """The operator on its socket."""

    simulator: AirtelSimulator
    origin: str = field(init=False)
    offset: int = 0
    """How far its clock is ahead, in microseconds."""

    def now(self) -> Instant:
        """Return the simulator's time."""
        return later(GatewayClock().wall_time(), Span(self.offset))

    def options(self, **more: Any) -> dict[str, str]:
        """Return the options of an account with this simulator."""
        settings = options(self.origin, callback_key=CALLBACK_KEY, **more)
        return {"kind": "airtel_money", "title": "Airtel", **settings}

    def script(self, operation: str, *faults: Mapping[str, Any]) -> Sequence[PlannedFault]:
        """Plan faults for the next submissions of this operation."""
        planned = [parse_planned_fault({"at": AT[operation], **each}) for each in faults]
        self.simulator.faults.plan(planned)
        return planned

    def payments(self) -> dict[str, str | None]:
        """Return the result of every accepted payment, by gatewayReference."""
        return {each["reference"]: each["result"] for each in self.simulator.snapshot()["payments"]}

    def balances(self) -> dict[str, str]:
        """Return the balance of every wallet."""
        return {each["account"]: each["balance"] for each in self.simulator.snapshot()["accounts"]}

    async def advance(self, seconds: float) -> None:
        """Advance its clock and run everything that is due."""
        self.offset += round(seconds * SECOND)
        await ask(f"{self.origin}/_simulator/book")  # Whoever asks has it look at its clock.


@asynccontextmanager
async def running_airtel() -> AsyncIterator[Airtel]:
    """Run the simulator during the block."""
    airtel = Airtel(a_simulator(callback_key=CALLBACK_KEY))
    async with serve(airtel.simulator, now=airtel.now) as airtel.origin:
        yield airtel


@define(eq=False)
class AirtelGateway:
    """Controls a gateway with an account at the simulator from outside."""

    airtel: Airtel
    directory: Path
    pages: str
    merchant: Merchant

    async def create(self, operation: str, **changes: Any) -> str:
        """Create a payment of UGX 1000 and return its gatewayReference."""
        members = {
            "msisdn": f"+256{PAYER}",
            "country": "UG",
            "amount": {"value": 1000, "currency": "UGX"},
            **changes,
        }
        made = await self.merchant.accepted(operation, **members)
        if operation == "web/payin":
            await ask(made["pageUrl"], method="POST", headers=FORM, body=b"")
        return str(made["gatewayReference"])

    async def wait_for_acceptance(self, reference: str) -> None:
        """Return once the gateway knows that the operator has accepted the payment."""
        async with storages.of(self.directory).open_for_admin() as store:
            with trio.fail_after(TIMEOUT_S):
                while True:
                    found = await store.transaction(reference)
                    if found is not None and found.progress.stage is Stage.AWAITING_RESULT:
                        return
                    await trio.sleep(0.01)

    async def advance(self, span: str, seconds: float) -> None:
        """Advance both clocks."""
        await self.airtel.advance(seconds)
        body = json.dumps({"advance": span}).encode()
        answer = await ask(f"{self.pages}/sandbox/clock", method="POST", headers=JSON, body=body)
        assert answer.status == 200, answer.body

    async def suspense(self, count: int = 0) -> list[dict[str, Any]]:
        """Return the suspense entries, once there are this many."""
        with trio.fail_after(TIMEOUT_S):
            while True:
                found: list[dict[str, Any]] = (await ask(f"{self.pages}/sandbox/suspense")).json
                if len(found) >= count:
                    return found
                await trio.sleep(0.01)

    def hook(self) -> str:
        """Return the URL for the operator's callbacks."""
        ring = KeyRing(*load_master_keys(self.directory / "master.key"))
        return f"{self.merchant.api}/hooks/{NAME}/{ring.webhook_tokens(NAME)[0]}"

    def set_hook_url(self) -> None:
        """Set the callback URL, as one does in the operator's portal."""
        self.airtel.simulator.open_accounts(
            [{"account": "collection", "callback_url": self.hook()}]
        )


FORM = {"Content-Type": "application/x-www-form-urlencoded"}
JSON = {"Content-Type": "application/json"}
