"""An operator refuses our account: where that is shown, what is not asked any more, and how it goes
on."""

from __future__ import annotations

import json
import subprocess
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.runtime.contract.test_metrics import figures
from tests.runtime.contract.test_mpesa import Kenya, in_kenya, until
from tests.support.console_browser import ConsoleBrowser, add_users
from tests.support.mmo_process import COMMAND, environment_without_settings
from tests.support.sandbox_gateway import Serve


async def check(kenya: Kenya, *options: str) -> tuple[int, dict[str, Any]]:
    """Run `mmo providers check`; its exit code, and its rows by their part."""
    command = [
        *COMMAND,
        "providers",
        "check",
        "--data",
        str(kenya.running.directory),
        "--json",
        *options,
    ]
    environment = {**environment_without_settings(), **kenya.environment}
    run = partial(subprocess.run, command, env=environment, capture_output=True, text=True)
    ended = await trio.to_thread.run_sync(run)
    assert ended.returncode in (0, 1), ended.stderr
    return ended.returncode, {each["part"]: each for each in json.loads(ended.stdout)}


@pytest.mark.spec("E1", "S6")
async def test_a_refused_password_is_shown_and_not_used_until_it_is_mended(
    serve: Serve, tmp_path: Path
) -> None:
    async with in_kenya(serve, tmp_path) as kenya:
        kenya.account("600997", operator_state="expired")
        await kenya.began("direct/payout")
        await until(
            lambda: len(kenya.answered) > 1
        )  # The result, and the answer to a question about it.
        code, rows = await check(kenya)
        assert (code, rows["initiator"]["state"], rows["initiator"]["code"]) == (
            1,
            "refused",
            "2001",
        )
        assert rows["payouts"]["state"] == "refused"
        found = await figures(kenya.running)
        assert found["mmo_provider_account_state", ("initiator", "kenya", "refused")] == 1
        await add_users(kenya.running.directory, vera="viewer")
        browser = ConsoleBrowser(kenya.running.ready.console)
        await browser.sign_in("vera")
        assert "older than 90 days" in (await browser.get("/providers")).body.decode()
        kenya.account("600997", operator_state="active")
        before = len(kenya.answered)
        await kenya.running.advance("2h")
        await kenya.running.advance("2h")
        assert len(kenya.answered) == before
        code, rows = await check(kenya, "--ask")
        assert (code, rows["initiator"]["state"], rows["sign-in"]["state"]) == (1, "works", "works")
        assert rows["passkey"]["state"] == "works"
