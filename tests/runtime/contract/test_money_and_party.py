"""Amounts, parties and labels: clauses M1, M3, M4 and G6 through the merchant's door (rows 38 to
58, 70 to 73, 86)."""

from __future__ import annotations

import json

import pytest

from tests.support.merchant import Answer, Merchant
from tests.support.sandbox_gateway import Running, Serve

KEY = "the-key-of-acme"
BRAND = f"""
[[brand]]
id = "acme"
name = "Acme"
api_keys = ["{KEY}"]

[[brand.method]]
key = "mpesa_ke"
provider = "sandbox"
country = "KE"
flows = ["direct/payin"]
limits.KES = {{ min = "0.01", max = "1000000000000000" }}
limits.EUR = {{ min = "0.01", max = "1000000000000000" }}
limits.UGX = {{ min = "1", max = "1000000000000000" }}
limits.KWD = {{ min = "0.001", max = "1000000000000000" }}
"""


async def _pay(merchant: Merchant, value: str, currency: str) -> Answer:
    """Ask for this amount, its value being exactly this JSON text."""
    body = merchant.body(amount={"value": "@@", "currency": currency})
    return await merchant.post("direct/payin", json.dumps(body).replace('"@@"', value).encode())


@pytest.mark.spec("M1", "G6")
async def test_an_amount_is_taken_by_value_and_told_with_its_currencys_decimals(
    serve: Serve,
) -> None:
    async with serve(brands=BRAND) as sandbox:
        sandbox.merchant.key = KEY
        for row, value, currency, told in (
            ("48", "1.0e1", "KES", "10.00"),
            ("44", "10.50000000000000000000000000", "EUR", "10.50"),
            ("46", "100.00", "UGX", "100"),
            ("47", "1", "KWD", "1.000"),
            ("G6: no binary float has it", "70368744177664.01", "KES", "70368744177664.01"),
            ("55", "1e15", "UGX", "1000000000000000"),
        ):
            answer = await _pay(sandbox.merchant, value, currency)
            assert answer.status == 200, (row, value, currency, answer.body)
            found = await sandbox.merchant.get(f"status/{answer.json['gatewayReference']}")
            written = f'"requestedAmount":{{"value":{told},"currency":"{currency}"}}'
            assert written.encode() in found.body, (row, value, found.body)


@pytest.mark.spec("M3", "G8")
async def test_a_party_comes_back_as_it_was_given(sandbox: Running) -> None:
    longest = "\N{PARTY POPPER}" * 255
    absent = {"firstName": None, "lastName": None, "email": None}
    for payer in (
        {"id": longest, "msisdn": "+" + "2" * 19, "firstName": longest, "lastName": longest},
        {"id": "user-1", "msisdn": "254", "email": "josé+1@sub.shop.example"},
    ):
        accepted = await sandbox.merchant.accepted(payer=payer)
        found = await sandbox.merchant.status(accepted["gatewayReference"])
        assert found["party"] == absent | payer, "rows 70 to 73"


@pytest.mark.spec("M4", "T4")
async def test_labels_come_back_unchanged(sandbox: Running) -> None:
    written = (
        b'{"order":"A-1","\xc3\xa9":"\xf0\x9f\x8e\x89","count":3,"ratio":1.50,"tiny":1e-7,'
        b'"big":123456789012345678901234567890,"yes":true,"no":false,"none":null,"empty":""}'
    )
    body = json.dumps(sandbox.merchant.body(labels="@@")).encode().replace(b'"@@"', written)
    answer = await sandbox.merchant.post("direct/payin", body)
    assert answer.status == 200, answer.body
    reference = answer.json["gatewayReference"]
    found = await sandbox.merchant.get(f"status/{reference}")
    assert b'"labels":' + written + b"," in found.body
    callback = await sandbox.callback_for(reference)
    assert b'"labels":' + written + b"," in callback.body
