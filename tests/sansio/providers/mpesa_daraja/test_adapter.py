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
    ExchangeFailed,
    RsaPadding,
    drive,
)
from mmo_sansio.providers.mpesa_daraja.adapter import DarajaProvider, RegistrationFailed
from mmo_sansio.providers.mpesa_daraja.callback_url import (
    CallbackContext,
    MpesaCallbackKind,
    parse_callback_url,
)
from mmo_sansio.providers.mpesa_daraja.codes import (
    ERROR_RULES,
    RESULT_CODES,
    MpesaSubmissionState,
)
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
from mmo_sansio.values.clock import HOUR, SECOND, Instant, Moment, later
from mmo_sansio.values.error_codes import ErrorCode
from mmo_sansio.values.fields import SettingsError
from mmo_sansio.values.model import (
    DepositClaim,
    DepositTrust,
    Evidence,
    Flow,
    Stage,
    Transaction,
    Type,
)
from tests.support.answer_rows import Played, Row, read_rows
from tests.support.bodies import documented

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
    changes = {} if items else {"CallbackMetadata": None}
    told: dict[str, Any] = documented("mpesa_daraja", "push", ResultCode=code, **changes)
    if items:
        told["Body"]["stkCallback"]["CallbackMetadata"] = {"Item": list(items)}
    return told


def result_document(code: object, parameters: object = None, **members: Any) -> dict[str, Any]:
    told: dict[str, Any] = documented("mpesa_daraja", "result", ResultParameters=None)
    told["Result"] |= {"ResultCode": code, **members}
    if parameters is not None:
        told["Result"]["ResultParameters"] = {"ResultParameter": parameters}
    return told


TAKEN_PUSH = documented("mpesa_daraja", "push_taken")
TAKEN = documented("mpesa_daraja", "taken")
ANSWERS = Path(__file__).with_name("answers.txt")
RECEIPT = "SKC82PACB8"
REVERSAL: dict[str, Any] = {"reference": f"{REFERENCE}-1", "version": 1}
AT: Mapping[str, Mapping[str, Any]] = {
    "reversal_result": {**REVERSAL, "receipt": RECEIPT},
    "reversal_queue_timeout": REVERSAL,
    "reversal_state": {**REVERSAL, "conversation": "f1e2-4b95-a71d-b30d3cdbb7a7735297"},
}
"""What the addresses of reversals have sealed in them."""
ROWS: Mapping[str, tuple[str, dict[str, Any]]] = {
    **{name: (name, {}) for name in KINDS},
    "prompt": ("payin", {"stage": Stage.AWAITING_RESULT, "provider_reference": "ws_CO_1"}),
    "reversible": ("payin", {"provider_reference": RECEIPT}),
    "unnamed": ("payin", {"provider_reference": "ws_CO_1007202409152617172396192"}),
}


def notified(row: Row, body: bytes) -> HttpRequest:
    """A callback at the sealed address that a row names."""
    kind = row.stage.removeprefix("callback_")
    if kind == "question":
        url = question(now=row.now, **row.members)
    elif kind == "deposit":
        [asked_at] = asked_about_deposit(**row.options)
        url = json.loads(asked_at.body)["ResultURL"]
    else:
        url = to(MpesaCallbackKind[kind.upper()], **AT.get(kind, {}))
    return HttpRequest("POST", url.removeprefix("https://gw.example").encode(), (), body)


def of_row(operation: str, **members: Any) -> Transaction:
    kind, usual = ROWS[operation]
    return payment(kind, **{**usual, **members})


PLAYED = Played("mpesa_daraja", lambda **options: adapter(**options), of_row, notify=notified)


@pytest.mark.parametrize("row", read_rows(ANSWERS))
def test_answers(row: Row) -> None:
    PLAYED.check(row)


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


@pytest.mark.parametrize("kind", ["payin", "web", "payout", "tax", "qr"])
def test_no_callback_address_holds_a_forbidden_word(kind: str) -> None:
    seen: list[HttpRequest] = []
    submitted(kind, 200, {}, seen, gateway_reference="01K5EXECMDSQEXEQERYMPESA00")
    urls = [value.lower() for name, value in body_of(seen).items() if name.endswith("URL")]
    words = ("mpesa", "m-pesa", "safaricom", "exe", "cmd", "sql", "query")
    assert not [word for url in urls for word in words if word in url]


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


@pytest.mark.parametrize(
    ("status", "code"), [(401, "401.002.01"), (404, "404.001.03"), (400, "400.003.01"), (401, "")]
)
def test_a_refused_token_is_known(status: int, code: str) -> None:
    body = json.dumps({"errorCode": code, "errorMessage": "Invalid Access Token"}).encode()
    assert adapter().rejects_token(HttpResponse(status, (), body))
    assert not adapter().rejects_token(HttpResponse(400, (), b'{"errorCode":"400.002.02"}'))
    assert not adapter().rejects_token(
        answering(401, documented("mpesa_daraja", "no_product"))(HttpRequest("POST", b"/"))
    )


# What questions come to.


@pytest.mark.parametrize("code", sorted(RESULT_CODES))
@pytest.mark.spec("E1")
def test_every_result_code_of_a_push(code: str) -> None:
    waiting = payment(stage=Stage.AWAITING_RESULT, provider_reference="ws_CO_1")
    document = {**TAKEN_PUSH, "ResultCode": code, "ResultDesc": "text"}
    report = asked(waiting, 200, document)
    assert isinstance(report, ProviderFailed)
    assert (report.error_code, report.native_code) == (RESULT_CODES[code].payin, code)


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


@pytest.mark.spec("S6")
def test_a_payout_is_asked_about_by_its_own_id_or_by_the_one_daraja_gave_it() -> None:
    for known_as, asked_by in ((None, REFERENCE), ("other-1", "other-1")):
        seen: list[HttpRequest] = []
        report = asked(payment("payout", provider_reference=known_as), 200, TAKEN, seen=seen)
        assert body_of(seen)["OriginalConversationID"] == asked_by
        assert isinstance(report, ProviderUnreachable)
        assert report.is_answered_later, "it tells by a callback"


def question(*, now: Instant = START, **members: Any) -> str:
    """Where the answer to a question about a pay-out shall be told."""
    seen: list[HttpRequest] = []
    asked(payment("payout", **members), 200, TAKEN, seen=seen, now=now)
    url: str = body_of(seen)["ResultURL"]
    return url


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
def test_not_found_names_the_submission_and_the_question() -> None:
    asked_at = later(START, HOUR)
    told = adapter().read_notification(callback(question(now=asked_at), result_document(2032)))
    assert told == ProviderNeverReceived(REFERENCE, "kenya", 2, asked_at=asked_at)


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


def deposit_document(**members: Any) -> dict[str, Any]:
    found: dict[str, Any] = documented("mpesa_daraja", "deposit", **members)
    return found


@pytest.mark.spec("S4")
def test_a_confirmation_is_answered_once_it_is_stored() -> None:
    request = callback(to(MpesaCallbackKind.CONFIRMATION), deposit_document())
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


def test_a_confirmation_is_asked_about_by_its_receipt_at_a_sealed_address() -> None:
    [question] = asked_about_deposit()
    sent = json.loads(question.body)
    assert question.target.endswith(b"/mpesa/transactionstatus/v1/query")
    assert (
        sent.items()
        >= {
            "TransactionID": "RKL51ZDR4F",
            "PartyA": 174379,
            "IdentifierType": "4",
            "Initiator": "testapi",
            "SecurityCredential": "ZHJvd3NzYXAteXJhbmFj",
        }.items()
    )
    assert sent["ResultURL"] == sent["QueueTimeOutURL"] != to(MpesaCallbackKind.CONFIRMATION)
    document = documented("mpesa_daraja", "deposit_state")
    forged = callback(sent["ResultURL"][:-2] + "00", document)
    assert isinstance(adapter().read_notification(forged), UnmatchedNotified)
    told = adapter().read_notification(callback(sent["ResultURL"], document))
    assert isinstance(told, DepositAnswer)
    assert (told.provider, told.receipt) == ("kenya", "RKL51ZDR4F")


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
        with pytest.raises(SettingsError) as caught:
            adapter(**options)
        assert caught.value.location == "deposits"
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


def test_a_token_is_asked_for_with_the_keys_of_the_app() -> None:
    request = next(adapter().sign_in("daraja", now=Moment.at(START)))
    assert request.target.endswith(b"/oauth/v1/generate?grant_type=client_credentials")
    authorization = request.value(b"authorization") or b""
    assert b64decode(authorization[6:]).startswith(b"canary-consumer-key:")


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


@pytest.mark.parametrize(
    ("lacks", "accepted"), [((), "v2"), ((b"/c2b/v2/",), "v1"), ((b"/c2b/",), None)]
)
def test_both_versions_of_c2b_are_tried_and_the_accepted_one_is_told(
    lacks: tuple[bytes, ...], accepted: str | None
) -> None:
    def daraja(request: HttpRequest) -> HttpResponse:
        if any(path in request.target for path in lacks):
            return answering(401, documented("mpesa_daraja", "no_product"))(request)
        return answering(200, {"OriginatorCoversationID": "1", "ResponseCode": "0"})(request)

    if accepted is None:
        with pytest.raises(RegistrationFailed, match="does not have this product: C2B"):
            drive(adapter().register_urls(), daraja)
    else:
        finding = drive(adapter().register_urls(), daraja)
        assert (finding.part, finding.state, finding.code) == ("c2b", AccountState.WORKS, accepted)


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
    with pytest.raises(SettingsError) as refusal:
        adapter(**options)
    assert refusal.value.location == key
    assert "canary" not in str(refusal.value)


def test_an_address_that_daraja_would_refuse_is_refused_at_the_start() -> None:
    surroundings = AdapterContext("https://gw.example/hooks/mpesa_ke/token", FixedCiphers())
    with pytest.raises(SettingsError, match="mpesa"):
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
