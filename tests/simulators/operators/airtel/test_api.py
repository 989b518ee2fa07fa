"""Airtel Money's simulator: it keeps books to the unit, insists on what the documents name, and
follows a script."""

from __future__ import annotations

import json
from typing import Any

import pytest
from attrs import evolve

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.messages.inputs import (
    ProviderAccepted,
    ProviderFailed,
    ProviderHinted,
    ProviderNeverReceived,
    ProviderReport,
    ProviderSucceeded,
    ProviderUnreachable,
)
from mmo_sansio.providers.airtel_money.adapter import AirtelMoneyProvider, open_airtel_money
from mmo_sansio.providers.airtel_money.codes import ACCOUNT_REFUSALS
from mmo_sansio.providers.common.interface import AccessToken, Conversation, ExchangeFailed, drive
from mmo_sansio.testing import REFERENCE, START, a_party, a_transaction
from mmo_sansio.values.clock import MINUTE, SECOND, Instant, Moment, Span, later
from mmo_sansio.values.error_codes import ErrorCode
from mmo_sansio.values.model import Stage, Transaction, Type
from mmo_sansio.values.money import Money
from mmo_simulators.common.controls import handle_control_request
from mmo_simulators.common.faults import DroppedConnection, parse_planned_fault
from mmo_simulators.common.simulator import Simulator
from mmo_simulators.operators.airtel.api import AirtelSimulator, open_airtel
from mmo_trio.system.ciphers import SystemCiphers
from tests.support.airtel_account import PAYER, a_simulator, options

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


class Play:
    """An adapter that talks with a simulator in virtual time, its token put on as the shell
    does."""

    def __init__(self, simulator: AirtelSimulator, **given: Any) -> None:
        self.simulator: Simulator = simulator
        self.adapter: AirtelMoneyProvider = open_airtel_money(
            "airtel", "Airtel", options("https://openapi.airtel.ug", **given), SystemCiphers()
        )
        self.now: Instant = START
        self.token: AccessToken | None = None

    def exchange(self, request: HttpRequest) -> HttpResponse:
        authorized = request
        if self.token is not None:
            value = f"Bearer {self.token.value}".encode()
            authorized = evolve(request, headers=(*request.headers, (b"authorization", value)))
        answer = self.simulator.handle_request(authorized, now=self.now)
        if isinstance(answer, DroppedConnection):
            raise ExchangeFailed("The connection was closed.", may_have_arrived=True)
        return answer

    def sign_in(self) -> None:
        self.token = drive(self.adapter.sign_in("all", now=Moment.at(self.now)), self.exchange)

    def hold(self, conversation: Conversation) -> ProviderReport:
        if self.token is None or not self.token.is_fresh(self.now):
            self.sign_in()
        return drive(conversation, self.exchange)

    def submit(self, transaction: Transaction) -> ProviderReport:
        return self.hold(self.adapter.submit(transaction, now=Moment.at(self.now)))

    def ask(self, transaction: Transaction) -> ProviderReport:
        return self.hold(self.adapter.poll(transaction, now=Moment.at(self.now)))

    def script(self, *faults: dict[str, Any]) -> None:
        self.simulator.faults.plan(parse_planned_fault(each) for each in faults)

    def balances(self) -> dict[str, str]:
        return {each["account"]: each["balance"] for each in self.simulator.snapshot()["accounts"]}


@pytest.fixture
def play() -> Play:
    return Play(a_simulator(callback_url=HOOK))


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("bits", [1024, 2048])
def test_a_payin_is_prompted_for_paid_called_back_and_in_the_books(version: int, bits: int) -> None:
    play = Play(a_simulator(bits, callback_url=HOOK), collection_version=version)
    assert isinstance(play.submit(a_payment()), ProviderAccepted)
    assert isinstance(play.ask(a_payment()), ProviderAccepted)
    due = play.simulator.next_due_at()
    assert due is not None
    play.now = due
    (callback,) = play.simulator.take_due_callbacks(now=due)
    assert callback.target == HOOK.encode()
    hint = play.adapter.read_notification(callback)
    assert isinstance(hint, ProviderHinted)
    assert hint.gateway_reference == REFERENCE
    paid = play.ask(a_payment())
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
    play = Play(a_simulator(bits), disbursement_version=version)
    assert isinstance(play.submit(a_payment(Type.PAYOUT)), ProviderSucceeded)
    assert isinstance(play.submit(a_payment(Type.PAYOUT)), ProviderAccepted)
    assert isinstance(play.ask(a_payment(Type.PAYOUT)), ProviderSucceeded)
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
    play: Play, account: dict[str, Any], expected: ErrorCode
) -> None:
    play.simulator.open_accounts([{"account": PAYER, **account}])
    play.submit(a_payment())
    play.now = later(play.now, MINUTE)
    report = play.ask(a_payment())
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
    play: Play, account: dict[str, Any], expected: ErrorCode
) -> None:
    play.simulator.open_accounts([account])
    report = play.submit(a_payment(Type.PAYOUT))
    assert isinstance(report, ProviderFailed)
    assert report.error_code is expected
    assert play.balances()[PAYER] == "100000"


@pytest.mark.parametrize("type", [Type.PAYIN, Type.PAYOUT])
def test_nobody_has_an_unknown_number(play: Play, type: Type) -> None:
    report = play.submit(a_payment(type, party=a_party(msisdn="+256700000001")))
    assert isinstance(report, ProviderFailed)
    assert report.error_code is ErrorCode.USER_NOT_FOUND


@pytest.mark.spec("S6")
@pytest.mark.parametrize("type", [Type.PAYIN, Type.PAYOUT])
def test_a_lost_request_and_a_lost_answer_look_the_same_until_one_asks(
    play: Play, type: Type
) -> None:
    at = "collection" if type is Type.PAYIN else "disbursement"
    play.script({"at": at, "do": "lose_answer"})
    assert isinstance(play.submit(a_payment(type)), ProviderUnreachable)
    play.now = later(play.now, MINUTE)
    assert isinstance(play.ask(a_payment(type)), ProviderSucceeded)
    other = a_payment(type, gateway_reference=REFERENCE[:-1] + "1")
    play.script({"at": at, "do": "lose_request"})
    assert isinstance(play.submit(other), ProviderUnreachable)
    assert isinstance(play.ask(other), ProviderUnreachable)
    play.now = later(play.now, Span(30 * MINUTE))
    assert isinstance(play.ask(other), ProviderNeverReceived)


def test_a_script_says_what_a_payment_comes_to_and_when(play: Play) -> None:
    play.script(
        {"at": "disbursement", "do": "end_with", "code": "DP00900001013", "message": "no"},
        {"at": "disbursement", "do": "end_after", "after_s": 60},
    )
    assert isinstance(play.submit(a_payment(Type.PAYOUT)), ProviderAccepted)
    assert isinstance(play.ask(a_payment(Type.PAYOUT)), ProviderAccepted)
    play.now = later(play.now, MINUTE)
    report = play.ask(a_payment(Type.PAYOUT))
    assert isinstance(report, ProviderFailed)
    assert (report.native_code, report.native_message) == ("DP00900001013", "no")


def test_an_enquiry_may_contradict_its_callback(play: Play) -> None:
    play.script({"at": "collection", "do": "poll_with", "code": "DP00800001005"})
    play.submit(a_payment())
    play.now = later(play.now, MINUTE)
    assert isinstance(play.ask(a_payment()), ProviderFailed)
    (request,) = play.simulator.take_due_callbacks(now=play.now)
    assert json.loads(request.body)["transaction"]["status_code"] == "TS"


@pytest.mark.parametrize("succeed", [False, True])
def test_an_enquiry_that_finds_a_failure_may_itself_have_succeeded(
    play: Play, succeed: bool
) -> None:
    play.simulator.open_accounts([{"account": "collection", "failed_enquiries_succeed": succeed}])
    play.script({"at": "collection", "do": "end_with", "code": "DP00800001005"})
    play.submit(a_payment())
    play.now = later(play.now, MINUTE)

    target = f"/standard/v1/payments/{a_payment().reference}".encode()
    fields = ((b"x-country", b"UG"), (b"x-currency", b"UGX"))
    told = play.exchange(HttpRequest("GET", target, fields, b""))
    document = json.loads(told.body)
    assert document["data"]["transaction"]["status"] == "TF"
    assert document["status"]["success"] is succeed
    assert isinstance(play.ask(a_payment()), ProviderFailed)


@pytest.mark.parametrize("code", ["DP00800001000", "DP00800001029"])
def test_a_payin_can_stay_ambiguous_or_expire(play: Play, code: str) -> None:
    play.script({"at": "collection", "do": "end_with", "code": code})
    play.submit(a_payment())
    play.now = later(play.now, MINUTE)
    report = play.ask(a_payment())
    if code == "DP00800001029":
        assert isinstance(report, ProviderFailed)
        assert report.error_code is ErrorCode.USER_TIMEOUT
    else:
        assert isinstance(report, ProviderAccepted)
        assert play.simulator.take_due_callbacks(now=play.now) == []


def test_callbacks_come_late_twice_never_and_in_the_wrong_order(play: Play) -> None:
    first, second = a_payment(), a_payment(gateway_reference=REFERENCE[:-1] + "1")
    play.script(
        {"at": "collection", "do": "call_back", "after_s": [30, 60]},
        {"at": "collection", "do": "call_back", "after_s": [0], "skip": 1},
    )
    play.submit(first)
    play.submit(second)
    play.script({"at": "collection", "do": "call_back", "after_s": []})
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
    play = Play(a_simulator(callback_url=HOOK, callback_key="shared"), callback_key="shared")
    forger = Play(a_simulator(callback_url=HOOK, callback_key="guessed"))
    for each in (play, forger):
        each.submit(a_payment())
    told = [
        each.simulator.take_due_callbacks(now=later(START, MINUTE))[0] for each in (play, forger)
    ]
    read = [play.adapter.read_notification(each) for each in told]
    assert [isinstance(each, ProviderHinted) for each in read] == [True, False]


def test_a_token_ends_and_a_new_one_is_wanted(play: Play) -> None:
    play.submit(a_payment())
    request = HttpRequest("GET", b"/standard/v1/payments/" + REFERENCE.encode())
    play.now = later(play.now, Span(179 * SECOND))
    assert play.exchange(request).status == 400  # Its headers are missing; the token is good.
    play.now = later(play.now, SECOND)
    assert play.exchange(request).status == 401
    play.token = None
    assert play.exchange(request).status == 401


@pytest.mark.parametrize(
    ("document", "status"),
    [
        ({"grant_type": "password"}, 400),
        ({"grant_type": "client_credentials", "client_id": "client-id"}, 401),
        (
            {
                "grant_type": "client_credentials",
                "client_id": "client-id",
                "client_secret": "wrong",
            },
            401,
        ),
    ],
)
def test_a_sign_in_with_anything_else_is_refused(
    play: Play, document: dict[str, str], status: int
) -> None:
    headers = ((b"content-type", b"application/json"),)
    body = json.dumps(document).encode()
    assert play.exchange(HttpRequest("POST", b"/auth/oauth2/token", headers, body)).status == status


GOOD: dict[str, Any] = {
    "reference": "INV0001",
    "subscriber": {"country": "UG", "currency": "UGX", "msisdn": PAYER},
    "transaction": {"amount": 1000, "country": "UG", "currency": "UGX", "id": "GW0001"},
}
HEADERS = {"content-type": "application/json", "x-country": "UG", "x-currency": "UGX"}


def posted(play: Play, document: Any, path: str, headers: dict[str, str]) -> str:
    """The code with which a body is answered."""
    play.sign_in()
    fields = tuple((name.encode(), value.encode()) for name, value in headers.items())
    body = document if isinstance(document, bytes) else json.dumps(document).encode()
    answer = play.exchange(HttpRequest("POST", path.encode(), fields, body))
    code: str = json.loads(answer.body)["status"]["response_code"]
    return code


@pytest.mark.parametrize(
    ("document", "code"),
    [
        (GOOD, "DP00800001006"),
        ({**GOOD, "subscriber": {"msisdn": int(PAYER)}}, "DP00800001006"),
        (b"nonsense", "ROUTER003"),
        (b"[]", "ROUTER003"),
        ({**GOOD, "reference": "INV-0001\n"}, "ROUTER003"),
        ({**GOOD, "subscriber": None}, "ROUTER003"),
        ({**GOOD, "subscriber": {"msisdn": "256" + PAYER}}, "ESB000033"),
        ({**GOOD, "subscriber": {"msisdn": "255752000000"}}, "ESB000033"),
        ({**GOOD, "transaction": {"id": "GW0001", "amount": "1E+3"}}, "ROUTER003"),
        ({**GOOD, "subscriber": {"msisdn": "0" + PAYER}}, "ESB000033"),
        ({**GOOD, "subscriber": {"msisdn": "+256" + PAYER}}, "ESB000033"),
        ({**GOOD, "subscriber": {"msisdn": "collection"}}, "ESB000033"),
        ({**GOOD, "subscriber": {"msisdn": PAYER, "country": "KE"}}, "ROUTER006"),
        ({**GOOD, "transaction": {"id": "GW0001", "amount": ["1000"]}}, "ROUTER003"),
        ({**GOOD, "transaction": {"id": "GW0001", "amount": True}}, "ROUTER003"),
        ({**GOOD, "transaction": {"id": "GW0001", "amount": 0}}, "DP00800001004"),
        ({**GOOD, "transaction": {"id": "GW0001", "amount": 1000.5}}, "DP00800001004"),
        ({**GOOD, "transaction": {"id": "GW/1", "amount": 1}}, "ROUTER003"),
        ({**GOOD, "transaction": {"id": "A", "amount": 1, "currency": "KES"}}, "ROUTER112"),
    ],
    ids=range(19),
)
def test_bodies_are_read_strictly(play: Play, document: Any, code: str) -> None:
    assert posted(play, document, "/merchant/v1/payments/", HEADERS) == code


@pytest.mark.parametrize(
    ("change", "path", "code"),
    [
        ({"x-country": "KE"}, "/merchant/v1/payments/", "ROUTER006"),
        ({"x-currency": "KES"}, "/merchant/v1/payments/", "ROUTER112"),
        ({"content-type": "text/plain"}, "/merchant/v1/payments/", "ROUTER003"),
        ({}, "/merchant/v3/payments/", "ROUTER005"),
        ({}, "/merchant/v2/payments/", "DP00800001026"),
        ({"x-signature": "AAAA", "x-key": "AAAA"}, "/merchant/v2/payments/", "DP00800001026"),
        ({"x-signature": "AAAA"}, "/merchant/v1/payments/", "DP00800001026"),
    ],
    ids=range(7),
)
def test_headers_are_read_strictly(
    play: Play, change: dict[str, str], path: str, code: str
) -> None:
    assert posted(play, GOOD, path, {**HEADERS, **change}) == code


def test_a_repeated_id_is_refused_and_nothing_is_paid_twice(play: Play) -> None:
    codes = [posted(play, GOOD, "/merchant/v1/payments/", HEADERS) for _ in range(2)]
    assert codes == ["DP00800001006", "ESB000041"]
    play.simulator.take_due_callbacks(now=later(play.now, MINUTE))
    assert play.balances()["collection"] == "1000"


@pytest.mark.parametrize(
    ("given", "code"), [({"pin": "4321"}, "ROUTER115"), ({"pin": "12345"}, "ROUTER116")]
)
def test_a_wrong_merchant_pin_pays_nothing_out(
    play: Play, given: dict[str, str], code: str
) -> None:
    shop = Play(a_simulator(), **given)
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
    play: Play, account: dict[str, Any]
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
