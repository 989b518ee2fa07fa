"""MTN MoMo's adapter: what it sends, what it makes of each answer, and that what is unknown stays
unknown."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.messages.changes import SuspenseReason
from mmo_sansio.messages.inputs import (
    ProviderAccepted,
    ProviderFailed,
    ProviderHinted,
    ProviderReport,
)
from mmo_sansio.payments.gateway import Gateway
from mmo_sansio.providers.common.interface import (
    Conversation,
    ExchangeFailed,
    drive,
)
from mmo_sansio.providers.common.operations import (
    DIRECT_PAYIN,
    DIRECT_PAYOUT,
    WEB_PAYIN,
    with_poll_interval,
)
from mmo_sansio.providers.common.wire import plain_amount
from mmo_sansio.providers.mtn_momo.account import MARKETS, PRODUCTION_URL, read_account
from mmo_sansio.providers.mtn_momo.adapter import (
    POLL_INTERVALS,
    MtnMomoProvider,
    reference_id,
)
from mmo_sansio.providers.mtn_momo.codes import (
    REASONS,
)
from mmo_sansio.testing import (
    REFERENCE,
    START,
    a_begin_submission,
    a_brand,
    a_create_payment,
    a_method,
    a_party,
    a_transaction,
    accepted,
    numbered_reference,
)
from mmo_sansio.values.clock import HOUR, MINUTE, SECOND, Moment, Span, later
from mmo_sansio.values.error_codes import EXPLANATIONS, ErrorCode
from mmo_sansio.values.fields import SettingsError
from mmo_sansio.values.model import Flow, Source, Stage, Status, Transaction, Type
from mmo_sansio.values.money import Money
from tests.support.answer_rows import Played, Row, read_rows
from tests.support.bodies import documented

USER = "c72025f5-5cd1-4630-99e4-8ba4722fad56"
HOOKS = "https://gw.example/hooks/mtn_ug/token"
OPTIONS: dict[str, Any] = {
    "market": "mtnuganda",
    "collection_subscription_key": "SECRET-collection",
    "collection_api_user": USER,
    "collection_api_key": "SECRET-api",
    "disbursement_subscription_key": "SECRET-disbursement",
    "disbursement_api_user": USER,
    "disbursement_api_key": "SECRET-api",
}
NO_COLLECTION = dict.fromkeys(name for name in OPTIONS if name.startswith("collection"))
NO_DISBURSEMENT = dict.fromkeys(name for name in OPTIONS if name.startswith("disbursement"))
NOW = later(START, Span(10 * SECOND))


def a_provider(**options: Any) -> MtnMomoProvider:
    given = {key: value for key, value in {**OPTIONS, **options}.items() if value is not None}
    return MtnMomoProvider("mtn_ug", "MTN Uganda", read_account(given, hooks_url=HOOKS))


PROVIDER = a_provider()


def a_payment(
    type: Type = Type.PAYIN, stage: Stage = Stage.SUBMITTING, **members: Any
) -> Transaction:
    standard: dict[str, Any] = {
        "type": type,
        "provider": "mtn_ug",
        "requested": Money(1_000, "UGX"),
        "party": a_party(msisdn="+256772123456"),
        "created_at": START,
        "expires_at": START + 72 * HOUR,
    }
    return a_transaction(stage, **{**standard, **members})


def answer(status: int, document: object = None) -> HttpResponse:
    return HttpResponse(status, (), b"" if document is None else json.dumps(document).encode())


def asked(to: HttpResponse | ExchangeFailed, type: Type = Type.PAYIN) -> ProviderReport:
    return held(PROVIDER.poll(a_payment(type, Stage.AWAITING_RESULT), now=Moment.at(NOW)), to)


def held(conversation: Conversation, to: HttpResponse | ExchangeFailed) -> ProviderReport:
    def exchange(request: HttpRequest) -> HttpResponse:
        if isinstance(to, ExchangeFailed):
            raise to
        return to

    return drive(conversation, exchange)


def a_status(status: str, **members: Any) -> dict[str, Any]:
    """The published sample of a payment's status, about our payment."""
    return {**documented("mtn_momo", "state", status=status), **members}


# What is sent.


@pytest.mark.parametrize(
    ("type", "product", "path", "party"),
    [
        (Type.PAYIN, "collection", "requesttopay", "payer"),
        (Type.PAYOUT, "disbursement", "transfer", "payee"),
    ],
)
def test_a_submission_and_a_question_are_what_the_operator_documents(
    type: Type, product: str, path: str, party: str
) -> None:
    request = next(PROVIDER.submit(a_payment(type), now=Moment.at(NOW)))
    assert request.method == "POST"
    assert request.target.decode() == f"{PRODUCTION_URL}/{product}/v1_0/{path}"
    assert dict(request.headers) == {
        b"x-reference-id": reference_id(REFERENCE).encode(),
        b"x-target-environment": b"mtnuganda",
        b"ocp-apim-subscription-key": f"SECRET-{product}".encode(),
        b"x-callback-url": f"{HOOKS}/{REFERENCE}".encode(),
        b"content-type": b"application/json",
    }
    assert json.loads(request.body) == {
        "amount": "1000",
        "currency": "UGX",
        "externalId": REFERENCE,
        party: {"partyIdType": "MSISDN", "partyId": "256772123456"},
        "payerMessage": "Payment",
        "payeeNote": REFERENCE,
    }
    question = next(PROVIDER.poll(a_payment(type), now=Moment.at(NOW)))
    assert (question.method, question.body) == ("GET", b"")
    assert question.target == request.target + b"/" + reference_id(REFERENCE).encode()
    assert dict(question.headers) == {
        b"x-target-environment": b"mtnuganda",
        b"ocp-apim-subscription-key": f"SECRET-{product}".encode(),
    }
    assert PROVIDER.scope_of(request) == PROVIDER.scope_of(question) == product


@pytest.mark.spec("S5")
@pytest.mark.parametrize("callbacks", ["true", "false"])
def test_without_callbacks_only_questions_tell_what_became_of_a_payment(callbacks: str) -> None:
    conversation = a_provider(callbacks=callbacks).submit(a_payment(), now=Moment.at(NOW))
    report = drive(conversation, lambda _: HttpResponse(202))
    assert isinstance(report, ProviderAccepted)
    assert report.is_told_when_asked is (callbacks == "false")


def test_an_account_without_callbacks_sends_no_empty_header() -> None:
    request = next(a_provider(callbacks="false").submit(a_payment(), now=Moment.at(NOW)))
    assert request.value(b"x-callback-url") is None


@pytest.mark.spec("S6")
def test_the_reference_id_is_a_uuid_of_version_4_that_never_changes() -> None:
    form = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
    many = {reference_id(numbered_reference(number)) for number in range(1_000)}
    assert len(many) == 1_000
    assert all(form.fullmatch(each) for each in many)
    assert reference_id(REFERENCE) == "86ea2a37-b6f7-4e2d-a148-e2fd3a403c22"


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (Money(1_000, "UGX"), "1000"),
        (Money(150_00, "GHS"), "150"),
        (Money(150_50, "ZMW"), "150.50"),
        (Money(5, "EUR"), "0.05"),
    ],
)
def test_decimals_are_sent_only_where_there_are_some(amount: Money, text: str) -> None:
    assert plain_amount(amount) == text


# Tokens.


def test_each_product_has_a_token_of_its_own_fetched_without_a_body() -> None:
    request = next(PROVIDER.sign_in("disbursement", now=Moment.at(NOW)))
    assert request.method == "POST"
    assert request.target.decode() == f"{PRODUCTION_URL}/disbursement/token/"
    assert dict(request.headers) == {
        b"authorization": b"Basic YzcyMDI1ZjUtNWNkMS00NjMwLTk5ZTQtOGJhNDcyMmZhZDU2OlNFQ1JFVC1hcGk=",
        b"ocp-apim-subscription-key": b"SECRET-disbursement",
        b"x-target-environment": b"mtnuganda",
    }
    assert request.body == b""


def test_a_request_to_no_product_needs_no_token() -> None:
    assert PROVIDER.scope_of(HttpRequest("GET", b"https://elsewhere.example/collection/x")) is None
    assert PROVIDER.scope_of(HttpRequest("GET", PRODUCTION_URL.encode() + b"/remittance/x")) is None


# What answers come to.


ANSWERS = Path(__file__).with_name("answers.txt")
KINDS: dict[str, dict[str, Any]] = {
    "payin": {},
    "paid": {},
    "payout": {"type": Type.PAYOUT},
    "tax": {"type": Type.TAX},
    "qr": {"flow": Flow.QR},
}
TARGETS = {
    "callback": b"/hooks/mtn_ug/token",
    "callback_named": f"/hooks/mtn_ug/token/{REFERENCE}".encode(),
}
PLAYED = Played(
    "mtn_momo",
    a_provider,
    lambda operation, **members: a_payment(**{**KINDS[operation], **members}),
    notify=lambda row, body: HttpRequest("PUT", TARGETS[row.stage], (), body),
    payee=("+256772123456", "Jane Doe"),
)


@pytest.mark.parametrize("row", read_rows(ANSWERS))
def test_answers(row: Row) -> None:
    PLAYED.check(row)


def test_an_account_offers_what_it_has_keys_for() -> None:
    assert PROVIDER.operations.keys() == {DIRECT_PAYIN, WEB_PAYIN, DIRECT_PAYOUT}
    assert a_provider(**NO_DISBURSEMENT).operations.keys() == {DIRECT_PAYIN, WEB_PAYIN}
    assert a_provider(**NO_COLLECTION).operations.keys() == {DIRECT_PAYOUT}
    assert all(each.is_idempotent and each.can_be_polled for each in PROVIDER.operations.values())


@pytest.mark.parametrize("type", [Type.PAYIN, Type.PAYOUT])
@pytest.mark.parametrize("form", ["text", "object"])
@pytest.mark.parametrize("code", sorted(REASONS))
@pytest.mark.spec("E1")
def test_a_failure_tells_its_reason_in_either_form(code: str, form: str, type: Type) -> None:
    reason: object = code if form == "text" else {"code": code, "message": "Why"}
    report = asked(answer(200, a_status("FAILED", reason=reason)), type)
    meaning = REASONS[code].payin if type is Type.PAYIN else REASONS[code].payout
    assert isinstance(report, ProviderFailed)
    assert (report.error_code, report.native_code) == (meaning, code)
    assert report.native_message == ("Why" if form == "object" else None)
    assert report.error_code in EXPLANATIONS


NOT_FOUND = answer(404, documented("mtn_momo", "not_found"))
PENDING = answer(200, a_status("PENDING"))


def polled_for(gateway: Gateway, hours: int, to: HttpResponse) -> None:
    """Lets these hours pass, with this answer to every poll."""
    start = later(START, Span(0)) if not gateway.journal else gateway.journal[-1].at
    while (at := gateway.next_wake()) is not None and at <= start + hours * HOUR:
        gateway.wake(now=at)
        before = gateway.transaction(REFERENCE)
        if not before.progress.stage.is_terminal:
            report = held(PROVIDER.poll(before, now=Moment.at(at)), to)
            gateway.receive(with_poll_interval(report, PROVIDER.operations, before), now=at)


@pytest.mark.spec("S2", "S5", "S6")
def test_an_accepted_payment_that_is_not_found_for_a_day_does_not_wait_for_its_expiry() -> None:
    gateway = Gateway()
    methods = (a_method(provider="mtn_ug"),)
    for given in (
        a_create_payment(brand=a_brand(methods=methods)),
        a_begin_submission(),
        accepted(provider="mtn_ug"),
    ):
        gateway.receive(given, now=START)
    polled_for(gateway, 20, NOT_FOUND)
    polled_for(gateway, 2, PENDING)
    polled_for(gateway, 20, NOT_FOUND)
    polled_for(gateway, 2, answer(503))
    assert gateway.transaction(REFERENCE).status is Status.PENDING
    polled_for(gateway, 4, NOT_FOUND)
    ended = gateway.transaction(REFERENCE)
    assert (ended.progress.error_code, ended.progress.completion_source) == (
        ErrorCode.PROVIDER_TIMEOUT,
        Source.POLL,
    )
    assert ended.progress.completed_at is not None
    assert 46 * HOUR <= ended.progress.completed_at - START <= 48 * HOUR
    paid = held(
        PROVIDER.poll(ended, now=Moment.at(later(START, Span(60 * HOUR)))),
        answer(200, a_status("SUCCESSFUL")),
    )
    gateway.receive(paid, now=later(START, Span(60 * HOUR)))
    assert gateway.transaction(REFERENCE) == ended
    assert [each.reason for each in gateway.suspense] == [SuspenseReason.CONFLICTING_RESULT]


def test_questions_come_often_while_a_payer_may_approve_and_seldom_later() -> None:
    assert POLL_INTERVALS[0] == 10 * SECOND
    assert list(POLL_INTERVALS) == sorted(POLL_INTERVALS)
    often = [each for each in POLL_INTERVALS if each <= 30 * SECOND]
    assert 5 * MINUTE < sum(often) < 7 * MINUTE
    assert POLL_INTERVALS[-1] <= HOUR


# Callbacks.


@pytest.mark.parametrize("method", ["PUT", "POST"])
def test_a_callback_is_kept_as_it_came(method: str) -> None:
    body = json.dumps(a_status("SUCCESSFUL")).encode()
    hint = PROVIDER.read_notification(HttpRequest(method, b"/hooks/mtn_ug/token", (), body))
    assert hint == ProviderHinted(REFERENCE, "mtn_ug", body.decode(), says_paid=True)


def test_a_callback_is_answered_as_accepted_or_not() -> None:
    request = HttpRequest("PUT", b"/hooks/mtn_ug/token")
    assert PROVIDER.answer_notification(request, True).status == 200
    assert PROVIDER.answer_notification(request, False).status == 503


# Options.


@pytest.mark.parametrize("market", MARKETS)
def test_each_market_has_its_host_and_another_may_be_set(market: str) -> None:
    account = a_provider(market=market).account
    assert (account.base_url == PRODUCTION_URL) == (market != "sandbox")
    local = a_provider(market=market, base_url="https://proxy.momoapi.mtn.co.rw/").account
    assert local.base_url == "https://proxy.momoapi.mtn.co.rw"


def test_a_market_that_is_new_needs_an_address() -> None:
    with pytest.raises(SettingsError, match="base_url"):
        a_provider(market="mtnatlantis")
    account = a_provider(market="mtnatlantis", base_url="https://momo.example").account
    assert account.market == "mtnatlantis"


@pytest.mark.parametrize(
    ("options", "key"),
    [
        ({"market": None}, "market"),
        ({"market": "MTN UG", "base_url": "https://momo.example"}, "market"),
        ({"colection_api_key": "x"}, "colection_api_key"),
        ({"collection_api_key": None}, "collection_api_key"),
        ({"collection_api_key": "SECRET\r\nx"}, "collection_api_key"),
        ({"disbursement_api_user": "SECRET"}, "disbursement_api_user"),
        ({"payer_message": "x" * 129}, "payer_message"),
        ({"payer_message": "Mama's Shop"}, "payer_message"),
        ({"payer_message": "Shop & Co"}, "payer_message"),
        ({"payer_message": "Shop <b>"}, "payer_message"),
        ({"payer_message": "Shop\nCo"}, "payer_message"),
        ({"payer_message": ""}, "payer_message"),
        (dict.fromkeys(k for k in OPTIONS if k != "market"), "collection_subscription_key"),
    ],
)
def test_an_option_of_no_use_is_named_and_never_quoted(options: dict[str, Any], key: str) -> None:
    with pytest.raises(SettingsError) as refusal:
        a_provider(**options)
    assert refusal.value.location == key
    assert "SECRET" not in str(refusal.value)


def test_a_message_that_mtn_rejects_is_refused_with_its_character() -> None:
    with pytest.raises(SettingsError, match='has the character "\'", which MTN rejects') as refusal:
        a_provider(payer_message="Mama's Shop")
    assert refusal.value.remedy == "Write it without."
    assert (
        a_provider(payer_message="Café Ngũgĩ, n° 7 (shop)").account.payer_message
        == "Café Ngũgĩ, n° 7 (shop)"
    )


def test_no_secret_stands_in_a_repr() -> None:
    assert "SECRET" not in repr(PROVIDER)
    assert HOOKS not in repr(PROVIDER)
