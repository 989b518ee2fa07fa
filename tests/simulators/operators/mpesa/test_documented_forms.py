"""The simulated M-Pesa takes what the operator's own pages show, and answers and calls back in
their forms."""

from __future__ import annotations

import base64
import json
import re
import urllib.error
import urllib.request
from typing import Any

import pytest
import trio

from mmo_sansio.http.messages import HttpResponse
from tests.support.bodies import documented
from tests.support.emv_qr_reader import parse_objects, parse_payload
from tests.support.mpesa_stage import (
    DEPOSIT,
    PUSH,
    REGISTRATION,
    Stage,
    credential,
    payout,
    plan,
    told,
)
from tests.support.png import parse_png
from tests.support.qr_reader import read_qr_rows

PUSHED = "/mpesa/stkpush/v1/processrequest"
BALANCE = "{{Amount={{CurrencyCode=KES, MinimumAmount={minor}, BasicAmount={text}}}}}"


async def initiated(stage: Stage, path: str, **members: Any) -> tuple[int, Any]:
    """Send a request of the API operator testapi."""
    document = {
        "Initiator": "testapi",
        "SecurityCredential": await credential(stage),
        "PartyA": 600997,
        "Remarks": "OK",
        "QueueTimeOutURL": "https://gw.example.com/mpesa/timeout",
        "ResultURL": "https://gw.example.com/mpesa/result",
        **members,
    }
    return await stage.post(path, document)


async def result(stage: Stage) -> Any:
    """The result of the only callback that came."""
    await stage.pass_time(3)
    (request,) = stage.told
    stage.told.clear()
    return told(request)["Result"]


def parameters(found: Any) -> dict[str, Any]:
    items = found["ResultParameters"]["ResultParameter"]
    return {each["Key"]: each.get("Value") for each in items}


def documented_names(name: str) -> list[str]:
    """The names of the parameters in a result of Daraja's pages, in their order."""
    return [*parameters(documented("mpesa_daraja", name)["Result"])]


async def pushed(stage: Stage, **members: Any) -> Any:
    """The callback of a push that has ended."""
    status, answer = await stage.post(PUSHED, {**PUSH, **members})
    assert status == 200, answer
    await stage.pass_time(3)
    (request,) = stage.told
    stage.told.clear()
    return told(request)["Body"]["stkCallback"]


QR = {
    "MerchantName": "TEST SUPERMARKET",
    "RefNo": "Invoice Test",
    "Amount": 1,
    "TrxCode": "BG",
    "CPI": "373132",
}


@pytest.mark.parametrize("size", [100, 300, 500])
async def test_a_dynamic_qr_code_is_a_picture_of_its_size_that_pays_what_was_asked_for(
    stage: Stage,
    size: int,
) -> None:
    status, answer = await stage.post("/mpesa/qrcode/v1/generate", {**QR, "Size": str(size)})
    assert status == 200
    rows = parse_png(base64.b64decode(answer["QRCode"], validate=True))
    assert len(rows) == len(rows[0]) == size
    objects = parse_payload(read_qr_rows(rows))
    assert (objects["54"], objects["53"], objects["59"]) == ("1.00", "404", "TEST SUPERMARKET")
    assert parse_objects(objects["28"])["01"] == "373132"
    assert parse_objects(objects["62"])["01"] == "Invoice Test"


async def test_a_tax_result_is_text_and_names_its_registration_number(stage: Stage) -> None:
    status, _ = await initiated(
        stage,
        "/mpesa/b2b/v1/remittax",
        CommandID="PayTaxToKRA",
        SenderIdentifierType="4",
        RecieverIdentifierType="4",
        Amount="239",
        PartyB="572572",
        AccountReference="353353",
    )
    assert status == 200
    found = await result(stage)
    assert (found["ResultType"], found["ResultCode"]) == ("0", "0")
    told = parameters(found)
    assert [*told] == documented_names("tax_result")
    left = BALANCE.format(minor="99976100", text="999761.00")
    assert told["DebitAccountBalance"] == told["InitiatorAccountCurrentBalance"] == left
    account = "Utility Account|KES|999761.00|999761.00|0.00|0.00"
    assert told["DebitPartyAffectedAccountBalance"] == account
    assert (told["Amount"], told["ReceiverPartyPublicName"]) == ("239.00", "572572 - JANE DOE")
    completed = told["TransCompletedTime"]
    assert (len(completed), completed.isdigit()) == (14, True)
    assert found["ReferenceData"]["ReferenceItem"] == [
        {"Key": "BillReferenceNumber", "Value": "353353"},
        {"Key": "QueueTimeoutURL", "Value": "https://gw.example.com/mpesa/timeout"},
    ]


async def test_a_payout_result_has_the_eight_parameters(stage: Stage) -> None:
    assert (await payout(stage))[0] == 200
    found = await result(stage)
    told = parameters(found)
    assert [*told] == documented_names("result")
    assert re.fullmatch(r"\d\d\.\d\d\.\d{4} \d\d:\d\d:\d\d", told["TransactionCompletedDateTime"])
    assert told["TransactionReceipt"] == found["TransactionID"]
    assert (told["TransactionAmount"], told["B2CRecipientIsRegisteredCustomer"]) == (100, "Y")
    assert told["ReceiverPartyPublicName"] == "254708374149 - JANE DOE"
    funds = [told[name] for name in told if name.endswith("AvailableFunds")]
    assert funds == [999_900.0, 0.0, 0.0]


STATUS = {"CommandID": "TransactionStatusQuery", "IdentifierType": "4"}
STATUS_PATH = "/mpesa/transactionstatus/v1/query"


async def test_a_status_result_has_the_thirteen_parameters(stage: Stage) -> None:
    paid = await pushed(stage)
    receipt = next(
        each["Value"] for each in paid["CallbackMetadata"]["Item"] if "Receipt" in each["Name"]
    )
    about = {"PartyA": 174379, "TransactionID": receipt, "Occasion": "OK"}
    assert (await initiated(stage, STATUS_PATH, **STATUS, **about))[0] == 200
    found = await result(stage)
    told = parameters(found)
    assert [*told] == documented_names("state")
    assert told["DebitPartyName"] == "254708374149 - JANE DOE"
    assert told["CreditPartyName"] == "174379 - TEST SHOP"
    assert (told["Amount"], told["DebitPartyCharges"]) == ("1", "")
    assert (told["TransactionStatus"], told["ReceiptNo"]) == ("Completed", receipt)
    without = [each for each in found["ResultParameters"]["ResultParameter"] if "Value" not in each]
    assert without == [{"Key": "TransactionReason"}]
    assert found["ReferenceData"] == {"ReferenceItem": {"Key": "Occasion", "Value": "OK"}}


@pytest.mark.parametrize(
    "url", ["https://pay.example.com/mpesa/stk/query", "https://mydomain.com/mpesa-express/"]
)
async def test_words_are_forbidden_only_in_registered_urls(stage: Stage, url: str) -> None:
    assert (await pushed(stage, CallBackURL=url))["ResultCode"] == 0
    assert (await payout(stage, ResultURL=url, QueueTimeOutURL=url))[0] == 200
    status, answer = await stage.post(
        "/mpesa/c2b/v2/registerurl", {**REGISTRATION, "ValidationURL": url}
    )
    assert (status, answer["errorMessage"]) == (400, "Bad Request - Invalid ValidationURL")


async def test_another_telephone_than_the_payers_can_be_prompted(stage: Stage) -> None:
    accounts = {
        "accounts": [
            {"account": "254722111111"},
            {"account": "254722000000", "balance": "10.00"},
        ]
    }
    await stage.call("POST", "/_simulator/accounts", accounts)
    paid = await pushed(stage, PartyA=254722000000, PhoneNumber=254722111111)
    assert {"Name": "PhoneNumber", "Value": 254722111111} in paid["CallbackMetadata"]["Item"]
    assert await stage.balance("254722000000") == "9.00"
    status, answer = await stage.post(PUSHED, {**PUSH, "PhoneNumber": 254722999999})
    assert (status, answer["errorMessage"]) == (400, "Bad Request - Invalid PhoneNumber")


@pytest.mark.parametrize(
    ("command", "kind"),
    [("CustomerPayBillOnline", "Pay Bill"), ("CustomerBuyGoodsOnline", "Buy Goods")],
)
async def test_a_deposit_is_validated_and_confirmed_under_one_receipt(
    stage: Stage, command: str, kind: str
) -> None:
    verdict = {"ResultCode": "0", "ResultDesc": "Accepted", "ThirdPartyTransID": "1234567890"}
    stage.heard = lambda request: HttpResponse(200, (), json.dumps(verdict).encode())
    await stage.call(
        "POST", "/_simulator/accounts", {"accounts": [{"account": "174379", "validates": True}]}
    )
    assert (await stage.post("/mpesa/c2b/v2/registerurl", REGISTRATION))[0] == 200
    deposit = {
        **DEPOSIT,
        "CommandID": command,
        "BillRefNumber": None if "Goods" in command else "ACC-1",
    }
    status, answer = await stage.post("/mpesa/c2b/v2/simulate", deposit)
    assert status == 200
    assert answer.keys() == {"OriginatorCoversationID", "ResponseCode", "ResponseDescription"}
    await stage.pass_time(2)
    asked, confirmed = (told(each) for each in stage.told)
    (paid,) = (await stage.book())["payments"]
    assert asked["TransID"] == confirmed["TransID"] == paid["receipt"]
    assert (asked["ThirdPartyTransID"], confirmed["ThirdPartyTransID"]) == ("", "1234567890")
    assert (asked["OrgAccountBalance"], confirmed["OrgAccountBalance"]) == ("", "5.00")
    assert asked["TransactionType"] == confirmed["TransactionType"] == kind


def token_response(
    stage: Stage, authorization: str, query: str = "grant_type=client_credentials"
) -> tuple[int, bytes]:
    url = f"{stage.origin}/oauth/v1/generate?{query}"
    try:
        with urllib.request.urlopen(
            urllib.request.Request(url, headers={"Authorization": authorization})
        ) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def basic(key: str, secret: str) -> str:
    return "Basic " + base64.b64encode(f"{key}:{secret}".encode()).decode()


async def test_wrong_keys_are_answered_by_an_empty_400_and_only_a_wrong_type_by_its_code(
    stage: Stage,
) -> None:
    assert await trio.to_thread.run_sync(token_response, stage, basic("consumer-key", "wrong")) == (
        400,
        b"",
    )
    status, body = await trio.to_thread.run_sync(token_response, stage, "Bearer consumer-key")
    assert (status, json.loads(body)["errorCode"]) == (400, "400.008.01")


async def test_schemes_are_read_in_any_case_and_further_parameters_are_ignored(
    stage: Stage,
) -> None:
    pair = basic("consumer-key", "consumer-secret").replace("Basic", "basic")
    query = "grant_type=client_credentials&x=1"
    status, body = await trio.to_thread.run_sync(token_response, stage, pair, query)
    assert status == 200
    token = json.loads(body)["access_token"]
    assert (await stage.call("POST", PUSHED, PUSH, Authorization=f"bearer {token}"))[0] == 200


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"TransactionDesc": "Lipa na mpesa online"}, "TransactionDesc"),
        ({"AccountReference": "Order-2024-0"}, "AccountReference"),
    ],
)
async def test_documented_limits_of_a_push_are_kept(
    stage: Stage, changed: dict[str, str], named: str
) -> None:
    status, answer = await stage.post(PUSHED, {**PUSH, **changed})
    assert (status, answer["errorMessage"]) == (400, f"Bad Request - Invalid {named}")


async def test_remarks_may_have_one_character_except_where_two_are_documented(stage: Stage) -> None:
    assert (await initiated(stage, STATUS_PATH, **STATUS, TransactionID="SIM0000009", Remarks="x"))[
        0
    ] == 200
    status, answer = await payout(stage, Remarks="x")
    assert (status, answer["errorMessage"]) == (400, "Bad Request - Invalid Remarks")


async def test_an_empty_optional_id_is_as_none(stage: Stage) -> None:
    assert (await payout(stage))[0] == 200
    receipt = (await result(stage))["TransactionID"]
    status, answer = await initiated(
        stage,
        STATUS_PATH,
        **STATUS,
        TransactionID=receipt,
        OriginalConversationID="",
        Occasion="",
    )
    assert status == 200, answer
    assert parameters(await result(stage))["ReceiptNo"] == receipt


BALANCE_PATH = "/mpesa/accountbalance/v1/query"


async def test_the_balance_is_that_of_the_book(stage: Stage) -> None:
    assert (await payout(stage))[0] == 200
    await result(stage)
    status, answer = await initiated(
        stage, BALANCE_PATH, CommandID="AccountBalance", IdentifierType="4"
    )
    assert (status, answer["ResponseCode"]) == (200, "0")
    found = await result(stage)
    accounts = parameters(found)["AccountBalance"].split("&")
    assert [each.split("|")[0] for each in accounts] == [
        "Working Account",
        "Float Account",
        "Utility Account",
        "Charges Paid Account",
        "Organization Settlement Account",
    ]
    assert accounts[2] == "Utility Account|KES|999900.00|999900.00|0.00|0.00"
    assert len(parameters(found)["BOCompletedTime"]) == 14
    await initiated(
        stage, BALANCE_PATH, CommandID="AccountBalance", IdentifierType="4", Initiator="nobody"
    )
    assert (await result(stage))["ResultCode"] == 2001


async def reversed_(stage: Stage, receipt: str, amount: int = 1, **members: Any) -> Any:
    status, answer = await initiated(
        stage,
        "/mpesa/reversal/v1/request",
        CommandID="TransactionReversal",
        TransactionID=receipt,
        Amount=str(amount),
        ReceiverParty="174379",
        RecieverIdentifierType="11",
        **members,
    )
    assert (status, answer["ResponseCode"]) == (200, "0")
    return await result(stage)


async def test_a_reversal_gives_the_money_back_once_and_whole(stage: Stage) -> None:
    await pushed(stage)
    (paid,) = (await stage.book())["payments"]
    assert (await reversed_(stage, paid["receipt"], Initiator="nobody"))["ResultCode"] == "2001"
    assert (await reversed_(stage, paid["receipt"], amount=2))["ResultCode"] == "R000002"
    found = await reversed_(stage, paid["receipt"])
    assert [*parameters(found)] == documented_names("reversed")
    assert (found["ResultCode"], parameters(found)["OriginalTransactionID"]) == (
        "0",
        paid["receipt"],
    )
    assert (
        parameters(found).items()
        >= {
            "DebitAccountBalance": "Utility Account|KES|0.00|0.00|0.00|0.00",
            "Amount": "1.00",
            "Charge": "0.00",
            "CreditPartyPublicName": "254708374149 - JANE DOE",
            "DebitPartyPublicName": "174379 - TEST SHOP",
        }.items()
    )
    assert await stage.balance("254708374149") == "100000.00"
    assert await stage.balance("174379") == "0.00"
    assert (await reversed_(stage, paid["receipt"]))["ResultCode"] == "R000001"
    assert (await reversed_(stage, "SIM9999999"))["ResultCode"] == "R000002"
    assert await stage.balance("174379") == "0.00"
    kinds = [(each["kind"], each["result"]) for each in (await stage.book())["payments"]]
    assert kinds.count(("reversal", "success")) == 1


async def test_a_reversal_is_refused_when_money_or_time_has_run_out(stage: Stage) -> None:
    await pushed(stage)
    (paid,) = (await stage.book())["payments"]
    shop = {"account": "174379", "balance": "0.50", "reversible_for_s": 60}
    assert (await stage.call("POST", "/_simulator/accounts", {"accounts": [shop]}))[0] == 200
    assert (await reversed_(stage, paid["receipt"]))["ResultCode"] == "1"
    await stage.pass_time(61)
    assert (await reversed_(stage, paid["receipt"]))["ResultCode"] == "R000002"
    assert await stage.balance("254708374149") == "99999.00"


async def test_a_lost_answer_reverses_and_the_state_is_asked_by_the_ids_of_the_result(
    stage: Stage,
) -> None:
    await pushed(stage)
    (paid,) = (await stage.book())["payments"]
    await plan(stage, {"at": "reversal", "do": "lose_answer"})
    with pytest.raises(OSError):
        await reversed_(stage, paid["receipt"])
    found = await result(stage)
    assert found["ResultCode"] == "0"
    for about in (
        {"OriginalConversationID": found["OriginatorConversationID"]},
        {"TransactionID": found["TransactionID"]},
    ):
        assert (await initiated(stage, STATUS_PATH, **STATUS, **about))[0] == 200
        state = parameters(await result(stage))
        assert (state["TransactionStatus"], state["ReceiptNo"]) == (
            "Completed",
            found["TransactionID"],
        )
        assert state["ReasonType"] == "Transaction Reversal via API"
    assert await stage.balance("254708374149") == "100000.00"


async def test_a_payout_cannot_be_reversed(stage: Stage) -> None:
    await payout(stage)
    receipt = (await result(stage))["TransactionID"]
    assert (await reversed_(stage, receipt, amount=100))["ResultCode"] == "R000002"


@pytest.mark.parametrize("command", ["BusinessPayBill", "BusinessBuyGoods", "BusinessPayToBulk"])
async def test_organisations_pay_each_other(stage: Stage, command: str) -> None:
    path = "/mpesa/b2b/v1/paymentrequest"
    members: dict[str, Any] = {
        "CommandID": command,
        "SenderIdentifierType": "4",
        "RecieverIdentifierType": "4",
        "Amount": "239",
        "PartyB": "174379",
        "AccountReference": "ACC#03929/4yu",
        "Requester": "254700000000",
    }
    assert (await initiated(stage, path, **members))[0] == 200
    found = await result(stage)
    assert (found["ResultCode"], parameters(found)["Amount"]) == ("0", "239.00")
    assert found["ReferenceData"]["ReferenceItem"][0] == {
        "Key": "BillReferenceNumber",
        "Value": "ACC#03929/4yu",
    }
    assert await stage.balance("174379") == "239.00"
    assert await stage.balance("600997") == "999761.00"
    assert (await initiated(stage, path, **members, Initiator="nobody"))[0] == 200
    failed = await result(stage)
    assert failed["ResultCode"] == 2001
    assert failed["ResultParameters"]["ResultParameter"]["Key"] == "BOCompletedTime"
    assert await stage.balance("174379") == "239.00"
    status, answer = await initiated(stage, path, **{**members, "PartyB": "999999"})
    assert (status, answer["errorMessage"]) == (400, "Bad Request - Invalid PartyB")


async def test_version_1_of_a_payout_is_given_its_id(stage: Stage) -> None:
    status, answer = await initiated(
        stage,
        "/mpesa/b2c/v1/paymentrequest",
        InitiatorName="testapi",
        CommandID="BusinessPayment",
        Amount=100,
        PartyB=254708374149,
        Occasion="",
    )
    assert status == 200
    found = await result(stage)
    assert found["OriginatorConversationID"] == answer["OriginatorConversationID"] != ""
    assert await stage.balance("254708374149") == "100100.00"


async def test_each_rejection_has_an_id_of_its_own_and_a_failed_question_says_why(
    stage: Stage,
) -> None:
    ids = {(await stage.post(PUSHED, {}))[1]["requestId"] for _ in range(3)}
    assert len(ids) == 3
    await initiated(stage, STATUS_PATH, **STATUS, TransactionID="SIM9999999")
    found = await result(stage)
    assert found["ResultCode"] == 2032
    assert found["ResultDesc"] != "Failed."
