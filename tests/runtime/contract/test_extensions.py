"""What merchants read beside the specification: their methods, and their payments of which money
was asked back."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from urllib.parse import urlencode

import pytest
import trio

from mmo_merchant import ApiRejection, AsyncMerchantClient
from mmo_sansio.messages.replies import ReversalApplied
from mmo_sansio.messages.reversals import DecideReversal, RequestReversal
from mmo_sansio.values.model import Status
from mmo_sansio.values.money import Money
from mmo_trio.engine.engine import submit_once
from mmo_trio.system.clock import GatewayClock
from tests.support.merchant import TIMEOUT_S, Answer, Merchant, ask
from tests.support.merchants import ACME, ACME_KEY, ZENITH, ZENITH_KEY, a_brand, developer
from tests.support.mmo_process import mmo
from tests.support.sandbox_gateway import Running, Serve

ALWAYS = {"from": "2026-01-01", "to": "2100-01-01"}
LIMITED = a_brand("acme", ACME_KEY).replace(
    'max = "150000" }', 'max = "150000", daily_payout = "300000.50" }'
)


async def _read(merchant: Merchant, name: str, **query: Any) -> Answer:
    text = f"?{urlencode(query)}" if query else ""
    headers = {"X-Api-Key": merchant.key}
    return await ask(f"{merchant.api}/extensions/v1/{name}{text}", headers=headers)


async def _paid(merchant: Merchant) -> str:
    accepted = await merchant.accepted()
    return str((await merchant.ended(accepted["gatewayReference"]))["gatewayReference"])


async def _ask_back(
    sandbox: Running, reference: str, minor: int | None, *, brand: str = "demo"
) -> None:
    """Ask money of a payment back, which another member of staff has to approve."""
    amount = None if minor is None else Money(minor, "KES")
    asked = RequestReversal(
        reference, brand, amount, "Its secret reason.", "amina", needs_approval=True
    )
    async with sandbox.storage.open_for_admin() as store:
        assert isinstance(await submit_once(store, asked, GatewayClock()), ReversalApplied)


def _payments(answer: Answer) -> list[str]:
    assert answer.status == 200, answer.body
    return [payment["gatewayReference"] for payment in answer.json["data"]]


async def test_the_methods_of_the_brand_are_listed_with_what_may_be_paid(serve: Serve) -> None:
    async with serve(brands=LIMITED + ZENITH) as sandbox:
        answer = await _read(developer(sandbox, ACME_KEY), "methods")
        assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
        assert answer.json["brand"] == "acme"
        (method,) = answer.json["data"]
        assert (method["method"], method["country"]) == ("mpesa_ke", "KE")
        assert method["currencies"] == [
            {
                "currency": "KES",
                "decimals": 0,
                "minimum": 10,
                "maximum": 150_000,
                "daily": {"payout": Decimal("300000.50")},
            }
        ]
        assert [each["operation"] for each in method["operations"]] == [
            "direct/payin",
            "direct/payout",
            "qr/payin",
            "web/payin",
            "direct/taxpayout",
        ]
        assert {each["state"] for each in method["operations"]} == {"open"}


@pytest.mark.own_store
async def test_a_method_is_closed_while_staff_have_closed_its_operator(serve: Serve) -> None:
    close, open_ = ("disable", "sandbox", "--reason", "Its maintenance."), ("enable", "sandbox")
    async with serve() as sandbox:
        for command, state in ((close, "closed"), (open_, "open")):
            await mmo("providers", *command, "--data", sandbox.directory)
            answer = await _read(sandbox.merchant, "methods")
            for method in answer.json["data"]:
                states = {each["state"] for each in method["operations"]}
                assert states == {state}


@pytest.mark.own_store
async def test_a_payment_is_listed_with_its_reversals_and_without_what_staff_wrote(
    serve: Serve,
) -> None:
    async with serve() as sandbox:
        merchant = sandbox.merchant
        paid = await merchant.status(await _paid(merchant))
        assert _payments(await _read(merchant, "reversals", **ALWAYS)) == []
        await _ask_back(sandbox, paid["gatewayReference"], 100)
        answer = await _read(merchant, "reversals", **ALWAYS)
        assert answer.headers["content-type"] == "application/json"
        assert b"secret" not in answer.body
        assert b"amina" not in answer.body
        (found,) = answer.json["data"]
        (reversal,) = found.pop("reversals")
        assert found.pop("changedAt") == reversal.pop("askedAt")
        same = (
            "gatewayReference",
            "merchantReference",
            "reconciliationReference",
            "providerReference",
            "type",
            "method",
            "country",
            "status",
            "finalAmount",
        )
        assert found == {name: paid[name] for name in same} | {"lateAmount": None}
        assert reversal == {
            "id": f"{paid['gatewayReference']}-1",
            "status": "pending",
            "amount": {"value": 1, "currency": "KES"},
            "providerReference": None,
            "endedAt": None,
        }
        approval = DecideReversal(
            f"{paid['gatewayReference']}-1", "wanjiku", is_approved=True, four_eyes=True
        )
        async with sandbox.storage.open_for_admin() as store:
            assert isinstance(await submit_once(store, approval, GatewayClock()), ReversalApplied)
        with trio.fail_after(TIMEOUT_S):
            while True:
                (found,) = (await _read(merchant, "reversals", **ALWAYS)).json["data"]
                (reversal,) = found["reversals"]
                if reversal["status"] == "success":
                    break
                await trio.sleep(0.02)
        assert found["changedAt"] == reversal["endedAt"] > reversal["askedAt"]
        assert await merchant.status(paid["gatewayReference"]) == paid


@pytest.mark.own_store
async def test_no_brand_sees_the_methods_or_reversals_of_another(serve: Serve) -> None:
    async with serve(brands=ACME + ZENITH.replace("mpesa_ke", "mpesa_two")) as sandbox:
        acme, zenith = developer(sandbox, ACME_KEY), developer(sandbox, ZENITH_KEY)
        paid = [await _paid(acme) for _ in range(3)]
        for reference in paid:
            await _ask_back(sandbox, reference, 100, brand="acme")
        first = await _read(acme, "reversals", **ALWAYS, pageSize=1)
        assert _payments(first) == paid[:1]
        assert _payments(await _read(zenith, "reversals", **ALWAYS)) == []
        (method,) = (await _read(zenith, "methods")).json["data"]
        assert method["method"] == "mpesa_two"
        stolen = await _read(zenith, "reversals", page=first.json["pages"]["next"])
        assert (stolen.status, stolen.json["errors"][0]["field"]) == (400, "page")
        for key in ("", "wrong-key-1234567890"):
            for name in ("methods", "reversals"):
                headers = {"X-Api-Key": key} if key else {}
                refused = await ask(f"{acme.api}/extensions/v1/{name}", headers=headers)
                assert (refused.status, refused.json["errorCode"]) == (401, "unauthorized")


@pytest.mark.own_store
async def test_the_pages_of_reversals_lead_on_and_back_and_a_change_comes_last(
    serve: Serve,
) -> None:
    async with serve() as sandbox:
        merchant = sandbox.merchant
        paid = [await _paid(merchant) for _ in range(5)]
        for reference in paid:
            await _ask_back(sandbox, reference, 100)
        pages = [await _read(merchant, "reversals", **ALWAYS, pageSize=2)]
        assert pages[0].json["pages"]["previous"] is None
        while (cursor := pages[-1].json["pages"]["next"]) is not None:
            pages.append(await _read(merchant, "reversals", page=cursor))
        assert [_payments(page) for page in pages] == [paid[:2], paid[2:4], paid[4:]]
        back = await _read(merchant, "reversals", page=pages[1].json["pages"]["previous"])
        assert _payments(back) == paid[:2]

        await _ask_back(sandbox, paid[0], 100)
        assert _payments(await _read(merchant, "reversals", **ALWAYS)) == [*paid[1:], paid[0]]
        changed = await _read(merchant, "reversals", page=pages[-1].json["pages"]["previous"])
        assert _payments(changed) == paid[2:4]
        newest = (await _read(merchant, "reversals", **ALWAYS)).json["data"][-1]["changedAt"]
        since = await _read(merchant, "reversals", **{"from": newest, "to": "2100-01-01"})
        assert _payments(since) == [paid[0]]


@pytest.mark.parametrize(
    ("query", "field", "remedy"),
    [
        ({"to": "2026-12-01"}, "from", "is required"),
        ({"page": "nonsense"}, "page", "start again without it"),
    ],
)
async def test_a_bad_parameter_is_named_with_its_remedy(
    sandbox: Running, query: dict[str, str], field: str, remedy: str
) -> None:
    answer = await _read(sandbox.merchant, "reversals", **query)
    assert (answer.status, answer.json["errorCode"]) == (400, "validation_failed")
    (fault,) = answer.json["errors"]
    assert fault["field"] == field
    assert remedy in fault["detail"]


@pytest.mark.own_store
async def test_a_cursor_of_records_is_none_of_reversals(serve: Serve) -> None:
    async with serve() as sandbox:
        for _ in range(2):
            await _ask_back(sandbox, await _paid(sandbox.merchant), 100)
        of_records = await sandbox.merchant.records(begin="2026-01-01", to="2100-01-01", pageSize=1)
        of_reversals = await _read(sandbox.merchant, "reversals", **ALWAYS, pageSize=1)
        wrong = await _read(sandbox.merchant, "reversals", page=of_records.json["pages"]["next"])
        assert (wrong.status, wrong.json["errors"][0]["field"]) == (400, "page")
        wrong = await sandbox.merchant.records(page=of_reversals.json["pages"]["next"])
        assert (wrong.status, wrong.json["errors"][0]["field"]) == (400, "page")


async def test_only_reading_is_known_and_a_gateway_may_be_without(serve: Serve) -> None:
    async with serve() as sandbox:
        for name in ("methods", "reversals"):
            headers = {"X-Api-Key": sandbox.merchant.key}
            url = f"{sandbox.ready.api}/extensions/v1/{name}"
            posted = await ask(url, method="POST", headers=headers, body=b"{}")
            assert (posted.status, posted.headers["allow"]) == (405, "GET, HEAD")
        assert b"extensions" not in (await ask(f"{sandbox.ready.pages}/openapi.json")).body
    async with serve(environment={"MMO_GATEWAY_EXTENSIONS": "false"}) as sandbox:
        for name in ("methods", "reversals"):
            assert (await _read(sandbox.merchant, name, **ALWAYS)).status == 404


@pytest.mark.own_store
async def test_the_client_reads_methods_and_reversals(serve: Serve) -> None:
    async with serve() as sandbox:
        merchant = sandbox.merchant
        paid = [await _paid(merchant) for _ in range(2)]
        for reference in paid:
            await _ask_back(sandbox, reference, 100)
        begin, end = datetime(2026, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC)
        async with AsyncMerchantClient(merchant.api, merchant.key) as client:
            methods = await client.methods()
            (method,) = [each for each in methods.methods if each.method == "mpesa_ke"]
            assert (methods.brand, method.country) == ("demo", "KE")
            assert method.currencies["KES"].decimals == 0
            assert method.currencies["KES"].maximum.currency == "KES"
            assert method.operations["direct/payout"] == "open"
            found = [payment async for payment in client.reversals(begin, end)]
            assert [payment.gateway_reference for payment in found] == paid
            (reversal,) = found[0].reversals
            assert (reversal.status, reversal.amount) == (Status.PENDING, Money(100, "KES"))
            assert found[0].final_amount == Money(15_000, "KES")
    without = {"MMO_GATEWAY_EXTENSIONS": "false"}
    async with (
        serve(environment=without) as sandbox,
        AsyncMerchantClient(sandbox.merchant.api, sandbox.merchant.key) as client,
    ):
        with pytest.raises(ApiRejection) as refused:
            await client.methods()
        assert (refused.type, refused.value.problem.status) == (ApiRejection, 404)


@pytest.mark.spec("A1")
async def test_the_rate_of_the_brand_counts_for_what_is_beside_the_specification(
    serve: Serve,
) -> None:
    few = a_brand("acme", ACME_KEY, more="limits.requests_per_second = 1\n")
    async with serve(brands=few) as sandbox:
        answers = [await _read(developer(sandbox, ACME_KEY), "methods") for _ in range(5)]
        refused = [answer for answer in answers if answer.status == 429]
        assert refused
        assert refused[0].json["errorCode"]
