"""What a thief gets who has a merchant's API key, once it is retired as leaked: nothing (clause
A4)."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.contract.test_qr_codes import outcome_of
from tests.support.merchant import TIMEOUT_S, Merchant, ask
from tests.support.mmo_process import mmo
from tests.support.receivers import calls_to, receiver, url_of, wait_for_requests
from tests.support.sandbox_gateway import Running
from tests.support.store_admin import brand_admin


async def cli(sandbox: Running, *arguments: str) -> Any:
    """What a command about this sandbox's brands prints as JSON; None when it prints none."""
    printed = await mmo(*arguments, "--data", sandbox.directory)
    return json.loads(printed) if printed.startswith("{") else None


def mark_as_leaked(directory: Path, key: int) -> None:
    """Retire a key as the command of an earlier version does: no process learns of it before its
    time is over."""
    with (
        closing(sqlite3.connect(directory / "gateway.db", timeout=TIMEOUT_S)) as database,
        database,
    ):
        changed = database.execute(
            "UPDATE api_keys SET retired_at = 1, leaked_at = 1 WHERE id = ?", (key,)
        )
        assert changed.rowcount == 1


@pytest.mark.own_store
@pytest.mark.spec("A4", "K3")
async def test_the_next_key_is_sent_to_nobody_when_payments_of_a_leaked_key_end(
    sandbox: Running, tmp_path: Path
) -> None:
    thief = sandbox.merchant  # It has the key K1.
    async with receiver(tmp_path) as found:
        url = url_of(found)
        prompt = (await thief.accepted(resultUrl=url, scenario="never"))["gatewayReference"]
        code = (
            await thief.accepted("qr/payin", resultUrl=url, displayQrUrl=url, scenario="never")
        )["gatewayReference"]
        await wait_for_requests(found)  # The code itself, with K1, which the thief has.
        before = len(calls_to(found))
        made = await cli(sandbox, "brands", "key", "add", "demo", "--json")
        await cli(sandbox, "brands", "key", "retire", "demo", "1", "--leaked")
        merchant = Merchant(sandbox.ready.api, made["apiKey"], thief.result_url)
        own = (await merchant.accepted(resultUrl=url))["gatewayReference"]
        await sandbox.advance("4d")
        for reference in (prompt, code):
            outcome = await sandbox.outcome_of(reference)
            assert outcome["outcome"] == "key_revoked"
            assert (await merchant.get(f"status/{reference}")).json[
                "errorCode"
            ] == "transaction_expired"
            explained = json.dumps(await cli(sandbox, "explain", reference, "--json"))
            assert "its key was retired as leaked" in explained
        assert (await sandbox.outcome_of(own))["outcome"] == "delivered"
        metrics = await ask(f"{sandbox.ready.console}/metrics")
        assert b'mmo_callbacks_total{outcome="key_revoked"} 2.0' in metrics.body
        sent = [
            (call.headers["x-api-key"], call.transaction["gatewayReference"])
            for call in calls_to(found)[before:]
        ]
        assert sent == [(made["apiKey"], own)], "the key that comes next stays the merchant's"
        shown = await cli(sandbox, "brands", "show", "demo", "--json")
        assert [each["leakedAt"] is not None for each in shown["keys"]] == [True, False]


@pytest.mark.own_store
@pytest.mark.spec("A4", "K3")
@pytest.mark.parametrize("is_used", [False, True], ids=["only-its-own", "another-key-s"])
async def test_results_of_a_retired_key_go_only_to_hosts_that_another_key_has_used(
    sandbox: Running, tmp_path: Path, is_used: bool
) -> None:
    async with receiver(tmp_path) as found:
        url = url_of(found)
        first = (await sandbox.merchant.accepted(resultUrl=url, scenario="never"))[
            "gatewayReference"
        ]
        made = await cli(sandbox, "brands", "key", "add", "demo", "--json")
        merchant = Merchant(sandbox.ready.api, made["apiKey"], sandbox.merchant.result_url)
        if is_used:
            await merchant.accepted(resultUrl=url)
            await wait_for_requests(found)
        before = len(calls_to(found))
        await cli(sandbox, "brands", "key", "retire", "demo", "1")
        await sandbox.advance("4d")
        outcome = await sandbox.outcome_of(first)
        sent = [
            (call.headers["x-api-key"], call.transaction["gatewayReference"])
            for call in calls_to(found)[before:]
        ]
        if is_used:
            assert (outcome["outcome"], sent) == ("delivered", [(made["apiKey"], first)])
        else:
            assert (outcome["outcome"], sent) == ("key_revoked", [])
            explained = json.dumps(await cli(sandbox, "explain", first, "--json"))
            assert "no payment of another key goes to this host" in explained


@pytest.mark.own_store
@pytest.mark.spec("A4", "Q1")
async def test_a_code_is_not_shown_for_a_payment_of_a_leaked_key(
    sandbox: Running, tmp_path: Path
) -> None:
    thief = sandbox.merchant
    async with receiver(tmp_path) as found:
        await cli(sandbox, "brands", "key", "add", "demo", "--json")
        assert (
            await thief.get("records?from=2026-01-01&to=2026-01-02")
        ).status == 200  # Believed for a minute.
        mark_as_leaked(sandbox.directory, 1)
        accepted = await thief.accepted(
            "qr/payin", resultUrl=url_of(found), displayQrUrl=url_of(found)
        )
        detail = await outcome_of(sandbox, accepted["gatewayReference"])
        assert (detail["outcome"], "leaked" in detail["detail"]) == ("key_revoked", True)
        assert (await sandbox.outcome_of(accepted["gatewayReference"]))["outcome"] == "key_revoked"
        assert not calls_to(found)


@pytest.mark.spec("C8", "K7")
async def test_results_go_only_to_the_result_hosts_of_the_brand_at_creation_and_at_sending(
    sandbox: Running, tmp_path: Path
) -> None:
    merchant = sandbox.merchant
    async with receiver(tmp_path) as found:
        before = (await merchant.accepted(resultUrl=url_of(found), scenario="never"))[
            "gatewayReference"
        ]
        async with brand_admin(sandbox) as administration:
            await administration.change("demo", result_hosts=("*.shop.example",))
        await sandbox.advance("2m")  # Brands are remembered for a minute.
        refused = await merchant.create(resultUrl=url_of(found))
        assert (refused.status, refused.json["errorCode"]) == (400, "validation_failed")
        assert refused.json["errors"][0]["field"] == "resultUrl"
        assert "localhost is not one of the brand's result hosts" in refused.json["detail"]
        await sandbox.advance("4d")
        outcome = await sandbox.outcome_of(before)
        assert outcome["outcome"] == "egress_refused"
        assert not calls_to(found)
