"""The adapter for M-Pesa's Daraja: what it sends, and what answers and callbacks come to."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.messages.inputs import (
    ProviderAccepted,
    ProviderCannotTell,
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
    AccountState,
    CipherError,
    DepositAnswer,
    DepositReport,
    DepositValidation,
    ExchangeFailed,
    RsaPadding,
    SignInFailed,
    drive,
)
from mmo_sansio.providers.common.options import OptionError
from mmo_sansio.providers.mpesa_daraja.adapter import DarajaProvider, RegistrationFailed
from mmo_sansio.providers.mpesa_daraja.callback_url import (
    CallbackContext,
    MpesaCallbackKind,
    parse_callback_url,
)
from mmo_sansio.providers.mpesa_daraja.codes import (
    ERROR_RULES,
    PROMPT_LIFETIME,
    RESULT_CODES,
    MpesaSubmissionState,
)
from mmo_sansio.providers.mpesa_daraja.requests import account_reference
from mmo_sansio.providers.mpesa_daraja.wire import format_msisdn, password, timestamp
from mmo_sansio.providers.registry import PROVIDER_KINDS, AdapterContext
from mmo_sansio.testing.builders import (
    KES,
    REFERENCE,
    START,
    a_begin_submission,
    a_party,
    a_transaction,
    ledger_with,
)
from mmo_sansio.values import clock
from mmo_sansio.values.clock import HOUR, SECOND, Instant, Moment, Span, earlier, later
from mmo_sansio.values.error_codes import ErrorCode
from mmo_sansio.values.model import (
    DepositAnswerOutcome,
    DepositClaim,
    DepositTrust,
    Evidence,
    Flow,
    Stage,
    Transaction,
    Type,
)

CONSUMER_SECRET = "canary-consumer-secret"
PASSKEY = "bfb279f9aa9bdbcf158e97dd71a467cd2e0c893059b10f78e6b72ada1ed2c919"
HOOKS_URL = "https://gw.example/hooks/kenya/canary-token"
OPTIONS: Mapping[str, Any] = {
    "base_url": "https://sandbox.safaricom.co.ke",
    "consumer_key": "canary-consumer-key",
    "consumer_secret": CONSUMER_SECRET,
    "shortcode": "174379",
    "passkey": PASSKEY,
    "payout_shortcode": 600997,
    "initiator": "testapi",
    "initiator_password": "canary-password",
    "certificate": "a certificate",
    "merchant_name": "TEST SHOP",
}
KINDS = {
    "payin": (Type.PAYIN, Flow.DIRECT),
    "web": (Type.PAYIN, Flow.WEB),
    "payout": (Type.PAYOUT, Flow.DIRECT),
    "tax": (Type.TAX, Flow.DIRECT),
    "qr": (Type.PAYIN, Flow.QR),
}


class FixedCiphers:
    """Encrypts by turning the text round, so that a test sees what was encrypted."""

    def random_bytes(self, count: int) -> bytes:
        return bytes(count)

    def rsa_bits(self, public_key: bytes) -> int:
        return 2048

    def rsa_encrypt(self, public_key: bytes, plain: bytes, padding: RsaPadding) -> bytes:
        assert padding is RsaPadding.PKCS1V15, "Daraja wants PKCS #1 v1.5"
        if public_key != b"a certificate":
            raise CipherError("no certificate")
        return plain[::-1]

    def aes_cbc_encrypt(self, key: bytes, iv: bytes, plain: bytes) -> bytes:
        raise AssertionError("Daraja wants no AES")


def adapter(**options: Any) -> DarajaProvider:
    given = {name: value for name, value in {**OPTIONS, **options}.items() if value is not None}
    opened = PROVIDER_KINDS["mpesa_daraja"].open_adapter(
        "kenya", "M-Pesa", given, AdapterContext(HOOKS_URL, FixedCiphers())
    )
    assert isinstance(opened, DarajaProvider)
    return opened


def payment(kind: str = "payin", stage: Stage = Stage.SUBMITTING, **members: Any) -> Transaction:
    type_, flow = KINDS[kind]
    standard: dict[str, Any] = {
        "type": type_,
        "flow": flow,
        "provider": "kenya",
        "reconciliation_reference": "PRN1234XN",
        "party": a_party(msisdn="+254708374149"),
        "submitted_at": START,
    }
    return a_transaction(stage, **{**standard, **members})


def answering(
    status: int, document: object, seen: list[HttpRequest] | None = None
) -> Callable[[HttpRequest], HttpResponse]:
    def answer(request: HttpRequest) -> HttpResponse:
        if seen is not None:
            seen.append(request)
        body = document if isinstance(document, bytes) else json.dumps(document).encode()
        return HttpResponse(status, (), body)

    return answer


def submitted(
    kind: str, status: int, document: object, seen: list[HttpRequest] | None = None, **members: Any
) -> ProviderReport:
    conversation = adapter().submit(payment(kind, **members), now=Moment.at(START))
    return drive(conversation, answering(status, document, seen))


def asked(
    transaction: Transaction,
    status: int,
    document: object,
    *,
    seen: list[HttpRequest] | None = None,
    now: Instant = START,
) -> ProviderReport:
    return drive(adapter().poll(transaction, now=Moment.at(now)), answering(status, document, seen))


def body_of(seen: list[HttpRequest]) -> dict[str, Any]:
    (request,) = seen
    found: dict[str, Any] = json.loads(request.body)
    return found


def callback(url: str, document: object) -> HttpRequest:
    """A callback as the listener hands it on: the target in origin-form."""
    path = url.removeprefix("https://gw.example")
    return HttpRequest("POST", path.encode(), (), json.dumps(document).encode())


def to(kind: MpesaCallbackKind, **members: Any) -> str:
    address = CallbackContext(kind, **{"reference": REFERENCE, "minor": 15_000, **members})
    return f"{HOOKS_URL}/{address.to_segment(CONSUMER_SECRET.encode())}"


def push_document(code: object, *items: Mapping[str, Any]) -> dict[str, Any]:
    told: dict[str, Any] = {
        "MerchantRequestID": "m-1",
        "CheckoutRequestID": "ws_CO_1",
        "ResultCode": code,
        "ResultDesc": "text",
    }
    if items:
        told["CallbackMetadata"] = {"Item": list(items)}
    return {"Body": {"stkCallback": told}}


def result_document(code: object, parameters: object = None, **members: Any) -> dict[str, Any]:
    told = {
        "ResultType": 0,
        "ResultCode": code,
        "ResultDesc": "text",
        "OriginatorConversationID": "other-1",
        "ConversationID": "AG_1",
        "TransactionID": "SG632NMUAB",
        **members,
    }
    if parameters is not None:
        told["ResultParameters"] = {"ResultParameter": parameters}
    return {"Result": told}


TAKEN_PUSH = {"MerchantRequestID": "m-1", "CheckoutRequestID": "ws_CO_1", "ResponseCode": "0"}
TAKEN = {"ConversationID": "AG_1", "OriginatorConversationID": "other-1", "ResponseCode": "0"}


# What leaves.


def test_the_published_password() -> None:
    assert password("174379", PASSKEY, "20210628092408") == (
        "MTc0Mzc5YmZiMjc5ZjlhYTliZGJjZjE1OGU5N2RkNzFhNDY3Y2QyZTBjODkzMDU5YjEw"
        "Zjc4ZTZiNzJhZGExZWQyYzkxOTIwMjEwNjI4MDkyNDA4"
    )


def test_time_is_nairobis() -> None:
    assert timestamp(Instant(1_624_861_448 * SECOND)) == "20210628092408"  # 06:24:08 in UTC.


def test_a_push_says_what_the_sheet_names() -> None:
    seen: list[HttpRequest] = []
    report = submitted("payin", 200, TAKEN_PUSH, seen)
    assert isinstance(report, ProviderAccepted)
    assert report.provider_reference == "ws_CO_1"
    assert seen[0].target == b"https://sandbox.safaricom.co.ke/mpesa/stkpush/v1/processrequest"
    sent = body_of(seen)
    url = sent.pop("CallBackURL")
    assert sent == {
        "BusinessShortCode": 174379,
        "Password": password("174379", PASSKEY, timestamp(START)),
        "Timestamp": timestamp(START),
        "TransactionType": "CustomerPayBillOnline",
        "Amount": 150,
        "PartyA": 254708374149,
        "PartyB": 174379,
        "PhoneNumber": 254708374149,
        "AccountReference": REFERENCE[-12:],
        "TransactionDesc": "Payment",
    }
    address = parse_callback_url(url.encode(), CONSUMER_SECRET.encode())
    assert address == CallbackContext(MpesaCallbackKind.PUSH, REFERENCE, 15_000, 2)


def test_a_till_is_paid_as_a_till() -> None:
    seen: list[HttpRequest] = []
    drive(
        adapter(till="522533").submit(payment(), now=Moment.at(START)),
        answering(200, TAKEN_PUSH, seen),
    )
    sent = body_of(seen)
    assert (sent["TransactionType"], sent["PartyB"]) == ("CustomerBuyGoodsOnline", 522533)


@pytest.mark.spec("S6")
def test_a_payout_carries_our_id_and_the_encrypted_password() -> None:
    seen: list[HttpRequest] = []
    assert isinstance(submitted("payout", 200, TAKEN, seen), ProviderAccepted)
    sent = body_of(seen)
    assert seen[0].target.endswith(b"/mpesa/b2c/v3/paymentrequest")
    assert sent["OriginatorConversationID"] == REFERENCE
    assert b64decode(sent["SecurityCredential"]) == b"canary-password"[::-1]
    assert (sent["PartyA"], sent["PartyB"], sent["Amount"]) == (600997, 254708374149, 150)
    assert 2 <= len(sent["Remarks"]) <= 100


def test_a_tax_goes_to_the_authority_with_its_registration_number() -> None:
    seen: list[HttpRequest] = []
    assert isinstance(submitted("tax", 200, TAKEN, seen), ProviderAccepted)
    sent = body_of(seen)
    assert sent["Initiator"] == "testapi"
    assert (sent["CommandID"], sent["PartyB"]) == ("PayTaxToKRA", 572572)
    assert (sent["SenderIdentifierType"], sent["RecieverIdentifierType"]) == ("4", "4")
    assert sent["AccountReference"] == "PRN1234XN"


def test_a_qr_code_is_a_picture_whatever_its_response_code() -> None:
    for code in ("00", "AG_20191219_000043fdf61864fe9ff5", "0"):
        seen: list[HttpRequest] = []
        report = submitted("qr", 200, {"ResponseCode": code, "QRCode": "iVBORw0KGgo"}, seen)
        assert isinstance(report, ProviderAccepted)
        assert body_of(seen)["RefNo"] == account_reference(REFERENCE)
    assert isinstance(submitted("qr", 200, {"ResponseCode": "00"}), ProviderFailed)


@pytest.mark.parametrize("kind", ["payin", "web", "payout", "tax", "qr"])
def test_no_callback_address_holds_a_forbidden_word(kind: str) -> None:
    seen: list[HttpRequest] = []
    submitted(kind, 200, {}, seen, gateway_reference="01K5EXECMDSQEXEQERYMPESA00")
    urls = [value.lower() for name, value in body_of(seen).items() if name.endswith("URL")]
    words = ("mpesa", "m-pesa", "safaricom", "exe", "cmd", "sql", "query")
    assert not [word for url in urls for word in words if word in url]


REFUSED_BEFORE = [
    ("payin", {"requested": KES("150.50")}, ErrorCode.AMOUNT_OUT_OF_RANGE),
    ("payout", {"requested": KES("0.01")}, ErrorCode.AMOUNT_OUT_OF_RANGE),
    ("tax", {"requested": KES("99.99")}, ErrorCode.AMOUNT_OUT_OF_RANGE),
    ("qr", {"requested": KES("1.10")}, ErrorCode.AMOUNT_OUT_OF_RANGE),
    ("payin", {"party": a_party(msisdn="+255708374149")}, ErrorCode.USER_NOT_FOUND),
    ("payout", {"party": a_party(msisdn="+25470837414")}, ErrorCode.USER_NOT_FOUND),
    ("tax", {"reconciliation_reference": "two words"}, ErrorCode.TRANSACTION_DECLINED),
]


@pytest.mark.parametrize(("kind", "members", "code"), REFUSED_BEFORE)
def test_what_cant_be_said_to_daraja_fails_before_anything_leaves(
    kind: str, members: dict[str, Any], code: ErrorCode
) -> None:
    seen: list[HttpRequest] = []
    report = submitted(kind, 200, TAKEN, seen, **members)
    assert isinstance(report, ProviderFailed)
    assert (report.error_code, seen) == (code, [])


@pytest.mark.parametrize("msisdn", ["+254708374149", "254708374149", "0708 374 149", "0708-374149"])
def test_numbers_are_written_as_daraja_wants_them(msisdn: str) -> None:
    assert format_msisdn(msisdn) == "254708374149"


def test_an_account_offers_what_it_has_credentials_for() -> None:
    bare = adapter(
        passkey=None, initiator=None, initiator_password=None, certificate=None, deposits="trust"
    )
    assert {flow for _, flow in bare.operations} == {Flow.QR, Flow.PUSH}
    report = drive(bare.submit(payment("payout"), now=Moment.at(START)), answering(200, TAKEN))
    assert isinstance(report, ProviderFailed)
    assert report.error_code is ErrorCode.MERCHANT_MISCONFIGURED


# What answers to submissions come to.

FOR_A_PUSH = [
    (400, "400.002.02", "Bad Request - Invalid PhoneNumber", ErrorCode.USER_NOT_FOUND),
    (400, "400.002.02", "Bad Request - Invalid Amount", ErrorCode.AMOUNT_OUT_OF_RANGE),
    (400, "400.002.02", "Bad Request - Invalid Remarks", ErrorCode.MERCHANT_MISCONFIGURED),
    (400, "400.002.05", "Invalid Request Payload", ErrorCode.MERCHANT_MISCONFIGURED),
    (404, "404.001.01", "Resource not found", ErrorCode.MERCHANT_MISCONFIGURED),
    (405, "405.001", "Method Not Allowed", ErrorCode.MERCHANT_MISCONFIGURED),
    (500, "500.001.1001", "Unable to lock subscriber, a transaction ...", ErrorCode.USER_BUSY),
]


@pytest.mark.spec("E1")
@pytest.mark.parametrize(("status", "code", "message", "means"), FOR_A_PUSH)
def test_a_refusal_is_a_failure_of_the_catalogue(
    status: int, code: str, message: str, means: ErrorCode
) -> None:
    document = {"requestId": "1", "errorCode": code, "errorMessage": message}
    for kind in ("payin", "payout", "tax"):
        report = submitted(kind, status, document if code else b"")
        assert isinstance(report, ProviderFailed)
        assert report.error_code is means
        assert report.native_code == (code or str(status))


@pytest.mark.parametrize(("status", "code", "message", "means"), FOR_A_PUSH)
def test_an_unlisted_refusal_of_a_resubmission_proves_nothing(
    status: int, code: str, message: str, means: ErrorCode
) -> None:
    is_listed = any(each.code == code and each.meaning is means for each in ERROR_RULES)
    for kind in ("payin", "payout", "tax"):
        report = submitted(
            kind, status, {"errorCode": code, "errorMessage": message}, submissions=2
        )
        assert isinstance(report, ProviderFailed if is_listed else ProviderUnreachable)


@pytest.mark.spec("S6")
@pytest.mark.parametrize("status", [400, 404, 422])
@pytest.mark.parametrize("kind", ["payin", "tax"])
def test_a_prompt_whose_first_attempt_never_left_ends_with_the_refusal_of_its_second(
    kind: str, status: int
) -> None:
    """There is no id to ask by: it would be pending for days."""
    gateway = Gateway()
    gateway.ledger = ledger_with(payment(kind, Stage.CREATED))

    def submit(exchange: Callable[[HttpRequest], HttpResponse]) -> Transaction:
        gateway.receive(a_begin_submission(), now=START)
        begun = gateway.transaction(REFERENCE)
        gateway.receive(drive(adapter().submit(begun, now=Moment.at(START)), exchange), now=START)
        return gateway.transaction(REFERENCE)

    def never_leaves(request: HttpRequest) -> HttpResponse:
        raise ExchangeFailed("connection refused", may_have_arrived=False)

    for first in (never_leaves, answering(429, b"")):
        assert submit(first).progress.stage is Stage.CREATED
    ended = submit(answering(status, b"<html>forbidden</html>")).progress
    assert (ended.stage, ended.error_code) == (Stage.FAILED, ErrorCode.MERCHANT_MISCONFIGURED)


@pytest.mark.spec("S6")
@pytest.mark.parametrize(
    ("status", "code", "message", "words"),
    [
        (500, "500.001.1001", "[MerchantValidate] - Wrong credentials", "the passkey"),
        (500, "500.001.1001", "Merchant does not exist", "the passkey"),
        (400, "400.002.02", "Bad Request - Invalid BusinessShortCode", "a field that is the same"),
        (400, "400.002.02", "Bad Request - Invalid CallBackURL", "a field that is the same"),
        (400, "400.002.02", "Bad Request - Invalid InitiatorName", "a field that is the same"),
        (400, "400.002.02", "Bad Request - Invalid ResultURL", "a field that is the same"),
        (403, "", "", "turns this gateway away"),
    ],
)
@pytest.mark.parametrize(
    ("kind", "path", "held"),
    [
        ("payin", b"/mpesa/stkpush/v1/processrequest", (Type.PAYIN,)),
        ("payout", b"/mpesa/b2c/v3/paymentrequest", (Type.PAYOUT,)),
        ("tax", b"/mpesa/b2b/v1/remittax", (Type.TAX,)),
    ],
)
def test_a_refusal_of_our_account_says_nothing_of_the_payment(
    kind: str,
    path: bytes,
    held: tuple[Type, ...],
    status: int,
    code: str,
    message: str,
    words: str,
) -> None:
    """It is sent once the account is in order: those of its kind wait, and staff are told."""
    document = {"requestId": "1", "errorCode": code, "errorMessage": message}
    for submissions in (1, 2):
        report = submitted(kind, status, document if code else b"<html>", submissions=submissions)
        assert isinstance(report, ProviderNeverReceived)
    request = HttpRequest("POST", b"https://api.safaricom.co.ke" + path)
    body = json.dumps(document).encode() if code else b"<html>"
    finding = adapter().judge_answer(request, HttpResponse(status, (), body))
    assert finding is not None
    assert words in finding.words
    assert (finding.state, finding.held) == (AccountState.REFUSED, held)
    taken = adapter().judge_answer(request, HttpResponse(200, (), json.dumps(TAKEN).encode()))
    assert taken is not None
    assert (taken.part, taken.state, taken.held) == (finding.part, AccountState.WORKS, ())
    for silent in (HttpResponse(400, (), b"<html>"), HttpResponse(500), HttpResponse(429)):
        assert adapter().judge_answer(request, silent) is None


UNKNOWN = [
    (500, "500.003.1001", "Internal Server Error"),
    (500, "500.002.1001", "System internal error."),
    (500, "500.001.1001", "anything else"),
    (503, "", ""),
    (502, "", ""),
    (408, "", ""),
]


@pytest.mark.spec("S6")
@pytest.mark.parametrize(("status", "code", "message"), UNKNOWN)
def test_a_fault_of_the_server_says_nothing(status: int, code: str, message: str) -> None:
    for kind in ("payin", "payout", "tax"):
        report = submitted(kind, status, {"errorCode": code, "errorMessage": message})
        assert isinstance(report, ProviderUnreachable)


@pytest.mark.spec("S6")
@pytest.mark.parametrize(("status", "code"), [(500, "500.003.02"), (500, "500.003.03"), (429, "")])
def test_a_rate_limit_moves_nothing(status: int, code: str) -> None:
    for kind in ("payin", "payout", "tax"):
        report = submitted(kind, status, {"errorCode": code, "errorMessage": "too many"})
        assert isinstance(report, ProviderNeverReceived)


@pytest.mark.spec("S6")
def test_a_duplicate_payout_was_sent_before_and_doesnt_fail() -> None:
    document = {"errorCode": "500.002.1001", "errorMessage": "Duplicate OriginatorConversationID."}
    assert isinstance(submitted("payout", 500, document), ProviderAccepted)


@pytest.mark.parametrize(
    ("status", "code"), [(401, "401.002.01"), (404, "404.001.03"), (400, "400.003.01"), (401, "")]
)
def test_a_refused_token_moves_nothing(status: int, code: str) -> None:
    document = {"errorCode": code, "errorMessage": "Invalid Access Token"}
    assert isinstance(submitted("payout", status, document), ProviderNeverReceived)
    answer = HttpResponse(status, (), json.dumps(document).encode())
    assert adapter().rejects_token(answer)
    assert not adapter().rejects_token(HttpResponse(400, (), b'{"errorCode":"400.002.02"}'))


@pytest.mark.spec("S6")
@pytest.mark.parametrize("arrived", [False, True])
def test_a_lost_answer_is_asked_about_and_a_lost_request_sent_again(arrived: bool) -> None:
    def lose(request: HttpRequest) -> HttpResponse:
        raise ExchangeFailed("The connection broke.", may_have_arrived=arrived)

    report = drive(adapter().submit(payment("payout"), now=Moment.at(START)), lose)
    assert isinstance(report, ProviderUnreachable if arrived else ProviderNeverReceived)


@pytest.mark.parametrize("document", [b"<html>", {}, {"ResponseCode": "0x"}, [], b"\xff"])
def test_an_answer_that_makes_no_sense_says_nothing_of_money_out(document: object) -> None:
    for kind in ("payout", "tax"):
        assert isinstance(submitted(kind, 200, document), ProviderUnreachable)


# What questions come to.


@pytest.mark.parametrize("code", sorted(RESULT_CODES))
@pytest.mark.spec("E1")
def test_every_result_code_of_a_push(code: str) -> None:
    waiting = payment(stage=Stage.AWAITING_RESULT, provider_reference="ws_CO_1")
    document = {**TAKEN_PUSH, "ResultCode": code, "ResultDesc": "text"}
    report = asked(waiting, 200, document)
    assert isinstance(report, ProviderFailed)
    assert (report.error_code, report.native_code) == (RESULT_CODES[code].payin, code)


def polled_with(code: str, *, age: Span = Span(15 * SECOND)) -> ProviderReport:
    """What the answer to a query comes to that has this code, as it stands in the JSON, this long
    after the prompt."""
    waiting = payment(stage=Stage.AWAITING_RESULT, provider_reference="ws_CO_1")
    body = (
        '{"CheckoutRequestID":"ws_CO_1","ResponseCode":"0",'
        f'"ResultCode":{code},"ResultDesc":"text"}}'
    )
    return asked(waiting, 200, body.encode(), now=later(START, age))


@pytest.mark.spec("S2")
@pytest.mark.parametrize("code", ["0", '"0"', "0.0", '"00"', "0e0", "-0", '" 0 "'])
def test_the_code_of_success_is_the_number_0_however_it_is_written(code: str) -> None:
    assert isinstance(polled_with(code), ProviderSucceeded)


@pytest.mark.spec("S2")
@pytest.mark.parametrize("code", ["1032", '"1032"', "1032.0", '"01032"', "1.032e3"])
def test_the_code_of_a_failure_is_a_number_too(code: str) -> None:
    report = polled_with(code)
    assert isinstance(report, ProviderFailed)
    assert (report.error_code, report.native_code) == (ErrorCode.USER_CANCELLED, "1032")


@pytest.mark.spec("S5", "S6")
@pytest.mark.parametrize(
    ("status", "members"),
    [
        (200, {"CheckoutRequestID": "ws_CO_2"}),
        (200, {"ResultDesc": ["paid"]}),
        (200, {"errorMessage": {}}),
        (503, {}),
    ],
)
def test_a_success_is_kept_whatever_else_the_answer_says(
    status: int, members: dict[str, object]
) -> None:
    waiting = payment(stage=Stage.AWAITING_RESULT, provider_reference="ws_CO_1")
    document = {**TAKEN_PUSH, "ResultCode": "0", "ResultDesc": "text", **members}
    report = asked(waiting, status, document)
    assert isinstance(report, ProviderUnreachable)
    assert report.evidence == Evidence(waiting.reference, "0")


@pytest.mark.spec("S5")
def test_what_stands_for_a_receipt_is_never_taken_for_one() -> None:
    waiting = payment(stage=Stage.AWAITING_RESULT, provider_reference="ws_CO_1")
    progress = evolve(waiting.progress, evidence=Evidence(waiting.reference, "0"))
    seen: list[HttpRequest] = []
    document = {**TAKEN_PUSH, "ResultCode": "0", "ResultDesc": "text"}
    report = asked(evolve(waiting, progress=progress), 200, document, seen=seen)
    assert isinstance(report, ProviderSucceeded)
    assert (report.provider_reference, report.settles_receipt) == ("ws_CO_1", False)
    assert len(seen) == 1


UNKNOWN_NUMBERS = ("1038", '"1038"', "7.0", "1e20")
UNKNOWN_TEXTS = ('"SUCCESS"', '"500.001.1001"', '"+0"', '"0.0"', '"null"', "0.5", "-1", '"\u0663"')


@pytest.mark.spec("S6")
@pytest.mark.parametrize("code", [*UNKNOWN_NUMBERS, *UNKNOWN_TEXTS])
def test_an_unknown_code_ends_no_prompt_that_may_still_be_answered(code: str) -> None:
    assert isinstance(polled_with(code, age=Span(PROMPT_LIFETIME - 1)), ProviderUnreachable)


@pytest.mark.spec("S6")
@pytest.mark.parametrize("code", UNKNOWN_NUMBERS)
def test_an_unknown_number_ends_a_prompt_that_is_over(code: str) -> None:
    report = polled_with(code, age=PROMPT_LIFETIME)
    assert isinstance(report, ProviderFailed)
    assert report.error_code is ErrorCode.TRANSACTION_DECLINED


@pytest.mark.spec("S6")
@pytest.mark.parametrize("code", [*UNKNOWN_TEXTS, "4999"])
def test_what_is_no_code_or_pending_ends_no_prompt_ever(code: str) -> None:
    assert isinstance(polled_with(code, age=clock.DAY), ProviderUnreachable | ProviderAccepted)


@pytest.mark.spec("S6")
@pytest.mark.parametrize("code", ["+0", "SUCCESS", "0.5", "0x"])
def test_a_submission_with_an_unknown_response_code_may_have_been_received(code: str) -> None:
    for kind in ("payin", "payout", "tax"):
        assert isinstance(
            submitted(kind, 200, {**TAKEN_PUSH, **TAKEN, "ResponseCode": code}), ProviderUnreachable
        )


@pytest.mark.spec("E1")
def test_the_code_of_a_refused_submission_is_no_result() -> None:
    report = submitted("payin", 200, {"ResponseCode": "1", "ResponseDescription": "text"})
    assert isinstance(report, ProviderFailed)
    assert (report.error_code, report.native_code) == (ErrorCode.TRANSACTION_DECLINED, "1")


@pytest.mark.parametrize("code", [0, 0.0, "0", "00"])
def test_an_accepted_submission_says_0_however_it_is_written(code: object) -> None:
    assert isinstance(
        submitted("payin", 200, {**TAKEN_PUSH, "ResponseCode": code}), ProviderAccepted
    )


@pytest.mark.parametrize(
    ("status", "document"),
    [
        (200, {**TAKEN_PUSH, "ResultCode": "4999"}),
        (200, TAKEN_PUSH),
        (500, {"errorCode": "500.001.1001", "errorMessage": "The transaction is being processed"}),
    ],
)
def test_a_push_without_a_result_is_pending_however_that_is_said(
    status: int, document: object
) -> None:
    waiting = payment(stage=Stage.AWAITING_RESULT, provider_reference="ws_CO_1")
    assert isinstance(asked(waiting, status, document), ProviderAccepted)


def test_a_push_that_succeeded_has_the_receipt_that_its_callback_told() -> None:
    waiting = payment(stage=Stage.AWAITING_RESULT, provider_reference="ws_CO_1")
    document = {**TAKEN_PUSH, "ResultCode": "0", "ResultDesc": "ok"}
    report = asked(waiting, 200, document)
    assert isinstance(report, ProviderSucceeded)
    assert report.provider_reference == "ws_CO_1"
    told = adapter().read_notification(
        callback(
            to(MpesaCallbackKind.PUSH),
            push_document(0, {"Name": "MpesaReceiptNumber", "Value": "NLJ7RT61SV"}),
        )
    )
    assert isinstance(told, ProviderHinted)
    hinted = payment(stage=Stage.AWAITING_RESULT, provider_reference="ws_CO_1", hint=told.content)
    report = asked(hinted, 200, document)
    assert isinstance(report, ProviderSucceeded)
    assert report.provider_reference == "NLJ7RT61SV"


@pytest.mark.spec("S6")
def test_a_push_whose_answer_was_lost_is_asked_about_once_its_callback_has_named_it() -> None:
    lost = payment()
    assert asked(lost, 200, {}) == ProviderCannotTell(
        lost.reference, lost.order.provider, lost.progress.version
    )
    told = adapter().read_notification(callback(to(MpesaCallbackKind.PUSH), push_document(1032)))
    assert isinstance(told, ProviderHinted)
    seen: list[HttpRequest] = []
    document = {**TAKEN_PUSH, "ResultCode": "1032"}
    report = asked(payment(hint=told.content), 200, document, seen=seen)
    assert body_of(seen)["CheckoutRequestID"] == "ws_CO_1"
    assert isinstance(report, ProviderFailed)
    assert report.error_code is ErrorCode.USER_CANCELLED


def test_an_answer_about_another_push_says_nothing() -> None:
    waiting = payment(stage=Stage.AWAITING_RESULT, provider_reference="ws_CO_2")
    document = {**TAKEN_PUSH, "ResultCode": "0"}
    assert isinstance(asked(waiting, 200, document), ProviderUnreachable)


@pytest.mark.spec("S6")
def test_a_payout_is_asked_about_by_its_own_id_or_by_the_one_daraja_gave_it() -> None:
    for known_as, asked_by in ((None, REFERENCE), ("other-1", "other-1")):
        seen: list[HttpRequest] = []
        report = asked(payment("payout", provider_reference=known_as), 200, TAKEN, seen=seen)
        assert body_of(seen)["OriginalConversationID"] == asked_by
        assert isinstance(report, ProviderUnreachable)
        assert report.is_answered_later, "it tells by a callback"


@pytest.mark.spec("S6")
def test_a_tax_without_an_id_cant_be_asked_about() -> None:
    assert isinstance(asked(payment("tax"), 200, TAKEN), ProviderCannotTell)
    assert isinstance(asked(payment("qr"), 200, TAKEN), ProviderCannotTell)


def question(*, now: Instant = START, **members: Any) -> str:
    """Where the answer to a question about a pay-out shall be told."""
    seen: list[HttpRequest] = []
    asked(payment("payout", **members), 200, TAKEN, seen=seen, now=now)
    url: str = body_of(seen)["ResultURL"]
    return url


COMPLETED = [
    {"Key": "TransactionStatus", "Value": "Completed"},
    {"Key": "Receipt No"},
    {"Key": "ReceiptNo", "Value": "SG632NMUAB"},
    {"Key": "Amount", "Value": 150.00},
]


@pytest.mark.parametrize("code", [0, "0", 0.0, "00"])
def test_an_answered_question_tells_of_a_success(code: object) -> None:
    told = adapter().read_notification(callback(question(), result_document(code, COMPLETED)))
    assert isinstance(told, ProviderSucceeded)
    assert (told.provider_reference, told.final) == ("SG632NMUAB", KES(150))


@pytest.mark.spec("E1")
@pytest.mark.parametrize("code", sorted(RESULT_CODES))
def test_every_result_code_of_a_payout_is_told_by_its_callback_and_confirmed(code: str) -> None:
    first = adapter().read_notification(
        callback(to(MpesaCallbackKind.RESULT), result_document(code, TransactionID="SIK0000000"))
    )
    assert isinstance(first, ProviderHinted)
    failed = {"Key": "TransactionStatus", "Value": "Failed"}
    told = adapter().read_notification(
        callback(question(hint=first.content), result_document(0, failed))
    )
    assert isinstance(told, ProviderFailed)
    assert (told.error_code, told.native_code) == (RESULT_CODES[code].payout, code)


@pytest.mark.spec("S6")
@pytest.mark.parametrize("state", ["Authorized", "Pending", "Initiated", "", "Something new"])
def test_a_state_that_nobody_knows_is_not_final(state: str) -> None:
    parameter = {"Key": "Transaction Status", "Value": state}
    told = adapter().read_notification(callback(question(), result_document(0, [parameter])))
    assert isinstance(told, ProviderAccepted | ProviderUnreachable)


@pytest.mark.spec("S6")
@pytest.mark.parametrize("code", [2032, "2032", "SFC_IC0003"])
def test_not_found_is_final_after_an_hour_and_about_that_submission_only(code: object) -> None:
    answer = result_document(code)
    early = question(now=earlier(later(START, HOUR), Span(1)))
    assert isinstance(adapter().read_notification(callback(early, answer)), ProviderUnreachable)
    late = question(now=later(START, HOUR))
    told = adapter().read_notification(callback(late, answer))
    assert told == ProviderNeverReceived(REFERENCE, "kenya", 2, asked_at=later(START, HOUR))


# Callbacks.


@pytest.mark.spec("S5")
@pytest.mark.parametrize(
    "url",
    [
        HOOKS_URL,
        f"{HOOKS_URL}/00",
        f"{HOOKS_URL}/"
        + CallbackContext(MpesaCallbackKind.PUSH, REFERENCE, 15_000).to_segment(b"another key"),
        to(MpesaCallbackKind.PUSH)[:-2],
        f"{HOOKS_URL}/zz",
    ],
)
def test_what_has_no_seal_of_ours_is_kept_and_not_believed(url: str) -> None:
    told = adapter().read_notification(callback(url, push_document(0)))
    assert isinstance(told, UnmatchedNotified)


@pytest.mark.spec("S5")
@pytest.mark.parametrize(
    ("kind", "document"),
    [
        (MpesaCallbackKind.PUSH, push_document(0, {"Name": "Amount", "Value": 149.99})),
        (MpesaCallbackKind.RESULT, result_document(0, {"Key": "TransactionAmount", "Value": 151})),
        (
            MpesaCallbackKind.POLL_RESULT,
            result_document(0, [COMPLETED[0], {"Key": "Amount", "Value": 15}]),
        ),
        (MpesaCallbackKind.PUSH, {}),
        (MpesaCallbackKind.PUSH, {"Body": {"stkCallback": []}}),
        (MpesaCallbackKind.RESULT, {"Result": {"ResultCode": 0, "ResultParameters": 7}}),
        (MpesaCallbackKind.POLL_RESULT, []),
    ],
)
def test_a_wrong_amount_or_nonsense_is_kept_and_not_believed(
    kind: MpesaCallbackKind, document: object
) -> None:
    told = adapter().read_notification(callback(to(kind), document))
    assert isinstance(told, UnmatchedNotified)


@pytest.mark.parametrize(
    "balance", [{}, {"Value": 7}, {"Value": "{Amount={CurrencyCode=KES, BasicAmount=6186.83}}"}]
)
def test_a_push_callback_is_read_whatever_its_balance(balance: dict[str, Any]) -> None:
    items = (
        {"Name": "Amount", "Value": 150.00},
        {"Name": "MpesaReceiptNumber", "Value": "NLJ7RT61SV"},
        {"Name": "Balance", **balance},
        {"Name": "TransactionDate", "Value": 20191219102115},
        {"Name": "PhoneNumber", "Value": "2547*****149"},
    )
    told = adapter().read_notification(
        callback(to(MpesaCallbackKind.PUSH), push_document(0, *items))
    )
    assert isinstance(told, ProviderHinted)
    assert told.gateway_reference == REFERENCE


@pytest.mark.spec("S6")
def test_a_timeout_in_the_queue_is_a_reason_to_ask_and_no_failure() -> None:
    told = adapter().read_notification(
        callback(to(MpesaCallbackKind.QUEUE_TIMEOUT), result_document("1", ResultType=1))
    )
    assert told == ProviderHinted(REFERENCE, "kenya")


def deposit_document(**members: Any) -> dict[str, Any]:
    return {
        "TransactionType": "Pay Bill",
        "TransID": "RKL51ZDR4F",
        "TransTime": "20231121121325",
        "TransAmount": "5.00",
        "BusinessShortCode": "174379",
        "BillRefNumber": "ACC-1",
        "InvoiceNumber": "",
        "OrgAccountBalance": "25.00",
        "ThirdPartyTransID": "",
        "MSISDN": "2547 ***** 126",
        "FirstName": "JOHN",
        "MiddleName": "",
        "LastName": "DOE",
        **members,
    }


@pytest.mark.spec("S4")
def test_a_confirmation_tells_of_a_deposit() -> None:
    request = callback(to(MpesaCallbackKind.CONFIRMATION), deposit_document())
    told = adapter().read_notification(request)
    assert isinstance(told, DepositReport)
    assert (told.provider_reference, told.account, told.bill_reference) == (
        "RKL51ZDR4F",
        "174379",
        "ACC-1",
    )
    assert (told.amount, told.party.first_name, told.party.last_name) == (KES(5), "JOHN", "DOE")
    answer = adapter().answer_notification(request, True)
    assert (answer.status, json.loads(answer.body)["ResultCode"]) == (200, 0)
    assert adapter().answer_notification(request, False).status == 503


# Deposits are booked as Daraja answers.


def a_claim(**members: Any) -> DepositClaim:
    standard: dict[str, Any] = {
        "provider": "kenya",
        "receipt": "RKL51ZDR4F",
        "provider_title": "M-Pesa",
        "gateway_reference": REFERENCE,
        "account": "174379",
        "bill_reference": "ACC-1",
        "amount": KES(5),
        "party": a_party(),
        "payment": None,
        "brand": None,
        "received_at": START,
        "expires_at": later(START, HOUR),
        "wake_at": START,
    }
    return DepositClaim(**{**standard, **members})


def asked_about_deposit(**options: Any) -> list[HttpRequest]:
    """The requests of one question."""
    seen: list[HttpRequest] = []
    conversation = adapter(**options).verify_deposit(a_claim(), now=Moment.at(START))
    assert drive(conversation, answering(200, TAKEN, seen)) is None
    return seen


def status_document(code: object = "0", **parameters: object) -> dict[str, Any]:
    """The answer to a question about a deposit of KES 5."""
    named = {
        "DebitPartyName": "254708374149 - JOHN DOE",
        "CreditPartyName": "174379 - TEST SHOP",
        "TransactionStatus": "Completed",
        "Amount": 5,
        "ReceiptNo": "RKL51ZDR4F",
        **parameters,
    }
    items = [{"Key": key, "Value": value} for key, value in named.items()]
    return result_document(code, items, TransactionID="RKL0000000")


def answered(document: object, **options: Any) -> DepositAnswer:
    """What is read at the address of the question."""
    [request] = asked_about_deposit(**options)
    url = json.loads(request.body)["ResultURL"]
    told = adapter(**options).read_notification(callback(url, document))
    assert isinstance(told, DepositAnswer)
    assert (told.provider, told.receipt) == ("kenya", "RKL51ZDR4F")
    return told


def test_a_confirmation_is_asked_about_by_its_receipt_at_a_sealed_address() -> None:
    request = callback(to(MpesaCallbackKind.CONFIRMATION), deposit_document())
    told = adapter().read_notification(request)
    assert isinstance(told, DepositReport)
    assert told.trust is DepositTrust.UNCONFIRMED
    [question] = asked_about_deposit()
    sent = json.loads(question.body)
    assert question.target.endswith(b"/mpesa/transactionstatus/v1/query")
    assert (sent["TransactionID"], sent["PartyA"], sent["IdentifierType"]) == (
        "RKL51ZDR4F",
        174379,
        "4",
    )
    assert (sent["Initiator"], sent["SecurityCredential"]) == ("testapi", "ZHJvd3NzYXAteXJhbmFj")
    assert sent["ResultURL"] == sent["QueueTimeOutURL"] != to(MpesaCallbackKind.CONFIRMATION)
    forged = callback(sent["ResultURL"][:-2] + "00", status_document())
    assert isinstance(adapter().read_notification(forged), UnmatchedNotified)


def test_the_answer_counts_with_its_account_and_amount() -> None:
    told = answered(status_document())
    assert (told.outcome, told.is_ours, told.amount) == (
        DepositAnswerOutcome.COMPLETED,
        True,
        KES(5),
    )
    assert answered(status_document(Amount="6.00")).amount == KES(6)
    assert answered(status_document(CreditPartyName="600111"), till="600111").is_ours


@pytest.mark.parametrize(
    ("party", "payer"),
    [
        ("254708374149 - JOHN DOE", "254708374149"),
        ("2547 ***** 149 - JOHN DOE", ""),
        ("254708*** - JOHN DOE", ""),
        ("600997 - TEST SHOP", ""),
        ("JOHN DOE", ""),
    ],
)
def test_the_answer_names_who_has_paid_where_it_is_told_in_full(party: str, payer: str) -> None:
    assert answered(status_document(DebitPartyName=party)).payer == payer


@pytest.mark.parametrize(
    "party", ["254708374149 - JOHN DOE", "999999 - ELSE", "1743790 - ELSE", "TEST SHOP", ""]
)
def test_a_receipt_of_money_that_did_not_reach_us_is_no_deposit(party: str) -> None:
    """Our own pay-outs have receipts, too."""
    assert not answered(status_document(CreditPartyName=party)).is_ours


@pytest.mark.parametrize(
    ("document", "outcome"),
    [
        (status_document(TransactionStatus="Failed"), DepositAnswerOutcome.FAILED),
        (status_document(TransactionStatus="Reversed"), DepositAnswerOutcome.FAILED),
        (status_document(TransactionStatus="Authorized"), DepositAnswerOutcome.UNKNOWN),
        (status_document(ReceiptNo="RKL51ZDR4G"), DepositAnswerOutcome.UNKNOWN),
        (status_document("SFC_IC0003"), DepositAnswerOutcome.NOT_FOUND),
        (status_document("2001"), DepositAnswerOutcome.UNKNOWN),
        (result_document("1", ResultType=1), DepositAnswerOutcome.UNKNOWN),
    ],
)
def test_any_other_answer_confirms_nothing(document: object, outcome: DepositAnswerOutcome) -> None:
    assert answered(document).outcome is outcome


@pytest.mark.parametrize("deposits", ["confirm", "trust"])
def test_a_confirmation_of_another_account_is_foreign(deposits: str) -> None:
    request = callback(
        to(MpesaCallbackKind.CONFIRMATION), deposit_document(BusinessShortCode="999999")
    )
    told = adapter(deposits=deposits).read_notification(request)
    assert isinstance(told, DepositReport)
    assert told.trust is DepositTrust.FOREIGN_ACCOUNT


def test_an_account_without_an_operator_to_ask_trusts_confirmations_and_says_so() -> None:
    bare = {"initiator": None, "initiator_password": None, "certificate": None}
    request = callback(to(MpesaCallbackKind.CONFIRMATION), deposit_document())
    for options in (
        {**bare, "merchant_name": None},
        {**bare, "deposits": "trust"},
        {"deposits": "trust"},
    ):
        told = adapter(**options).read_notification(request)
        assert isinstance(told, DepositReport)
        assert told.trust is DepositTrust.CONFIRMED
        assert list(adapter(**options).verify_deposit(a_claim(), now=Moment.at(START))) == []
    for options in (bare, {**bare, "deposits": "confirm"}):
        with pytest.raises(OptionError) as caught:
            adapter(**options)
        assert caught.value.key == "deposits"
        assert "initiator" in caught.value.remedy
    given = {key: value for key, value in OPTIONS.items() if key not in bare}
    context = AdapterContext(HOOKS_URL, FixedCiphers(), checks_sender=True)
    PROVIDER_KINDS["mpesa_daraja"].open_adapter("kenya", "M-Pesa", given, context)


def test_the_shortcode_can_have_an_operator_of_its_own_for_questions() -> None:
    own = {"deposit_initiator": "asks", "deposit_initiator_password": "drow"}
    [question] = asked_about_deposit(**own)
    sent = json.loads(question.body)
    assert (sent["Initiator"], sent["SecurityCredential"]) == ("asks", "d29yZA==")
    [question] = asked_about_deposit(initiator=None, initiator_password=None, **own)
    assert json.loads(question.body)["Initiator"] == "asks"


@pytest.mark.parametrize("receipt", ["RKL|1", "A B", "x" * 31, "é"])
def test_what_is_no_receipt_is_kept_as_it_came(receipt: str) -> None:
    request = callback(to(MpesaCallbackKind.CONFIRMATION), deposit_document(TransID=receipt))
    assert isinstance(adapter().read_notification(request), UnmatchedNotified)


@pytest.mark.spec("S4")
def test_a_validation_asks_and_tells_of_no_deposit() -> None:
    told = adapter().read_notification(
        callback(to(MpesaCallbackKind.VALIDATION), deposit_document())
    )
    assert isinstance(told, DepositValidation)
    assert told.deposit.amount == KES(5)


@pytest.mark.parametrize(
    ("members", "accepted", "code"),
    [
        ({}, True, "0"),
        ({}, False, "C2B00012"),
        ({"TransAmount": "5.50"}, True, "C2B00013"),
        ({"BusinessShortCode": "600000"}, True, "C2B00015"),
        ({"TransAmount": "much"}, True, "C2B00016"),
    ],
)
def test_a_validation_is_answered_with_its_code(
    members: dict[str, Any], accepted: bool, code: str
) -> None:
    request = callback(to(MpesaCallbackKind.VALIDATION), deposit_document(**members))
    answer = adapter().answer_notification(request, accepted)
    assert (answer.status, json.loads(answer.body)["ResultCode"]) == (200, code)


# Signing in, registering, configuring.


@pytest.mark.parametrize("life", [3599, "3599", 3599.0, "3599.0"])
def test_a_token_is_good_for_as_long_as_it_says_in_either_way(life: object) -> None:
    conversation = adapter().sign_in("daraja", now=Moment.at(START))
    request = next(conversation)
    assert request.target.endswith(b"/oauth/v1/generate?grant_type=client_credentials")
    assert b64decode((request.value(b"authorization") or b"")[6:]).startswith(
        b"canary-consumer-key:"
    )
    with pytest.raises(StopIteration) as end:
        conversation.send(answering(200, {"access_token": "c9SQ", "expires_in": life})(request))
    assert end.value.value.expires_at == START + 3599 * clock.SECOND


@pytest.mark.parametrize(
    ("status", "document"), [(400, {"errorCode": "400.008.01"}), (200, {}), (500, b"")]
)
def test_a_refused_sign_in_says_so_without_secrets(status: int, document: object) -> None:
    conversation = adapter().sign_in("daraja", now=Moment.at(START))
    request = next(conversation)
    with pytest.raises(SignInFailed) as failure:
        conversation.send(answering(status, document)(request))
    assert "canary" not in str(failure.value)


@pytest.mark.parametrize(
    ("status", "document", "is_fine"),
    [
        (200, {"OriginatorCoversationID": "1", "ResponseCode": "0"}, True),
        (
            200,
            {"ConversationID": "", "OriginatorCoversationID": "", "ResponseDescription": "success"},
            True,
        ),
        (200, {"ResponseCode": "1", "ResponseDescription": "success"}, False),
        (200, {"ResponseDescription": "Cancelled"}, False),
        (500, {"errorCode": "500.003.1001", "errorMessage": "URLs are already registered"}, True),
        (400, {"errorCode": "400.003.02", "errorMessage": "Bad Request"}, False),
    ],
)
def test_addresses_for_deposits_are_registered_once(
    status: int, document: object, is_fine: bool
) -> None:
    conversation = adapter().register_urls()
    request = next(conversation)
    assert json.loads(request.body)["ResponseType"] == "Completed"
    with pytest.raises(StopIteration if is_fine else RegistrationFailed):
        conversation.send(answering(status, document)(request))


NO_PRODUCT = {
    "requestId": "1-1-1",
    "errorCode": "401.003.01",
    "errorMessage": "Error Occurred: Invalid API call as no apiproduct match found",
}
"""Daraja's answer, with 401, where the app has the other version of C2B, or none."""


@pytest.mark.parametrize(
    ("lacks", "accepted"), [((), "v2"), ((b"/c2b/v2/",), "v1"), ((b"/c2b/",), None)]
)
def test_both_versions_of_c2b_are_tried_and_the_accepted_one_is_told(
    lacks: tuple[bytes, ...], accepted: str | None
) -> None:
    def daraja(request: HttpRequest) -> HttpResponse:
        if any(path in request.target for path in lacks):
            return answering(401, NO_PRODUCT)(request)
        return answering(200, {"OriginatorCoversationID": "1", "ResponseCode": "0"})(request)

    if accepted is None:
        with pytest.raises(RegistrationFailed, match="does not have this product: C2B"):
            drive(adapter().register_urls(), daraja)
    else:
        finding = drive(adapter().register_urls(), daraja)
        assert (finding.part, finding.state, finding.code) == ("c2b", AccountState.WORKS, accepted)


def test_a_missing_product_is_no_bad_token_and_fails_a_prompt_at_once() -> None:
    told = answering(401, NO_PRODUCT)
    assert not adapter().rejects_token(told(HttpRequest("POST", b"/")))
    report = submitted("payin", 401, NO_PRODUCT)
    assert isinstance(report, ProviderFailed)
    assert (report.error_code, report.native_code) == (
        ErrorCode.MERCHANT_MISCONFIGURED,
        "401.003.01",
    )
    assert "no apiproduct match" in (report.native_message or "")
    request = HttpRequest("POST", b"https://api.safaricom.co.ke/mpesa/stkpush/v1/processrequest")
    finding = adapter().judge_answer(request, told(request))
    assert finding is not None
    assert (finding.state, finding.held) == (AccountState.REFUSED, (Type.PAYIN,))
    assert "does not have this product" in finding.words


SOAP_FAULT = {
    "Envelope": {
        "encodingStyle": "http://schemas.xmlsoap.org/soap/encoding/",
        "Body": {
            "Fault": {
                "faultcode": "Server",
                "faultstring": "Policy Falsified",
                "faultactor": "http://internal/registerurl",
                "detail": "Error in Assertion Processing",
            }
        },
    }
}
"""A fault of the system behind Daraja, written as JSON."""


def test_a_soap_fault_is_shown() -> None:
    with pytest.raises(RegistrationFailed) as refused:
        drive(adapter().register_urls(), answering(500, SOAP_FAULT))
    assert str(refused.value) == (
        "Daraja answered 500: Policy Falsified: Error in Assertion Processing"
    )


REGISTERED = {"ResponseStatus": "1000", "ResponseDescription": "ShortCode Registered Successfully"}


@pytest.mark.parametrize(
    ("document", "is_fine"),
    [
        (REGISTERED, True),
        ({"Response Status": "1001", "Response Description": "ShortCode already Registered"}, True),
        ({"ResponseStatus": "1001"}, True),
        ({"ResponseStatus": "1002", "ResponseDescription": "Failed"}, False),
        ({"errorCode": "401.002.01", "errorMessage": "Not subscribed"}, False),
    ],
)
def test_the_shortcode_is_registered_for_its_list_as_well(document: object, is_fine: bool) -> None:
    conversation = adapter(pull_number="0722000000").register_urls()
    done = {"ResponseCode": "0", "ResponseDescription": "Success"}
    request = conversation.send(answering(200, done)(next(conversation)))
    assert request.target.endswith(b"/pulltransactions/v1/register")
    told = json.loads(request.body)
    assert (told["ShortCode"], told["RequestType"], told["NominatedNumber"]) == (
        "174379",
        "Pull",
        "254722000000",
    )
    address = parse_callback_url(told["CallBackURL"].encode(), CONSUMER_SECRET.encode())
    assert address is not None
    assert address.kind is MpesaCallbackKind.CONFIRMATION
    with pytest.raises(StopIteration if is_fine else RegistrationFailed):
        conversation.send(answering(200, document)(request))


@pytest.mark.parametrize(
    ("options", "key"),
    [
        ({"shortcode": "12"}, "shortcode"),
        ({"passky": "x"}, "passky"),
        ({"consumer_secret": None}, "consumer_secret"),
        ({"initiator_password": None}, "initiator_password"),
        ({"certificate": "no certificate"}, "certificate"),
        ({"payout_command": "Loan"}, "payout_command"),
        ({"base_url": "ftp://x"}, "base_url"),
        ({"till": "x"}, "till"),
        ({"pull_number": "12"}, "pull_number"),
        ({"pull_number": "0722000000", "till": "600222"}, "pull_number"),
    ],
)
def test_an_option_that_cant_be_used_is_refused_by_its_name(
    options: dict[str, Any], key: str
) -> None:
    with pytest.raises(OptionError) as refusal:
        adapter(**options)
    assert refusal.value.key == key
    assert "canary" not in str(refusal.value)


def test_an_address_that_daraja_would_refuse_is_refused_at_the_start() -> None:
    surroundings = AdapterContext("https://gw.example/hooks/mpesa_ke/token", FixedCiphers())
    with pytest.raises(OptionError, match="mpesa"):
        PROVIDER_KINDS["mpesa_daraja"].open_adapter("mpesa_ke", "M-Pesa", OPTIONS, surroundings)


def test_no_secret_stands_in_a_repr() -> None:
    assert "canary" not in repr(adapter())


def test_every_code_is_of_the_catalogue() -> None:
    meanings = [code for each in RESULT_CODES.values() for code in (each.payin, each.payout)]
    meanings += [
        each.meaning for each in ERROR_RULES if not isinstance(each.meaning, MpesaSubmissionState)
    ]
    assert set(meanings) <= set(ErrorCode)


PAGE = Path(__file__).parents[4] / "docs" / "internals" / "mpesa_daraja.md"


def test_the_page_has_a_line_for_every_code() -> None:
    lines = [
        each for each in PAGE.read_text(encoding="utf-8").splitlines() if each.startswith("| `")
    ]
    codes = [(set(each.removeprefix("| ").split(" | ")[0].split(", ")), each) for each in lines]
    for code, means in RESULT_CODES.items():
        (line,) = (each for named, each in codes if f"`{code}`" in named)
        assert line.endswith(f"| `{means.payin}` | `{means.payout}` |")
    assert {f"`{each.code}`" for each in ERROR_RULES} <= set().union(*(named for named, _ in codes))
