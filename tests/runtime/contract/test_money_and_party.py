"""Amounts, parties and labels: clauses M1 to M5 and G6 through the merchant's door (rows 38 to 58,
70 to 73, 86)."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest

from tests.support.merchant import Answer, Merchant, a_reference
from tests.support.rejections import assert_field_refused, assert_problem
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
limits.JPY = {{ min = "1", max = "1000000000000000" }}
limits.XOF = {{ min = "1", max = "1000000000000000" }}
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
            ("M1", "100", "KES", "100.00"),
            ("M1", "100.0", "KES", "100.00"),
            ("M1", "100.00", "KES", "100.00"),
            ("48", "1e2", "KES", "100.00"),
            ("48", "1E+2", "KES", "100.00"),
            ("48", "1.0e1", "KES", "10.00"),
            ("48", "12345e-2", "KES", "123.45"),
            ("42", "10.5", "EUR", "10.50"),
            ("43", "10", "EUR", "10.00"),
            ("43", "10.50", "EUR", "10.50"),
            ("44", "10.500", "EUR", "10.50"),
            ("44", "10.50000000000000000000000000", "EUR", "10.50"),
            ("46", "100", "UGX", "100"),
            ("46", "100.0", "UGX", "100"),
            ("46", "100.00", "JPY", "100"),
            ("M1", "7", "XOF", "7"),
            ("47", "1.234", "KWD", "1.234"),
            ("47", "1", "KWD", "1.000"),
            ("G6", "0.01", "KES", "0.01"),
            ("G6", "0.1", "KES", "0.10"),
            ("G6: no binary float has it", "70368744177664.01", "KES", "70368744177664.01"),
            ("G6: nor this", "999999999999999.99", "KES", "999999999999999.99"),
            ("55", "1000000000000000", "KES", "1000000000000000.00"),
            ("55", "1e15", "UGX", "1000000000000000"),
        ):
            answer = await _pay(sandbox.merchant, value, currency)
            assert answer.status == 200, (row, value, currency, answer.body)
            found = await sandbox.merchant.get(f"status/{answer.json['gatewayReference']}")
            written = f'"requestedAmount":{{"value":{told},"currency":"{currency}"}}'
            assert written.encode() in found.body, (row, value, found.body)


@pytest.mark.spec("M1", "G7")
async def test_what_is_no_acceptable_amount_is_refused_by_name(serve: Serve) -> None:
    async with serve(brands=BRAND) as sandbox:
        sandbox.merchant.key = KEY
        for row, value, currency in (
            ("39", "null", "KES"),
            ("40", "0", "KES"),
            ("40", "0.00", "KES"),
            ("40", "-0", "KES"),
            ("40", "-0.0", "KES"),
            ("40", "-1", "KES"),
            ("45", "10.505", "EUR"),
            ("46", "100.5", "UGX"),
            ("47", "1.2345", "KWD"),
            ("49", "1e400", "KES"),
            ("49", "1e1000000000", "KES"),
            ("49", "1e99999999999999999999", "KES"),
            ("49", "1e-99999999999999999999", "KES"),
            ("51", "9" * 5_000, "KES"),
            ("51", "1." + "0" * 39, "KES"),
            ("52", '"10.00"', "KES"),
            ("53", "true", "KES"),
            ("53", "[10]", "KES"),
            ("53", '{"v":1}', "KES"),
            ("55", "1000000000000000.01", "KES"),
            ("55", "1000000000000001", "UGX"),
        ):
            answer = await _pay(sandbox.merchant, value, currency)
            assert_field_refused(answer, "amount.value", note=("row", row, value[:50]))


@pytest.mark.spec("M2")
async def test_a_currency_is_three_letters_and_one_of_the_methods(serve: Serve) -> None:
    async with serve(brands=BRAND) as sandbox:
        sandbox.merchant.key = KEY
        for currency in ("", "eu", "EURO", "€", "K€S", "KE1", "KES ", "ＫＥＳ"):
            answer = await _pay(sandbox.merchant, "100", currency)
            assert_field_refused(answer, "amount.currency", note=("row 57", currency))
        for currency in ("eur", "kes", "Kes", "USD", "XXX", "QQQ"):
            answer = await _pay(sandbox.merchant, "100", currency)
            assert_problem(answer, 400, "config_unsupported_currency", note=("row 58", currency))


@pytest.mark.spec("M3", "G8")
async def test_a_party_comes_back_as_it_was_given(sandbox: Running) -> None:
    longest = "\N{PARTY POPPER}" * 255
    for changes in (
        {"id": longest, "firstName": longest, "lastName": longest},
        {"msisdn": "254"},
        {"msisdn": "+" + "2" * 19},
        {"msisdn": "2" * 20},
        {"email": "ada@shop.example"},
        {"email": "a" * 64 + "@" + ".".join(["d" * 63] * 3) + "." + "e" * 63},
        {"email": "josé+1@sub.shop.example"},
        {"email": None, "firstName": None},
    ):
        payer: dict[str, Any] = {"id": "user-1", "msisdn": "254712345678"} | changes
        accepted = await sandbox.merchant.accepted(payer=payer)
        found = await sandbox.merchant.status(accepted["gatewayReference"])
        absent = {"firstName": None, "lastName": None, "email": None}
        assert found["party"] == absent | payer, ("rows 70 to 73", changes)
    accepted = await sandbox.merchant.accepted(
        payer={"id": "u", "msisdn": "254712345678", "firstName": "", "email": ""}
    )
    party = (await sandbox.merchant.status(accepted["gatewayReference"]))["party"]
    assert (party["firstName"], party["email"]) == (None, None), "an empty text means absent (G4)"


@pytest.mark.spec("M3", "G7", "G8")
async def test_a_party_that_cannot_be_is_refused_by_name(sandbox: Running) -> None:
    for row, name, value in (
        (70, "msisdn", "25"),
        (70, "msisdn", "2" * 21),
        (70, "msisdn", "+" + "2" * 20),
        (71, "msisdn", "+254 712 345678"),
        (71, "msisdn", "254-712-345678"),
        (71, "msisdn", "254712x45678"),
        (71, "msisdn", "٢٥٤٧١٢٣٤٥٦٧٨"),
        (71, "msisdn", "＋254712345678"),
        (71, "msisdn", "+"),
        (71, "msisdn", "254+712345678"),
        (71, "msisdn", 254712345678),
        (72, "email", "a@"),
        (72, "email", "a@b"),
        (72, "email", "a b@shop.example"),
        (72, "email", "@shop.example"),
        (72, "email", "ada@shop..example"),
        (72, "email", "ada@shop.example\r\nBcc: all@shop.example"),
        (72, "email", "a" * 64 + "@" + ".".join(["d" * 63] * 4) + ".example"),
        (73, "firstName", "x" * 256),
        (73, "lastName", "x" * 256),
        (73, "firstName", "Ada\x07"),
        (73, "lastName", ["Byron"]),
        (66, "id", ""),
        (66, "id", "\N{NO-BREAK SPACE} "),
        (66, "id", 7),
    ):
        payer: dict[str, Any] = {"id": "user-1", "msisdn": "254712345678"} | {name: value}
        answer = await sandbox.merchant.create(payer=payer)
        assert_field_refused(answer, f"payer.{name}", note=("row", row, value))


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
    bounds = {"k" * 255: "v" * 1000}
    accepted = await sandbox.merchant.accepted(labels=bounds)
    assert (await sandbox.merchant.status(accepted["gatewayReference"]))["labels"] == bounds


@pytest.mark.spec("M3")
async def test_a_national_number_is_a_fault_at_once_and_uses_no_reference_up(
    sandbox: Running,
) -> None:
    merchant = sandbox.merchant
    reference = a_reference()
    for operation, party in (
        ("direct/payin", "payer"),
        ("direct/payout", "payee"),
        ("web/payin", "payer"),
    ):
        for number in ("0712345678", "+0712345678", "00254712345678", "000"):
            answer = await merchant.create(operation, msisdn=number, merchantReference=reference)
            assert_field_refused(answer, f"{party}.msisdn", note=(operation, number))
    await merchant.accepted("direct/payout", merchantReference=reference)


@pytest.mark.spec("M4")
async def test_labels_that_cannot_be_are_refused(sandbox: Running) -> None:
    for labels, field in (
        ({str(number): 1 for number in range(11)}, "labels"),
        ([], "labels"),
        ("order", "labels"),
        ({"": 1}, "labels"),
        ({"k" * 256: 1}, "labels"),
        ({"nested": {"a": 1}}, "labels.nested"),
        ({"list": [1]}, "labels.list"),
        ({"long": "v" * 1001}, "labels.long"),
        ({"bell": "\x07"}, "labels.bell"),
        ({"huge": 10**40}, "labels.huge"),
    ):
        answer = await sandbox.merchant.create(labels=labels)
        assert_field_refused(answer, field, note=("row 86", field))
    assert (await sandbox.merchant.accepted(labels={}))["status"] == "pending"


@pytest.mark.spec("M5")
async def test_the_party_of_a_push_is_as_the_provider_tells_it(sandbox: Running) -> None:
    for number, (party, id) in enumerate(
        (
            ({"id": "ACC-17", "msisdn": "2547******78"}, "ACC-17"),
            ({"msisdn": "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822c"}, None),
        )
    ):
        told = await sandbox.control(
            "push",
            brand="demo",
            method="mpesa_ke",
            providerReference=f"OFFLINE-{number}",
            amount={"value": 75, "currency": "KES"},
            party=party,
        )
        assert told.status == 200, told.body
        found = await sandbox.merchant.status(told.json["gatewayReference"])
        assert found["party"]["msisdn"] == party["msisdn"]
        assert found["party"]["id"] == (id or party["msisdn"])
        assert found["requestedAmount"]["value"] == Decimal(75)
