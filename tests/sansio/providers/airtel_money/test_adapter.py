"""Airtel Money: what is sent, what every answer comes to, and that nothing ambiguous is ever
guessed."""

from __future__ import annotations

import base64
import re
from pathlib import Path
from typing import Any

import pytest

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.messages.inputs import ProviderAccepted, ProviderNeverReceived
from mmo_sansio.providers.airtel_money.codes import COLLECTION, DISBURSEMENT, ROUTER
from mmo_sansio.providers.common.operations import DIRECT_PAYIN, DIRECT_PAYOUT, WEB_PAYIN
from mmo_sansio.testing import REFERENCE, START, a_party
from mmo_sansio.values.clock import HOUR, MINUTE, Moment, Span, earlier, later
from mmo_sansio.values.error_codes import EXPLANATIONS
from mmo_sansio.values.model import Flow, Transaction, Type
from mmo_sansio.values.money import Money
from tests.support.airtel_conversation import (
    KEY,
    SHORT_KEY,
    a_payin,
    a_payout,
    an_adapter,
    answer,
    body_of,
    enquiry,
    key_answer,
    run_conversation,
)
from tests.support.answer_rows import Played, Row, read_rows

KINDS: dict[str, dict[str, Any]] = {
    "payin": {},
    "paid": {"provider_reference": "CI240101.1200.A00001"},
    "payout": {"type": Type.PAYOUT, "flow": Flow.DIRECT},
    "tax": {"type": Type.TAX},
    "qr": {"flow": Flow.QR},
}
NEED_KEY = {("payout", "submit"), ("payout", "judge")}
TAKEN = answer("DP00800001006")
HEADERS = (
    (b"content-type", b"application/json"),
    (b"accept", b"*/*"),
    (b"x-country", b"UG"),
    (b"x-currency", b"UGX"),
)


def sent(transaction: Transaction, *answers: HttpResponse, **options: Any) -> list[HttpRequest]:
    """Return the requests of a submission."""
    conversation = an_adapter(**options).submit(transaction, now=Moment.at(START))
    return run_conversation(conversation, *answers)[1]


# What is sent.


@pytest.mark.spec("S6")
def test_a_payin_is_a_prompt_as_documented() -> None:
    assert sent(a_payin(), TAKEN) == [
        HttpRequest(
            "POST",
            b"https://openapi.airtel.ug/merchant/v1/payments/",
            HEADERS,
            b'{"reference":"INV0001",'
            b'"subscriber":{"country":"UG","currency":"UGX","msisdn":"752000000"},'
            b'"transaction":{"amount":1000,"country":"UG","currency":"UGX","id":"%s"}}'
            % REFERENCE.encode(),
        )
    ]


def test_a_signed_payin_sends_exactly_the_bytes_that_were_encrypted() -> None:
    question, request = sent(a_payin(), key_answer(), TAKEN, collection_version=2)
    assert question.target == b"https://openapi.airtel.ug/v1/rsa/encryption-keys"
    assert (question.value(b"x-country"), question.value(b"x-currency")) == (b"UG", b"UGX")
    assert request.target == b"https://openapi.airtel.ug/merchant/v2/payments/"
    assert base64.b64decode(request.value(b"x-signature") or b"") == b"aes|" + request.body
    assert base64.b64decode(request.value(b"x-key") or b"") == (
        b"pkcs1v15|AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=:AAECAwQFBgcICQoLDA0ODw=="
    )


NAMED = {"currency": "UGX", "name": "Amina Okello"}
VERSIONS: list[tuple[int, str, dict[str, str], dict[str, str]]] = [
    (1, "/standard/v1/disbursements/", {}, {}),
    (2, "/standard/v2/disbursements/", NAMED, {"type": "B2C"}),
    (3, "/standard/v3/disbursements", {"wallet_type": "NORMAL"}, {"type": "B2C"}),
]


@pytest.mark.parametrize(("version", "path", "payee", "type"), VERSIONS)
def test_a_payout_of_each_version_is_as_documented(
    version: int, path: str, payee: dict[str, str], type: dict[str, str]
) -> None:
    party = a_party(msisdn="256752000000", first_name="Amina", last_name="Okello")
    _, request = sent(a_payout(party=party), key_answer(), TAKEN, disbursement_version=version)
    assert request.target == f"https://openapi.airtel.ug{path}".encode()
    assert (request.value(b"x-signature") is not None) is (version == 3)
    assert body_of(request) == {
        "payee": {"msisdn": "752000000", **payee},
        "reference": REFERENCE,
        "pin": base64.b64encode(b"oaep-sha256|SECRET-PIN").decode(),
        "transaction": {"amount": 1000, "id": REFERENCE, **type},
    }


@pytest.mark.parametrize(
    ("options", "key", "pin", "x_key"),
    [
        ({}, KEY, b"oaep-sha256|", b"pkcs1v15|"),
        ({}, SHORT_KEY, b"pkcs1v15|", b"pkcs1v15|"),
        ({"pin_padding": "oaep-sha256-mgf1-sha1"}, KEY, b"oaep-sha256-mgf1-sha1|", b"pkcs1v15|"),
        ({"key_padding": "oaep-sha1"}, KEY, b"oaep-sha256|", b"oaep-sha1|"),
        ({"key_padding": "oaep-sha1"}, SHORT_KEY, b"pkcs1v15|", b"pkcs1v15|"),
    ],
    ids=["long key", "short key", "mgf1 with sha1", "x-key with oaep", "short key decides"],
)
def test_whichever_padding_a_market_wants_can_be_had(
    options: dict[str, str], key: bytes, pin: bytes, x_key: bytes
) -> None:
    _, request = sent(a_payout(), key_answer(key), TAKEN, disbursement_version=3, **options)
    assert base64.b64decode(body_of(request)["pin"]).startswith(pin)
    assert base64.b64decode(request.value(b"x-key") or b"").startswith(x_key)


@pytest.mark.parametrize("member", ["pin", "pinstring"])
def test_the_pin_stands_where_the_market_has_it(member: str) -> None:
    assert member in body_of(sent(a_payout(), key_answer(), TAKEN, pin_member=member)[1])


@pytest.mark.parametrize(
    ("country", "currency", "msisdn", "national"),
    [
        ("UG", "UGX", "+256752000000", "752000000"),
        ("UG", "UGX", "2560752000000", "752000000"),
        ("KE", "KES", "+254733000000", "733000000"),
        ("CD", "USD", "+243990000000", "990000000"),
        ("TD", "XAF", "+23566000000", "66000000"),
        ("CG", "XAF", "+242055000000", "055000000"),  # There the zero belongs to the number.
    ],
)
def test_each_market_has_its_currency_and_national_numbers(
    country: str, currency: str, msisdn: str, national: str
) -> None:
    place: dict[str, Any] = {"country": country, "requested": Money(1000, currency)}
    payment = a_payin(**place, party=a_party(msisdn=msisdn))
    (request,) = sent(payment, TAKEN, country=country, currency=currency)
    assert body_of(request)["subscriber"]["msisdn"] == national
    assert request.value(b"x-currency") == currency.encode()


@pytest.mark.parametrize(
    ("minor", "written"),
    [(15000, b"150"), (15050, b"150.50"), (10**17 + 1, b"1000000000000000.01")],
)
def test_amounts_are_exact_numbers(minor: int, written: bytes) -> None:
    amount = Money(minor, "KES")
    payment = a_payin(country="KE", requested=amount, party=a_party(msisdn="+254733000000"))
    (request,) = sent(payment, TAKEN, country="KE")
    assert b'"amount":' + written + b"," in request.body


@pytest.mark.parametrize(
    ("merchant", "shown"),
    [("INV-0001", "INV0001"), ("x" * 40, "x" * 25), ("№ 7", REFERENCE), (None, REFERENCE)],
)
def test_the_payer_sees_a_reference_of_letters_and_digits(merchant: str | None, shown: str) -> None:
    (request,) = sent(a_payin(merchant_reference=merchant), TAKEN)
    assert body_of(request)["reference"] == shown


# The operator's key.


def test_a_key_is_kept_for_an_hour_at_most_and_never_beyond_its_end() -> None:
    adapter = an_adapter()
    just_before = earlier(later(START, HOUR), Span(1))
    ended, odd = key_answer(valid_upto="01-01-2020 00:00:00"), key_answer(valid_upto="soon")
    for at, key in (
        (START, [key_answer()]),
        (just_before, []),
        (later(START, HOUR), [ended]),
        (later(START, HOUR), [odd]),
        (later(START, HOUR), []),
    ):
        run_conversation(adapter.submit(a_payout(), now=Moment.at(at)), *key, TAKEN)


def test_a_key_can_be_given_and_is_never_fetched() -> None:
    assert len(sent(a_payout(), TAKEN, public_key=base64.b64encode(KEY).decode())) == 1


@pytest.mark.parametrize(
    ("transaction", "code"),
    [(a_payin(), "DP00800001026"), (a_payout(), "ROUTER116")],
    ids=["DP00800001026", "ROUTER116"],
)
def test_an_old_key_is_fetched_anew_and_the_refused_request_sent_once_more(
    transaction: Transaction, code: str
) -> None:
    adapter = an_adapter(collection_version=2)
    refused = answer(code, success=False, status=400)
    now, an_hour_later = Moment.at(START), Moment.at(later(START, HOUR))
    run_conversation(adapter.submit(transaction, now=now), key_answer(SHORT_KEY), TAKEN)
    conversation = adapter.submit(transaction, now=now)
    report, _ = run_conversation(conversation, refused, key_answer(), TAKEN)
    assert isinstance(report, ProviderAccepted)
    conversation = adapter.submit(transaction, now=an_hour_later)
    report, _ = run_conversation(conversation, key_answer(), refused)
    assert isinstance(report, ProviderNeverReceived)


# What answers come to.


ANSWERS = Path(__file__).with_name("answers.txt")
PLAYED = Played(
    "airtel_money",
    an_adapter,
    lambda operation, **members: a_payin(**{**KINDS[operation], **members}),
    before=lambda row: [key_answer()] if (row.operation, row.stage) in NEED_KEY else [],
    payee=("+256752000000", "Jane Doe"),
)


@pytest.mark.parametrize("row", read_rows(ANSWERS))
def test_answers(row: Row) -> None:
    PLAYED.check(row)


@pytest.mark.parametrize(
    ("transaction", "options", "target"),
    [
        (a_payin(), {}, f"/standard/v1/payments/{REFERENCE}"),
        (a_payout(), {}, f"/standard/v1/disbursements/{REFERENCE}"),
        (
            a_payout(),
            {"ask_with_type": True},
            f"/standard/v1/disbursements/{REFERENCE}?transactionType=B2C",
        ),
    ],
    ids=["pay-in", "pay-out", "pay-out with its type"],
)
def test_a_question_is_about_our_own_id(
    transaction: Transaction, options: dict[str, Any], target: str
) -> None:
    conversation = an_adapter(**options).poll(transaction, now=Moment.at(START))
    _, (request,) = run_conversation(conversation, enquiry("TIP"))
    assert (request.method, request.headers) == ("GET", HEADERS)
    assert request.target == f"https://openapi.airtel.ug{target}".encode()


# Signing in, and what is offered.


def test_a_token_is_asked_for_with_the_account_s_keys() -> None:
    request = next(an_adapter().sign_in("all", now=Moment.at(START)))
    assert request.target == b"https://openapi.airtel.ug/auth/oauth2/token"
    assert body_of(request) == {
        "client_id": "client",
        "client_secret": "SECRET-CLIENT",
        "grant_type": "client_credentials",
    }


def test_an_account_offers_what_it_can_do_and_waits_before_it_asks() -> None:
    operations = an_adapter(first_question_after_s=60).operations
    assert set(operations) == {DIRECT_PAYIN, WEB_PAYIN, DIRECT_PAYOUT}
    assert operations[DIRECT_PAYIN].poll_interval(0) == MINUTE
    assert an_adapter().operations[WEB_PAYIN].poll_interval(0) == 3 * MINUTE
    assert set(an_adapter(pin=None).operations) == {DIRECT_PAYIN, WEB_PAYIN}
    assert all(each.can_be_polled for each in operations.values())


CODE_TABLES = {"Pay-ins": COLLECTION, "Pay-outs": DISBURSEMENT, "Before both": ROUTER}
"""Every table, by its heading in the documentation."""


@pytest.mark.spec("E1")
def test_every_row_of_every_table_speaks_of_the_catalogue() -> None:
    rows = [code for table in CODE_TABLES.values() for code in table]
    assert {code.error_code for code in rows if code.error_code} <= EXPLANATIONS.keys()
    keys = [(code.native, code.message) for code in rows]
    assert len(keys) == len(set(keys))
    text = ANSWERS.read_text(encoding="utf-8")
    unknown = {"DP00800009999", "DP00900009999", "DP02010001000", "DP02200000000"}
    played = set(re.findall(r"\b(?:DP\d+|ROUTER\d+|ESB\d+|0000900)\b", text)) - unknown
    assert {code.native for code in rows} == played


@pytest.mark.parametrize("title", CODE_TABLES)
def test_the_documentation_has_every_row(title: str) -> None:
    page = (Path(__file__).parents[4] / "docs/internals/airtel_money.md").read_text("utf-8")
    for code in CODE_TABLES[title]:
        told = code.meaning + (f' ("{code.message}")' if code.message else "")
        error = f"`{code.error_code}`" if code.error_code else "–"
        lines = [
            each
            for each in page.splitlines()
            if each.endswith(f" | {told} | {code.outcome} | {error} |")
        ]
        assert f"`{code.native}`" in {
            name for each in lines for name in each[2:].split(" | ")[0].split(", ")
        }
