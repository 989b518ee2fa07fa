"""`mmo brands disable --hold`: nothing more of a brand is submitted, and what was submitted goes
on."""

from __future__ import annotations

import pytest

from tests.support.mmo_process import mmo
from tests.support.sandbox_gateway import Running, Serve

pytestmark = pytest.mark.own_store


async def brands(sandbox: Running, *words: str) -> str:
    return await mmo("brands", *words, "--data", sandbox.directory)


@pytest.mark.spec("A2", "S6")
async def test_a_hold_stops_what_was_not_submitted_and_nothing_else(serve: Serve) -> None:
    async with serve() as sandbox:
        merchant = sandbox.merchant
        submitted = await merchant.accepted("direct/payout", scenario="phone")
        pages = [await merchant.accepted("web/payin") for _ in range(3)]
        await brands(sandbox, "disable", "demo", "--hold")
        for page in pages:
            stopped = await sandbox.callback_for(page["gatewayReference"])
            assert stopped.content["errorCode"] == "payment_stopped"
        assert "on hold" in await brands(sandbox, "list")
        # The key is cached for up to a minute: what is accepted meanwhile is not submitted either.
        late = await merchant.create("direct/payout", scenario="success")
        if late.status == 200:
            ended = await sandbox.callback_for(late.json["gatewayReference"])
            assert (ended.content["errorCode"], ended.content["providerData"]) == (
                "payment_stopped",
                None,
            )
        await sandbox.advance("1m")
        assert (await merchant.create()).status == 400
        await brands(sandbox, "enable", "demo")
        await sandbox.advance("1m")
        assert (await merchant.status(submitted["gatewayReference"]))["status"] == "pending"
        again = await merchant.accepted("direct/payout", scenario="success")
        assert (await merchant.ended(again["gatewayReference"]))["status"] == "success"
