"""The transaction object, wherever a merchant meets it (clauses T1 to T4)."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from mmo_sansio.api.outgoing import PARTY_MEMBERS, PROVIDER_DATA_MEMBERS, TRANSACTION_MEMBERS
from tests.support.sandbox_gateway import Running


@pytest.mark.spec("T2", "S2")
@pytest.mark.parametrize(
    ("scenario", "filled"),
    [
        ("never", set()),
        ("success", {"finalAmount", "completedAt", "completionSource"}),
        ("cancelled", {"completedAt", "completionSource", "errorCode", "errorMessage"}),
    ],
)
async def test_all_members_of_the_table_are_there_and_the_status_fills_some(
    sandbox: Running, scenario: str, filled: set[str]
) -> None:
    accepted = await sandbox.merchant.accepted(scenario=scenario)
    reference = accepted["gatewayReference"]
    if scenario != "never":
        await sandbox.merchant.ended(reference)
    found = await sandbox.merchant.status(reference)
    assert tuple(found) == TRANSACTION_MEMBERS
    assert tuple(found["party"]) == PARTY_MEMBERS
    dependent = {"finalAmount", "completedAt", "completionSource", "errorCode", "errorMessage"}
    assert {name for name in dependent if found[name] is not None} == filled


@pytest.mark.spec("T2")
async def test_what_was_asked_for_never_changes(sandbox: Running) -> None:
    changes: dict[str, Any] = {
        "labels": {"order": "A-17", "count": 3, "gift": True, "note": None},
        "amount": {"value": 1e2, "currency": "KES"},
        "reconciliationReference": "recon-1",
    }
    accepted = await sandbox.merchant.accepted(scenario="other_amount", **changes)
    ended = await sandbox.merchant.ended(accepted["gatewayReference"])
    assert ended["requestedAmount"] == {"value": Decimal("100.00"), "currency": "KES"}
    assert ended["finalAmount"] == {"value": Decimal("99.99"), "currency": "KES"}
    assert ended["labels"] == changes["labels"]
    assert ended["merchantReference"] == accepted["merchantReference"]
    assert ended["reconciliationReference"] == "recon-1"
    assert ended["party"]["msisdn"] == "254712345678"
    assert (ended["method"], ended["country"]) == ("mpesa_ke", "KE")


@pytest.mark.spec("T3")
async def test_provider_data_is_null_until_a_request_to_the_provider_is_recorded(
    sandbox: Running,
) -> None:
    accepted = await sandbox.merchant.accepted("web/payin")
    reference = accepted["gatewayReference"]
    assert (await sandbox.merchant.status(reference))["providerData"] is None

    await sandbox.control("pay", gatewayReference=reference)
    data = (await sandbox.merchant.ended(reference))["providerData"]
    assert tuple(data) == PROVIDER_DATA_MEMBERS
    assert (data["name"], data["title"]) == ("sandbox", "Sandbox")
    assert data["fee"] == {"value": Decimal("1.50"), "currency": "KES"}
    assert (data["errorCode"], data["errorMessage"]) == (None, None)


@pytest.mark.spec("T3")
async def test_a_failure_gives_the_providers_own_words_and_a_name_its_details(
    sandbox: Running,
) -> None:
    failed = await sandbox.merchant.accepted(scenario="insufficient_funds")
    data = (await sandbox.merchant.ended(failed["gatewayReference"]))["providerData"]
    assert tuple(data) == PROVIDER_DATA_MEMBERS
    assert (data["errorCode"], data["errorMessage"]) == ("SBX-101", "Balance too low")
    assert (data["fee"], data["partyData"]) == (None, None)

    payer = {"id": "u", "msisdn": "254712345678", "firstName": "Wanjikũ", "lastName": "Kamau"}
    paid = await sandbox.merchant.accepted(payer=payer)
    data = (await sandbox.merchant.ended(paid["gatewayReference"]))["providerData"]
    assert data["partyData"]["registeredName"] == "Wanjikũ Kamau"


@pytest.mark.spec("T4")
async def test_look_ups_records_and_callback_give_the_same_bytes(sandbox: Running) -> None:
    merchant = sandbox.merchant
    accepted = await merchant.accepted(
        payer={"id": "Ünïcode ✓", "msisdn": "254712345678", "firstName": 'quo"te'},
        labels={"a": 1.10, "b": "</script>", "c": None},
    )
    reference = accepted["gatewayReference"]
    callback = await sandbox.callback_for(reference)
    by_reference = await merchant.get(f"status/{reference}")
    by_merchant = await merchant.get(f"status/mref/{accepted['merchantReference']}")
    records = await merchant.records(begin="2026-01-01", to="2100-01-01")

    assert by_reference.body == callback.body
    assert by_merchant.body == callback.body
    assert records.body.startswith(b'{"data":[' + callback.body + b"]")
    assert by_reference.headers["content-type"] == "application/json"


@pytest.mark.spec("T4")
async def test_a_pending_transaction_is_the_same_bytes_in_look_ups_and_records(
    sandbox: Running,
) -> None:
    merchant = sandbox.merchant
    accepted = await merchant.accepted("web/payin")
    by_reference = await merchant.get(f"status/{accepted['gatewayReference']}")
    by_merchant = await merchant.get(f"status/mref/{accepted['merchantReference']}")
    records = await merchant.records(begin="2026-01-01", to="2100-01-01")
    assert by_reference.body == by_merchant.body
    assert by_reference.body in records.body
