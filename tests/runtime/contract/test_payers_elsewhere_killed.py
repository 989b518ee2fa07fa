"""`kill -9` at each step of a payer who approves at the operator's page, or with its code: he goes
on with the next gateway, and pays once (S6)."""

from __future__ import annotations

import html
import json
import re
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest
import trio
from attrs import define, evolve

from mmo_simulators.common.faults import LoseAnswer, LoseRequest, PlannedFault
from mmo_simulators.operators.pawapay.api import open_pawapay
from mmo_trio.sandbox.local_ca import ensure_authority
from tests.support.merchant import TIMEOUT_S, Merchant, ask
from tests.support.mmo_process import (
    FREE_PORTS,
    CallbackRecorder,
    Process,
    recording_callbacks,
    serving_process,
)
from tests.support.operator_gateway import FORM, NEVER, RunningSimulator, run_simulator
from tests.support.pawapay_elsewhere import (
    API_KEY,
    CODE,
    PAGE,
    ElsewhereMarket,
    python_path,
    write_configuration,
)
from tests.support.reserved_port import reserved_port

pytestmark = pytest.mark.long

LINK = re.compile(r'href="(http://127\.0\.0\.1:\d+/approve/[^"]+)"')


@define(eq=False)
class Stage:
    """A gateway that is killed and started again on the same store and ports."""

    directory: Path
    recorder: CallbackRecorder
    operator: RunningSimulator
    ports: tuple[int, int]
    process: Process | None = None

    @asynccontextmanager
    async def gateway(self) -> AsyncIterator[Merchant]:
        api, pages = self.ports
        words: list[str | Path] = [
            "sandbox", "--data", self.directory,
            "--config", self.directory / "mmo.toml", "--brands", self.directory / "brands.toml",
            *FREE_PORTS, "--api", f"127.0.0.1:{api}", "--pages", f"127.0.0.1:{pages}",
        ]  # fmt: skip
        log = self.directory / "gateway.log"
        async with serving_process(*words, log=log) as self.process:
            yield Merchant(self.process.ready["api"], API_KEY, result_url=self.recorder.url)

    async def kill(self) -> None:
        assert self.process is not None
        await self.process.kill()

    async def advance(self, seconds: int) -> None:
        """Let time pass at the operator, then at the gateway."""
        await self.operator.advance(seconds)
        assert self.process is not None
        answer = await ask(
            f"{self.process.ready['pages']}/sandbox/clock",
            method="POST",
            headers={"Content-Type": "application/json"},
            body=json.dumps({"advance": f"{seconds}s"}).encode(),
        )
        assert answer.status == 200, answer.body
        await trio.sleep(0.05)

    async def shown(self, page_url: str, words: str) -> str:
        """The page once it has this; time passes, so that the gateway asks."""
        with trio.fail_after(TIMEOUT_S):
            while True:
                page = html.unescape((await ask(page_url)).body.decode())
                if words in page:
                    return page
                await self.advance(3)

    async def ended(self, merchant: Merchant, reference: str) -> dict[str, Any]:
        with trio.fail_after(TIMEOUT_S):
            while True:
                found = await merchant.status(reference)
                if found["status"] != "pending":
                    return found
                await self.advance(10)

    def paid(self) -> list[str]:
        """The payments that the operator has moved the money of."""
        book = self.operator.simulator.snapshot()["payments"]
        return [each["reference"] for each in book if each["result"] == "success"]


@asynccontextmanager
async def staging(directory: Path) -> AsyncIterator[Stage]:
    ensure_authority(directory)
    with reserved_port(2) as port:
        async with (
            recording_callbacks(directory) as recorder,
            run_simulator(open_pawapay()) as operator,
        ):
            write_configuration(directory, operator.origin)
            yield Stage(directory, recorder, operator, (port, port + 1))


@pytest.fixture
async def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Stage]:
    monkeypatch.setenv("PYTHONPATH", python_path(tmp_path / "kind"))
    async with staging(tmp_path) as staged:
        yield staged


async def create(merchant: Merchant, market: ElsewhereMarket) -> tuple[str, str]:
    taken = await evolve(merchant, method=market.method).accepted(
        "web/payin",
        msisdn=market.msisdn,
        country=market.country,
        amount={"value": 150, "currency": "XOF"},
    )
    return taken["gatewayReference"], taken["pageUrl"]


async def press(url: str, **fields: str) -> None:
    answer = await ask(url, method="POST", headers=FORM, body=urlencode(fields).encode())
    assert answer.status == 303, answer.body


@pytest.mark.own_store
@pytest.mark.spec("S6", "W1", "W2", "K1")
async def test_a_kill_at_each_step_of_a_page(stage: Stage) -> None:
    async with stage.gateway() as merchant:
        reference, page_url = await create(merchant, PAGE)
        await stage.kill()
    planned = PlannedFault("deposit", LoseAnswer(NEVER))
    stage.operator.simulator.faults.plan([planned])
    async with stage.gateway():
        await press(page_url)
        with trio.fail_after(TIMEOUT_S):
            while planned.times:  # noqa: ASYNC110
                await trio.sleep(0.02)
        await stage.kill()  # Between sending and knowing.
    async with stage.gateway():
        await stage.advance(40)
        link = LINK.search(await stage.shown(page_url, "/approve/"))
        assert link is not None
        await stage.kill()  # The payer is at the operator's page.
    said = await ask(link[1], method="POST", headers=FORM, body=b"decision=approve")
    back = said.headers["location"]
    assert urlsplit(page_url).path.rpartition("/")[2] not in back
    async with stage.gateway():
        assert (await ask(back)).status == 303
        await stage.kill()  # The return is on record; the question is not.
    async with stage.gateway() as merchant:
        for _ in range(2):
            assert (await ask(back)).status == 303
        found = await stage.ended(merchant, reference)
    assert (found["status"], found["completionSource"]) == ("success", "poll")
    assert stage.paid() == [reference]
    assert Counter(each.gateway_reference for each in stage.recorder.callbacks) == {reference: 1}


@pytest.mark.own_store
@pytest.mark.spec("S6", "W1", "K1")
async def test_a_kill_at_each_step_of_a_code(stage: Stage) -> None:
    async with stage.gateway() as merchant:
        reference, page_url = await create(merchant, CODE)
        await press(page_url)
        await stage.kill()  # Perhaps before the gateway has learnt that it needs a code.
    async with stage.gateway():
        await stage.shown(page_url, 'name="code"')
        await stage.kill()
    assert stage.operator.simulator.snapshot()["payments"] == []
    planned = PlannedFault("deposit", LoseRequest(NEVER))
    stage.operator.simulator.faults.plan([planned])
    async with stage.gateway():
        await stage.shown(page_url, 'name="code"')
        await press(page_url, code="123456")
        with trio.fail_after(TIMEOUT_S):
            while planned.times:  # noqa: ASYNC110
                await trio.sleep(0.02)
        await stage.kill()  # The code is on record, and nothing has arrived.
    async with stage.gateway() as merchant:
        await press(page_url, code="999999")
        found = await stage.ended(merchant, reference)
    assert found["status"] == "success"
    assert stage.paid() == [reference]
    assert Counter(each.gateway_reference for each in stage.recorder.callbacks) == {reference: 1}
    submitted = stage.operator.simulator.accounts.payments  # type: ignore[attr-defined]
    assert [each.document["preAuthorisationCode"] for each in submitted.values()] == ["123456"]
