"""M-Pesa's reversals: what is sent, what answers and results come to, by the bodies of M-Pesa's own
pages."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.messages.inputs import UnmatchedNotified
from mmo_sansio.messages.reversals import (
    ReversalAccepted,
    ReversalCannotTell,
    ReversalFailed,
    ReversalNeverReceived,
    ReversalReport,
    ReversalSucceeded,
    ReversalUnreachable,
)
from mmo_sansio.providers.common.interface import AccountState, ExchangeFailed
from mmo_sansio.providers.common.operations import DIRECT_PAYIN, PUSH, QR_PAYIN, WEB_PAYIN
from mmo_sansio.providers.mpesa_daraja.callback_url import MpesaCallbackKind
from mmo_sansio.providers.mpesa_daraja.reversals import REFUSALS
from mmo_sansio.testing import REFERENCE, START
from mmo_sansio.values.clock import HOUR, SECOND, Moment
from mmo_sansio.values.model import Source, Stage
from mmo_sansio.values.money import Money
from tests.sansio.providers.mpesa_daraja.test_adapter import (
    OPTIONS,
    PAGE,
    adapter,
    callback,
    payment,
    to,
)
from tests.support.reversals import LOST, UNSENT, a_reversal, json_answer, reversal_report

RECEIPT = "SKC82PACB8"
PAYMENT = payment(stage=Stage.SUCCEEDED, provider_reference=RECEIPT)
ID = f"{REFERENCE}-1"
TAKEN = {
    "OriginatorConversationID": "f1e2-4b95-a71d-b30d3cdbb7a7735297",
    "ConversationID": "AG_20210706_20106e9209f64bebd05b",
    "ResponseCode": "0",
    "ResponseDescription": "Accept the service request successfully.",
}
CONVERSATION = TAKEN["OriginatorConversationID"]
REFERENCE_DATA = {
    "ReferenceItem": {
        "Key": "QueueTimeoutURL",
        "Value": "https://internalsandbox.safaricom.co.ke/mpesa/reversalresults/v1/submit",
    }
}
AT_RESULT = to(MpesaCallbackKind.REVERSAL_RESULT, reference=ID, version=1, receipt=RECEIPT)
AT_STATE = to(MpesaCallbackKind.REVERSAL_STATE, reference=ID, conversation=CONVERSATION)


def done(**changed: Any) -> dict[str, Any]:
    """The successful callback of M-Pesa's page, of our amount."""
    parameters = {
        "DebitAccountBalance": "Utility Account|KES|7722179.62|7722179.62|0.00|0.00",
        "Amount": 150.00,
        "TransCompletedTime": 20211114132711,
        "OriginalTransactionID": RECEIPT,
        "Charge": 0.00,
        "CreditPartyPublicName": "254705912645 - NICHOLAS JOHN SONGOK",
        "DebitPartyPublicName": "600992 - Safaricom Daraja 992",
        **changed.pop("parameters", {}),
    }
    items = [{"Key": key, "Value": value} for key, value in parameters.items() if value is not None]
    result = {
        "ResultType": 0,
        "ResultCode": 0,
        "ResultDesc": "The service request is processed successfully.",
        "OriginatorConversationID": "dad6-4c34-8787-c8cb963a496d1268232",
        "ConversationID": "AG_20211114_201018edbbf9f1582eaa",
        "TransactionID": "SKE52PAWR9",
        "ResultParameters": {"ResultParameter": items},
        "ReferenceData": REFERENCE_DATA,
        **changed,
    }
    return {"Result": result}


def refused(code: object = "R000002", **changed: Any) -> dict[str, Any]:
    """The unsuccessful callback of M-Pesa's page."""
    result = {
        "ResultType": 0,
        "ResultCode": code,
        "ResultDesc": "The OriginalTransactionID is invalid.",
        "OriginatorConversationID": "3124-481d-b706-10bdd6fbc8e21792398",
        "ConversationID": "AG_20211114_2010573069aefb6b625a",
        "TransactionID": "SKE0000000",
        "ReferenceData": REFERENCE_DATA,
    }
    return {"Result": {**result, **changed}}


def a_state(state: str | None, code: object = 0, **changed: Any) -> dict[str, Any]:
    """The answer to a question, in the form of the page on Transaction Status."""
    named = {"OriginatorConversationID": CONVERSATION, "ReceiptNo": "SKE52PAWR9"}
    parameters = {"TransactionStatus": state, "Amount": "150", **named, **changed}
    items = [{"Key": key, "Value": value} for key, value in parameters.items() if value is not None]
    result = {
        "ResultType": 0,
        "ResultCode": code,
        "ResultDesc": "As told.",
        "TransactionID": "MBN0000000",
    }
    return {"Result": {**result, "ResultParameters": {"ResultParameter": items}}}


def sent(answer: HttpResponse | ExchangeFailed) -> ReversalReport:
    return reversal_report(
        adapter().reverse(a_reversal(PAYMENT), PAYMENT, now=Moment.at(START)), answer
    )[0]


def told(url: str, document: object) -> object:
    return adapter().read_notification(callback(url, document))


@pytest.mark.spec("S6")
def test_a_reversal_is_what_the_page_on_reversals_shows() -> None:
    conversation = adapter().reverse(a_reversal(PAYMENT), PAYMENT, now=Moment.at(START))
    report, (request,) = reversal_report(conversation, json_answer(200, TAKEN))
    assert report == ReversalAccepted(ID, "kenya", Source.POLL, CONVERSATION, version=1)
    assert request.target == b"https://sandbox.safaricom.co.ke/mpesa/reversal/v1/request"
    document = json.loads(request.body)
    assert (
        document.pop("QueueTimeOutURL").rpartition("/")[0]
        == document["ResultURL"].rpartition("/")[0]
    )
    assert told(document.pop("ResultURL"), done()) == ReversalSucceeded(
        ID, "kenya", Source.WEBHOOK, "SKE52PAWR9", Money(15_000, "KES"), version=1
    )
    assert document == {
        "Initiator": OPTIONS["initiator"],
        "SecurityCredential": document["SecurityCredential"],
        "CommandID": "TransactionReversal",
        "TransactionID": RECEIPT,
        "Amount": 150,
        "ReceiverParty": 174379,
        "RecieverIdentifierType": "11",
        "Remarks": ID,
    }


@pytest.mark.spec("S6")
@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (json_answer(200, {**TAKEN, "ResponseCode": "1"}), ReversalUnreachable),
        (json_answer(200, {}), ReversalUnreachable),
        (HttpResponse(200, (), b"<html>Oops"), ReversalUnreachable),
        (HttpResponse(503, (), b"<html>Oops"), ReversalUnreachable),
        (
            json_answer(
                500, {"errorCode": "500.001.1001", "errorMessage": "Internal Server Error"}
            ),
            ReversalUnreachable,
        ),
        (
            json_answer(500, {"errorCode": "500.003.1001", "errorMessage": "Internal"}),
            ReversalUnreachable,
        ),
        (
            json_answer(500, {"errorCode": "500.003.02", "errorMessage": "Spike Arrest"}),
            ReversalNeverReceived,
        ),
        (
            json_answer(500, {"errorCode": "500.003.03", "errorMessage": "Quota"}),
            ReversalNeverReceived,
        ),
        (
            json_answer(404, {"errorCode": "404.001.03", "errorMessage": "Invalid Access Token"}),
            ReversalNeverReceived,
        ),
        (json_answer(429), ReversalNeverReceived),
        (
            json_answer(404, {"errorCode": "404.001.01", "errorMessage": "Resource not found"}),
            ReversalFailed,
        ),
        (LOST, ReversalUnreachable),
        (UNSENT, ReversalNeverReceived),
    ],
)
def test_an_answer_to_a_reversal_is_read_as_that_to_any_submission(
    answer: HttpResponse | ExchangeFailed, expected: type
) -> None:
    assert isinstance(sent(answer), expected)


def test_a_refused_request_says_why() -> None:
    error = {
        "requestId": "94fc",
        "errorCode": "400.002.02",
        "errorMessage": "Bad Request - Invalid TransactionID",
    }
    report = sent(json_answer(400, error))
    words = "Daraja has refused it. Bad Request - Invalid TransactionID"
    assert report == ReversalFailed(ID, "kenya", Source.POLL, words, "400.002.02", version=1)


@pytest.mark.spec("S6")
def test_what_m_pesa_cannot_take_is_not_sent() -> None:
    unknown = payment(stage=Stage.SUCCEEDED, provider_reference="ws_CO_1007202409152617172396192")
    cents = a_reversal(PAYMENT, amount=Money(15_050, "KES"))
    other_shortcode = adapter(deposits="trust", payout_shortcode="600997", merchant_name=None)
    for provider, reversal, paid in (
        (adapter(), a_reversal(unknown), unknown),
        (adapter(), cents, PAYMENT),
        (other_shortcode, a_reversal(PAYMENT), PAYMENT),
    ):
        report, requests = reversal_report(provider.reverse(reversal, paid, now=Moment.at(START)))
        assert isinstance(report, ReversalFailed)
        assert requests == []
    assert other_shortcode.reversal_operations == {}


def test_all_that_was_paid_to_the_shortcode_can_be_reversed_and_whole() -> None:
    operations = adapter().reversal_operations
    assert operations.keys() == {DIRECT_PAYIN, WEB_PAYIN, QR_PAYIN, PUSH}
    assert not any(each.can_be_partial for each in operations.values())


@pytest.mark.spec("S5")
@pytest.mark.parametrize("code", sorted(REFUSALS))
@pytest.mark.parametrize("as_number", [False, True])
def test_each_documented_refusal_ends_a_reversal(code: str, as_number: bool) -> None:
    given: object = int(code) if as_number and code.isdigit() else code
    assert told(AT_RESULT, refused(given)) == ReversalFailed(
        ID,
        "kenya",
        Source.WEBHOOK,
        REFUSALS[code],
        code,
        lacks_float=code == "1",
        version=1,
    )


def test_the_page_has_each_refusal() -> None:
    text = PAGE.read_text(encoding="utf-8")
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    listed = {
        code.strip("` "): row[0] for row in rows if len(row) == 2 for code in row[1].split(",")
    }
    assert listed.items() >= REFUSALS.items()


@pytest.mark.spec("S5", "S6")
@pytest.mark.parametrize(
    "document",
    [
        *(
            refused("17"),
            refused("26"),
            refused("SOMETHING_NEW"),
            refused(1, TransactionID="SKE52PAWR9"),
        ),
        done(TransactionID="SKE0000000"),
        *(done(parameters={name: None}) for name in ("Amount", "OriginalTransactionID")),
    ],
    ids=["17", "26", "new", "with a receipt", "no receipt", "no amount", "no payment"],
)
def test_a_result_that_proves_nothing_causes_a_question_by_its_own_id(
    document: dict[str, Any],
) -> None:
    known_as = document["Result"]["OriginatorConversationID"]
    assert told(AT_RESULT, document) == ReversalAccepted(
        ID, "kenya", Source.WEBHOOK, known_as, SECOND, version=1
    )


@pytest.mark.spec("S5")
@pytest.mark.parametrize(
    "document",
    [
        done(parameters={"Amount": 151}),
        done(parameters={"OriginalTransactionID": "SKC82PACB9"}),
        {"Result": {}},
        {},
    ],
)
def test_a_result_of_another_payment_or_amount_is_left_to_a_person(
    document: dict[str, Any],
) -> None:
    assert isinstance(told(AT_RESULT, document), UnmatchedNotified)


@pytest.mark.spec("S5")
def test_a_result_at_an_address_that_is_not_ours_is_not_read() -> None:
    forged = f"{AT_RESULT.rpartition('/')[0]}/{'00' * 60}"
    assert isinstance(told(forged, done()), UnmatchedNotified)


@pytest.mark.spec("S6")
def test_a_queue_timeout_is_no_refusal() -> None:
    url = to(MpesaCallbackKind.REVERSAL_QUEUE_TIMEOUT, reference=ID, version=1)
    for document in (refused(1, ResultType=1), {}):
        assert told(url, document) == ReversalAccepted(
            ID, "kenya", Source.WEBHOOK, poll_after=SECOND, version=1
        )


@pytest.mark.spec("S6")
def test_a_reversal_is_asked_about_by_daraja_s_id_and_answered_by_a_callback() -> None:
    known = a_reversal(PAYMENT, provider_reference=CONVERSATION, is_accepted=True)
    conversation = adapter().poll_reversal(known, PAYMENT, now=Moment.at(START))
    report, (request,) = reversal_report(conversation, json_answer(200, TAKEN))
    assert report == ReversalAccepted(ID, "kenya", Source.POLL, version=1)
    document = json.loads(request.body)
    assert request.target.endswith(b"/mpesa/transactionstatus/v1/query")
    assert (document["OriginalConversationID"], document["PartyA"]) == (CONVERSATION, 174379)
    assert "TransactionID" not in document
    found = told(document["ResultURL"], a_state("Completed"))
    assert found == ReversalSucceeded(
        ID, "kenya", Source.POLL, "SKE52PAWR9", Money(15_000, "KES"), version=1
    )
    for answer in (json_answer(500), LOST, HttpResponse(200, (), b"<html>Oops")):
        conversation = adapter().poll_reversal(known, PAYMENT, now=Moment.at(START))
        assert isinstance(reversal_report(conversation, answer)[0], ReversalUnreachable)


@pytest.mark.spec("S6")
def test_a_reversal_without_daraja_s_id_can_be_asked_about_by_nothing() -> None:
    conversation = adapter().poll_reversal(a_reversal(PAYMENT), PAYMENT, now=Moment.at(START))
    assert reversal_report(conversation) == (ReversalCannotTell(ID, "kenya", version=1), [])


@pytest.mark.spec("S6")
@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (a_state("Completed"), ReversalSucceeded),
        (a_state("Authorized"), ReversalAccepted),
        (a_state("Declined"), ReversalFailed),
        (a_state("Cancelled"), ReversalFailed),
        (a_state("Expired"), ReversalFailed),
        (a_state("Failed"), ReversalFailed),
        (a_state("Completed", 21), ReversalUnreachable),
        (a_state(None), ReversalUnreachable),
        (a_state(None, 2032), ReversalUnreachable),
        (a_state(None, "SFC_IC0003"), ReversalUnreachable),
        (a_state("Completed", OriginatorConversationID="other"), UnmatchedNotified),
        (a_state("Completed", OriginatorConversationID=None), UnmatchedNotified),
        (a_state("Completed", Amount="151"), UnmatchedNotified),
    ],
)
def test_an_answer_to_a_question_ends_a_reversal_by_its_final_state_only(
    document: dict[str, Any], expected: type
) -> None:
    found = told(AT_STATE, document)
    assert isinstance(found, expected)
    if isinstance(found, ReversalUnreachable):
        assert found.poll_after == HOUR


def test_results_of_reversals_tell_of_their_own_role() -> None:
    provider = adapter()
    conversation = provider.reverse(a_reversal(PAYMENT), PAYMENT, now=Moment.at(START))
    _, (request,) = reversal_report(conversation, json_answer(200, TAKEN))
    url = json.loads(request.body)["ResultURL"]
    finding = provider.read_finding(callback(url, refused("21")))
    assert finding is not None
    assert (finding.part, finding.state, finding.stopped_credential) == (
        "reversals",
        AccountState.REFUSED,
        "",
    )
    assert "Org Reversals Initiator" in finding.words
    works = provider.read_finding(callback(url, done()))
    assert works is not None
    assert (works.part, works.state) == ("reversals", AccountState.WORKS)
    wrong = provider.read_finding(callback(url, refused("2001")))
    assert wrong is not None
    assert wrong.stopped_credential == ""


def test_the_credential_of_a_reversal_is_known() -> None:
    provider = adapter()
    conversation = provider.reverse(a_reversal(PAYMENT), PAYMENT, now=Moment.at(START))
    _, (request,) = reversal_report(conversation, json_answer(200, TAKEN))
    assert isinstance(request, HttpRequest)
    assert provider.credential_of(request) == provider.account.reverser.credential != ""
