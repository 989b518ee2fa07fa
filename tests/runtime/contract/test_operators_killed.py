"""`kill -9` between sending and knowing, for every operator and every operation at once: then each
is asked about, and nothing is paid twice (S6)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from attrs import Factory, define, evolve

from mmo_sansio.values.clock import MINUTE, SECOND
from mmo_simulators.common.faults import EndAfter, Fault, LoseAnswer, LoseRequest, PlannedFault
from mmo_trio.sandbox.local_ca import ensure_authority
from tests.support.merchant import TIMEOUT_S, Merchant, ask
from tests.support.mmo_process import (
    FREE_PORTS,
    CallbackRecorder,
    Process,
    recording_callbacks,
    serving_process,
)
from tests.support.operator_gateway import API_KEY, FORM, RunningSimulator, run_simulator
from tests.support.operator_matrix import (
    AFTER_EXPIRY,
    EXPIRED,
    LATE_STEPS_MAX,
    NEVER,
    OPERATORS,
    Course,
    Operator,
    Way,
)
from tests.support.reserved_port import reserved_port
from tests.support.time_limits import HANGS_AFTER_S

pytestmark = pytest.mark.long

LOST = ("lost answer", "lost request")
HELD: Mapping[str, Fault] = {"lost answer": LoseAnswer(NEVER), "lost request": LoseRequest(NEVER)}
LATER = EndAfter(MINUTE)
"""By then another gateway serves, and hears the callback: some payments have no name before."""


@define(eq=False)
class Begun:
    """A payment that was sent when the gateway was killed, and how it has to end."""

    operator: Operator
    way: Way
    course: Course
    reference: str

    @property
    def wanted(self) -> tuple[str, str | None]:
        """Its status and errorCode."""
        ends = self.course.ends
        return ("success", None) if ends == "success" else ("failed", ends)


@define(eq=False)
class Stage:
    """Every operator's simulator, and what a gateway needs to be started beside them."""

    directory: Path
    recorder: CallbackRecorder
    port: int
    """The gateway's, the same after a restart, so that callbacks still find it."""
    played: dict[str, RunningSimulator] = Factory(dict)
    """By kind of provider."""

    @asynccontextmanager
    async def gateway(self) -> AsyncIterator[tuple[Process, Merchant]]:
        """`mmo sandbox` with an account at every operator."""
        words: list[str | Path] = [
            "sandbox", "--data", self.directory,
            "--config", self.directory / "mmo.toml", "--brands", self.directory / "brands.toml",
            *FREE_PORTS, "--api", f"127.0.0.1:{self.port}",
        ]  # fmt: skip
        log = self.directory / "gateway.log"
        async with serving_process(*words, log=log) as process:
            yield process, Merchant(process.ready["api"], API_KEY, result_url=self.recorder.url)

    async def begin(self, merchant: Merchant, operator: Operator, way: Way, name: str) -> Begun:
        """A payment that has met its fault, and whose conversation hangs."""
        simulator = self.played[operator.kind].simulator
        planned = [PlannedFault(way.at, HELD[name]), PlannedFault(way.at, LATER)]
        simulator.faults.plan(planned)
        number = len(simulator.snapshot()["accounts"])
        market = operator.market
        taken = await evolve(merchant, method=operator.kind).accepted(
            way.operation,
            msisdn=operator.payer(simulator, number),
            country=market.country,
            amount={"value": 150, "currency": market.currency},
            reconciliationReference="PRN1234XN",
        )
        if way.operation == "web/payin":
            await ask(taken["pageUrl"], method="POST", headers=FORM, body=b"")
        with trio.fail_after(TIMEOUT_S):
            while True:
                if not any(each.times for each in planned):
                    break
                await trio.sleep(0.01)
        (course,) = (each for each in way.courses if each.name == name)
        return Begun(operator, way, course, taken["gatewayReference"])

    async def advance(self, process: Process, seconds: int) -> None:
        """Let time pass everywhere, at the operators first."""
        for each in self.played.values():
            await each.advance(seconds)
        answer = await ask(
            f"{process.ready['pages']}/sandbox/clock",
            method="POST",
            headers={"Content-Type": "application/json"},
            body=json.dumps({"advance": f"{seconds}s"}).encode(),
        )
        assert answer.status == 200, answer.body
        await trio.sleep(0.1)


@asynccontextmanager
async def staging(directory: Path) -> AsyncIterator[Stage]:
    ensure_authority(directory)
    async with AsyncExitStack() as stack:
        recorder = await stack.enter_async_context(recording_callbacks(directory))
        stage = Stage(directory, recorder, stack.enter_context(reserved_port()))
        for operator in OPERATORS:
            played = await stack.enter_async_context(run_simulator(operator.make()))
            stage.played[operator.kind] = played
        sections = "".join(a_section(each, stage.played[each.kind]) for each in OPERATORS)
        (directory / "mmo.toml").write_text(sections, "utf-8")
        methods = "".join(a_method(each) for each in OPERATORS)
        brand = f'[[brand]]\nid = "acme"\nname = "Acme"\napi_keys = ["{API_KEY}"]\n'
        (directory / "brands.toml").write_text(brand + methods, "utf-8")
        yield stage


def a_section(operator: Operator, played: RunningSimulator) -> str:
    account = {
        "kind": operator.kind,
        **operator.options(played.simulator),
        "base_url": played.origin,
        "hooks_name": operator.market.country.lower() + operator.kind[:3],
    }
    lines = [f"{key} = {json.dumps(value)}" for key, value in account.items()]
    return "\n".join([f"[provider.{operator.kind}]", *lines, ""])


def a_method(operator: Operator) -> str:
    flows = json.dumps([each.operation for each in operator.ways])
    market = operator.market
    return f"""
[[brand.method]]
key = "{operator.kind}"
provider = "{operator.kind}"
country = "{market.country}"
flows = {flows}
limits.{market.currency} = {{ min = "1", max = "150000" }}
"""


@pytest.mark.own_store
@pytest.mark.spec("S6", "K1", "P1")
async def test_a_kill_between_sending_and_knowing(tmp_path: Path) -> None:
    async with staging(tmp_path) as stage:
        async with stage.gateway() as (process, merchant):
            begun = [
                await stage.begin(merchant, operator, way, name)
                for operator in OPERATORS
                for way in operator.ways
                for name in LOST
            ]
            await process.kill()
        async with stage.gateway() as (process, merchant):
            found = await ended(stage, process, merchant, begun)
        wanted = {each.reference: each.wanted for each in begun}
        assert {name: (each["status"], each["errorCode"]) for name, each in found.items()} == wanted
        told = Counter(each.gateway_reference for each in stage.recorder.callbacks)
        assert told == dict.fromkeys(wanted, 1)
        for operator in OPERATORS:
            paid = [
                each["reference"]
                for each in stage.played[operator.kind].simulator.snapshot()["payments"]
                if each["result"] == "success"
            ]
            should = [
                each.reference
                for each in begun
                if each.operator is operator and each.course.is_paid
            ]
            assert len(paid) == len(should)
            assert all(any(name.endswith(each) for each in paid) for name in should)


async def ended(
    stage: Stage, process: Process, merchant: Merchant, begun: Sequence[Begun]
) -> dict[str, dict[str, Any]]:
    """What has become of each, in the end."""
    found: dict[str, dict[str, Any]] = {}

    async def advance(references: set[str], *steps_s: int) -> None:
        """Let so much time pass, step by step, while one of these has not ended."""
        for seconds in steps_s:
            for each in references - found.keys():
                now = await merchant.status(each)
                found.update({} if now["status"] == "pending" else {each: now})
            if references <= found.keys():
                break
            await stage.advance(process, seconds)

    every = {each.reference for each in begun}
    await advance(every, *[40] * 8, *[900] * 9)
    await advance(
        {each.reference for each in begun if each.course.ends != EXPIRED}, *[900] * LATE_STEPS_MAX
    )
    await advance(every, AFTER_EXPIRY // SECOND)
    with trio.fail_after(HANGS_AFTER_S):
        while not every <= found.keys():
            await advance(every, 1)
    return found
