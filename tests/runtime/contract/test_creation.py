"""Creating payments: clauses C1 to C8, C10, C11, C13 and C14 through the merchant's door."""

from __future__ import annotations

import json
import re
from datetime import datetime
from typing import Any

import pytest

from tests.support.merchant import ROOT, a_reference, ask
from tests.support.merchants import a_brand
from tests.support.rejections import assert_field_refused, assert_problem
from tests.support.sandbox_gateway import Running, Serve

INITIATED = [
    "status",
    "gatewayReference",
    "merchantReference",
    "reconciliationReference",
    "createdAt",
]
PARTY = {
    "id": "user-7",
    "msisdn": "+254712345678",
    "firstName": "Ada",
    "lastName": "Byron",
    "email": "ada@shop.example",
}


@pytest.mark.parametrize(
    ("operation", "party", "type_and_flow"),
    [
        pytest.param(
            "direct/payin", "payer", ("payin", "direct"), marks=pytest.mark.spec("C1", "C6", "T1")
        ),
        pytest.param(
            "direct/payout", "payee", ("payout", "direct"), marks=pytest.mark.spec("C2", "C6", "T1")
        ),
        pytest.param(
            "qr/payin", "payer", ("payin", "qr"), marks=pytest.mark.spec("C3", "C6", "T1")
        ),
        pytest.param(
            "web/payin", "payer", ("payin", "web"), marks=pytest.mark.spec("C4", "C6", "T1")
        ),
        pytest.param(
            "direct/taxpayout", None, ("tax", "direct"), marks=pytest.mark.spec("C5", "C6", "T1")
        ),
    ],
)
async def test_each_operation_is_answered_at_once_and_makes_its_transaction(
    sandbox: Running, operation: str, party: str | None, type_and_flow: tuple[str, str]
) -> None:
    given = {} if party is None else {party: PARTY}
    accepted = await sandbox.merchant.accepted(
        operation, labels={"till": 4}, reconciliationReference="books-1", **given
    )
    page = ["pageUrl", "pageOpenMode"] if operation == "web/payin" else []
    assert list(accepted) == INITIATED + page
    assert accepted["status"] == "pending"
    assert re.fullmatch("[0-7][0-9A-HJKMNP-TV-Z]{25}", accepted["gatewayReference"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", accepted["createdAt"])

    transaction = await sandbox.merchant.status(accepted["gatewayReference"])
    assert (transaction["type"], transaction["flow"]) == type_and_flow
    assert transaction["party"] == (
        PARTY
        if party
        else {"id": "mpesa_ke", "msisdn": "000", "firstName": None, "lastName": None, "email": None}
    )
    assert transaction["method"] == "mpesa_ke"
    assert transaction["country"] == "KE"
    assert transaction["labels"] == {"till": 4}
    for name in ("gatewayReference", "merchantReference", "reconciliationReference"):
        assert transaction[name] == accepted[name], name
    at = datetime.fromisoformat(transaction["createdAt"])
    assert datetime.fromisoformat(accepted["createdAt"]) == at.replace(microsecond=0)


@pytest.mark.spec("C7")
async def test_the_reconciliation_reference_is_the_merchant_reference_unless_given(
    sandbox: Running,
) -> None:
    accepted = await sandbox.merchant.accepted()
    assert accepted["reconciliationReference"] == accepted["merchantReference"]
    transaction = await sandbox.merchant.status(accepted["gatewayReference"])
    assert transaction["reconciliationReference"] == accepted["merchantReference"]


@pytest.mark.spec("C6", "L1", "L2")
async def test_a_payment_is_durable_before_its_answer_leaves(sandbox: Running) -> None:
    accepted = await sandbox.merchant.accepted()
    async with sandbox.storage.open_for_admin() as store:
        by_its_own = await store.admin.find_transactions(reference=accepted["gatewayReference"])
        by_the_merchants = await store.admin.find_transactions(
            reference=accepted["merchantReference"]
        )
    assert [each.reference for each in by_its_own] == [accepted["gatewayReference"]]
    assert [each.reference for each in by_the_merchants] == [accepted["gatewayReference"]]


@pytest.mark.spec("C8", "K7")
async def test_without_allow_private_no_private_address_is_taken(serve: Serve) -> None:
    async with serve(environment={"MMO_EGRESS_ALLOW_PRIVATE": "false"}) as sandbox:
        answer = await sandbox.merchant.create(
            "qr/payin", resultUrl="https://2130706433/", displayQrUrl="https://[::1]/"
        )
        assert_field_refused(answer, "resultUrl", "displayQrUrl", note="row 88")
        assert (await sandbox.merchant.create(resultUrl="https://shop.example/")).status == 200


BRAND = """
[[brand]]
id = "acme"
name = "Acme"
api_keys = ["the-key-of-acme"]
redirect_schemes = ["acmeapp"]

[[brand.method]]
key = "mpesa_ke"
provider = "sandbox"
country = "KE"
flows = ["direct/payin", "web/payin", "direct/taxpayout"]
limits.KES = { min = "10.50", max = "150.25" }
limits.USD = { min = "1", max = "1" }
tax_authority_id = "KRA"
tax_authority_account = "572572"

[[brand.method]]
key = "mpesa_ke"
provider = "sandbox"
country = "TZ"
flows = ["direct/payin"]
limits.TZS = { min = "500", max = "5000" }

[[brand.method]]
key = "payouts_only"
provider = "sandbox"
country = "KE"
flows = ["direct/payout"]
limits.KES = { min = "100", max = "200" }
"""


@pytest.mark.spec("C8", "W2")
async def test_redirect_urls_may_be_web_addresses_or_a_scheme_of_the_brand(serve: Serve) -> None:
    async with serve(brands=BRAND) as sandbox:
        sandbox.merchant.key = "the-key-of-acme"
        for name in ("successRedirectUrl", "errorRedirectUrl"):
            for url in ("javascript:alert(1)", "otherapp://done"):
                answer = await sandbox.merchant.create("web/payin", **{name: url})
                assert_field_refused(answer, name, note=("row 90", url))
            for url in ("http://shop.example/done", "acmeapp://done"):
                changes: dict[str, Any] = {name: url}
                answer = await sandbox.merchant.create("web/payin", amount=_kes(100), **changes)
                assert answer.status == 200, (name, url, answer.body)


def _kes(value: float, currency: str = "KES") -> dict[str, Any]:
    return {"value": value, "currency": currency}


@pytest.mark.spec("C10", "C11", "C14", "M2", "M5", "P2")
async def test_method_country_currency_and_limits_are_the_brands_own(serve: Serve) -> None:
    async with serve(brands=BRAND) as sandbox:
        merchant = sandbox.merchant
        merchant.key = "the-key-of-acme"
        for operation, method, amount, segment in (
            ("direct/payin", "payouts_only", _kes(100), "config_unsupported_payment_method"),
            ("direct/payout", "mpesa_ke", _kes(100), "config_unsupported_payment_method"),
            ("direct/payin", "mpesa_ke", _kes(600, "TZS"), "config_unsupported_currency"),
            ("direct/payin", "mpesa_ke", _kes(10.49), "config_method_transaction_min_limit"),
            ("direct/payin", "mpesa_ke", _kes(150.26), "config_method_transaction_max_limit"),
        ):
            body = merchant.body(operation, amount=amount)
            answer = await merchant.post(operation, body, method=method)
            assert_problem(answer, 400, segment, note=(operation, method, amount))
        for amount in (_kes(10.5), _kes(150.25), _kes(1, "USD")):
            assert (await merchant.create(amount=amount)).status == 200, amount
        tanzania = merchant.body(amount=_kes(500, "TZS"), country="TZ")
        assert (await merchant.post("direct/payin", tanzania)).status == 200

        tax = await merchant.accepted("direct/taxpayout", amount=_kes(100))
        party = (await merchant.status(tax["gatewayReference"]))["party"]
        assert (party["id"], party["msisdn"]) == ("KRA", "572572")


@pytest.mark.spec("C9", "P1", "P2", "P4")
async def test_one_refusal_is_reported_and_mending_it_shows_the_next(serve: Serve) -> None:
    shut = a_brand("shut", "the-key-of-shut", more="enabled = false\n")
    async with serve(brands=BRAND + shut) as sandbox:
        merchant = sandbox.merchant
        used = a_reference()
        merchant.key = "the-key-of-acme"
        await merchant.accepted(amount=_kes(100), merchantReference=used)
        merchant.key = ""

        path, verb, content_type, method = f"{ROOT}/direct/payin", "GET", "text/plain", "m" * 101
        body: Any = b'{"amount": ' + b" " * 300_000

        async def refused(status: int, segment: str, end: str = "") -> None:
            answer = await ask(
                f"{sandbox.ready.api}{path}/{method}{end}",
                method=verb,
                headers={"X-Api-Key": merchant.key, "Content-Type": content_type},
                body=body if isinstance(body, bytes) else json.dumps(body).encode(),
            )
            assert_problem(answer, status, segment)

        await refused(400, "bad_request", "#fragment")
        path = path.replace("v2", "v3")
        await refused(404, "not_found")
        path = path.replace("v3", "v2")
        await refused(405, "method_not_allowed")
        verb = "POST"
        await refused(401, "unauthorized")
        merchant.key = "the-key-of-shut"
        await refused(400, "merchant_disabled")
        merchant.key = "the-key-of-acme"
        await refused(400, "bad_request")
        content_type = "application/json"
        await refused(413, "body_too_large")
        body = b"{"
        await refused(400, "bad_request")
        body = merchant.body(
            country="ZZ", amount=_kes(0.001, "GBP"), merchantReference=used, resultUrl="x"
        )
        await refused(400, "validation_failed")
        body["resultUrl"] = merchant.result_url
        await refused(400, "validation_failed")
        method = "unknown"
        await refused(400, "config_unsupported_payment_method")
        method = "mpesa_ke"
        await refused(400, "config_unsupported_country")
        body["country"] = "KE"
        await refused(400, "config_unsupported_currency")
        body["amount"]["currency"] = "KES"
        await refused(400, "validation_failed")
        body["amount"]["value"] = 0.01
        await refused(400, "config_method_transaction_min_limit")
        body["amount"]["value"] = 10_000
        await refused(400, "config_method_transaction_max_limit")
        body["amount"]["value"] = 100
        await refused(422, "merchant_transactionid_duplicate")
        body["merchantReference"] = a_reference()
        assert (await merchant.post("direct/payin", body)).status == 200


@pytest.mark.spec("C9", "P1")
async def test_field_faults_are_told_all_at_once_in_the_order_of_the_fields(
    sandbox: Running,
) -> None:
    body = {
        "labels": 1,
        "reconciliationReference": 1,
        "merchantReference": 1,
        "errorRedirectUrl": 1,
        "successRedirectUrl": 1,
        "resultUrl": 1,
        "country": 1,
        "payer": {"email": 1, "lastName": 1, "firstName": 1, "msisdn": 1, "id": 1},
        "amount": {"currency": 1, "value": "1"},
    }
    answer = await sandbox.merchant.post("web/payin", body, method="m" * 101)
    assert_field_refused(
        answer,
        *("method", "amount.value", "amount.currency"),
        *("payer.id", "payer.msisdn", "payer.firstName", "payer.lastName", "payer.email"),
        *("country", "resultUrl", "successRedirectUrl", "errorRedirectUrl"),
        *("merchantReference", "reconciliationReference", "labels"),
    )
