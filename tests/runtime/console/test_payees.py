"""Before money goes to a number, staff ask whose account it is: by permission, audited, and shown
safely whatever the operator writes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from mmo_sansio.values.payees import (
    NAME_CHARACTERS_MAX,
    PayeeCompared,
    PayeeNamed,
    PayeePredicted,
    PayeeReport,
    PayeeUnanswered,
    PayeeUnknown,
)
from mmo_simulators.common.faults import parse_planned_fault
from mmo_trio.console.payees import PAYEE_ASKED, describe
from mmo_trio.settings.providers import provider_variable
from tests.support.airtel_account import PAYER, a_simulator, options
from tests.support.console_browser import ConsoleBrowser, add_users, open_store_of
from tests.support.operator_gateway import RunningSimulator, run_simulator
from tests.support.sandbox_gateway import Running, serving
from tests.support.time_limits import HANGS_AFTER_S

KEY = "a-key-of-staffs-payees-012345"
BRANDS = f"""
[[brand]]
id = "acme"
name = "Acme"
api_keys = ["{KEY}"]

[[brand.method]]
key = "airtel"
provider = "airtel"
country = "UG"
flows = ["direct/payin", "direct/payout"]
limits.UGX = {{ min = "1", max = "150000" }}
"""
NUMBER = f"+256{PAYER}"
SMALL: dict[str, Any] = {"country": "UG", "amount": {"value": 1000, "currency": "UGX"}}
BUTTON = "Ask whose account the number is"


@asynccontextmanager
async def a_gateway(
    directory: Path, *, is_on: bool = True
) -> AsyncIterator[tuple[Running, RunningSimulator]]:
    async with run_simulator(a_simulator()) as airtel:
        account: dict[str, Any] = {"kind": "airtel_money", **options(airtel.origin)}
        environment = {provider_variable("airtel", key): str(v) for key, v in account.items()}
        if is_on:
            environment["MMO_GATEWAY_PAYEES_PER_MINUTE"] = "60"
        async with serving(
            directory, environment=environment, brands=BRANDS, api_key=KEY
        ) as running:
            running.merchant.method = "airtel"
            await add_users(directory, sam="support")
            yield running, airtel


async def pending_payout(running: Running, airtel: RunningSimulator) -> str:
    wait = {"at": "disbursement", "do": "end_after", "after_s": None}
    airtel.simulator.faults.plan([parse_planned_fault(wait)])
    accepted = await running.merchant.accepted(
        "direct/payout",
        payee={"id": "7", "msisdn": NUMBER, "firstName": "John", "lastName": "Roe"},
        **SMALL,
    )
    return str(accepted["gatewayReference"])


async def sams(running: Running) -> ConsoleBrowser:
    """A browser in which support has signed in."""
    sam = ConsoleBrowser(running.ready.console)
    assert (await sam.sign_in("sam")).status == 303
    return sam


async def test_support_asks_before_a_pending_pay_out_goes_and_the_log_says_so(
    tmp_path: Path,
) -> None:
    async with a_gateway(tmp_path) as (running, airtel):
        reference = await pending_payout(running, airtel)
        sam = await sams(running)
        path = f"/payments/{reference}"
        assert BUTTON in await sam.text(path)
        page = await sam.answered(200, f"{path}/payee")
        for shown in ("<dd>John Roe</dd>", "<dd>Jane Doe</dd>", NUMBER):
            assert shown in page
        async with open_store_of(running.directory) as store:
            rows = await store.admin.audit_after(0, limit=1_000)
        [event] = [row.event for row in rows if row.event.action == PAYEE_ASKED]
        assert (event.actor, event.about) == ("user:sam", f"payment:{reference}")
        for private in (PAYER, "Jane", "John"):
            assert private not in event.detail
        assert PAYEE_ASKED.replace("_", " ") in await sam.text(path)


async def test_nobody_is_asked_where_it_is_off_or_no_money_goes_there(tmp_path: Path) -> None:
    async with a_gateway(tmp_path, is_on=False) as (running, airtel):
        reference = await pending_payout(running, airtel)
        sam = await sams(running)
        path = f"/payments/{reference}"
        assert BUTTON not in await sam.text(path)
        assert await sam.send(f"{path}/payee") == 400


async def test_of_a_pay_out_that_has_ended_nobody_is_asked(tmp_path: Path) -> None:
    async with a_gateway(tmp_path) as (running, _):
        accepted = await running.merchant.accepted("direct/payout", msisdn=NUMBER, **SMALL)
        ended = await running.merchant.ended(accepted["gatewayReference"])
        assert ended["status"] == "success"
        sam = await sams(running)
        path = f"/payments/{ended['gatewayReference']}"
        assert BUTTON not in await sam.text(path)
        assert await sam.send(f"{path}/payee") == 400


async def test_before_money_is_asked_back_its_payer_is_asked_for(tmp_path: Path) -> None:
    async with a_gateway(tmp_path) as (running, airtel):
        accepted = await running.merchant.accepted("direct/payin", msisdn=NUMBER, **SMALL)
        reference = accepted["gatewayReference"]
        with trio.fail_after(HANGS_AFTER_S):
            while (await running.merchant.status(reference))["status"] == "pending":
                await airtel.advance(200)
                await running.advance("200s")
                await trio.sleep(0.02)
        sam = await sams(running)
        path = f"/payments/{reference}"
        page = await sam.text(path)
        assert "Ask money back" in page
        assert BUTTON in page
        assert "<dd>Jane Doe</dd>" in await sam.answered(200, f"{path}/payee")


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("<script>alert(1)</script>", "&lt;script&gt;alert(1)&lt;/script&gt; Doe"),
        ("\x1b[2J\r\nJane", "[2J Jane Doe"),
        ("x" * 10_240, "x" * NAME_CHARACTERS_MAX),
        ('"><img src=x onerror=a>', "&#34;&gt;&lt;img src=x onerror=a&gt; Doe"),
    ],
    ids=["script", "controls", "10 kB", "attribute"],
)
async def test_a_hostile_name_is_shown_as_text(tmp_path: Path, written: str, shown: str) -> None:
    async with a_gateway(tmp_path) as (running, airtel):
        airtel.simulator.open_accounts([{"account": PAYER, "first_name": written}])
        reference = await pending_payout(running, airtel)
        sam = await sams(running)
        await sam.get(f"/payments/{reference}")
        page = await sam.answered(200, f"/payments/{reference}/payee")
        assert f"<dt>Name at the operator</dt><dd>{shown}</dd>" in page
        assert "\x1b" not in page


@pytest.mark.parametrize(
    ("report", "words", "is_doubtful"),
    [
        (PayeeNamed("p", "Jane", is_barred=True), "barred", True),
        (PayeeNamed("p", "J***"), "put * for letters", False),
        (PayeeNamed("p", "Jane"), "no promise", False),
        (PayeeCompared("p", True), "is the account's", False),
        (PayeeCompared("p", False), "is not the account's", True),
        (PayeeCompared("p", None), "can't tell", False),
        (PayeePredicted("p", "MTN", is_served=True), "probably of MTN", False),
        (PayeePredicted("p", "MTN", is_served=False), "another operator: MTN", True),
        (PayeeUnknown("p"), "no account", True),
        (PayeeUnanswered("p", "It was away."), "Nothing is known: It was away.", False),
    ],
)
def test_each_answer_is_told_in_words(report: PayeeReport, words: str, is_doubtful: bool) -> None:
    sentence, doubtful = describe(report)
    assert words in sentence
    assert doubtful is is_doubtful
