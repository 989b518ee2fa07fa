"""The transaction object, wherever a merchant meets it (clauses T1 to T4)."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest

from mmo_sansio.api.outgoing import PARTY_MEMBERS, PROVIDER_DATA_MEMBERS, TRANSACTION_MEMBERS
from tests.support.merchants import ACME_KEY, a_brand, deposited, developer
from tests.support.receivers import calls_to, receiver, url_of
from tests.support.sandbox_gateway import Running, Serve


@pytest.mark.spec("T1")
@pytest.mark.parametrize(
    ("operation", "type", "flow"),
    [
        ("direct/payin", "payin", "direct"),
        ("direct/payout", "payout", "direct"),
        ("qr/payin", "payin", "qr"),
        ("web/payin", "payin", "web"),
        ("direct/taxpayout", "tax", "direct"),
    ],
)
async def test_an_operation_has_its_type_and_flow(
    sandbox: Running, operation: str, type: str, flow: str
) -> None:
    accepted = await sandbox.merchant.accepted(operation, scenario="never")
    found = await sandbox.merchant.status(accepted["gatewayReference"])
    assert (found["type"], found["flow"]) == (type, flow)


@pytest.mark.spec("T1", "S4", "M5")
async def test_a_push_is_a_payin_by_push_and_has_no_references_of_the_merchant(
    sandbox: Running,
) -> None:
    found = await sandbox.merchant.status(await deposited(sandbox))
    assert (found["type"], found["flow"], found["status"]) == ("payin", "push", "success")
    assert found["merchantReference"] is None
    assert found["reconciliationReference"] is None
    assert found["labels"] is None
    assert found["party"]["id"] == "ACC-7"
    assert found["providerReference"] == "SBX-DEPOSIT-1"
    assert tuple(found) == TRANSACTION_MEMBERS


@pytest.mark.spec("T2")
@pytest.mark.parametrize("scenario", ["never", "success", "cancelled"])
async def test_all_members_of_the_table_are_there_and_no_other(
    sandbox: Running, scenario: str
) -> None:
    accepted = await sandbox.merchant.accepted(scenario=scenario)
    reference = accepted["gatewayReference"]
    if scenario != "never":
        await sandbox.merchant.ended(reference)
    found = await sandbox.merchant.status(reference)
    assert tuple(found) == TRANSACTION_MEMBERS
    assert tuple(found["party"]) == PARTY_MEMBERS
    assert found["party"]["firstName"] is None
    assert found["labels"] is None


@pytest.mark.spec("T2", "S2")
@pytest.mark.parametrize(
    ("scenario", "filled"),
    [
        ("never", set()),
        ("success", {"finalAmount", "completedAt", "completionSource"}),
        ("cancelled", {"completedAt", "completionSource", "errorCode", "errorMessage"}),
    ],
)
async def test_what_is_null_depends_on_the_status(
    sandbox: Running, scenario: str, filled: set[str]
) -> None:
    accepted = await sandbox.merchant.accepted(scenario=scenario)
    reference = accepted["gatewayReference"]
    if scenario != "never":
        await sandbox.merchant.ended(reference)
    found = await sandbox.merchant.status(reference)
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


@pytest.mark.spec("T2", "G5")
async def test_the_create_answers_created_at_is_the_transactions_cut_to_seconds(
    sandbox: Running,
) -> None:
    accepted = await sandbox.merchant.accepted()
    found = await sandbox.merchant.status(accepted["gatewayReference"])
    assert len(found["createdAt"]) == len("2026-11-21T08:30:00.000000Z")
    assert accepted["createdAt"] == found["createdAt"][:19] + "+00:00"


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


@pytest.mark.spec("T4", "S4")
async def test_a_pushs_callback_is_the_object_of_its_look_up(serve: Serve, tmp_path: Any) -> None:
    async with receiver(tmp_path) as found:
        brand = a_brand("acme", ACME_KEY, push_result_url=url_of(found))
        async with serve(brands=brand) as sandbox:
            reference = await deposited(sandbox, brand="acme")
            await sandbox.outcome_of(reference)
            (call,) = calls_to(found)
            looked_up = await developer(sandbox, ACME_KEY).get(f"status/{reference}")
            assert call.body == looked_up.body
            assert json.loads(call.body)["merchantReference"] is None
