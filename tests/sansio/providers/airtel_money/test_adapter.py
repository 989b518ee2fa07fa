"""Airtel Money: what is sent, what every answer comes to, and that nothing ambiguous is ever
guessed."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.messages.inputs import (
    ProviderAccepted,
    ProviderFailed,
    ProviderNeverReceived,
    ProviderReport,
    ProviderSucceeded,
    ProviderUnreachable,
)
from mmo_sansio.providers.airtel_money.account import read_account
from mmo_sansio.providers.airtel_money.codes import (
    ACCOUNT_REFUSALS,
    AMBIGUOUS_FAILURE_FINAL_AFTER,
    COLLECTION,
    DISBURSEMENT,
    ROUTER,
)
from mmo_sansio.providers.common.interface import (
    AccessToken,
    AccountState,
    ExchangeFailed,
    SignInFailed,
)
from mmo_sansio.providers.common.operations import DIRECT_PAYIN, DIRECT_PAYOUT, WEB_PAYIN
from mmo_sansio.providers.common.options import OptionError
from mmo_sansio.testing import REFERENCE, START, a_party
from mmo_sansio.values.clock import HOUR, MINUTE, SECOND, Instant, Moment, Span, earlier, later
from mmo_sansio.values.error_codes import EXPLANATIONS, ErrorCode
from mmo_sansio.values.model import Evidence, Flow, Source, Transaction, Type
from mmo_sansio.values.money import Money
from tests.support.airtel_conversation import (
    KEY,
    OPTIONS,
    SHORT_KEY,
    a_payin,
    a_payout,
    an_adapter,
    answer,
    body_of,
    enquiry,
    json_answer,
    key_answer,
    run_conversation,
)

LOST = ExchangeFailed("The connection was reset.", may_have_arrived=True)
UNSENT = ExchangeFailed("Connection refused.", may_have_arrived=False)
E = ErrorCode
NOW = later(START, MINUTE)


def submitted(
    transaction: Transaction, *answers: HttpResponse | ExchangeFailed, **options: Any
) -> ProviderReport:
    return run_conversation(
        an_adapter(**options).submit(transaction, now=Moment.at(START)), *answers
    )[0]


def asked(
    transaction: Transaction,
    given: HttpResponse | ExchangeFailed,
    *,
    now: Instant = NOW,
    **options: Any,
) -> ProviderReport:
    return run_conversation(an_adapter(**options).poll(transaction, now=Moment.at(now)), given)[0]


def paid_out(**members: Any) -> ProviderReport:
    """What an answer to a pay-out comes to."""
    transaction = members.pop("transaction", None)
    given = answer(members.pop("code"), transaction=transaction, **members)
    return submitted(a_payout(), key_answer(), given)


# What is sent.


@pytest.mark.spec("S6")
def test_a_payin_is_a_prompt_as_documented() -> None:
    report, (request,) = run_conversation(
        an_adapter().submit(a_payin(), now=Moment.at(START)), answer("DP00800001006")
    )
    assert isinstance(report, ProviderAccepted)
    assert request == HttpRequest(
        "POST",
        b"https://openapi.airtel.ug/merchant/v1/payments/",
        (
            (b"content-type", b"application/json"),
            (b"accept", b"*/*"),
            (b"x-country", b"UG"),
            (b"x-currency", b"UGX"),
        ),
        b'{"reference":"INV0001",'
        b'"subscriber":{"country":"UG","currency":"UGX","msisdn":"752000000"},'
        b'"transaction":{"amount":1000,"country":"UG","currency":"UGX","id":"%s"}}'
        % REFERENCE.encode(),
    )


def test_a_signed_payin_sends_exactly_the_bytes_that_were_encrypted() -> None:
    adapter = an_adapter(collection_version=2)
    _, (key_question, request) = run_conversation(
        adapter.submit(a_payin(), now=Moment.at(START)), key_answer(), answer("DP00800001006")
    )
    assert key_question.target == b"https://openapi.airtel.ug/v1/rsa/encryption-keys"
    assert (key_question.value(b"x-country"), key_question.value(b"x-currency")) == (b"UG", b"UGX")
    assert request.target == b"https://openapi.airtel.ug/merchant/v2/payments/"
    assert base64.b64decode(request.value(b"x-signature") or b"") == b"aes|" + request.body
    assert base64.b64decode(request.value(b"x-key") or b"") == (
        b"pkcs1v15|AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=:AAECAwQFBgcICQoLDA0ODw=="
    )


@pytest.mark.parametrize(
    ("version", "path", "payee", "type"),
    [
        (1, "/standard/v1/disbursements/", {}, {}),
        (
            2,
            "/standard/v2/disbursements/",
            {"currency": "UGX", "name": "Amina Okello"},
            {"type": "B2C"},
        ),
        (3, "/standard/v3/disbursements", {"wallet_type": "NORMAL"}, {"type": "B2C"}),
    ],
)
def test_a_payout_of_each_version_is_as_documented(
    version: int, path: str, payee: dict[str, str], type: dict[str, str]
) -> None:
    party = a_party(msisdn="256752000000", first_name="Amina", last_name="Okello")
    adapter = an_adapter(disbursement_version=version)
    _, requests = run_conversation(
        adapter.submit(a_payout(party=party), now=Moment.at(START)),
        key_answer(),
        answer("DP00900001006"),
    )
    request = requests[1]
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
    adapter = an_adapter(disbursement_version=3, **options)
    _, requests = run_conversation(
        adapter.submit(a_payout(), now=Moment.at(START)), key_answer(key), answer("DP00900001006")
    )
    assert base64.b64decode(body_of(requests[1])["pin"]).startswith(pin)
    assert base64.b64decode(requests[1].value(b"x-key") or b"").startswith(x_key)


@pytest.mark.parametrize("member", ["pin", "pinstring"])
def test_the_pin_stands_where_the_market_has_it(member: str) -> None:
    adapter = an_adapter(pin_member=member)
    _, requests = run_conversation(
        adapter.submit(a_payout(), now=Moment.at(START)), key_answer(), answer("DP00900001006")
    )
    assert member in body_of(requests[1])


@pytest.mark.parametrize(
    ("country", "currency", "msisdn", "national"),
    [
        ("UG", "UGX", "+256752000000", "752000000"),
        ("UG", "UGX", "2560752000000", "752000000"),
        ("KE", "KES", "+254733000000", "733000000"),
        ("CD", "USD", "+243990000000", "990000000"),
        ("TD", "XAF", "+23566000000", "66000000"),
    ],
)
def test_each_market_has_its_currency_and_national_numbers(
    country: str, currency: str, msisdn: str, national: str
) -> None:
    transaction = a_payin(
        country=country, requested=Money(1000, currency), party=a_party(msisdn=msisdn)
    )
    adapter = an_adapter(country=country, currency=currency)
    _, (request,) = run_conversation(
        adapter.submit(transaction, now=Moment.at(START)), answer("DP00800001006")
    )
    assert body_of(request)["subscriber"]["msisdn"] == national
    assert request.value(b"x-currency") == currency.encode()


def test_a_zero_that_belongs_to_a_national_number_can_be_kept() -> None:
    transaction = a_payin(
        country="CG", requested=Money(5, "XAF"), party=a_party(msisdn="+242055000000")
    )
    adapter = an_adapter(country="CG")
    _, (request,) = run_conversation(
        adapter.submit(transaction, now=Moment.at(START)), answer("DP00800001006")
    )
    assert body_of(request)["subscriber"]["msisdn"] == "055000000"


@pytest.mark.parametrize(
    ("minor", "written"),
    [(15000, b"150"), (15050, b"150.50"), (10**17 + 1, b"1000000000000000.01")],
)
def test_amounts_are_exact_numbers(minor: int, written: bytes) -> None:
    transaction = a_payin(
        country="KE", requested=Money(minor, "KES"), party=a_party(msisdn="+254733000000")
    )
    adapter = an_adapter(country="KE")
    _, (request,) = run_conversation(
        adapter.submit(transaction, now=Moment.at(START)), answer("DP00800001006")
    )
    assert b'"amount":' + written + b"," in request.body


@pytest.mark.parametrize(
    ("merchant", "shown"),
    [("INV-0001", "INV0001"), ("x" * 40, "x" * 25), ("№ 7", REFERENCE), (None, REFERENCE)],
)
def test_the_payer_sees_a_reference_of_letters_and_digits(merchant: str | None, shown: str) -> None:
    transaction = a_payin(merchant_reference=merchant)
    _, (request,) = run_conversation(
        an_adapter().submit(transaction, now=Moment.at(START)), answer("DP00800001006")
    )
    assert body_of(request)["reference"] == shown


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({"country": "KE"}, E.MERCHANT_MISCONFIGURED),
        ({"requested": Money(1, "KES")}, E.MERCHANT_MISCONFIGURED),
        ({"type": Type.TAX}, E.MERCHANT_MISCONFIGURED),
        ({"flow": Flow.QR}, E.MERCHANT_MISCONFIGURED),
        ({"party": a_party(msisdn="+254752000000")}, E.USER_NOT_FOUND),
        ({"party": a_party(msisdn="0752000000")}, E.USER_NOT_FOUND),
    ],
    ids=str,
)
def test_what_would_reach_somebody_else_is_never_sent(
    members: dict[str, Any], expected: ErrorCode
) -> None:
    report = submitted(a_payin(**members))
    assert isinstance(report, ProviderFailed)
    assert report.error_code is expected


# The operator's key.


def test_a_key_is_kept_for_an_hour_at_most_and_never_beyond_its_end() -> None:
    adapter = an_adapter()
    pending = answer("DP00900001006")
    assert (
        len(
            run_conversation(
                adapter.submit(a_payout(), now=Moment.at(START)), key_answer(), pending
            )[1]
        )
        == 2
    )
    assert (
        len(
            run_conversation(
                adapter.submit(a_payout(), now=Moment.at(earlier(later(START, HOUR), Span(1)))),
                pending,
            )[1]
        )
        == 1
    )
    ended = key_answer(valid_upto="01-01-2020 00:00:00")
    assert (
        len(
            run_conversation(
                adapter.submit(a_payout(), now=Moment.at(later(START, HOUR))), ended, pending
            )[1]
        )
        == 2
    )
    odd = key_answer(valid_upto="soon")
    assert (
        len(
            run_conversation(
                adapter.submit(a_payout(), now=Moment.at(later(START, HOUR))), odd, pending
            )[1]
        )
        == 2
    )
    assert (
        len(
            run_conversation(
                adapter.submit(a_payout(), now=Moment.at(later(START, HOUR))), pending
            )[1]
        )
        == 1
    )


def test_a_key_can_be_given_and_is_never_fetched() -> None:
    given = base64.b64encode(KEY).decode()
    report = submitted(a_payout(), answer("DP00900001006"), public_key=given)
    assert isinstance(report, ProviderAccepted)


@pytest.mark.parametrize(
    ("transaction", "code"),
    [(a_payin(), "DP00800001026"), (a_payout(), "ROUTER116")],
    ids=["DP00800001026", "ROUTER116"],
)
def test_an_old_key_is_fetched_anew_and_the_refused_request_sent_once_more(
    transaction: Transaction, code: str
) -> None:
    adapter = an_adapter(collection_version=2)
    taken, refused = answer("ESB000010"), answer(code, success=False, status=400)
    run_conversation(
        adapter.submit(transaction, now=Moment.at(START)), key_answer(SHORT_KEY), taken
    )
    report, requests = run_conversation(
        adapter.submit(transaction, now=Moment.at(START)), refused, key_answer(), taken
    )
    assert isinstance(report, ProviderAccepted)
    assert len(requests) == 3
    report, _ = run_conversation(
        adapter.submit(transaction, now=Moment.at(later(START, HOUR))), key_answer(), refused
    )
    assert isinstance(report, ProviderNeverReceived)


@pytest.mark.spec("S6")
@pytest.mark.parametrize(
    "given",
    [LOST, UNSENT, HttpResponse(500), HttpResponse(503), HttpResponse(429), HttpResponse(408)],
)
def test_without_a_key_for_now_nothing_was_sent(given: HttpResponse | ExchangeFailed) -> None:
    assert isinstance(submitted(a_payout(), given), ProviderNeverReceived)


@pytest.mark.parametrize(
    "given",
    [
        HttpResponse(403),
        HttpResponse(401),
        json_answer({"status": {"response_code": "DP02010001000"}}),
        json_answer({"data": None}),
        json_answer({"data": {"key": 7}}),
        json_answer({"data": {"key": "?"}}),
        HttpResponse(200, (), b"nonsense"),
        key_answer(b"no key of RSA"),
    ],
)
def test_a_refused_or_senseless_key_is_no_fault_of_the_payment(given: HttpResponse) -> None:
    assert isinstance(submitted(a_payout(), given), ProviderNeverReceived)


# What an answer to a submission comes to.


@pytest.mark.spec("S6")
@pytest.mark.parametrize(
    "status", ["SUCCESS", "DP_INITIATED", "TS", False, None], ids=lambda each: f"status {each}"
)
def test_a_payin_that_was_taken_is_pending_whatever_its_status_says(status: Any) -> None:
    told = {"id": False, "status": status}
    for code in ("DP00800001006", "DP00800001001", None):
        report = submitted(a_payin(), answer(code, transaction=told))
        known_as = REFERENCE if status == "TS" else None
        assert report == ProviderAccepted(REFERENCE, "airtel_ug", Source.POLL, known_as, version=2)


PAYIN_REFUSALS = [
    ("DP00800001002", E.USER_WRONG_PIN),
    ("DP00800001003", E.USER_LIMIT_EXCEEDED),
    ("DP00800001004", E.AMOUNT_OUT_OF_RANGE),
    ("DP00800001005", E.USER_TIMEOUT),
    ("DP00800001007", E.USER_INSUFFICIENT_FUNDS),
    ("DP00800001008", E.TRANSACTION_DECLINED),
    ("DP00800001009", E.TRANSACTION_DECLINED),
    ("DP00800001010", E.MERCHANT_MISCONFIGURED),
    ("DP00800001026", E.MERCHANT_MISCONFIGURED),
    ("DP00800001029", E.USER_TIMEOUT),
    ("DP008001013", E.TRANSACTION_DECLINED),
    ("DP008001016", E.USER_NOT_FOUND),
    ("DP008001021", E.USER_INSUFFICIENT_FUNDS),
    ("DP008001023", E.USER_WRONG_PIN),
]
PAYOUT_REFUSALS = [
    ("DP00900001003", E.USER_LIMIT_EXCEEDED),
    ("DP00900001004", E.AMOUNT_OUT_OF_RANGE),
    ("DP00900001005", E.TRANSACTION_DECLINED),
    ("DP00900001007", E.MERCHANT_INSUFFICIENT_FUNDS),
    ("DP00900001009", E.USER_NOT_FOUND),
    ("DP00900001010", E.MERCHANT_MISCONFIGURED),
    ("DP00900001012", E.USER_NOT_FOUND),
    ("DP00900001013", E.TRANSACTION_DECLINED),
    ("DP00900001016", E.MERCHANT_MISCONFIGURED),
    ("DP00900001018", E.MERCHANT_MISCONFIGURED),
    ("DP00900001019", E.MERCHANT_MISCONFIGURED),
]
GATEWAY_REFUSALS = [
    *((f"ROUTER{n}", E.MERCHANT_MISCONFIGURED) for n in ("001", "003", "005", "006", "007")),
    *((f"ROUTER{n}", E.MERCHANT_MISCONFIGURED) for n in (112, 114, 115, 116, 119)),
    ("ESB000011", E.TRANSACTION_DECLINED),
    ("ESB000033", E.USER_NOT_FOUND),
    ("ESB000034", E.MERCHANT_MISCONFIGURED),
    ("ESB000035", E.MERCHANT_MISCONFIGURED),
    ("ESB000036", E.USER_NOT_FOUND),
    ("ESB000039", E.MERCHANT_MISCONFIGURED),
    ("DP02200000002", E.USER_NOT_FOUND),
    ("DP02100000002", E.USER_NOT_FOUND),
]
PAYIN_OPEN = ["DP00800001000", "DP00800001006", "DP00800001024", "DP00800001025"]
PAYOUT_OPEN = [f"DP009000010{n}" for n in ("00", "06", "11", "14", "15", "17")]
GATEWAY_OPEN = ["ROUTER117", "ESB000001", "ESB000004", "ESB000008", "ESB000014", "0000900"]
ALREADY_THERE = ["ESB000041"]


@pytest.mark.spec("E1")
@pytest.mark.parametrize("status", [200, 400])
@pytest.mark.parametrize(("code", "expected"), PAYIN_REFUSALS + GATEWAY_REFUSALS)
def test_a_payin_that_is_refused_has_failed(code: str, expected: ErrorCode, status: int) -> None:
    given = answer(code, success=False, status=status, message="no")
    if code in ACCOUNT_REFUSALS:
        assert isinstance(submitted(a_payin(), given), ProviderNeverReceived)
        return
    assert submitted(a_payin(), given) == ProviderFailed(
        REFERENCE,
        "airtel_ug",
        Source.POLL,
        expected,
        native_code=code,
        native_message="no",
        version=2,
    )


@pytest.mark.spec("E1")
@pytest.mark.parametrize("status", [200, 400])
@pytest.mark.parametrize(("code", "expected"), PAYOUT_REFUSALS + GATEWAY_REFUSALS)
def test_a_payout_that_is_refused_has_failed(code: str, expected: ErrorCode, status: int) -> None:
    report = paid_out(code=code, success=False, status=status)
    if code in ACCOUNT_REFUSALS:
        assert isinstance(report, ProviderNeverReceived)
        return
    assert isinstance(report, ProviderFailed)
    assert (report.error_code, report.native_code) == (expected, code)


def test_a_number_that_is_not_found_is_told_from_a_pin_that_was_not_entered() -> None:
    given = answer("DP00800001005", success=False, status=400, message="Msisdn Not Found")
    report = submitted(a_payin(), given)
    assert isinstance(report, ProviderFailed)
    assert report.error_code is E.USER_NOT_FOUND


@pytest.mark.spec("S6")
@pytest.mark.parametrize("code", PAYIN_OPEN + GATEWAY_OPEN + ALREADY_THERE)
def test_a_payin_of_which_nothing_final_is_said_is_asked_about(code: str) -> None:
    given = answer(code, success=False, status=400)
    assert isinstance(submitted(a_payin(), given), ProviderAccepted)


@pytest.mark.spec("S6")
@pytest.mark.parametrize("code", PAYOUT_OPEN + GATEWAY_OPEN + ALREADY_THERE)
def test_a_payout_of_which_nothing_final_is_said_is_asked_about(code: str) -> None:
    assert isinstance(paid_out(code=code, success=False), ProviderAccepted)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_payout_is_paid_when_all_of_the_answer_says_so(version: int) -> None:
    done = {"status": "TS", "airtel_money_id": "disbursement-1", "id": REFERENCE}
    given = answer("DP00900001001", transaction=done)
    report = submitted(a_payout(), key_answer(), given, disbursement_version=version)
    assert report == ProviderSucceeded(
        REFERENCE, "airtel_ug", Source.POLL, provider_reference="disbursement-1", version=2
    )


@pytest.mark.spec("S6")
def test_only_the_oldest_version_of_a_payout_may_leave_its_status_out() -> None:
    given = answer("DP00900001001")
    first = submitted(a_payout(), key_answer(), given, disbursement_version=1)
    second = submitted(a_payout(), key_answer(), given, disbursement_version=2)
    assert isinstance(first, ProviderSucceeded)
    assert isinstance(second, ProviderAccepted)


@pytest.mark.spec("S6")
@pytest.mark.parametrize(
    "members",
    [
        {"code": "DP00900001001", "transaction": {"status": "TIP"}},
        {"code": "DP00900001001", "transaction": {"status": "TA"}},
        {"code": "DP00900001001", "transaction": {"status": "TF"}},
        {"code": "DP00900001001", "transaction": {"status": "TS"}, "success": False},
        {"code": "DP00900001001", "transaction": {"status": "TS"}, "success": None},
        {"code": "DP00900001001", "transaction": {"status": "TS"}, "status": 202},
        {"code": "DP00900001001", "transaction": {"status": "TS"}, "status": 500},
        {"code": "DP00900001005", "transaction": {"status": "TS"}},
        {"code": "DP00900001005", "transaction": {"status": "TS"}, "success": False},
        {"code": "DP00900001005", "transaction": {"status": "TIP"}, "success": False},
        {"code": "DP00900001005"},
        {"code": "DP00900001007", "success": False, "status": 500},
        {"code": "DP00900009999", "success": False, "status": 400},
        {"code": None, "success": False},
    ],
    ids=str,
)
def test_a_payout_whose_answer_contradicts_itself_is_neither_paid_nor_failed(
    members: dict[str, Any],
) -> None:
    assert isinstance(paid_out(**members), ProviderAccepted | ProviderUnreachable)


@pytest.mark.spec("S6")
@pytest.mark.parametrize("status", [408, 500, 502, 503, 504])
@pytest.mark.parametrize("code", ["DP00800001005", "DP00800001007", "ROUTER003", None])
def test_after_a_fault_of_the_operator_nothing_is_known(status: int, code: str | None) -> None:
    given = answer(code, success=False, status=status)
    assert isinstance(submitted(a_payin(), given), ProviderUnreachable)
    assert isinstance(submitted(a_payout(), key_answer(), given), ProviderUnreachable)


KEY_REFUSED = json_answer({"status": {"success": False, "message": "denied"}}, status=403)


@pytest.mark.spec("S6")
@pytest.mark.parametrize(
    "given",
    [
        HttpResponse(401, (), b"<html>"),
        HttpResponse(403, (), b"<html>"),
        KEY_REFUSED,
        *(answer(code, success=False, status=400) for code in sorted(ACCOUNT_REFUSALS)),
    ],
)
def test_a_refusal_of_our_account_says_nothing_of_the_payment(given: HttpResponse) -> None:
    """It is sent once the account is in order: those of its kind wait, and staff are told."""
    held = []
    for payment in (a_payin(), a_payin(submissions=2), a_payout(), a_payout(submissions=2)):
        provider = an_adapter()
        answers = [given] if payment.order.type is Type.PAYIN else [key_answer(), given]
        conversation = provider.submit(payment, now=Moment.at(START))
        report, requests = run_conversation(conversation, *answers)
        if not isinstance(report, ProviderNeverReceived):
            continue  # It is a code of the other product.
        finding = provider.judge_answer(requests[-1], given)
        assert finding is not None
        assert (finding.state, finding.holds_reversals) == (AccountState.REFUSED, False)
        assert finding.held == (payment.order.type,)
        held.append(payment.order.type)
    assert len(held) >= 2


@pytest.mark.spec("S6", "E1")
def test_an_invalid_number_of_one_payer_holds_back_nobody_else() -> None:
    """By the same code Airtel refuses our till: only the words tell whose fault it is."""
    given = answer("DP00800001010", success=False, status=400, message="Initiator is invalid")
    provider = an_adapter()
    report, (request,) = run_conversation(provider.submit(a_payin(), now=Moment.at(START)), given)
    assert isinstance(report, ProviderFailed)
    assert report.error_code is E.USER_NOT_FOUND
    assert provider.judge_answer(request, given) is None


def test_a_refused_key_holds_what_needs_it_and_what_is_taken_ends_a_refusal() -> None:
    for options, held in (({}, {Type.PAYOUT}), ({"collection_version": 2}, set(Type) - {Type.TAX})):
        provider = an_adapter(**options)
        _, (question,) = run_conversation(
            provider.submit(a_payout(), now=Moment.at(START)), KEY_REFUSED
        )
        finding = provider.judge_answer(question, KEY_REFUSED)
        assert finding is not None
        assert (set(finding.held), finding.holds_reversals) == (held, bool(options))
    _, (request,) = run_conversation(
        an_adapter().submit(a_payin(), now=Moment.at(START)), answer("DP00800001006")
    )
    taken = an_adapter().judge_answer(request, answer("DP00800001006"))
    assert taken is not None
    assert (taken.part, taken.state) == ("collection_submissions", AccountState.WORKS)
    for silent in (HttpResponse(400, (), b"<html>"), HttpResponse(500), HttpResponse(429)):
        assert an_adapter().judge_answer(request, silent) is None


@pytest.mark.spec("S6")
def test_a_rate_limit_moves_nothing() -> None:
    for body in (b"", b'{"status":{"code":"429","success":false}}'):
        report = submitted(a_payin(), HttpResponse(429, (), body))
        assert isinstance(report, ProviderNeverReceived)


@pytest.mark.spec("S6")
@pytest.mark.parametrize(
    "given",
    [
        HttpResponse(200),
        HttpResponse(404),
        HttpResponse(302),
        HttpResponse(200, (), b"[]"),
        HttpResponse(200, (), b'{"data":[],"status":"ok"}'),
        HttpResponse(200, (), b'{"status":{"success":"true","response_code":{}}}'),
        HttpResponse(200, (), b'{"a":"\\u0000"}'),
        HttpResponse(200, (), b'{"a":"\\ud800"}'),
        HttpResponse(200, (), b"[" * 100_000),
        HttpResponse(200, (), b"\xff"),
    ],
    ids=range(10),
)
def test_an_answer_that_makes_no_sense_means_that_nothing_is_known(given: HttpResponse) -> None:
    assert isinstance(submitted(a_payin(), given), ProviderUnreachable)
    assert isinstance(asked(a_payin(), given), ProviderUnreachable)


@pytest.mark.spec("S6")
@pytest.mark.parametrize("transaction", [a_payin(), a_payout()], ids=["pay-in", "pay-out"])
def test_a_lost_answer_is_asked_about_and_an_unsent_request_is_sent_again(
    transaction: Transaction,
) -> None:
    keys = [key_answer()] if transaction.order.type is Type.PAYOUT else []
    lost, unsent = submitted(transaction, *keys, LOST), submitted(transaction, *keys, UNSENT)
    assert isinstance(lost, ProviderUnreachable)
    assert unsent == ProviderNeverReceived(REFERENCE, "airtel_ug", transaction.progress.version)


@pytest.mark.parametrize(
    "document",
    [
        {"status_code": "ROUTER119", "status_message": "no currency"},
        {"status": {"code": "ROUTER119", "message": "no currency", "success": False}},
        {"status": {"result_code": "ROUTER119", "message": "no currency", "success": False}},
    ],
)
def test_a_code_is_found_wherever_the_operator_puts_it(document: dict[str, Any]) -> None:
    report = submitted(a_payin(), json_answer(document, 400))
    assert isinstance(report, ProviderFailed)
    assert (report.native_code, report.native_message) == ("ROUTER119", "no currency")


# What an answer to a question comes to.


@pytest.mark.parametrize(
    ("transaction", "target"),
    [(a_payin(), "/standard/v1/payments/"), (a_payout(), "/standard/v1/disbursements/")],
    ids=["pay-in", "pay-out"],
)
def test_a_question_is_about_our_own_id(transaction: Transaction, target: str) -> None:
    _, (request,) = run_conversation(
        an_adapter().poll(transaction, now=Moment.at(NOW)), enquiry("TIP")
    )
    assert request.method == "GET"
    assert request.target == f"https://openapi.airtel.ug{target}{REFERENCE}".encode()
    assert request.value(b"x-country") == b"UG"


def test_a_question_about_a_payout_can_name_its_type() -> None:
    adapter = an_adapter(ask_with_type=True)
    _, (request,) = run_conversation(adapter.poll(a_payout(), now=Moment.at(NOW)), enquiry("TIP"))
    assert request.target.endswith(f"{REFERENCE}?transactionType=B2C".encode())


@pytest.mark.spec("S2")
@pytest.mark.parametrize("code", ["DP00800001001", "DP00800001006", "ESB000010", None])
def test_a_payin_is_paid_when_its_status_says_so_whichever_code_comes_with_it(
    code: str | None,
) -> None:
    assert asked(a_payin(), enquiry("TS", code)) == ProviderSucceeded(
        REFERENCE, "airtel_ug", Source.POLL, provider_reference="MP240101.1200.A00001", version=2
    )


@pytest.mark.spec("E1")
@pytest.mark.parametrize(
    ("code", "expected"),
    [
        *PAYIN_REFUSALS,
        ("DP00800001024", E.PROVIDER_TIMEOUT),
        ("DP00800001025", E.PROVIDER_TIMEOUT),
        ("DP00800001001", E.TRANSACTION_DECLINED),
        ("DP00800001006", E.TRANSACTION_DECLINED),
        ("DP00800009999", E.TRANSACTION_DECLINED),
        (None, E.TRANSACTION_DECLINED),
    ],
)
def test_a_failed_payin_says_of_what(code: str | None, expected: ErrorCode) -> None:
    report = asked(a_payin(), enquiry("TF", code, success=code is None))
    assert isinstance(report, ProviderFailed)
    assert report.error_code is expected
    assert report.native_message == "told"


@pytest.mark.spec("E1")
@pytest.mark.parametrize(
    ("code", "expected"),
    [
        *PAYOUT_REFUSALS,
        ("DP00900001014", E.PROVIDER_TIMEOUT),
        ("DP00900001011", E.DUPLICATE_REQUEST),
        ("DP00900009999", E.TRANSACTION_DECLINED),
    ],
)
def test_a_failed_payout_says_of_what(code: str, expected: ErrorCode) -> None:
    report = asked(a_payout(), enquiry("TF", code, success=False))
    assert isinstance(report, ProviderFailed)
    assert report.error_code is expected


AMBIGUOUS_FAILURES = [
    (a_payin, "DP00800001000", "payer is barred as sender. Please call", E.USER_ACCOUNT_BLOCKED),
    (
        a_payin,
        "DP00800001000",
        "Amount entered is not within the allowed range.",
        E.AMOUNT_OUT_OF_RANGE,
    ),
    (a_payin, "DP00800001000", "failed", E.TRANSACTION_DECLINED),
    (a_payin, "ESB000008", "failed", E.TRANSACTION_DECLINED),
    (a_payout, "DP00900001000", "failed", E.TRANSACTION_DECLINED),
]
"""Payments, and the code, the message and the reason of a failure that counts when it is
repeated."""


def failed_ambiguously(code: str, message: str) -> HttpResponse:
    """Return an answer to a poll of REFERENCE that says `TF` with this code and message."""
    return answer(code, transaction={"id": REFERENCE, "status": "TF", "message": message})


@pytest.mark.spec("S6", "E1")
@pytest.mark.parametrize(("payment", "code", "message", "reason"), AMBIGUOUS_FAILURES)
def test_an_ambiguous_failure_that_is_said_for_twenty_minutes_counts(
    payment: Callable[..., Transaction], code: str, message: str, reason: ErrorCode
) -> None:
    told = failed_ambiguously(code, message)
    first = asked(payment(), told)
    assert isinstance(first, ProviderUnreachable)
    assert first.denies_payment
    before = payment(denied_since=NOW)
    soon = later(NOW, Span(AMBIGUOUS_FAILURE_FINAL_AFTER - 1))
    assert isinstance(asked(before, told, now=soon), ProviderUnreachable)
    report = asked(before, told, now=later(NOW, AMBIGUOUS_FAILURE_FINAL_AFTER))
    assert isinstance(report, ProviderFailed)
    assert (report.error_code, report.native_code) == (reason, code)


@pytest.mark.spec("S6", "E1")
@pytest.mark.parametrize(("payment", "code", "message", "reason"), AMBIGUOUS_FAILURES)
def test_an_ambiguous_failure_counts_at_once_where_an_authentic_callback_has_said_it(
    payment: Callable[..., Transaction], code: str, message: str, reason: ErrorCode
) -> None:
    told, callback = failed_ambiguously(code, message), '{"transaction": {"status_code": "TF"}}'
    unsigned = asked(payment(hint=callback), told)
    assert isinstance(unsigned, ProviderUnreachable)
    report = asked(payment(hint=callback), told, callback_key="key")
    assert isinstance(report, ProviderFailed)
    assert report.error_code is reason


@pytest.mark.spec("S6", "S5")
def test_no_ambiguous_failure_counts_after_a_word_of_success() -> None:
    told, callback = failed_ambiguously("DP00800001000", "no"), '{"a": "TS"}\n{"a": "TF"}'
    for before in (
        a_payin(hint=callback, denied_since=START),
        a_payin(provider_reference="MP240101.1200.A00001", denied_since=START),
    ):
        report = asked(before, told, now=later(START, HOUR), callback_key="key")
        assert isinstance(report, ProviderUnreachable)
        assert not report.denies_payment


@pytest.mark.spec("S6")
@pytest.mark.parametrize(
    ("transaction", "given"),
    [
        (a_payin(), enquiry("TF", "DP00800001000", success=False)),
        (a_payout(), enquiry("TF", "DP00900001000", success=False)),
        (a_payout(), enquiry("TF", "DP00900001001")),
        (a_payout(), enquiry("TF", "DP00900001015", success=False)),
        (a_payout(), enquiry("TF", "DP00900001017", success=False)),
        (a_payout(), enquiry("TE", "DP00900001001")),
        (a_payin(), enquiry("TF", "DP00800001007", success="no")),
        (a_payin(), enquiry("TE", success=0)),
        (a_payin(), enquiry("TIP", success=1)),
        (a_payin(), answer("ESB000045", success="false", status=404)),
        (a_payout(), enquiry("TF", "DP00900001005", status=500, success=False)),
        (a_payout(), enquiry("XX", "DP00900001001")),
        (a_payin(), enquiry(None, "DP00800001005", success=False)),
        (a_payin(), enquiry(None, "DP00800001007", success=False)),
        (a_payin(), enquiry(None, "DP00800001025", success=False, status=404)),
        (a_payout(), enquiry(None, "DP00900001015", success=False, status=404)),
        (a_payin(), answer("DP00800001001", transaction={"id": "another", "status": "TS"})),
        (a_payin(), LOST),
        (a_payin(), UNSENT),
        (a_payin(), HttpResponse(401)),
        (a_payin(), HttpResponse(429)),
    ],
    ids=range(21),
)
def test_a_question_without_a_clear_answer_is_asked_again(
    transaction: Transaction, given: HttpResponse | ExchangeFailed
) -> None:
    assert isinstance(asked(transaction, given, now=later(START, HOUR)), ProviderUnreachable)


@pytest.mark.spec("S5", "S6")
@pytest.mark.parametrize("payment", [a_payin, a_payout])
def test_a_success_that_names_another_payment_is_evidence(
    payment: Callable[..., Transaction],
) -> None:
    told = {"id": "another", "status": "TS", "airtel_money_id": "MP240101.1200.A00002"}
    report = asked(payment(), answer("DP00800001001", transaction=told))
    assert isinstance(report, ProviderUnreachable)
    assert report.evidence == Evidence("MP240101.1200.A00002", "TS")


NOT_CLEARLY_PAID: list[dict[str, Any]] = [
    {"code": "DP00900001005"},
    {"code": "DP00900001001", "success": False},
    {"code": "DP00900001001", "success": "false"},
    {"code": "DP00900001001", "success": "true"},
    {"code": "DP00900001001", "success": 1},
    {"code": "DP00900001001", "success": 0},
    {"code": "DP00900001001", "success": "no"},
    {"code": "DP00900001001", "success": None},
    {"code": "DP00900001001", "status": 500},
    {"code": "DP00900001001", "status": 429},
]
"""Answers with `TS` that leave a doubt."""


@pytest.mark.spec("S6")
@pytest.mark.parametrize("members", NOT_CLEARLY_PAID, ids=str)
@pytest.mark.parametrize("is_poll", [True, False], ids=["poll", "submission"])
def test_what_was_told_as_paid_with_a_doubt_is_pending_and_never_sent_again(
    members: dict[str, Any], is_poll: bool
) -> None:
    given = enquiry("TS", **members)
    unknown = answer("ESB000045", success=False, status=404)
    if is_poll:
        doubtful = asked(a_payout(), given)
        assert isinstance(doubtful, ProviderUnreachable)
        assert doubtful.evidence == Evidence("MP240101.1200.A00001", "TS")
        later_on = a_payout(evidence=doubtful.evidence)
    else:
        told = submitted(a_payout(), key_answer(), given)
        assert told == ProviderAccepted(
            REFERENCE, "airtel_ug", Source.POLL, "MP240101.1200.A00001", version=2
        )
        later_on = a_payout(provider_reference=told.provider_reference)
    assert isinstance(asked(later_on, unknown, now=later(START, HOUR)), ProviderUnreachable)


@pytest.mark.spec("S6")
def test_what_a_callback_has_told_as_paid_is_never_sent_again() -> None:
    unknown = answer("ESB000045", success=False, status=404)
    for status, report in (("TS", ProviderUnreachable), ("TF", ProviderNeverReceived)):
        callback = f'{{"transaction": {{"id": "{REFERENCE}", "status_code": "{status}"}}}}'
        assert isinstance(asked(a_payin(hint=callback), unknown, now=later(START, HOUR)), report)


@pytest.mark.spec("S6")
@pytest.mark.parametrize("success", ["false", 0, "no", 1])
def test_a_submission_whose_answer_can_be_read_in_two_ways_is_asked_about(success: object) -> None:
    for status in (200, 400):
        given = answer("DP00800001007", success=success, status=status)
        assert isinstance(submitted(a_payin(), given), ProviderUnreachable)


@pytest.mark.parametrize("status", ["TA", "TIP"])
def test_what_is_under_way_or_ambiguous_is_pending(status: str) -> None:
    assert isinstance(asked(a_payin(), enquiry(status, "DP00800001006")), ProviderAccepted)


def test_a_prompt_that_ran_out_was_not_confirmed_in_time() -> None:
    report = asked(a_payin(), enquiry("TE", None))
    assert isinstance(report, ProviderFailed)
    assert (report.error_code, report.native_code) == (E.USER_TIMEOUT, "ESB000010")


@pytest.mark.parametrize(
    ("is_said", "expected"), [(True, E.USER_CANCELLED), (False, E.TRANSACTION_DECLINED)]
)
def test_a_refusal_is_the_payers_only_where_the_market_says_so(
    is_said: bool, expected: ErrorCode
) -> None:
    given = enquiry("TF", "DP00800001008", success=False)
    report = asked(a_payin(), given, refusal_is_of_payer=is_said)
    assert isinstance(report, ProviderFailed)
    assert report.error_code is expected


@pytest.mark.spec("S6")
@pytest.mark.parametrize(
    ("transaction", "wait"),
    [(a_payin(), 10 * MINUTE), (a_payout(), 30 * MINUTE)],
    ids=["pay-in", "pay-out"],
)
def test_an_unknown_payment_was_never_taken_only_after_a_safe_wait(
    transaction: Transaction, wait: Span
) -> None:
    given = answer("ESB000045", success=False, status=404)
    assert isinstance(
        asked(transaction, given, now=earlier(later(START, wait), Span(1))), ProviderUnreachable
    )
    assert asked(transaction, given, now=later(START, wait)) == ProviderNeverReceived(
        REFERENCE, "airtel_ug", transaction.progress.version
    )


# Signing in, and what is offered.


@pytest.mark.parametrize(
    ("life", "expected"), [("180", 180), (3600, 3600), (3600.0, 3600), (None, 180)]
)
def test_a_token_lives_as_long_as_is_said_in_text_or_number(life: Any, expected: int) -> None:
    told = {"access_token": "SECRET-TOKEN", "token_type": "bearer", "expires_in": life}
    conversation = an_adapter().sign_in("all", now=Moment.at(START))
    request = next(conversation)
    assert request.target == b"https://openapi.airtel.ug/auth/oauth2/token"
    assert body_of(request) == {
        "client_id": "client",
        "client_secret": "SECRET-CLIENT",
        "grant_type": "client_credentials",
    }
    with pytest.raises(StopIteration) as end:
        conversation.send(json_answer(told))
    token = end.value.value
    assert token == AccessToken("SECRET-TOKEN", START, later(START, Span(expected * SECOND)))
    assert "SECRET" not in repr(token)


@pytest.mark.parametrize(
    "given",
    [
        HttpResponse(401, (), b"SECRET-CLIENT is wrong"),
        HttpResponse(500),
        HttpResponse(200, (), b"SECRET"),
        json_answer({"expires_in": "180"}),
        json_answer({"access_token": "a\r\nb", "expires_in": "180"}),
        json_answer({"access_token": "a", "expires_in": "soon"}),
        json_answer({"access_token": "a", "expires_in": 0}),
    ],
)
def test_a_refused_sign_in_is_told_without_secrets(given: HttpResponse) -> None:
    conversation = an_adapter().sign_in("all", now=Moment.at(START))
    next(conversation)
    with pytest.raises(SignInFailed) as refusal:
        conversation.send(given)
    assert "SECRET" not in str(refusal.value)


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
    sheet = {code for code, _ in PAYIN_REFUSALS + PAYOUT_REFUSALS + GATEWAY_REFUSALS}
    sheet |= {*PAYIN_OPEN, *PAYOUT_OPEN, *GATEWAY_OPEN, *ALREADY_THERE}
    sheet |= {"DP00800001001", "DP008001001", "DP00900001001", "ESB000010", "ESB000045"}
    assert {code.native for code in rows} == sheet


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


def test_the_documentation_has_every_option() -> None:
    page = (Path(__file__).parents[4] / "docs/providers/airtel_money.md").read_text("utf-8")
    with pytest.raises(OptionError, match="Known are") as refusal:
        read_account({**OPTIONS, "qqq": 1})
    known = refusal.value.remedy.removeprefix("Known are: ").removesuffix(".").split(", ")
    assert len(known) > 20
    assert [name for name in known if f"`{name}`" not in page] == []
