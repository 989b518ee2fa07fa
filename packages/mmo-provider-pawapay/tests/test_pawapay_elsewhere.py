"""Markets whose payers approve at a page of the operator (`REDIRECT_AUTH`), or with a code
(`PREAUTH`)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from mmo_provider_pawapay import PAWAPAY, PawapayProvider
from mmo_provider_pawapay.account import confirms_elsewhere
from mmo_provider_pawapay.account_check import MARKET_PART, AnswerJudge
from mmo_provider_pawapay.adapter import PAGE_AWAITED_FOR
from mmo_provider_pawapay.configuration import parse_active_configuration
from mmo_provider_pawapay.wire import operation_id
from pawapay_samples import EC_PRIVATE_PEM, HOOKS_URL, TOKEN, a_payment

from mmo_sansio import (
    HOUR,
    ErrorCode,
    Moment,
    Money,
    ProviderAccepted,
    ProviderFailed,
    ProviderUnreachable,
    Transaction,
    later,
)
from mmo_sansio.providers import (
    DIRECT_PAYIN,
    DIRECT_PAYOUT,
    WEB_PAYIN,
    AccountState,
    AdapterContext,
    EnterCode,
    HttpRequest,
    HttpResponse,
    OpenUrl,
    ProviderNeverReceived,
    ProviderReport,
    SettingsError,
    Stage,
    Type,
    drive,
    return_url,
)
from mmo_sansio.testing import (
    ADAPTER_CHECKS,
    REFERENCE,
    START,
    AdapterCase,
    AdapterCheck,
    TransparentCiphers,
)
from mmo_sansio.values.model import Flow, Page

PAGES_URL = "https://pages.example"
URL = "https://pay.wave.com/c/cos-18qq25rgr100a"
REDIRECT = {"auth_type": "REDIRECT_AUTH", "market": "WAVE_SEN", "payer_hosts": "pay.wave.com"}
CODE = {"auth_type": "PREAUTH", "market": "ORANGE_BFA"}
AMOUNT = Money(100, "XOF")
WORDS = (("en", "Dial *144*4*6*100#\nType your PIN"), ("fr", "Composez le *144*4*6*100#"))


def an_account(**options: str) -> PawapayProvider:
    context = AdapterContext(HOOKS_URL, TransparentCiphers(), pages_url=PAGES_URL)
    account = PAWAPAY.open_adapter("paw", "pawaPay", {"api_token": TOKEN, **options}, context)
    assert isinstance(account, PawapayProvider)
    return account


def a_pay_in(**members: Any) -> Transaction:
    page = Page("token-of-the-page", later(START, HOUR))
    return a_payment(REFERENCE, amount=AMOUNT, flow=Flow.WEB, page=page, **members)


def a_configuration(market: str, authorisation: str, **members: Any) -> bytes:
    deposit = {"authType": authorisation, "decimalsInAmount": "NONE", **members}
    currency = {"currency": "XOF", "operationTypes": {"DEPOSIT": deposit, "PAYOUT": {}}}
    provider = {"provider": market, "currencies": [currency]}
    return json.dumps({"countries": [{"providers": [provider]}]}).encode()


def instructions() -> Mapping[str, Any]:
    steps = {
        language: [{"text": text, "template": "", "variables": {}} for text in words.split("\n")]
        for language, words in WORDS
    }
    return {"channels": [{"type": "USSD", "displayName": {"en": "USSD"}, "instructions": steps}]}


def answers(
    configuration: bytes, document: Mapping[str, Any], sent: list[HttpRequest]
) -> Callable[[HttpRequest], HttpResponse]:
    def answer(request: HttpRequest) -> HttpResponse:
        if b"active-conf" in request.target:
            return HttpResponse(200, (), configuration)
        sent.append(request)
        return HttpResponse(200, (), json.dumps(document).encode())

    return answer


def submitted(
    account: PawapayProvider,
    transaction: Transaction,
    configuration: bytes,
    status: str = "ACCEPTED",
    **members: Any,
) -> tuple[ProviderReport, list[HttpRequest]]:
    sent: list[HttpRequest] = []
    document = {"depositId": operation_id(REFERENCE), "status": status, **members}
    conversation = account.submit(transaction, now=START)
    return drive(conversation, answers(configuration, document, sent)), sent


def polled(
    account: PawapayProvider, transaction: Transaction, status: str, **members: Any
) -> ProviderReport:
    data = {"depositId": operation_id(REFERENCE), "status": status, **members}
    document = {"status": "FOUND", "data": data}
    if status == "NOT_FOUND":
        document = {"status": status}
    conversation = account.poll(transaction, now=Moment.at(START))
    return drive(conversation, answers(b"", document, []))


def test_a_deposit_names_where_the_payer_comes_back_and_not_the_pages_token() -> None:
    configuration = a_configuration("WAVE_SEN", "REDIRECT_AUTH")
    report, (request,) = submitted(
        an_account(**REDIRECT), a_pay_in(), configuration, nextStep="GET_AUTH_URL"
    )
    body = json.loads(request.body)
    back = return_url(PAGES_URL, a_pay_in().order)
    assert (body["successfulUrl"], body["failedUrl"]) == (back, back)
    assert b"token-of-the-page" not in request.body
    assert isinstance(report, ProviderAccepted)
    assert report.poll_after == PAGE_AWAITED_FOR


def test_the_page_comes_with_a_question() -> None:
    account, waiting = an_account(**REDIRECT), a_pay_in(stage=Stage.AWAITING_RESULT)
    none_yet = polled(account, waiting, "PROCESSING", nextStep="GET_AUTH_URL")
    assert isinstance(none_yet, ProviderAccepted)
    assert (none_yet.payer_action, none_yet.poll_after) == (None, PAGE_AWAITED_FOR)
    told = polled(
        account, waiting, "PROCESSING", nextStep="REDIRECT_TO_AUTH_URL", authorizationUrl=URL
    )
    assert isinstance(told, ProviderAccepted)
    assert told.payer_action == OpenUrl(URL)
    assert told.poll_after is None
    assert account.payer_hosts == ("pay.wave.com",)


def test_a_page_that_never_comes_is_asked_for_less_often() -> None:
    waiting = a_pay_in(stage=Stage.AWAITING_RESULT, polls=100)
    report = polled(an_account(**REDIRECT), waiting, "PROCESSING")
    assert isinstance(report, ProviderAccepted)
    assert report.poll_after is None


def test_a_page_that_is_no_text_is_no_answer() -> None:
    waiting = a_pay_in(stage=Stage.AWAITING_RESULT)
    report = polled(an_account(**REDIRECT), waiting, "PROCESSING", authorizationUrl=["x"])
    assert isinstance(report, ProviderUnreachable)


def test_a_market_with_codes_needs_one_before_anything_is_sent() -> None:
    configuration = a_configuration("ORANGE_BFA", "PREAUTH", authTokenInstructions=instructions())
    account = an_account(**CODE)
    report, sent = submitted(account, a_pay_in(), configuration)
    assert isinstance(report, ProviderNeverReceived)
    assert report.payer_action == EnterCode(WORDS)
    assert sent == []

    given = a_pay_in(payer_action=EnterCode(WORDS, code="123456"))
    report, (request,) = submitted(account, given, configuration)
    assert isinstance(report, ProviderAccepted)
    body = json.loads(request.body)
    assert body["preAuthorisationCode"] == "123456"
    assert "successfulUrl" not in body


@pytest.mark.parametrize(
    "told",
    [
        None,
        {},
        [],
        "text",
        {"channels": {}},
        {"channels": [{}]},
        {"channels": [{"instructions": []}]},
        {"channels": [{"instructions": {"en": "text"}}]},
        {"channels": [{"instructions": {"en": [{"text": []}]}}]},
        {"channels": [{"instructions": {"en": []}}]},
    ],
)
def test_words_of_another_form_are_none_and_stop_no_deposit(told: object) -> None:
    configuration = a_configuration("ORANGE_BFA", "PREAUTH", authTokenInstructions=told)
    report, _ = submitted(an_account(**CODE), a_pay_in(), configuration)
    assert isinstance(report, ProviderNeverReceived)
    assert report.payer_action == EnterCode(())


def test_a_submission_that_was_lost_before_its_code_is_asked_for_again_at_once() -> None:
    account = an_account(**CODE)
    lost = a_pay_in(version=3)
    assert isinstance(polled(account, lost, "NOT_FOUND"), ProviderNeverReceived)
    given = a_pay_in(payer_action=EnterCode(code="123456"))
    assert isinstance(polled(account, given, "NOT_FOUND"), ProviderUnreachable)
    accepted = a_pay_in(stage=Stage.AWAITING_RESULT)
    assert isinstance(polled(account, accepted, "NOT_FOUND"), ProviderUnreachable)


@pytest.mark.parametrize(
    ("options", "market", "told"),
    [
        ({"market": "WAVE_SEN"}, "WAVE_SEN", "REDIRECT_AUTH"),
        (REDIRECT, "WAVE_SEN", "PREAUTH"),
        (CODE, "ORANGE_BFA", "PROVIDER_AUTH"),
    ],
)
def test_a_deposit_is_not_sent_where_the_market_has_another_way(
    options: Mapping[str, str], market: str, told: str
) -> None:
    configuration = a_configuration(market, told)
    report, sent = submitted(an_account(**options), a_pay_in(), configuration)
    assert isinstance(report, ProviderFailed)
    assert report.error_code is ErrorCode.MERCHANT_MISCONFIGURED
    assert told in (report.native_message or "")
    assert sent == []


def test_a_pay_out_of_such_a_market_is_as_any_other() -> None:
    account = an_account(**REDIRECT)
    payout = a_payment(REFERENCE, Type.PAYOUT, AMOUNT)
    document = {"payoutId": operation_id(REFERENCE), "status": "ACCEPTED"}
    sent: list[HttpRequest] = []
    configuration = a_configuration("WAVE_SEN", "REDIRECT_AUTH")
    report = drive(account.submit(payout, now=START), answers(configuration, document, sent))
    assert isinstance(report, ProviderAccepted)
    assert report.poll_after is None
    assert "successfulUrl" not in json.loads(sent[0].body)


def test_such_an_account_offers_no_pay_in_without_a_page() -> None:
    for options in (REDIRECT, CODE):
        assert set(an_account(**options).operations) == {WEB_PAYIN, DIRECT_PAYOUT}
        assert confirms_elsewhere(options)
        assert PAWAPAY.confirms_elsewhere(options)
    assert DIRECT_PAYIN in an_account(market="MTN_MOMO_ZMB").operations
    assert not confirms_elsewhere({})


@pytest.mark.parametrize(
    ("options", "key"),
    [
        ({"market": "WAVE_SEN", "auth_type": "REDIRECT_AUTH"}, "payer_hosts"),
        ({**REDIRECT, "payer_hosts": "https://pay.wave.com/"}, "payer_hosts"),
        ({**REDIRECT, "payer_hosts": "*.com"}, "payer_hosts"),
        ({**CODE, "auth_type": "preauth"}, "auth_type"),
    ],
)
def test_options_that_can_not_be_used_are_named(options: Mapping[str, str], key: str) -> None:
    with pytest.raises(SettingsError) as raised:
        an_account(**options)
    assert raised.value.location == key


def test_the_check_says_which_way_the_market_has() -> None:
    body = a_configuration("WAVE_SEN", "REDIRECT_AUTH", callbackUrl="https://x.example")
    for options, state in ((REDIRECT, AccountState.WORKS), ({"market": "WAVE_SEN"}, "")):
        judge = AnswerJudge("paw", an_account(**options).account)
        found = judge.active_configuration(HttpResponse(200, (), body))
        assert found.part == MARKET_PART
        if not state:
            assert found.state is AccountState.WARNED
            assert "auth_type" in found.words
    parsed = parse_active_configuration(body, "WAVE_SEN")
    assert parsed.terms["DEPOSIT", "XOF"].authorisation == "REDIRECT_AUTH"


@pytest.mark.parametrize("check", ADAPTER_CHECKS)
def test_an_account_with_a_page_keeps_the_promises_of_every_adapter(check: AdapterCheck) -> None:
    case = AdapterCase(
        PAWAPAY,
        {"api_token": TOKEN, "signing_key": EC_PRIVATE_PEM, "signing_key_id": "KEY", **REDIRECT},
        country="SN",
        currency="XOF",
        msisdn="+221773456789",
        prepare=lambda request: HttpResponse(503) if b"active-conf" in request.target else None,
    )
    check(case)
