"""Where staff see what is in our accounts with operators, and that a pay-out was refused for lack
of it."""

from __future__ import annotations

import json
import subprocess
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio

from mmo_sansio.providers.common.balances import AccountBalance
from mmo_sansio.values.clock import HOUR, Span, earlier
from mmo_sansio.values.money import Money
from mmo_trio.storage.interface.admin_types import NoteTopic, ProviderNote
from mmo_trio.system.clock import GatewayClock
from mmo_trio.workers.providers.float_monitor import LOW
from tests.runtime.contract.test_metrics import figures
from tests.runtime.contract.test_mpesa import Kenya, in_kenya
from tests.support.console_browser import ConsoleBrowser, add_users, open_store_of
from tests.support.mmo_process import COMMAND, environment_without_settings
from tests.support.sandbox_gateway import Serve
from tests.support.time_limits import HANGS_AFTER_S

FLOAT = "Utility Account"


async def balances(kenya: Kenya) -> tuple[int, list[dict[str, Any]]]:
    """Run `mmo providers balances`; its exit code, and its rows."""
    command = [*COMMAND, "providers", "balances", "--data", str(kenya.running.directory), "--json"]
    environment = {**environment_without_settings(), **kenya.environment}
    run = partial(subprocess.run, command, env=environment, capture_output=True, text=True)
    ended = await trio.to_thread.run_sync(run)
    assert ended.returncode in (0, 1), ended.stderr
    return ended.returncode, json.loads(ended.stdout)


async def staff(kenya: Kenya) -> ConsoleBrowser:
    await add_users(kenya.running.directory, vera="viewer")
    browser = ConsoleBrowser(kenya.running.ready.console)
    await browser.sign_in("vera")
    return browser


async def page_with(text: str, browser: ConsoleBrowser) -> str:
    """The page of providers, once it shows this text."""
    with trio.fail_after(HANGS_AFTER_S):
        while True:
            page = (await browser.get("/providers")).body.decode()
            if text in page:
                return page
            await trio.sleep(0.02)


@pytest.mark.spec("E1", "S2")
async def test_a_pay_out_that_lacks_float_says_so_to_staff_at_once(
    serve: Serve, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    async with in_kenya(serve, tmp_path) as kenya:
        browser = await staff(kenya)
        assert "for lack of float" not in (await browser.get("/providers")).body.decode()
        kenya.account("600997", balance="10.00")
        reference = await kenya.began("direct/payout")
        found = await kenya.ended(reference)
        assert (found["status"], found["errorCode"]) == ("failed", "merchant_insufficient_funds")
        assert (await figures(kenya.running))["mmo_provider_float_refusals_total", ("kenya",)] == 1
        assert "for lack of float" in await page_with(reference, browser)
    assert "float_refused" in "".join(capfd.readouterr())


async def test_balances_and_forecasts_are_shown(serve: Serve, tmp_path: Path) -> None:
    async with in_kenya(serve, tmp_path, balance_interval_s="0") as kenya:
        browser = await staff(kenya)
        assert await balances(kenya) == (0, [])
        now = GatewayClock().wall_time()
        history = [
            AccountBalance(
                "kenya", FLOAT, Money(cents, "KES"), earlier(now, Span(hours * HOUR)), is_float=True
            )
            for hours, cents in ((2, 9_000_00), (1, 7_000_00), (0, 5_000_00))
        ]
        async with open_store_of(kenya.running.directory) as store:
            await store.admin.record_balances(history)
        code, [row] = await balances(kenya)
        assert (code, row["account"], row["balance"], row["hoursLeft"], row["low"]) == (
            0,
            FLOAT,
            "5000.00",
            2.5,
            False,
        )
        async with open_store_of(kenya.running.directory) as store:
            assert await store.admin.note_provider(
                ProviderNote("kenya", NoteTopic.FLOAT, FLOAT, now, LOW)
            )
        code, [row] = await balances(kenya)
        assert (code, row["low"], row["refusedAt"]) == (1, True, None)
        page = (await browser.get("/providers")).body.decode()
        assert "KES 5,000.00" in page
        assert "2 hours left" in page
        assert "<svg" in page
