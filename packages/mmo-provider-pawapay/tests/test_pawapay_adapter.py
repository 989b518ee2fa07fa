"""pawaPay's adapter: what it sends, what it makes of each answer of the documentation, and that
what is unknown stays unknown."""

from __future__ import annotations

import json
import re
import uuid
from pathlib import Path
from typing import Any

import mmo_provider_pawapay
import pytest
from attrs import evolve
from mmo_provider_pawapay import PAWAPAY
from mmo_provider_pawapay.codes import FAILURES
from mmo_provider_pawapay.refunds import refund_id
from mmo_provider_pawapay.wire import gateway_reference, operation_id
from pawapay_samples import EC_KEY as KEY
from pawapay_samples import (
    EC_PRIVATE_PEM,
    FAILURE_CODES,
    FOUND_ID,
    INITIATED_ID,
    NAME,
    TOKEN,
    a_payment,
    an_account,
    answering,
    example,
    public_pem,
)
from tests.sansio.structure.test_exports import imports_beside_faces
from tests.support.answer_rows import Played, Row, read_rows

from mmo_sansio import (
    MINUTE,
    ErrorCode,
    Money,
    ProviderFailed,
    later,
)
from mmo_sansio.providers import (
    HttpRequest,
    HttpResponse,
    SettingsError,
    Span,
    Type,
    drive,
)
from mmo_sansio.testing import (
    ADAPTER_CHECKS,
    REFERENCE,
    START,
    AdapterCase,
    AdapterCheck,
    numbered_reference,
)
from mmo_sansio.testing.adapter_conformance import check_options, check_secrets
from mmo_sansio.values.clock import Moment


def reference_of(id: str) -> str:
    """The gatewayReference whose payment has this id at pawaPay."""
    found = gateway_reference(id)
    assert found is not None
    return found


SUBMITTED, FOUND = reference_of(INITIATED_ID), reference_of(FOUND_ID)
OPERATIONS = {
    "deposit": (SUBMITTED, Type.PAYIN),
    "payout": (SUBMITTED, Type.PAYOUT),
    "found_deposit": (FOUND, Type.PAYIN),
    "found_payout": (FOUND, Type.PAYOUT),
    "paid": (REFERENCE, Type.PAYIN),
}
ANSWERS = Path(__file__).with_name("answers.txt")
PLAYED = Played(
    NAME,
    an_account,
    lambda operation, **members: a_payment(*OPERATIONS[operation], **members),
    exchange=lambda row, answer: answering(answer, []),
    placeholders={"refund": refund_id(f"{REFERENCE}-1"), "payment": operation_id(REFERENCE)},
    payee=("+260763456789", ""),
    is_always_versioned=False,
)


@pytest.mark.parametrize("row", read_rows(ANSWERS))
def test_answers(row: Row) -> None:
    PLAYED.check(row)


def test_the_table_has_each_documented_code() -> None:
    text = ANSWERS.read_text(encoding="utf-8")
    assert set(FAILURE_CODES) - set(re.findall(r"\w+", text)) == set()


CASE = AdapterCase(
    PAWAPAY,
    {
        "market": "MTN_MOMO_ZMB",
        "base_url": "https://api.sandbox.pawapay.io",
        "api_token": TOKEN,
        "signing_key": EC_PRIVATE_PEM,
        "signing_key_id": "OURS:1",
        "callback_keys": public_pem(KEY),
        "callbacks_of": "AIRTEL_OAPI_ZMB=airtel_zm",
        "customer_message": "Thank you",
    },
    country="ZM",
    currency="ZMW",
    msisdn="+260763456789",
)


@pytest.mark.parametrize("check", ADAPTER_CHECKS)
def test_the_adapter_keeps_the_promises_of_every_adapter(check: AdapterCheck) -> None:
    check(CASE)


@pytest.mark.parametrize(
    "check", [each for each in ADAPTER_CHECKS if each not in (check_options, check_secrets)]
)
def test_it_keeps_them_without_keys(check: AdapterCheck) -> None:
    check(evolve(CASE, options={key: CASE.options[key] for key in ("market", "api_token")}))


@pytest.mark.parametrize(
    "module",
    sorted(Path(mmo_provider_pawapay.__file__).parent.glob("*.py")),
    ids=lambda path: path.name,
)
def test_the_package_uses_what_the_gateway_exports_and_nothing_else(module: Path) -> None:
    found = imports_beside_faces(module.read_text(encoding="utf-8"))
    assert [each for each in found if not each.startswith("mmo_provider_pawapay.")] == []


class TestIds:
    def test_the_id_is_a_uuid_of_version_4_and_the_reference_in_another_form(self) -> None:
        for reference in (
            REFERENCE,
            "00000000000000000000000000",
            "01ZZZZZZZZZZZZZZZZZZZZZZZZ",
            numbered_reference(7),
        ):
            found = uuid.UUID(operation_id(reference))
            assert (found.version, found.variant) == (4, uuid.RFC_4122)
            assert str(found) == operation_id(reference)
            assert gateway_reference(str(found)) == reference

    def test_every_id_of_version_4_is_one_reference(self) -> None:
        for _ in range(200):
            id = str(uuid.uuid4())
            assert operation_id(reference_of(id)) == id

    @pytest.mark.parametrize(
        "text",
        ["", "no-uuid", FOUND_ID.upper(), f"{FOUND_ID}\n", "c232ab00-9414-11ec-b3c8-9f68deced846"],
    )
    def test_another_text_is_no_reference(self, text: str) -> None:
        assert gateway_reference(text) is None

    @pytest.mark.parametrize(
        "reference", ["", "order-1", "7ZZZZZZZZZZZZZZZZZZZZZZZZZ", "01K5TESTTESTTESTTESTTESTIL"]
    )
    def test_what_is_no_reference_has_no_id(self, reference: str) -> None:
        with pytest.raises(ValueError, match=r"ULID|year"):
            operation_id(reference)


class TestSubmissions:
    @pytest.mark.parametrize(
        ("type", "documented", "path"),
        [
            (Type.PAYIN, example("deposit_request"), "deposits"),
            (Type.PAYOUT, example("payout_request"), "payouts"),
        ],
    )
    def test_a_submission_is_the_documentations_with_our_reference(
        self, type: Type, documented: bytes, path: str
    ) -> None:
        example = json.loads(documented)
        reference = reference_of(example.get("depositId") or example["payoutId"])
        sent: list[HttpRequest] = []
        payment = a_payment(reference, type, Money(100, "RWF"), msisdn="+250783456789")
        account = an_account(market="MTN_MOMO_RWA", base_url="https://api.sandbox.pawapay.io")
        drive(account.submit(payment, now=Moment.at(START)), answering(HttpResponse(500), sent))
        (request,) = sent
        assert json.loads(request.body) == {**example, "clientReferenceId": reference}
        assert request.target == f"https://api.sandbox.pawapay.io/v2/{path}".encode()
        assert request.method == "POST"
        assert request.value(b"authorization") == b"Bearer " + TOKEN.encode()
        assert request.value(b"content-type") == b"application/json"

    @pytest.mark.parametrize(
        ("minor", "text"),
        [(1500, "15"), (1550, "15.5"), (1555, "15.55"), (10, "0.1"), (100_000, "1000")],
    )
    def test_an_amount_has_no_zeros_at_its_end(self, minor: int, text: str) -> None:
        sent: list[HttpRequest] = []
        payment = a_payment(REFERENCE, amount=Money(minor, "ZMW"))
        drive(
            an_account().submit(payment, now=Moment.at(START)), answering(HttpResponse(500), sent)
        )
        assert json.loads(sent[0].body)["amount"] == text

    def test_a_message_for_the_customer_is_sent_where_one_is_set(self) -> None:
        sent: list[HttpRequest] = []
        account = an_account(customer_message="Note of 4 to 22 chars")
        drive(
            account.submit(a_payment(REFERENCE), now=Moment.at(START)),
            answering(HttpResponse(500), sent),
        )
        assert json.loads(sent[0].body)["customerMessage"] == "Note of 4 to 22 chars"


def test_another_request_says_nothing_of_the_account() -> None:
    request = HttpRequest("POST", b"https://api.pawapay.io/other")
    assert an_account().judge_answer(request, HttpResponse(401)) is None


class TestCodes:
    def test_every_documented_code_is_in_the_table_with_a_reason(self) -> None:
        assert set(FAILURE_CODES) == set(FAILURES)
        for code, failure in FAILURES.items():
            assert failure.reason.endswith("."), code
            assert ErrorCode.TRANSACTION_EXPIRED not in (failure.payin, failure.payout), code


class TestPolls:
    @pytest.mark.parametrize(("type", "path"), [(Type.PAYIN, "deposits"), (Type.PAYOUT, "payouts")])
    def test_a_poll_asks_after_the_id(self, type: Type, path: str) -> None:
        sent: list[HttpRequest] = []
        payment = a_payment(reference_of(FOUND_ID), type)
        drive(
            an_account().poll(payment, now=Moment.at(START)),
            answering(HttpResponse(200, (), example("not_found")), sent),
        )
        (request,) = sent
        assert (request.method, request.target) == (
            "GET",
            f"https://api.pawapay.io/v2/{path}/{FOUND_ID}".encode(),
        )
        assert request.value(b"authorization") == b"Bearer " + TOKEN.encode()


CONFIGURATION = example("active_configuration")


class TestAmountsOfTheMarket:
    def submit(
        self, amount: Money, configuration: HttpResponse, type: Type = Type.PAYIN
    ) -> tuple[Any, int]:
        account, posts = an_account(market="MTN_MOMO_BEN"), []

        def exchange(request: HttpRequest) -> HttpResponse:
            if request.method == "GET":
                assert request.target == b"https://api.pawapay.io/v2/active-conf?country=BEN"
                return configuration
            posts.append(request)
            return HttpResponse(500)

        return drive(
            account.submit(a_payment(REFERENCE, type, amount), now=Moment.at(START)), exchange
        ), len(posts)

    @pytest.mark.parametrize("type", [Type.PAYIN, Type.PAYOUT])
    @pytest.mark.parametrize(("minor", "is_sent"), [(1, True), (1000, True), (1001, False)])
    def test_an_amount_beyond_the_limits_is_not_sent(
        self, minor: int, is_sent: bool, type: Type
    ) -> None:
        report, posts = self.submit(Money(minor, "XOF"), HttpResponse(200, (), CONFIGURATION), type)
        assert posts == is_sent
        if not is_sent:
            assert report.error_code is ErrorCode.AMOUNT_OUT_OF_RANGE
            assert report.native_message == "The market takes 1000 XOF or less."

    @pytest.mark.parametrize(
        "configuration",
        [
            # The form of the schema, and of the API itself.
            b'{"countries":[{"providers":[{"provider":"MTN_MOMO_BEN","currencies":[{"currency":"USD","operationTypes":'
            b'{"DEPOSIT":{"minAmount":"2","maxAmount":"9","decimalsInAmount":"NONE"}}}]}]}]}',
            CONFIGURATION.replace(b"XOF", b"USD").replace(b'"1"', b'"2"'),
        ],
    )
    def test_decimals_and_minimum(self, configuration: bytes) -> None:
        answer = HttpResponse(200, (), configuration)
        assert (
            self.submit(Money(250, "USD"), answer)[0].native_message
            == "The market takes no decimals."
        )
        assert (
            self.submit(Money(100, "USD"), answer)[0].native_message
            == "The market takes 2 USD or more."
        )
        assert self.submit(Money(200, "USD"), answer)[1] == 1

    @pytest.mark.parametrize(
        "answer",
        [
            HttpResponse(200, (), b"{}"),
            HttpResponse(200, (), b'{"countries":7}'),
            HttpResponse(200, (), b"<html>"),
            HttpResponse(403, (), example("authentication_error")),
            HttpResponse(200, (), CONFIGURATION.replace(b"MTN_MOMO_BEN", b"MOOV_BEN")),
        ],
    )
    def test_without_a_configuration_pawapay_itself_judges(self, answer: HttpResponse) -> None:
        assert self.submit(Money(1001, "XOF"), answer)[1] == 1

    def test_the_configuration_is_asked_for_every_ten_minutes_and_the_last_one_stays(self) -> None:
        account, asked = an_account(market="MTN_MOMO_BEN"), []
        answers = [HttpResponse(200, (), CONFIGURATION), HttpResponse(503)]

        def exchange(request: HttpRequest) -> HttpResponse:
            if request.method == "GET":
                asked.append(request)
                return answers.pop(0)
            return HttpResponse(500)

        payment = a_payment(REFERENCE, amount=Money(1001, "XOF"))
        for minutes, questions in ((0, 1), (9, 1), (10, 2)):
            now = later(START, Span(minutes * MINUTE))
            report = drive(account.submit(payment, now=Moment.at(now)), exchange)
            assert isinstance(report, ProviderFailed)
            assert len(asked) == questions


class TestBalances:
    def test_the_wallet_of_the_country_is_asked_for(self) -> None:
        sent: list[HttpRequest] = []
        conversation = an_account().ask_balances(now=Moment.at(START))
        answer = HttpResponse(200, (), example("wallets"))
        [wallet] = drive(conversation, answering(answer, sent)).balances
        assert [request.target for request in sent] == [
            b"https://api.pawapay.io/v2/wallet-balances?country=ZMB"
        ]
        assert wallet.at == START


class TestOptions:
    @pytest.mark.parametrize(
        ("options", "key"),
        [
            ({"market": "rwanda"}, "market"),
            ({"market": "MTN_MOMO"}, "market"),
            ({"api_token": "with space"}, "api_token"),
            ({"customer_message": "abc"}, "customer_message"),
            ({"customer_message": "What's more?"}, "customer_message"),
            ({"callback_keys": "HTTP_EC_P256_KEY:1"}, "callback_keys"),
            ({"callbacks_of": "MTN_MOMO_UGA"}, "callbacks_of"),
            ({"callbacks_of": "MTN_MOMO_UGA=a MTN_MOMO_UGA=b"}, "callbacks_of"),
            ({"signing_key": EC_PRIVATE_PEM}, "signing_key_id"),
            ({"signing_key_id": "A:1"}, "signing_key"),
            ({"signing_key": "no key", "signing_key_id": "A:1"}, "signing_key"),
            ({"signing_key": public_pem(KEY), "signing_key_id": "A:1"}, "signing_key"),
            ({"signing_key": EC_PRIVATE_PEM, "signing_key_id": 'A"1'}, "signing_key_id"),
            ({"base_url": "http://api.pawapay.io"}, "base_url"),
        ],
    )
    def test_an_unusable_option_is_named(self, options: dict[str, Any], key: str) -> None:
        with pytest.raises(SettingsError) as caught:
            an_account(**options)
        assert caught.value.location == key

    def test_the_country_is_the_end_of_the_market(self) -> None:
        assert an_account(market="VODACOM_MPESA_COD").account.country == "COD"
