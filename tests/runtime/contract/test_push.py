"""Deposits that a provider tells of by itself (clause S4)."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from mmo_sansio.api.outgoing import TRANSACTION_MEMBERS
from tests.support.merchants import ACME_KEY, a_brand, deposit, deposited, developer
from tests.support.receivers import calls_to, receiver, url_of
from tests.support.sandbox_gateway import Running, Serve


@pytest.mark.spec("S4", "S2", "T1")
async def test_a_deposit_is_a_success_at_once(sandbox: Running) -> None:
    found = await sandbox.merchant.status(await deposited(sandbox))
    assert tuple(found) == TRANSACTION_MEMBERS
    assert (found["type"], found["flow"], found["status"]) == ("payin", "push", "success")
    assert found["completionSource"] == "webhook"
    assert found["finalAmount"] == {"value": Decimal("250.00"), "currency": "KES"}
    assert found["requestedAmount"] == found["finalAmount"]
    assert found["completedAt"] == found["createdAt"]
    assert (found["method"], found["country"]) == ("mpesa_ke", "KE")
    assert found["providerReference"] == "SBX-DEPOSIT-1"
    assert found["providerData"]["name"] == "sandbox"
    for name in ("merchantReference", "reconciliationReference", "labels"):
        assert found[name] is None


@pytest.mark.spec("S4", "M5")
@pytest.mark.parametrize(
    "party",
    [{"msisdn": "2547******11"}, {"msisdn": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b", "id": "x"}],
    ids=["masked, without an account reference", "hashed"],
)
async def test_the_party_is_as_the_provider_gives_it(
    sandbox: Running, party: dict[str, str]
) -> None:
    found = await sandbox.merchant.status(await deposited(sandbox, party=party))
    assert found["party"]["id"] == party.get("id", party["msisdn"])
    assert found["party"]["msisdn"] == party["msisdn"]


@pytest.mark.spec("S4", "K1", "T4")
async def test_it_is_called_back_to_the_brands_push_result_url(
    serve: Serve, tmp_path: Path
) -> None:
    async with receiver(tmp_path) as found:
        brand = a_brand("acme", ACME_KEY, push_result_url=url_of(found))
        async with serve(brands=brand) as sandbox:
            reference = await deposited(sandbox, brand="acme")
            assert (await sandbox.outcome_of(reference))["outcome"] == "delivered"
            assert await deposited(sandbox, brand="acme") == reference
            await deposit(sandbox, brand="acme", status="failed", providerReference="F-1")
            await sandbox.advance("1d")
            looked_up = await developer(sandbox, ACME_KEY).get(f"status/{reference}")
        (call,) = calls_to(found)
        assert call.headers["x-api-key"] == ACME_KEY
        assert call.body == looked_up.body


@pytest.mark.spec("S4", "K1")
async def test_a_brand_without_push_result_url_is_not_called_back(serve: Serve) -> None:
    async with serve(brands=a_brand("acme", ACME_KEY)) as sandbox:
        await deposited(sandbox, brand="acme")
        paid = await developer(sandbox, ACME_KEY).accepted()
        await sandbox.outcome_of(paid["gatewayReference"])
        (shown,) = await sandbox.seen("callbacks")
        assert shown["gatewayReference"] == paid["gatewayReference"]


@pytest.mark.spec("S4")
async def test_told_again_it_is_the_same_transaction_and_no_matter_for_a_person(
    serve: Serve,
) -> None:
    async with serve() as sandbox:
        reference = await deposited(sandbox)
        assert await deposited(sandbox) == reference
    async with serve() as sandbox:
        await sandbox.advance("30d")
        assert await deposited(sandbox) == reference
        assert await sandbox.seen("suspense") == []
        listed = await sandbox.merchant.records(begin="2026-01-01", to="2100-01-01")
        assert [each["gatewayReference"] for each in listed.json["data"]] == [reference]


@pytest.mark.spec("S4")
@pytest.mark.parametrize(
    "change",
    [
        {"amount": {"value": 251, "currency": "KES"}},
        {"party": {"msisdn": "254711000111", "id": "ACC-8"}},
    ],
    ids=["amount", "account"],
)
async def test_told_with_another_amount_or_party_it_goes_to_the_suspense_book(
    sandbox: Running, change: dict[str, Any]
) -> None:
    reference = await deposited(sandbox)
    before = await sandbox.merchant.get(f"status/{reference}")
    await deposit(sandbox, **change)
    (entry,) = await sandbox.seen("suspense?brand=demo")
    assert await sandbox.seen("suspense?brand=nobody") == []
    assert (entry["provider"], entry["times"]) == ("sandbox", 1)
    assert (entry["reason"], entry["gatewayReference"]) == ("conflicting_deposit", reference)
    assert (await sandbox.merchant.get(f"status/{reference}")).body == before.body


@pytest.mark.spec("S4")
async def test_a_currency_that_the_method_has_not_goes_to_the_suspense_book(
    sandbox: Running,
) -> None:
    answer = await deposit(sandbox, amount={"value": 250, "currency": "UGX"})
    assert (answer.status, answer.json) == (200, {"gatewayReference": None})
    (entry,) = await sandbox.seen("suspense?brand=demo")
    assert entry["reason"] == "unsupported_currency"
    assert entry["gatewayReference"] is None


@pytest.mark.spec("S4")
async def test_a_failed_deposit_makes_no_transaction(sandbox: Running) -> None:
    answer = await deposit(sandbox, status="failed")
    assert (answer.status, answer.json) == (200, {"gatewayReference": None})
    listed = await sandbox.merchant.records(begin="2026-01-01", to="2100-01-01")
    assert listed.json["data"] == []
    assert await sandbox.seen("suspense") == []
    # What failed may succeed later.
    assert await deposited(sandbox)


@pytest.mark.spec("S4", "L1")
async def test_a_deposit_is_the_brands_own(serve: Serve) -> None:
    brands = a_brand("acme", ACME_KEY) + a_brand("zenith", "zenith-key-123")
    async with serve(brands=brands) as sandbox:
        reference = await deposited(sandbox, brand="acme")
        assert (await developer(sandbox, ACME_KEY).get(f"status/{reference}")).status == 200
        other = developer(sandbox, "zenith-key-123")
        assert (await other.get(f"status/{reference}")).status == 404
