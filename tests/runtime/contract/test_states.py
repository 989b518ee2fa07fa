"""From pending to an end, once, whatever happens to the clock and to the gateway (clauses S1 to S3,
S5, S6)."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
import trio

from mmo_sansio.providers.sandbox.journal import SandboxSubmission
from mmo_sansio.values import clock
from mmo_sansio.values.clock import Span
from mmo_trio.sandbox.operator_worker import read_operator_journal
from mmo_trio.settings.service import CLOCK_OFFSET_FILE
from mmo_trio.system.clock import read_offset, write_offset
from tests.support.http_version import http_version
from tests.support.merchant import Merchant
from tests.support.mmo_process import FREE_PORTS
from tests.support.receivers import calls_to, receiver, url_of, wait_for_requests
from tests.support.sandbox_gateway import Running, Serve


def _submissions(directory: Path) -> Counter[str]:
    """How often the operator was asked to move money, by gatewayReference."""
    book = read_operator_journal(directory / "sandbox-provider.ndjson")
    return Counter(entry.reference for entry in book if isinstance(entry, SandboxSubmission))


def _pass_time(directory: Path, days: int) -> None:
    """Let time pass while the gateway is down."""
    file = directory / CLOCK_OFFSET_FILE
    write_offset(file, Span(read_offset(file) + days * clock.DAY))


@pytest.mark.spec("S1")
@pytest.mark.usefixtures("standing_clock")
@pytest.mark.parametrize("operation", ["direct/payout", "web/payin"])
async def test_every_payment_begins_pending_and_is_pending_until_a_result(
    sandbox: Running, operation: str
) -> None:
    accepted = await sandbox.merchant.accepted(operation, scenario="slow")
    assert accepted["status"] == "pending"
    reference = accepted["gatewayReference"]
    assert (await sandbox.merchant.status(reference))["status"] == "pending"
    if operation == "web/payin":
        await sandbox.control("pay", gatewayReference=reference)
    await sandbox.advance("9s")
    assert (await sandbox.merchant.status(reference))["status"] == "pending"
    await sandbox.advance("1s")
    assert (await sandbox.merchant.status(reference))["status"] == "success"


@pytest.mark.spec("S1", "S5")
@pytest.mark.parametrize("scenario", ["twice", "conflicting", "after_expiry"])
async def test_an_ended_transaction_never_changes(
    sandbox: Running, tmp_path: Path, scenario: str
) -> None:
    async with receiver(tmp_path) as found:
        accepted = await sandbox.merchant.accepted(scenario=scenario, resultUrl=url_of(found))
        await sandbox.advance("3d" if scenario == "after_expiry" else "200ms")
        path = f"status/{accepted['gatewayReference']}"
        ended = await sandbox.merchant.get(path)
        assert ended.json["status"] != "pending"
        await sandbox.advance("4d")
        assert (await sandbox.merchant.get(path)).body == ended.body
        assert len(await sandbox.seen("suspense")) == 1
        await sandbox.outcome_of(accepted["gatewayReference"])
        assert [call.body for call in calls_to(found)] == [ended.body]


@pytest.mark.spec("S3", "E1", "K1")
async def test_after_three_days_a_pending_payment_has_expired_and_is_called_back_once(
    sandbox: Running, tmp_path: Path
) -> None:
    async with receiver(tmp_path) as found:
        accepted = await sandbox.merchant.accepted(scenario="never", resultUrl=url_of(found))
        reference = accepted["gatewayReference"]
        await sandbox.advance("71h59m")
        assert (await sandbox.merchant.status(reference))["status"] == "pending"
        await sandbox.advance("1m")
        expired = await sandbox.merchant.status(reference)
        assert (expired["status"], expired["errorCode"]) == ("failed", "transaction_expired")
        assert expired["completionSource"] == "expiry"
        await wait_for_requests(found)
        await sandbox.advance("4d")
        (call,) = calls_to(found)
        assert call.body == (await sandbox.merchant.get(f"status/{reference}")).body


@pytest.mark.spec("S3")
async def test_what_expired_while_the_gateway_was_down_is_called_back_once(
    serve: Serve, tmp_path: Path
) -> None:
    async with receiver(tmp_path) as found:
        async with serve() as sandbox:
            accepted = [
                await sandbox.merchant.accepted(scenario="never", resultUrl=url_of(found))
                for _ in range(3)
            ]
        _pass_time(tmp_path, days=4)
        async with serve() as sandbox:
            for each in accepted:
                ended = await sandbox.merchant.ended(each["gatewayReference"])
                assert ended["errorCode"] == "transaction_expired"
                await sandbox.outcome_of(each["gatewayReference"])
        async with serve() as sandbox:
            await sandbox.advance("1d")
            assert len(await sandbox.seen("callbacks")) == 3
        references = Counter(call.transaction["gatewayReference"] for call in calls_to(found))
        assert references == {each["gatewayReference"]: 1 for each in accepted}


@pytest.mark.spec("S3", "S5")
async def test_a_result_that_the_operator_reached_while_the_gateway_was_down_still_comes(
    serve: Serve, tmp_path: Path
) -> None:
    async with serve() as sandbox:
        accepted = await sandbox.merchant.accepted(scenario="slow")
    _pass_time(tmp_path, days=1)
    async with serve() as sandbox:
        ended = await sandbox.merchant.ended(accepted["gatewayReference"])
        assert ended["status"] == "success"
        assert await sandbox.seen("suspense") == []


@pytest.mark.spec("S6")
async def test_a_restart_between_submission_and_result_submits_nothing_twice(
    serve: Serve, tmp_path: Path
) -> None:
    async with serve() as sandbox:
        slow = [await sandbox.merchant.accepted(scenario="slow") for _ in range(5)]
        asked = [await sandbox.merchant.accepted(scenario="by_poll") for _ in range(5)]
    references = [each["gatewayReference"] for each in (*slow, *asked)]
    async with serve() as sandbox:
        await sandbox.advance("1h")
        for reference in references:
            assert (await sandbox.merchant.ended(reference))["status"] == "success"
    assert _submissions(tmp_path) == dict.fromkeys(references, 1)


@pytest.mark.own_store
@pytest.mark.spec("S6", "C6")
async def test_a_kill_between_submission_and_result_submits_nothing_twice(
    serve: Serve, tmp_path: Path
) -> None:
    references: list[str] = []

    async def create(merchant: Merchant, enough: trio.CancelScope) -> None:
        while True:
            accepted = await merchant.accepted(scenario="slow")
            references.append(accepted["gatewayReference"])
            if len(references) == 20:
                enough.cancel()

    with _a_process(tmp_path) as process:
        assert process.stdout is not None
        line = await trio.to_thread.run_sync(process.stdout.readline)
        said = dict(word.split("=", 1) for word in line.split()[1:])
        http_version.learn(said)
        merchant = Merchant(said["api"], said["api_key"])
        async with trio.open_nursery() as nursery:
            for _ in range(4):
                nursery.start_soon(create, merchant, nursery.cancel_scope)
        process.kill()
        await trio.to_thread.run_sync(partial(process.wait, 20))

    async with serve() as sandbox:
        await sandbox.advance("1h")
        for reference in references:
            assert (await sandbox.merchant.ended(reference))["status"] == "success"
    counted = _submissions(tmp_path)
    assert set(counted.values()) == {1}
    assert set(references) <= set(counted)


@contextmanager
def _a_process(directory: Path) -> Iterator[subprocess.Popen[str]]:
    """`mmo sandbox` as a process of its own, which is dead at the end."""
    paths = [str(Path(__file__).parents[3] / "src"), os.environ.get("PYTHONPATH", "")]
    with subprocess.Popen(
        [sys.executable, "-m", "mmo_trio.cli", "sandbox", f"--data={directory}", *FREE_PORTS],
        env=os.environ
        | http_version.environment
        | {"PYTHONPATH": os.pathsep.join(filter(None, paths))},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()
