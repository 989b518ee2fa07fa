"""The simulated M-Pesa over real sockets, asked by a client that knows nothing of ours."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from typing import Any

import pytest
import trio
import trio.testing

from mmo_sansio.http.messages import HttpResponse
from mmo_sansio.values.clock import HOUR, SECOND
from mmo_simulators.operators.mpesa.keys import open_mpesa
from mmo_trio.system.clock import GatewayClock
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
from tests.support.time_limits import HANGS_AFTER_S


async def test_a_push_moves_the_money_and_is_called_back(stage: Stage) -> None:
    status, answer = await stage.post("/mpesa/stkpush/v1/processrequest", PUSH)
    assert (status, answer["ResponseCode"]) == (200, "0")
    query = {name: PUSH[name] for name in ("BusinessShortCode", "Password", "Timestamp")}
    query["CheckoutRequestID"] = answer["CheckoutRequestID"]
    status, early = await stage.post("/mpesa/stkpushquery/v1/query", query)
    assert (status, early["errorCode"]) == (500, "500.001.1001")
    await stage.pass_time(3)
    (request,) = stage.told
    assert request.target == b"https://gw.example.com/cb/x"
    assert told(request)["Body"]["stkCallback"]["ResultCode"] == 0
    _, late = await stage.post("/mpesa/stkpushquery/v1/query", query)
    assert late["ResultCode"] == "0"
    assert await stage.balance("254708374149") == "99999.00"
    assert await stage.balance("174379") == "1.00"


@pytest.mark.parametrize(
    ("account", "code"),
    [
        ({"enters": "cancel"}, 1032),
        ({"enters": None}, 1037),
        ({"enters": "9999"}, 2001),
        ({"balance": "0.50"}, 1),
    ],
)
async def test_a_person_may_do_otherwise(stage: Stage, account: dict[str, Any], code: int) -> None:
    accounts = {"accounts": [{"account": "254708374149", **account}]}
    assert (await stage.call("POST", "/_simulator/accounts", accounts))[0] == 200
    await stage.post("/mpesa/stkpush/v1/processrequest", PUSH)
    await stage.pass_time(61)
    assert told(stage.told[0])["Body"]["stkCallback"]["ResultCode"] == code
    assert await stage.balance("174379") == "0.00"


@pytest.mark.parametrize("field", sorted(PUSH.keys() - {"TransactionDesc"}))
async def test_a_field_that_is_missing_is_named(stage: Stage, field: str) -> None:
    document = {name: value for name, value in PUSH.items() if name != field}
    status, answer = await stage.post("/mpesa/stkpush/v1/processrequest", document)
    assert (status, answer["errorCode"]) == (400, "400.002.02")
    assert answer["errorMessage"].endswith(field)
    assert (await stage.book())["payments"] == []


async def test_a_token_ends_by_itself_and_with_the_next(stage: Stage) -> None:
    await stage.sign_in()
    first = stage.token
    await stage.sign_in()
    path = "/mpesa/stkpush/v1/processrequest"
    status, answer = await stage.call("POST", path, PUSH, Authorization=f"Bearer {first}")
    assert (status, answer["errorCode"]) == (404, "404.001.03")
    stage.clock.advance(HOUR)
    assert (await stage.post(path, PUSH))[0] == 404


async def test_a_payout_is_paid_once_however_often_it_is_sent(stage: Stage) -> None:
    assert (await payout(stage))[0] == 200
    status, answer = await payout(stage)
    assert (status, answer["errorMessage"]) == (500, "Duplicate OriginatorConversationID.")
    await stage.pass_time(3)
    assert told(stage.told[0])["Result"]["ResultCode"] == 0
    assert await stage.balance("600997") == "999900.00"
    assert await stage.balance("254708374149") == "100100.00"


@pytest.mark.parametrize(
    ("members", "code"),
    [
        ({"Amount": 9}, 2),
        ({"Amount": 250_001}, 3),
        ({"PartyB": 254700000001}, 2040),
        ({"InitiatorName": "nobody"}, 2001),
        ({"SecurityCredential": "bm90aGluZw=="}, 2001),
    ],
)
async def test_a_payout_fails_as_the_sheet_says(
    stage: Stage, members: dict[str, Any], code: int
) -> None:
    assert (await payout(stage, **members))[0] == 200
    await stage.pass_time(3)
    assert told(stage.told[0])["Result"]["ResultCode"] == code
    assert await stage.balance("600997") == "1000000.00"


async def test_an_answer_may_be_lost_though_the_money_moves(stage: Stage) -> None:
    await plan(stage, {"at": "b2c", "do": "lose_answer"})
    with pytest.raises((urllib.error.URLError, ConnectionError, OSError)):
        await payout(stage)
    await stage.pass_time(3)
    assert await stage.balance("600997") == "999900.00"


async def test_a_request_may_be_lost_before_anything_happens(stage: Stage) -> None:
    await plan(stage, {"at": "b2c", "do": "lose_request"})
    with pytest.raises((urllib.error.URLError, ConnectionError, OSError)):
        await payout(stage)
    assert (await payout(stage))[0] == 200
    await stage.pass_time(3)
    assert await stage.balance("600997") == "999900.00"


async def test_a_callback_comes_once_whatever_it_is_answered(stage: Stage) -> None:
    """As was seen at Daraja in September 2026 (nkap)."""
    stage.heard = lambda request: HttpResponse(503, ((b"retry-after", b"5"),))
    await stage.post("/mpesa/stkpush/v1/processrequest", PUSH)
    await payout(stage)
    await stage.pass_time(HOUR // SECOND)
    assert len(stage.told) == 2


async def test_callbacks_come_twice_late_or_never(stage: Stage) -> None:
    await plan(
        stage,
        {"at": "b2c", "do": "call_back", "after_s": [0, 60]},
        {"at": "b2c", "skip": 1, "do": "call_back", "after_s": []},
    )
    await payout(stage)
    await payout(stage, OriginatorConversationID="gw-0002")
    await stage.pass_time(3)
    assert len(stage.told) == 1
    await stage.pass_time(61)
    assert len(stage.told) == 2
    assert await stage.balance("600997") == "999800.00"


async def test_a_request_may_time_out_in_the_queue(stage: Stage) -> None:
    await plan(stage, {"at": "b2c", "do": "end_with", "code": "queue_timeout"})
    await payout(stage)
    await stage.pass_time(3)
    assert stage.told[0].target == b"https://gw.example.com/timeout"
    assert await stage.balance("600997") == "1000000.00"


@pytest.mark.parametrize(("verdict", "paid"), [("0", "5.00"), ("C2B00012", "0.00"), ("", "0.00")])
async def test_a_deposit_is_made_as_the_gateway_says(stage: Stage, verdict: str, paid: str) -> None:
    stage.heard = lambda request: HttpResponse(
        200, (), json.dumps({"ResultCode": verdict}).encode() if verdict else b""
    )
    accounts = {"accounts": [{"account": "174379", "validates": True}]}
    await stage.call("POST", "/_simulator/accounts", accounts)
    assert (await stage.post("/mpesa/c2b/v2/registerurl", REGISTRATION))[0] == 200
    assert (await stage.post("/mpesa/c2b/v2/simulate", DEPOSIT))[0] == 200
    await stage.pass_time(2)
    assert await stage.balance("174379") == paid
    targets = [each.target.rpartition(b"/")[2] for each in stage.told]
    assert targets == ([b"validate", b"confirm"] if verdict == "0" else [b"validate"])


@pytest.mark.parametrize("confirms", [False, True])
async def test_a_paid_push_is_confirmed_as_a_deposit_only_if_the_shortcode_wants_that(
    stage: Stage,
    confirms: bool,
) -> None:
    accounts = {"accounts": [{"account": "174379", "confirms_pushes": confirms}]}
    await stage.call("POST", "/_simulator/accounts", accounts)
    assert (await stage.post("/mpesa/c2b/v2/registerurl", REGISTRATION))[0] == 200
    assert (await stage.post("/mpesa/stkpush/v1/processrequest", PUSH))[0] == 200
    await stage.pass_time(3)
    (paid,) = (await stage.book())["payments"]
    confirmed = [told(each) for each in stage.told if each.target.endswith(b"/confirm")]
    assert [each["TransID"] for each in confirmed] == ([paid["receipt"]] if confirms else [])
    assert len(stage.told) == paid["told"] == (2 if confirms else 1)


@pytest.mark.parametrize("tells", [False, True])
async def test_a_push_is_confirmed_by_its_reference_unless_the_shortcode_hides_it(
    stage: Stage,
    tells: bool,
) -> None:
    confirmed = {"confirms_pushes": True, "confirmation_url": REGISTRATION["ConfirmationURL"]}
    accounts = {"accounts": [{"account": "174379", **confirmed, "tells_references": tells}]}
    await stage.call("POST", "/_simulator/accounts", accounts)
    assert (await stage.post("/mpesa/stkpush/v1/processrequest", PUSH))[0] == 200
    await stage.pass_time(3)
    [confirmation] = [told(each) for each in stage.told if each.target.endswith(b"/confirm")]
    assert confirmation["BillRefNumber"] == (PUSH["AccountReference"] if tells else "")


def a_pull(**members: str) -> dict[str, str]:
    """A request for everything of 2023."""
    times = {"StartDate": "2023-01-01 00:00:00", "EndDate": "2099-12-31 23:59:59"}
    return {"ShortCode": "174379", **times, "OffSetValue": "0", **members}


async def test_payments_of_the_last_48_hours_are_listed_to_a_registered_shortcode(
    stage: Stage,
) -> None:
    registration = {
        "ShortCode": "174379",
        "RequestType": "Pull",
        "NominatedNumber": "254722000000",
        "CallBackURL": "https://gw.example.com/pull",
    }
    assert (await stage.post("/pulltransactions/v1/query", a_pull()))[0] == 400
    registered = [
        (await stage.post("/pulltransactions/v1/register", registration))[1] for _ in "12"
    ]
    assert [each["ResponseStatus"] for each in registered] == ["1000", "1001"]
    assert (await stage.post("/pulltransactions/v1/query", a_pull()))[1]["ResponseCode"] == "1001"
    assert (await stage.post("/mpesa/c2b/v2/simulate", DEPOSIT))[0] == 200
    assert (await stage.post("/mpesa/stkpush/v1/processrequest", PUSH))[0] == 200
    await stage.pass_time(5)
    _, answer = await stage.post("/pulltransactions/v1/query", a_pull())
    [rows] = answer["Response"]
    paid = (await stage.book())["payments"]
    assert sorted(each["transactionId"] for each in rows) == sorted(
        each["receipt"] for each in paid
    )
    assert {each["billreference"] for each in rows} == {
        DEPOSIT["BillRefNumber"],
        PUSH["AccountReference"],
    }
    for nothing in ({"OffSetValue": "2"}, {"EndDate": "2023-01-02 00:00:00"}):
        assert (await stage.post("/pulltransactions/v1/query", a_pull(**nothing)))[1][
            "Response"
        ] == "[[]]"
    assert (await stage.post("/pulltransactions/v1/query", a_pull(ShortCode="600997")))[0] == 400
    await stage.pass_time(48 * 3600)
    await stage.sign_in()
    assert (await stage.post("/pulltransactions/v1/query", a_pull()))[1]["ResponseCode"] == "1001"


async def test_an_address_with_a_forbidden_word_is_refused(stage: Stage) -> None:
    document = {**REGISTRATION, "ConfirmationURL": "https://gw.example.com/MPESA"}
    status, answer = await stage.post("/mpesa/c2b/v2/registerurl", document)
    assert (status, answer["errorMessage"]) == (400, "Bad Request - Invalid ConfirmationURL")


@pytest.mark.parametrize(
    "fault",
    [
        {"do": "explode"},
        {"do": "answer_instead"},
        {"do": "answer_instead", "status": 99},
        {"do": "answer_instead", "status": "200"},
        {"do": "answer_after", "status": 200, "headers": {"Content-Length": "3"}},
        {"do": "cut_answer", "share": 1},
        {"do": "cut_answer", "share": 0},
        {"do": "lose_answer", "times": -1},
        {"do": "end_with"},
        {"do": "call_back", "after_s": 3},
    ],
)
async def test_a_script_that_makes_no_sense_is_refused(stage: Stage, fault: dict[str, Any]) -> None:
    status, answer = await stage.call("POST", "/_simulator/faults", {"faults": [fault]})
    assert status == 400, answer


async def test_the_command_serves_it_until_it_is_told_to_end() -> None:
    command = [sys.executable, "-m", "mmo_trio.cli", "simulate", "mpesa", "--port", "0"]
    with trio.fail_after(HANGS_AFTER_S):
        process = await trio.lowlevel.open_process(command, stdout=subprocess.PIPE)
        assert process.stdout is not None
        line = b""
        while not line.endswith(b"\n"):
            line += await process.stdout.receive_some()
        ready, operator, origin = line.decode().split()
        assert (ready, operator) == ("READY", "mpesa")
        stage = Stage(open_mpesa(), GatewayClock())
        stage.origin = origin
        assert (await stage.post("/mpesa/stkpush/v1/processrequest", PUSH))[0] == 200
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 0


@pytest.mark.parametrize(
    ("account", "code"),
    [
        ({"operator_state": "expired"}, 2001),
        ({"operator_state": "locked"}, 8006),
        ({"roles": ["status"]}, 21),
        ({"roles": ["b2c"]}, 0),
        ({"roles": None}, 0),
    ],
)
async def test_an_api_operator_may_be_refused(
    stage: Stage, account: dict[str, Any], code: int
) -> None:
    await stage.call(
        "POST", "/_simulator/accounts", {"accounts": [{"account": "600997", **account}]}
    )
    await payout(stage)
    await stage.pass_time(3)
    (request,) = stage.told
    result = told(request)["Result"]
    assert result["ResultCode"] == code
    assert result["TransactionID"].endswith("0000000") == (code != 0)


@pytest.mark.parametrize(("roles", "code"), [(["b2c"], 21), (["b2c", "status"], 0)])
async def test_a_question_needs_a_role_of_its_own_and_names_the_fee(
    stage: Stage, roles: list[str], code: int
) -> None:
    members = {"account": "600997", "roles": roles, "fee": "22.40"}
    await stage.call("POST", "/_simulator/accounts", {"accounts": [members]})
    await payout(stage)
    await stage.pass_time(3)
    question = {
        "Initiator": "testapi",
        "SecurityCredential": await credential(stage),
        "CommandID": "TransactionStatusQuery",
        "OriginalConversationID": "gw-0001",
        "PartyA": 600997,
        "IdentifierType": "4",
        "ResultURL": "https://gw.example.com/state",
        "QueueTimeOutURL": "https://gw.example.com/timeout",
        "Remarks": "state",
    }
    await stage.post("/mpesa/transactionstatus/v1/query", question)
    await stage.pass_time(3)
    result = told(stage.told[-1])["Result"]
    assert result["ResultCode"] == code
    charges = [
        each.get("Value")
        for each in result.get("ResultParameters", {}).get("ResultParameter", [])
        if each["Key"] == "DebitPartyCharges"
    ]
    assert charges == ([] if code else ["Fee For B2C Payment|KES|22.40"])


async def test_the_query_of_a_push_may_contradict_its_callback(stage: Stage) -> None:
    await plan(stage, {"at": "stk_push", "do": "poll_with", "code": "1037"})
    _, answer = await stage.post("/mpesa/stkpush/v1/processrequest", PUSH)
    await stage.pass_time(3)
    assert told(stage.told[0])["Body"]["stkCallback"]["ResultCode"] == 0
    query = {name: PUSH[name] for name in ("BusinessShortCode", "Password", "Timestamp")}
    query["CheckoutRequestID"] = answer["CheckoutRequestID"]
    _, told_otherwise = await stage.post("/mpesa/stkpushquery/v1/query", query)
    assert told_otherwise["ResultCode"] == "1037"


async def test_a_state_that_no_operator_has_is_refused(stage: Stage) -> None:
    document = {"accounts": [{"account": "600997", "operator_state": "asleep"}]}
    status, _ = await stage.call("POST", "/_simulator/accounts", document)
    assert status == 400
