"""Airtel Money's simulator: it keeps books to the unit, insists on what the documents name, and
follows a script."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mmo_sansio.http.messages import HttpRequest
from mmo_sansio.messages.inputs import (
    ProviderAccepted,
    ProviderFailed,
    ProviderHinted,
    ProviderNeverReceived,
    ProviderSucceeded,
    ProviderUnreachable,
)
from mmo_sansio.providers.airtel_money.adapter import open_airtel_money
from mmo_sansio.providers.airtel_money.codes import ACCOUNT_REFUSALS
from mmo_sansio.testing import REFERENCE, START, a_party, a_transaction
from mmo_sansio.values.clock import MINUTE, SECOND, Span, later
from mmo_sansio.values.error_codes import ErrorCode
from mmo_sansio.values.model import Stage, Transaction, Type
from mmo_sansio.values.money import Money
from mmo_simulators.common.controls import handle_control_request
from mmo_simulators.common.faults import (
    CallBack,
    EndAfter,
    EndWith,
    LoseAnswer,
    LoseRequest,
    PlannedFault,
    PollWith,
)
from mmo_simulators.operators.airtel.api import AirtelSimulator, open_airtel
from mmo_trio.system.ciphers import SystemCiphers
from tests.support.airtel_account import HEADERS, PAYER, Client, a_simulator, options
from tests.support.answer_rows import Row, check_answer, read_rows
from tests.support.bodies import changed_body, read_bodies
from tests.support.simulator_exchange import SimulatorAccount

ORIGIN = "https://openapi.airtel.ug"
HOOK = "https://gateway.example/hooks/airtel/token"


def a_payment(type: Type = Type.PAYIN, **members: Any) -> Transaction:
    """UGX 1000 from, or to, the payer."""
    standard: dict[str, Any] = {
        "type": type,
        "provider": "airtel",
        "country": "UG",
        "requested": Money(1000, "UGX"),
        "party": a_party(msisdn="+256" + PAYER),
        "submitted_at": START,
    }
    return a_transaction(Stage.SUBMITTING, **{**standard, **members})


def a_play(simulator: AirtelSimulator | None = None, **given: Any) -> SimulatorAccount:
    adapter = open_airtel_money("airtel", "Airtel", options(ORIGIN, **given), SystemCiphers())
    return SimulatorAccount(adapter, simulator or a_simulator(callback_url=HOOK), START)


@pytest.fixture
def play() -> SimulatorAccount:
    return a_play()


PATHS = {"sign_in": "/auth/oauth2/token"}


@pytest.mark.parametrize("row", read_rows(Path(__file__).with_name("requests.txt")))
def test_requests(row: Row) -> None:
    client, path = Client(), PATHS.get(row.stage, f"/merchant/{row.stage}/payments/")
    headers = {**HEADERS, **row.members}
    if row.stage != "sign_in":
        headers = client.signed(headers)
    body = changed_body(read_bodies("airtel_money"), row.answer, {})
    check_answer(row, client.send("POST", path, body, headers))
    assert bool(client.simulator.snapshot()["payments"]) is (row.expected[0] == "200")


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("bits", [1024, 2048])
def test_a_payin_is_prompted_for_paid_called_back_and_in_the_books(version: int, bits: int) -> None:
    play = a_play(a_simulator(bits, callback_url=HOOK), collection_version=version)
    assert isinstance(play.submit(a_payment()), ProviderAccepted)
    assert isinstance(play.poll(a_payment()), ProviderAccepted)
    due = play.simulator.next_due_at()
    assert due is not None
    play.now = due
    (callback,) = play.simulator.take_due_callbacks(now=due)
    assert callback.target == HOOK.encode()
    hint = play.provider.read_notification(callback)
    assert isinstance(hint, ProviderHinted)
    assert hint.gateway_reference == REFERENCE
    paid = play.poll(a_payment())
    assert isinstance(paid, ProviderSucceeded)
    assert play.balances() == {PAYER: "99000", "collection": "1000", "disbursement": "1000000"}
    (entry,) = play.simulator.snapshot()["payments"]
    assert entry == {
        "kind": "collection",
        "reference": REFERENCE,
        "receipt": paid.provider_reference,
        "account": PAYER,
        "amount": "1000",
        "currency": "UGX",
        "result": "success",
        "told": 1,
    }
    assert play.simulator.next_due_at() is None


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("bits", [1024, 2048])
def test_a_payout_is_paid_at_once_and_once_only(version: int, bits: int) -> None:
    play = a_play(a_simulator(bits), disbursement_version=version)
    assert isinstance(play.submit(a_payment(Type.PAYOUT)), ProviderSucceeded)
    assert isinstance(play.submit(a_payment(Type.PAYOUT)), ProviderAccepted)
    assert isinstance(play.poll(a_payment(Type.PAYOUT)), ProviderSucceeded)
    assert play.balances() == {PAYER: "101000", "collection": "0", "disbursement": "999000"}


@pytest.mark.parametrize(
    ("account", "expected"),
    [
        ({"types": None}, ErrorCode.USER_TIMEOUT),
        ({"types": "9999"}, ErrorCode.USER_WRONG_PIN),
        ({"balance": "999"}, ErrorCode.USER_INSUFFICIENT_FUNDS),
    ],
    ids=["no PIN", "wrong PIN", "no money"],
)
def test_a_payin_fails_of_what_its_person_does(
    play: SimulatorAccount, account: dict[str, Any], expected: ErrorCode
) -> None:
    play.simulator.open_accounts([{"account": PAYER, **account}])
    play.submit(a_payment())
    play.now = later(play.now, MINUTE)
    report = play.poll(a_payment())
    assert isinstance(report, ProviderFailed)
    assert report.error_code is expected
    assert play.balances()["collection"] == "0"


@pytest.mark.parametrize(
    ("account", "expected"),
    [
        ({"account": PAYER, "barred": True}, ErrorCode.USER_NOT_FOUND),
        ({"account": PAYER, "limit": "100500"}, ErrorCode.USER_LIMIT_EXCEEDED),
        ({"account": "disbursement", "balance": "999"}, ErrorCode.MERCHANT_INSUFFICIENT_FUNDS),
    ],
    ids=["barred", "limit", "no money of ours"],
)
def test_a_payout_fails_of_what_the_wallets_say(
    play: SimulatorAccount, account: dict[str, Any], expected: ErrorCode
) -> None:
    play.simulator.open_accounts([account])
    report = play.submit(a_payment(Type.PAYOUT))
    assert isinstance(report, ProviderFailed)
    assert report.error_code is expected
    assert play.balances()[PAYER] == "100000"


@pytest.mark.parametrize("type", [Type.PAYIN, Type.PAYOUT])
def test_nobody_has_an_unknown_number(play: SimulatorAccount, type: Type) -> None:
    report = play.submit(a_payment(type, party=a_party(msisdn="+256700000001")))
    assert isinstance(report, ProviderFailed)
    assert report.error_code is ErrorCode.USER_NOT_FOUND


@pytest.mark.spec("S6")
@pytest.mark.parametrize("type", [Type.PAYIN, Type.PAYOUT])
def test_a_lost_request_and_a_lost_answer_look_the_same_until_one_asks(
    play: SimulatorAccount, type: Type
) -> None:
    at = "collection" if type is Type.PAYIN else "disbursement"
    play.plan(at, LoseAnswer())
    assert isinstance(play.submit(a_payment(type)), ProviderUnreachable)
    play.now = later(play.now, MINUTE)
    assert isinstance(play.poll(a_payment(type)), ProviderSucceeded)
    other = a_payment(type, gateway_reference=REFERENCE[:-1] + "1")
    play.plan(at, LoseRequest())
    assert isinstance(play.submit(other), ProviderUnreachable)
    assert isinstance(play.poll(other), ProviderUnreachable)
    play.now = later(play.now, Span(30 * MINUTE))
    assert isinstance(play.poll(other), ProviderNeverReceived)


def test_a_script_says_what_a_payment_comes_to_and_when(play: SimulatorAccount) -> None:
    play.plan("disbursement", EndWith("DP00900001013", "no"), EndAfter(MINUTE))
    assert isinstance(play.submit(a_payment(Type.PAYOUT)), ProviderAccepted)
    assert isinstance(play.poll(a_payment(Type.PAYOUT)), ProviderAccepted)
    play.now = later(play.now, MINUTE)
    report = play.poll(a_payment(Type.PAYOUT))
    assert isinstance(report, ProviderFailed)
    assert (report.native_code, report.native_message) == ("DP00900001013", "no")


def test_an_enquiry_may_contradict_its_callback(play: SimulatorAccount) -> None:
    play.plan("collection", PollWith("DP00800001005"))
    play.submit(a_payment())
    play.now = later(play.now, MINUTE)
    assert isinstance(play.poll(a_payment()), ProviderFailed)
    (request,) = play.simulator.take_due_callbacks(now=play.now)
    assert json.loads(request.body)["transaction"]["status_code"] == "TS"


@pytest.mark.parametrize("succeed", [False, True])
def test_an_enquiry_that_finds_a_failure_may_itself_have_succeeded(
    play: SimulatorAccount, succeed: bool
) -> None:
    play.simulator.open_accounts([{"account": "collection", "failed_enquiries_succeed": succeed}])
    play.plan("collection", EndWith("DP00800001005"))
    play.submit(a_payment())
    play.now = later(play.now, MINUTE)

    target = f"{ORIGIN}/standard/v1/payments/{REFERENCE}".encode()
    fields = ((b"x-country", b"UG"), (b"x-currency", b"UGX"))
    told = play.exchange(HttpRequest("GET", target, fields, b""))
    document = json.loads(told.body)
    assert document["data"]["transaction"]["status"] == "TF"
    assert document["status"]["success"] is succeed
    assert isinstance(play.poll(a_payment()), ProviderFailed)


@pytest.mark.parametrize("code", ["DP00800001000", "DP00800001029"])
def test_a_payin_can_stay_ambiguous_or_expire(play: SimulatorAccount, code: str) -> None:
    play.plan("collection", EndWith(code))
    play.submit(a_payment())
    play.now = later(play.now, MINUTE)
    report = play.poll(a_payment())
    if code == "DP00800001029":
        assert isinstance(report, ProviderFailed)
        assert report.error_code is ErrorCode.USER_TIMEOUT
    else:
        assert isinstance(report, ProviderAccepted)
        assert play.simulator.take_due_callbacks(now=play.now) == []


def test_callbacks_come_late_twice_never_and_in_the_wrong_order(play: SimulatorAccount) -> None:
    first, second = a_payment(), a_payment(gateway_reference=REFERENCE[:-1] + "1")
    late_twice = PlannedFault("collection", CallBack((Span(30 * SECOND), MINUTE)))
    at_once = PlannedFault("collection", CallBack((Span(0),)), skip=1)
    play.simulator.faults.plan([late_twice, at_once])
    play.submit(first)
    play.submit(second)
    play.plan("collection", CallBack(()))
    play.submit(a_payment(gateway_reference=REFERENCE[:-1] + "2"))
    told = []
    while (due := play.simulator.next_due_at()) is not None:
        for each in play.simulator.take_due_callbacks(now=due):
            told.append((due - START, json.loads(each.body)["transaction"]["id"]))
    assert told == [
        (2 * SECOND, second.reference),
        (32 * SECOND, first.reference),
        (62 * SECOND, first.reference),
    ]


def test_a_callback_is_authentic_where_a_key_is_set() -> None:
    play = a_play(a_simulator(callback_url=HOOK, callback_key="shared"), callback_key="shared")
    forger = a_play(a_simulator(callback_url=HOOK, callback_key="guessed"))
    for each in (play, forger):
        each.submit(a_payment())
    told = [
        each.simulator.take_due_callbacks(now=later(START, MINUTE))[0] for each in (play, forger)
    ]
    read = [play.provider.read_notification(each) for each in told]
    assert [isinstance(each, ProviderHinted) for each in read] == [True, False]


def test_a_token_ends_and_a_new_one_is_wanted() -> None:
    client = Client()
    signed, path = client.signed({}), f"/standard/v1/payments/{REFERENCE}"
    client.now = later(START, Span(179 * SECOND))
    # Its headers are missing; the token is good.
    assert client.send("GET", path, b"", signed).status == 400
    client.now = later(START, Span(180 * SECOND))
    assert client.send("GET", path, b"", signed).status == 401
    assert client.send("GET", path, b"", {}).status == 401


def test_a_repeated_id_is_refused_and_nothing_is_paid_twice() -> None:
    client = Client()
    codes = [client.collect()[1]["status"]["response_code"] for _ in range(2)]
    assert codes == ["DP00800001006", "ESB000041"]
    client.simulator.take_due_callbacks(now=later(client.now, MINUTE))
    assert client.balances()["collection"] == "1000"


@pytest.mark.parametrize(
    ("given", "code"), [({"pin": "4321"}, "ROUTER115"), ({"pin": "12345"}, "ROUTER116")]
)
def test_a_wrong_merchant_pin_pays_nothing_out(
    play: SimulatorAccount, given: dict[str, str], code: str
) -> None:
    shop = a_play(a_simulator(), **given)
    assert isinstance(shop.submit(a_payment(Type.PAYOUT)), ProviderNeverReceived)
    assert shop.balances() == play.balances()
    assert code in ACCOUNT_REFUSALS


@pytest.mark.parametrize(
    "account",
    [
        {},
        {"account": 7},
        {"account": PAYER, "balance": "much"},
        {"account": PAYER, "balance": "0.5"},
        {"account": PAYER, "pin": 7},
        {"account": PAYER, "currency": "KES"},
        {"account": PAYER, "colour": "red"},
    ],
    ids=str,
)
def test_an_account_that_makes_no_sense_is_refused_and_changes_nothing(
    play: SimulatorAccount, account: dict[str, Any]
) -> None:
    before = play.simulator.snapshot()
    body = json.dumps({"accounts": [account]}).encode()
    answer = handle_control_request(
        play.simulator, HttpRequest("POST", b"/_simulator/accounts", (), body)
    )
    assert answer is not None
    assert answer.status == 400
    assert play.simulator.snapshot() == before


def test_what_is_set_in_the_portal_is_set_with_the_merchants_wallet() -> None:
    simulator = open_airtel()
    portal = {"account": "collection", "callback_url": HOOK, "callback_key": "shared"}
    simulator.open_accounts([portal])
    market = simulator.market
    assert (market.callback_url, market.callback_key) == (HOOK, "shared")
    assert "shared" not in repr(simulator)
    with pytest.raises(ValueError, match="callback_url"):
        simulator.open_accounts([{"account": "collection", "callback_url": 7}])
