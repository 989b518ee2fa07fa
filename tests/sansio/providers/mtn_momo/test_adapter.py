"""MTN MoMo's adapter: what it sends, what it makes of each answer, and that what is unknown stays
unknown."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.messages.changes import SuspenseReason
from mmo_sansio.messages.inputs import (
    ProviderAccepted,
    ProviderFailed,
    ProviderHinted,
    ProviderNeverReceived,
    ProviderReport,
    ProviderSucceeded,
    ProviderUnreachable,
    UnmatchedNotified,
)
from mmo_sansio.payments.gateway import Gateway
from mmo_sansio.providers.common.interface import (
    AccessToken,
    AccountState,
    Conversation,
    ExchangeFailed,
    SignInFailed,
    SignsIn,
    drive,
)
from mmo_sansio.providers.common.operations import (
    DIRECT_PAYIN,
    DIRECT_PAYOUT,
    WEB_PAYIN,
    with_poll_interval,
)
from mmo_sansio.providers.common.options import OptionError
from mmo_sansio.providers.common.wire import plain_amount
from mmo_sansio.providers.mtn_momo.account import MARKETS, PRODUCTION_URL, read_account
from mmo_sansio.providers.mtn_momo.adapter import (
    NOT_FOUND_FAILS_AFTER,
    NOT_FOUND_IS_FINAL_AFTER,
    POLL_INTERVALS,
    MtnMomoProvider,
    reference_id,
)
from mmo_sansio.providers.mtn_momo.codes import (
    ACCOUNT_REFUSALS,
    INCONCLUSIVE_REASONS,
    PENDING_REASONS,
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
from mmo_sansio.values.clock import HOUR, MINUTE, SECOND, Instant, Moment, Span, earlier, later
from mmo_sansio.values.error_codes import EXPLANATIONS, ErrorCode
from mmo_sansio.values.model import Evidence, Flow, Source, Stage, Status, Transaction, Type
from mmo_sansio.values.money import Money

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
NOW = later(START, Span(10 * SECOND))
NOT_FOUND_BODY = {"message": "Requested resource was not found.", "code": "RESOURCE_NOT_FOUND"}


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


def submitted(
    to: HttpResponse | ExchangeFailed, type: Type = Type.PAYIN, **members: Any
) -> ProviderReport:
    return held(PROVIDER.submit(a_payment(type, **members), now=Moment.at(NOW)), to)


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
    return {
        "externalId": REFERENCE,
        "amount": "1000",
        "currency": "UGX",
        "payer": {"partyIdType": "MSISDN", "partyId": "256772123456"},
        "payerMessage": "Payment",
        "payeeNote": REFERENCE,
        "status": status,
        **members,
    }


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


def a_token(provider: SignsIn, to: HttpResponse, scope: str = "collection") -> AccessToken:
    conversation = provider.sign_in(scope, now=Moment.at(NOW))
    next(conversation)
    with pytest.raises(StopIteration) as end:
        conversation.send(to)
    token: AccessToken = end.value.value
    return token


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


@pytest.mark.parametrize("expires_in", [3600, "3600", 3600.0, None, ""])
def test_a_token_lives_as_long_as_the_answer_says(expires_in: object) -> None:
    document = {"access_token": "eyJ0", "token_type": "access_token", "expires_in": expires_in}
    token = a_token(PROVIDER, answer(200, document))
    assert token == AccessToken("eyJ0", issued_at=NOW, expires_at=later(NOW, HOUR))


@pytest.mark.parametrize(
    "given",
    [
        answer(401, {"error": "login_failed"}),
        answer(500),
        answer(200),
        answer(200, {"access_token": "SECRET", "expires_in": "soon"}),
        answer(200, {"access_token": "SECRET\r\nx: y", "expires_in": 3600}),
        answer(200, {"access_token": ["SECRET"], "expires_in": 3600}),
        answer(200, {"expires_in": 3600}),
    ],
)
def test_an_answer_without_a_usable_token_is_a_refusal_that_quotes_nothing(
    given: HttpResponse,
) -> None:
    conversation = PROVIDER.sign_in("collection", now=Moment.at(NOW))
    next(conversation)
    with pytest.raises(SignInFailed) as refusal:
        conversation.send(given)
    assert "SECRET" not in refusal.value.reason


def test_a_request_to_no_product_needs_no_token() -> None:
    assert PROVIDER.scope_of(HttpRequest("GET", b"https://elsewhere.example/collection/x")) is None
    assert PROVIDER.scope_of(HttpRequest("GET", PRODUCTION_URL.encode() + b"/remittance/x")) is None


# What a submission's answer means.


@pytest.mark.parametrize(
    "given",
    [
        answer(202),
        answer(409, {"code": "RESOURCE_ALREADY_EXIST", "message": "Duplicated reference id."}),
        answer(409),
        answer(500, {"code": "RESOURCE_ALREADY_EXIST", "message": "Duplicated reference id."}),
    ],
)
@pytest.mark.spec("S6")
def test_what_was_taken_now_or_before_is_pending(given: HttpResponse) -> None:
    assert submitted(given) == ProviderAccepted(REFERENCE, "mtn_ug", Source.POLL, version=2)


@pytest.mark.parametrize(
    "given",
    [
        ExchangeFailed("The connection was reset.", may_have_arrived=True),
        answer(408),
        answer(500),
        answer(500, {"code": "SOMETHING_NEW", "message": "?"}),
        answer(500, {"code": "INTERNAL_PROCESSING_ERROR", "message": "?"}),
        answer(503, {"code": "SERVICE_UNAVAILABLE", "message": "?"}),
        HttpResponse(502, (), b"<html>"),
        answer(301),
        HttpResponse(200, (), b"<html>"),
    ],
)
@pytest.mark.parametrize("type", [Type.PAYIN, Type.PAYOUT])
@pytest.mark.spec("S6")
def test_a_submission_that_may_have_been_taken_is_unknown(
    given: HttpResponse | ExchangeFailed, type: Type
) -> None:
    assert isinstance(submitted(given, type), ProviderUnreachable)


@pytest.mark.parametrize(
    "given", [ExchangeFailed("No connection.", may_have_arrived=False), answer(429)]
)
@pytest.mark.spec("S6")
def test_a_submission_that_was_certainly_not_taken_may_be_made_again(
    given: HttpResponse | ExchangeFailed,
) -> None:
    assert submitted(given) == ProviderNeverReceived(REFERENCE, "mtn_ug", 2)


@pytest.mark.parametrize("type", [Type.PAYIN, Type.PAYOUT])
@pytest.mark.parametrize("status", [400, 500])
@pytest.mark.parametrize("code", sorted(REASONS.keys() - INCONCLUSIVE_REASONS - ACCOUNT_REFUSALS))
@pytest.mark.spec("E1")
def test_a_refusal_is_judged_by_its_code_and_not_by_its_status(
    code: str, status: int, type: Type
) -> None:
    report = submitted(answer(status, {"code": code, "message": "Why"}), type)
    meaning = REASONS[code].payin if type is Type.PAYIN else REASONS[code].payout
    assert isinstance(report, ProviderFailed)
    assert (report.error_code, report.native_code, report.native_message) == (meaning, code, "Why")


@pytest.mark.parametrize(
    ("given", "native"),
    [
        (answer(400), "HTTP 400"),
        (answer(404, NOT_FOUND_BODY), "RESOURCE_NOT_FOUND"),
        (answer(400, {"code": ["odd"]}), "HTTP 400"),
    ],
)
@pytest.mark.spec("E1")
def test_a_refusal_without_a_known_code_is_a_fault_of_our_set_up(
    given: HttpResponse, native: str
) -> None:
    report = submitted(given)
    assert isinstance(report, ProviderFailed)
    assert (report.error_code, report.native_code) == (ErrorCode.MERCHANT_MISCONFIGURED, native)


@pytest.mark.spec("S6")
@pytest.mark.parametrize(
    "given",
    [
        answer(401, {"statusCode": 401, "message": "Access denied"}),
        HttpResponse(403, (), b"FORBIDDEN IP"),
        HttpResponse(403, (), b"<html>"),
        answer(403, {"message": "denied"}),
        answer(500, {"code": "NOT_ALLOWED_TARGET_ENVIRONMENT"}),
        answer(400, {"code": "INVALID_CALLBACK_URL_HOST"}),
    ],
)
def test_a_refusal_of_our_account_says_nothing_of_the_payment(given: HttpResponse) -> None:
    """It is sent once the account is in order: those of its kind wait, and staff are told."""
    for type in (Type.PAYIN, Type.PAYOUT):
        for submissions in (1, 2):
            assert isinstance(
                submitted(given, type, submissions=submissions), ProviderNeverReceived
            )
    for path, held, holds_reversals in (
        ("collection/v1_0/requesttopay", (Type.PAYIN,), False),
        ("disbursement/v1_0/transfer", (Type.PAYOUT,), False),
        ("disbursement/v1_0/refund", (), True),
    ):
        provider = PROVIDER
        request = HttpRequest("POST", f"{provider.account.base_url}/{path}".encode())
        finding = provider.judge_answer(request, given)
        assert finding is not None
        assert (finding.state, finding.held) == (AccountState.REFUSED, held)
        assert finding.holds_reversals is holds_reversals
        taken = provider.judge_answer(request, HttpResponse(202))
        assert taken is not None
        assert (taken.part, taken.state, taken.held) == (finding.part, AccountState.WORKS, ())
        assert provider.judge_answer(request, answer(403, {"code": "PAYEE_NOT_FOUND"})) is None
        question = HttpRequest("GET", request.target + b"/1")
        assert provider.judge_answer(question, given) is None


@pytest.mark.parametrize(
    "given", [answer(400), answer(404, {"code": "NEW"}), answer(402, {"message": "denied"})]
)
def test_an_unlisted_refusal_of_a_resubmission_proves_nothing(given: HttpResponse) -> None:
    assert isinstance(submitted(given, submissions=1), ProviderFailed)
    assert isinstance(submitted(given, submissions=2), ProviderUnreachable)


def test_a_listed_refusal_of_a_resubmission_is_final() -> None:
    given = answer(400, {"code": "PAYEE_NOT_FOUND"})
    assert isinstance(submitted(given, Type.PAYOUT, submissions=2), ProviderFailed)


def test_an_amount_that_is_not_taken_is_told_from_other_faults_of_a_request() -> None:
    document = {"code": "VALIDATION_ERROR", "message": "unsupported decimals"}
    report = submitted(answer(400, document))
    assert isinstance(report, ProviderFailed)
    assert report.error_code is ErrorCode.AMOUNT_OUT_OF_RANGE


@pytest.mark.parametrize(
    ("type", "flow"), [(Type.TAX, Flow.DIRECT), (Type.PAYIN, Flow.QR)], ids=["tax", "qr"]
)
def test_what_the_operator_does_not_offer_fails_without_a_request(type: Type, flow: Flow) -> None:
    report = drive(
        PROVIDER.submit(a_payment(type, flow=flow), now=Moment.at(NOW)),
        lambda request: 1 / 0,  # type: ignore[arg-type,return-value]
    )
    assert isinstance(report, ProviderFailed)


def test_an_account_offers_what_it_has_keys_for() -> None:
    no_payouts = a_provider(**dict.fromkeys([k for k in OPTIONS if "disb" in k]))
    no_payins = a_provider(**dict.fromkeys([k for k in OPTIONS if "coll" in k]))
    assert PROVIDER.operations.keys() == {DIRECT_PAYIN, WEB_PAYIN, DIRECT_PAYOUT}
    assert no_payouts.operations.keys() == {DIRECT_PAYIN, WEB_PAYIN}
    assert no_payins.operations.keys() == {DIRECT_PAYOUT}
    assert all(each.is_idempotent and each.can_be_polled for each in PROVIDER.operations.values())


# What a payment's status means.


@pytest.mark.parametrize("receipt", ["1232581108", 1232581108], ids=["text", "number"])
@pytest.mark.parametrize("amount", ["1000", "1000.0", 1000, 1000.0])
@pytest.mark.spec("S2")
def test_a_success_tells_its_receipt_and_its_amount_however_they_are_written(
    amount: object, receipt: object
) -> None:
    document = a_status("SUCCESSFUL", amount=amount, financialTransactionId=receipt)
    assert asked(answer(200, document)) == ProviderSucceeded(
        REFERENCE, "mtn_ug", Source.POLL, "1232581108", final=Money(1_000, "UGX"), version=3
    )


def test_a_success_may_be_of_another_amount_or_of_none_that_is_told() -> None:
    other = asked(answer(200, a_status("SUCCESSFUL", amount="999", currency=None)))
    assert isinstance(other, ProviderSucceeded)
    assert other.final == Money(999, "UGX")
    bare = asked(answer(200, {"status": "SUCCESSFUL"}))
    assert bare == ProviderSucceeded(REFERENCE, "mtn_ug", Source.POLL, version=3)


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


@pytest.mark.parametrize("reason", [None, "PAYER_FAILED", {"code": "TRANSFER_TYPE_UNKNOWN"}, {}])
@pytest.mark.spec("E1")
def test_a_failure_for_a_reason_that_is_new_is_declined(reason: object) -> None:
    report = asked(answer(200, a_status("FAILED", reason=reason)))
    assert isinstance(report, ProviderFailed)
    assert report.error_code is ErrorCode.TRANSACTION_DECLINED


@pytest.mark.parametrize("reason", sorted(PENDING_REASONS))
def test_what_is_still_running_is_pending_wherever_it_says_so(reason: str) -> None:
    pending = ProviderAccepted(REFERENCE, "mtn_ug", Source.POLL, version=3)
    assert asked(answer(200, a_status("PENDING", reason=reason))) == pending
    assert asked(answer(200, a_status("FAILED", reason=reason))) == pending
    assert asked(answer(200, a_status(reason))) == pending


@pytest.mark.parametrize(
    "given",
    [
        ExchangeFailed("No connection.", may_have_arrived=False),
        answer(401),
        answer(403),
        answer(404),
        answer(404, {"statusCode": 404, "message": "Resource not found"}),
        answer(429),
        answer(500, {"code": "NOT_ALLOWED"}),
        answer(503),
        answer(200),
        HttpResponse(200, (), b"\xff"),
        HttpResponse(200, (), b"[" * 100_000),
        answer(200, []),
        answer(200, a_status("REVERSED")),
        answer(200, a_status("SUCCESSFUL", externalId="another")),
        answer(200, a_status("SUCCESSFUL", amount="much")),
        answer(200, a_status("SUCCESSFUL", amount="0.5")),
        answer(200, a_status("SUCCESSFUL", currency="???")),
        answer(200, a_status("SUCCESSFUL", amount=["1000"])),
        answer(200, a_status("SUCCESSFUL", financialTransactionId="\0")),
        answer(200, a_status("FAILED", reason=["odd"])),
        HttpResponse(200, (), b'{"status":"FAILED","reason":"\\ud800"}'),
        HttpResponse(200, (), b'{"status":"SUCCESSFUL","amount":NaN}'),
    ],
)
@pytest.mark.spec("S6")
def test_an_answer_that_cannot_be_used_causes_another_question(
    given: HttpResponse | ExchangeFailed,
) -> None:
    assert isinstance(asked(given), ProviderUnreachable)


@pytest.mark.spec("S5", "S6")
@pytest.mark.parametrize(
    ("status", "members", "receipt"),
    [
        ("SUCCESSFUL", {"externalId": "another"}, "363440463"),
        ("SUCCESSFUL", {"amount": "much"}, "363440463"),
        ("SUCCESSFUL", {"currency": "???"}, "363440463"),
        ("Successful", {}, "363440463"),
        ("SUCCESS", {"financialTransactionId": None}, REFERENCE),
        ("SUCCESSFUL", {"financialTransactionId": ["odd"]}, REFERENCE),
    ],
)
def test_an_answer_that_calls_it_paid_is_evidence_whatever_else_cannot_be_used(
    status: str, members: dict[str, Any], receipt: str
) -> None:
    told = {"financialTransactionId": "363440463", **members}
    report = asked(answer(200, a_status(status, **told)))
    assert isinstance(report, ProviderUnreachable)
    assert report.evidence == Evidence(receipt, "SUCCESSFUL")


def test_what_mtn_has_created_is_pending() -> None:
    assert isinstance(asked(answer(200, a_status("CREATED"))), ProviderAccepted)


@pytest.mark.spec("S6")
def test_not_found_is_believed_only_once_a_submission_is_old_enough_to_be_found() -> None:
    transaction = a_payment(submitted_at=START)
    final = later(START, NOT_FOUND_IS_FINAL_AFTER)
    young = held(
        PROVIDER.poll(transaction, now=Moment.at(earlier(final, Span(1)))),
        answer(404, NOT_FOUND_BODY),
    )
    assert isinstance(young, ProviderUnreachable)
    old = held(PROVIDER.poll(transaction, now=Moment.at(final)), answer(404, NOT_FOUND_BODY))
    assert old == ProviderNeverReceived(REFERENCE, "mtn_ug", transaction.progress.version)


@pytest.mark.parametrize("type", [Type.PAYIN, Type.PAYOUT])
@pytest.mark.parametrize(
    ("code", "since", "is_failed"),
    [
        ("RESOURCE_NOT_FOUND", None, False),
        ("RESOURCE_NOT_FOUND", later(START, Span(1)), False),
        ("RESOURCE_NOT_FOUND", START, True),
        ("TRANSACTION_NOT_FOUND", START, False),
        (None, START, False),
    ],
)
@pytest.mark.spec("S2", "S6")
def test_what_was_accepted_and_is_not_found_fails_after_a_day_of_that_answer_alone(
    code: str | None, since: Instant | None, is_failed: bool, type: Type
) -> None:
    before = a_payment(type, Stage.AWAITING_RESULT, submitted_at=START, denied_since=since)
    now = later(START, NOT_FOUND_FAILS_AFTER)
    report = held(PROVIDER.poll(before, now=Moment.at(now)), answer(404, {"code": code}))
    if is_failed:
        assert isinstance(report, ProviderFailed)
        assert (report.error_code, report.native_code) == (
            ErrorCode.PROVIDER_TIMEOUT,
            "RESOURCE_NOT_FOUND",
        )
    else:
        assert isinstance(report, ProviderUnreachable)
        assert report.denies_payment is (code == "RESOURCE_NOT_FOUND")


NOT_FOUND, PENDING = answer(404, NOT_FOUND_BODY), answer(200, a_status("PENDING"))


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
@pytest.mark.parametrize(
    ("tail", "external_id"),
    [("", REFERENCE), (f"/{REFERENCE}", REFERENCE), (f"/{REFERENCE}", None)],
    ids=["in the body", "in both", "in the address"],
)
def test_a_callback_is_a_hint_and_no_result(
    method: str, tail: str, external_id: str | None
) -> None:
    body = json.dumps(a_status("SUCCESSFUL", externalId=external_id)).encode()
    target = f"/hooks/mtn_ug/token{tail}".encode()
    hint = PROVIDER.read_notification(HttpRequest(method, target, (), body))
    assert hint == ProviderHinted(REFERENCE, "mtn_ug", body.decode(), says_paid=True)


@pytest.mark.parametrize("status", ["PENDING", "FAILED", "CREATED", None, ["SUCCESSFUL"]])
def test_a_callback_calls_a_payment_paid_by_one_word_only(status: object) -> None:
    body = json.dumps(a_status("FAILED") | {"externalId": REFERENCE, "status": status}).encode()
    hint = PROVIDER.read_notification(HttpRequest("PUT", b"/hooks/mtn_ug/token", (), body))
    assert hint == ProviderHinted(REFERENCE, "mtn_ug", body.decode())


@pytest.mark.parametrize(
    ("tail", "body"),
    [
        ("", b""),
        ("", b"\xff\0"),
        ("", b"[]"),
        ("", b"[" * 100_000),
        ("", b'{"status":"SUCCESSFUL"}'),
        ("", b'{"externalId":"gw-0001"}'),
        ("", b'{"externalId":["x"]}'),
        ("", b'{"externalId":"\\u0000"}'),
        (f"/{REFERENCE}", b"no JSON"),
        (f"/{REFERENCE}", json.dumps({"externalId": numbered_reference(7)}).encode()),
    ],
)
@pytest.mark.spec("S5")
def test_a_callback_that_names_no_payment_or_two_is_kept_for_a_person(
    tail: str, body: bytes
) -> None:
    request = HttpRequest("PUT", f"/hooks/mtn_ug/token{tail}".encode(), (), body)
    told = PROVIDER.read_notification(request)
    assert isinstance(told, UnmatchedNotified)
    assert "\0" not in told.content
    assert len(told.content) <= 2_000


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
    with pytest.raises(OptionError, match="base_url"):
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
    with pytest.raises(OptionError) as refusal:
        a_provider(**options)
    assert refusal.value.key == key
    assert "SECRET" not in str(refusal.value)


def test_a_message_that_mtn_rejects_is_refused_with_its_character() -> None:
    with pytest.raises(OptionError, match='has the character "\'", which MTN rejects') as refusal:
        a_provider(payer_message="Mama's Shop")
    assert refusal.value.remedy == "Write it without."
    assert (
        a_provider(payer_message="Café Ngũgĩ, n° 7 (shop)").account.payer_message
        == "Café Ngũgĩ, n° 7 (shop)"
    )


def test_no_secret_stands_in_a_repr() -> None:
    assert "SECRET" not in repr(PROVIDER)
    assert HOOKS not in repr(PROVIDER)
