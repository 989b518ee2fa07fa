"""What a simulated account did is marked wherever staff see it, and nowhere that merchants do."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import pytest

from tests.runtime.console.conftest import STAFF
from tests.support.console_browser import ConsoleBrowser, add_users
from tests.support.merchants import deposited
from tests.support.mmo_process import mmo
from tests.support.sandbox_gateway import Running, Serve


async def _rows(*words: str | Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(await mmo(*words))))


@pytest.mark.own_store
@pytest.mark.spec("S4")
async def test_commands_mark_payments_and_deposits_of_the_sandbox_operator(
    sandbox: Running,
) -> None:
    paid = (await sandbox.merchant.accepted())["gatewayReference"]
    ended = await sandbox.merchant.ended(paid)
    pushed = await deposited(sandbox)
    assert "simulated" not in ended
    callback = await sandbox.callback_for(paid)
    assert b"simulated" not in callback.body

    data = ("--data", sandbox.directory)
    listed = json.loads(await mmo("tx", "list", "--json", *data))
    assert {each["transaction"]["gatewayReference"] for each in listed if each["simulated"]} == {
        paid,
        pushed,
    }
    told = await mmo("explain", paid, *data)
    assert "It is simulated" in told
    timeline = json.loads(await mmo("explain", paid, "--json", *data))["timeline"]
    assert timeline[0]["detail"]["simulated"] is True

    lines = await mmo("records", "export", "--format", "ndjson", *data)
    assert [json.loads(line)["simulated"] for line in lines.splitlines()] == [True, True]
    exported = await _rows("records", "export", "--format", "csv", *data)
    assert [row["simulated"] for row in exported] == ["true", "true"]
    day = ended["completedAt"][:10]
    (digest,) = json.loads(await mmo("records", "digest", "--date", day, "--json", *data))
    assert list(digest["sums"]) == ["simulated payin KES"]
    booked = await _rows(
        "records", "export", "--for-accounting", "--month", day[:7], "--timezone", "UTC", *data
    )
    assert {row["simulated"] for row in booked} == {"true"}


async def test_the_console_and_the_metrics_mark_them(sandbox: Running) -> None:
    await add_users(sandbox.directory, **STAFF)
    paid = (await sandbox.merchant.accepted())["gatewayReference"]
    await sandbox.merchant.ended(paid)
    vera = ConsoleBrowser(sandbox.ready.console)
    assert (await vera.sign_in("vera")).status == 303
    for page in (f"/payments/{paid}", "/providers", "/"):
        assert "simulated" in (await vera.get(page)).body.decode().lower(), page
    exported = (await vera.get("/payments.csv")).body.decode()
    assert [row["simulated"] for row in csv.DictReader(io.StringIO(exported))] == ["true"]
    metrics = (await vera.get("/metrics")).body.decode()
    assert 'mmo_provider_simulated{provider="sandbox"} 1.0' in metrics


@pytest.mark.parametrize("moves_money", ["true", "false"])
async def test_the_overview_counts_simulated_payments_apart_where_money_moves(
    serve: Serve, moves_money: str
) -> None:
    """They are all there is to count where no account moves money."""
    account = {
        "KIND": "mpesa_daraja",
        "CONSUMER_KEY": "key",
        "CONSUMER_SECRET": "secret",
        "SHORTCODE": "174379",
        "PRODUCTION": moves_money,
        "BASE_URL": "https://operator.invalid",
        "DEPOSITS": "trust",
    }
    environment = {f"MMO_PROVIDER__TILL__{key}": value for key, value in account.items()}
    environment["MMO_PROVIDER__SANDBOX__KIND"] = "sandbox"
    async with serve(environment=environment) as sandbox:
        await add_users(sandbox.directory, **STAFF)
        await sandbox.merchant.ended((await sandbox.merchant.accepted())["gatewayReference"])
        vera = ConsoleBrowser(sandbox.ready.console)
        assert (await vera.sign_in("vera")).status == 303
        for page in ("/", "/?of=brand&value=demo"):
            shown = (await vera.get(page)).body.decode()
            created = re.search(r"Payments created</span><b>(\d+)</b>", shown)
            assert created is not None
            is_apart = moves_money == "true"
            assert created[1] == ("0" if is_apart else "1")
            assert ("no money moved; not counted here" in shown) is is_apart
        own = (await vera.get("/?of=provider&value=sandbox")).body.decode()
        assert "Payments created</span><b>1</b>" in own
