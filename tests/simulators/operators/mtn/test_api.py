"""The make-believe MTN MoMo: as strict and as forgetful as the real one, and right to the unit."""

from __future__ import annotations

import json
from collections.abc import Mapping
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
from mmo_sansio.providers.mtn_momo.account import read_account
from mmo_sansio.providers.mtn_momo.adapter import MtnMomoProvider, reference_id
from mmo_sansio.providers.mtn_momo.codes import ACCOUNT_REFUSALS
from mmo_sansio.testing import REFERENCE, START, a_party, a_transaction
from mmo_sansio.values.clock import MINUTE, SECOND, Moment, Span, later
from mmo_sansio.values.error_codes import ErrorCode
from mmo_sansio.values.model import Stage, Transaction, Type
from mmo_sansio.values.money import Money
from mmo_simulators.common.controls import handle_control_request
from mmo_simulators.common.faults import (
    AnswerInstead,
    CallBack,
    DroppedConnection,
    EndAfter,
    EndWith,
    LoseAnswer,
    LoseRequest,
)
from mmo_simulators.operators.mtn.accounts import SimulatedMtnAccounts
from mmo_simulators.operators.mtn.api import COLLECTION_KEY, DISBURSEMENT_KEY, MtnSimulator
from mmo_simulators.operators.mtn.sandbox_numbers import (
    DELAYED,
    IMMEDIATE_REJECTION_STATUSES,
    ONGOING,
    OUTCOMES_BY_NUMBER,
)
from tests.support.simulated_accounts import account_options
from tests.support.simulator_exchange import SimulatorAccount

HOOKS = "https://gw.example/hooks/mtn/token"
OPTIONS = account_options("mtn")
KINDS = {Type.PAYIN: "requesttopay", Type.PAYOUT: "transfer"}
BOTH = pytest.mark.parametrize("type", [Type.PAYIN, Type.PAYOUT], ids=["pay-in", "pay-out"])


def a_line(simulator: MtnSimulator | None = None, **options: str) -> SimulatorAccount:
    provider = MtnMomoProvider("mtn", "MTN", read_account({**OPTIONS, **options}, hooks_url=HOOKS))
    return SimulatorAccount(provider, simulator or MtnSimulator(), START)


def a_payment(type: Type = Type.PAYIN, msisdn: str = "+46733123999", **members: Any) -> Transaction:
    return a_transaction(
        Stage.SUBMITTING,
        type=type,
        provider="mtn",
        requested=Money(150_00, "EUR"),
        party=a_party(msisdn=msisdn),
        **members,
    )


def outcome(
    line: SimulatorAccount, transaction: Transaction, after: Span = MINUTE
) -> ProviderReport:
    """Submit it, and ask when it is decided."""
    assert isinstance(line.submit(transaction), ProviderAccepted)
    line.now = later(line.now, after)
    return line.poll(transaction)


@BOTH
def test_a_payment_moves_money_and_calls_back_once(type: Type) -> None:
    line, payment = a_line(), a_payment(type)
    report = outcome(line, payment, after=Span(2 * SECOND))
    assert isinstance(report, ProviderSucceeded)
    assert report.final == payment.order.requested
    (callback,) = line.simulator.take_due_callbacks(now=line.now)
    assert callback.method == "PUT"
    assert callback.target.decode() == f"{HOOKS}/{REFERENCE}"
    assert isinstance(line.provider.read_notification(callback), ProviderHinted)
    assert line.simulator.take_due_callbacks(now=later(line.now, MINUTE)) == []
    paid = {"collection": "1000150.00", "46733123999": "999850.00"}
    paid_out = {"disbursement": "999850.00", "46733123999": "1000150.00"}
    assert line.balances().items() >= (paid if type is Type.PAYIN else paid_out).items()
    assert line.simulator.snapshot()["payments"] == [
        {
            "kind": KINDS[type],
            "reference": REFERENCE,
            "receipt": report.provider_reference,
            "account": "46733123999",
            "amount": "150.00",
            "currency": "EUR",
            "result": "success",
            "told": 1,
        }
    ]


@BOTH
@pytest.mark.parametrize("as_object", [False, True], ids=["reason as text", "as an object"])
@pytest.mark.parametrize("row", range(15))
def test_each_number_of_the_sandbox_ends_as_it_does_there(
    row: int, as_object: bool, type: Type
) -> None:
    msisdn = str(46733123450 + row)
    ending = OUTCOMES_BY_NUMBER[KINDS[type]][msisdn]
    line = a_line(MtnSimulator(accounts=SimulatedMtnAccounts(has_reason_objects=as_object)))
    report = outcome(line, a_payment(type, msisdn), after=Span(29 * SECOND))
    if ending in (ONGOING, DELAYED):
        assert isinstance(report, ProviderAccepted)
        line.now = later(line.now, SECOND)
        end = line.poll(a_payment(type, msisdn))
        assert isinstance(end, ProviderSucceeded if ending == ONGOING else ProviderAccepted)
    else:
        assert isinstance(report, ProviderFailed)
        assert report.native_code == ending
        assert line.simulator.snapshot()["accounts"][0]["balance"] == "1000000.00"


@BOTH
@pytest.mark.parametrize("row", range(15))
def test_such_a_number_may_be_refused_at_once_instead(row: int, type: Type) -> None:
    msisdn = str(46733123450 + row)
    ending = OUTCOMES_BY_NUMBER[KINDS[type]][msisdn]
    line = a_line(MtnSimulator(rejects_immediately=True))
    report = line.submit(a_payment(type, msisdn))
    if ending not in IMMEDIATE_REJECTION_STATUSES:
        assert isinstance(report, ProviderAccepted)
        return
    assert line.simulator.snapshot()["payments"] == []
    if ending in ("INTERNAL_PROCESSING_ERROR", "SERVICE_UNAVAILABLE"):
        assert isinstance(report, ProviderUnreachable)
    elif ending in ACCOUNT_REFUSALS:
        assert isinstance(report, ProviderNeverReceived)
    else:
        assert isinstance(report, ProviderFailed)
        assert report.native_code == ending


@BOTH
@pytest.mark.spec("S6")
def test_a_repeated_submission_moves_money_once(type: Type) -> None:
    line = a_line()
    line.plan(KINDS[type], LoseAnswer())
    assert isinstance(line.submit(a_payment(type)), ProviderUnreachable)
    assert isinstance(line.submit(a_payment(type)), ProviderAccepted)
    line.now = later(line.now, MINUTE)
    assert isinstance(line.poll(a_payment(type)), ProviderSucceeded)
    assert len(line.simulator.snapshot()["payments"]) == 1


@BOTH
@pytest.mark.spec("S6")
def test_a_lost_submission_is_not_found_and_may_be_made_again(type: Type) -> None:
    line, payment = a_line(), a_payment(type, submitted_at=START)
    line.plan(KINDS[type], LoseRequest())
    assert isinstance(line.submit(payment), ProviderUnreachable)
    line.now = later(line.now, Span(10 * SECOND))
    assert isinstance(line.poll(payment), ProviderUnreachable)
    line.now = later(line.now, MINUTE)
    assert isinstance(line.poll(payment), ProviderNeverReceived)
    assert isinstance(outcome(line, payment), ProviderSucceeded)


@BOTH
def test_nobody_pays_what_he_has_not(type: Type) -> None:
    line = a_line()
    short = "46733123999" if type is Type.PAYIN else "disbursement"
    line.simulator.open_accounts([{"account": short, "balance": "149.99"}])
    report = outcome(line, a_payment(type))
    assert isinstance(report, ProviderFailed)
    assert report.error_code is (
        ErrorCode.USER_INSUFFICIENT_FUNDS
        if type is Type.PAYIN
        else ErrorCode.MERCHANT_INSUFFICIENT_FUNDS
    )
    assert line.balances()[short] == "149.99"


@BOTH
def test_a_stranger_has_no_wallet_where_strangers_have_none(type: Type) -> None:
    report = outcome(
        a_line(MtnSimulator(accounts=SimulatedMtnAccounts(has_implicit_wallets=False))),
        a_payment(type),
    )
    assert isinstance(report, ProviderFailed)
    assert report.error_code is ErrorCode.USER_NOT_FOUND


def test_a_script_says_what_a_payment_comes_to_and_when_it_is_told() -> None:
    line, payment = a_line(), a_payment()
    line.plan(
        "requesttopay",
        EndWith("EXPIRED"),
        EndAfter(Span(5 * SECOND)),
        CallBack((SECOND, Span(3 * SECOND))),
    )
    line.submit(payment)
    told = {
        at: len(line.simulator.take_due_callbacks(now=later(START, Span(at * SECOND))))
        for at in range(10)
    }
    assert {at: count for at, count in told.items() if count} == {6: 1, 8: 1}
    line.now = later(line.now, Span(10 * SECOND))
    report = line.poll(payment)
    assert isinstance(report, ProviderFailed)
    assert report.error_code is ErrorCode.USER_TIMEOUT
    assert line.simulator.next_due_at() is None


def test_a_payment_may_never_come_to_a_result_and_a_callback_never_come() -> None:
    line = a_line()
    line.plan("requesttopay", EndAfter(None))
    assert isinstance(outcome(line, a_payment(), after=Span(1000 * MINUTE)), ProviderAccepted)
    silent = a_line()
    silent.plan("requesttopay", CallBack(()))
    assert isinstance(outcome(silent, a_payment()), ProviderSucceeded)
    assert silent.simulator.take_due_callbacks(now=silent.now) == []


@BOTH
def test_a_token_expires_and_is_fetched_again(type: Type) -> None:
    line = a_line(MtnSimulator(token_lifetime=Span(100 * SECOND)))
    first = line.submit(a_payment(type))
    token = next(iter(line.tokens.values()))
    line.now = later(line.now, Span(89 * SECOND))
    line.poll(a_payment(type))
    assert list(line.tokens.values()) == [token]
    line.now = later(line.now, SECOND)
    assert isinstance(line.poll(a_payment(type)), ProviderSucceeded)
    assert list(line.tokens.values()) != [token]
    assert isinstance(first, ProviderAccepted)


def test_the_token_of_one_product_does_not_open_the_other() -> None:
    line = a_line()
    line.submit(a_payment())
    line.tokens["disbursement"] = line.tokens["collection"]
    assert isinstance(line.submit(a_payment(Type.PAYOUT)), ProviderAccepted)
    assert line.tokens["disbursement"] != line.tokens["collection"]


def test_wrong_keys_are_a_failure_to_sign_in_and_leave_no_trace() -> None:
    line = a_line(collection_api_key="wrong")
    assert isinstance(line.submit(a_payment()), ProviderNeverReceived)
    assert line.simulator.snapshot()["payments"] == []


def test_an_answer_may_be_replaced() -> None:
    line = a_line()
    line.plan("requesttopay", AnswerInstead(HttpResponse(429)))
    assert isinstance(line.submit(a_payment()), ProviderNeverReceived)
    line.plan("token", AnswerInstead(HttpResponse(503)))
    assert isinstance(a_line(line.simulator).submit(a_payment()), ProviderNeverReceived)  # type: ignore[arg-type]


# Its strictness.


def a_request(**changed: Any) -> HttpRequest:
    """A submission that is taken, with a token put on; members and headers replaced by name, or
    left out by None."""
    simulator = changed.pop("simulator")
    line = a_line(simulator)
    request = next(line.provider.submit(a_payment(), now=Moment.at(START)))
    headers: dict[bytes, bytes] = dict(line.sign(request).headers)
    document = json.loads(request.body)
    for name, value in changed.items():
        key = name.replace("_", "-").encode()
        if key in headers or name == "raw":
            headers = {k: v for k, v in headers.items() if k != key}
            if value is not None and name != "raw":
                headers[key] = value
        elif value is None:
            document.pop(name)
        else:
            document[name] = value
    body = changed.get("raw", json.dumps(document).encode())
    return evolve(request, headers=tuple(headers.items()), body=body)


def test_a_submission_of_the_adapter_is_taken() -> None:
    simulator = MtnSimulator()
    answer = simulator.handle_request(a_request(simulator=simulator), now=START)
    assert answer == HttpResponse(202)


@pytest.mark.parametrize(
    ("changed", "status", "code"),
    [
        ({"authorization": None}, 401, None),
        ({"authorization": b"Bearer x"}, 401, None),
        ({"authorization": b"Basic eDp5"}, 401, None),
        ({"ocp_apim_subscription_key": None}, 401, None),
        ({"ocp_apim_subscription_key": DISBURSEMENT_KEY.encode()}, 401, None),
        ({"x_target_environment": None}, 400, "VALIDATION_ERROR"),
        ({"x_target_environment": b"mtnghana"}, 500, "NOT_ALLOWED_TARGET_ENVIRONMENT"),
        ({"x_reference_id": None}, 400, "VALIDATION_ERROR"),
        ({"x_reference_id": b"2f1a3c4e-8b7d-1a5e-9c3d-0123456789ab"}, 400, "VALIDATION_ERROR"),
        ({"x_callback_url": b""}, 400, "VALIDATION_ERROR"),
        ({"x_callback_url": b"/hooks"}, 400, "VALIDATION_ERROR"),
        ({"x_callback_url": b"https://other.example/"}, 500, "INVALID_CALLBACK_URL_HOST"),
        ({"content_type": None}, 400, "VALIDATION_ERROR"),
        ({"content_type": b"text/plain"}, 400, "VALIDATION_ERROR"),
        ({"raw": b"no JSON"}, 400, "VALIDATION_ERROR"),
        ({"amount": 150}, 400, "VALIDATION_ERROR"),
        ({"amount": "150.005"}, 400, "VALIDATION_ERROR"),
        ({"amount": "0"}, 400, "VALIDATION_ERROR"),
        ({"currency": "UGX"}, 500, "INVALID_CURRENCY"),
        ({"externalId": None}, 400, "VALIDATION_ERROR"),
        ({"payerMessage": None}, 400, "VALIDATION_ERROR"),
        ({"payeeNote": "x" * 129}, 400, "VALIDATION_ERROR"),
        ({"payeeNote": "it's"}, 400, "VALIDATION_ERROR"),
        ({"payerMessage": "you & me"}, 400, "VALIDATION_ERROR"),
        ({"payerMessage": "1 < 2"}, 400, "VALIDATION_ERROR"),
        ({"payerMessage": "two\nlines"}, 400, "VALIDATION_ERROR"),
        ({"amount": "1E+3"}, 400, "VALIDATION_ERROR"),
        ({"amount": "10e-1"}, 400, "VALIDATION_ERROR"),
        ({"payer": None}, 400, "VALIDATION_ERROR"),
        ({"payer": {"partyIdType": "NAME", "partyId": "x"}}, 400, "VALIDATION_ERROR"),
        ({"payer": {"partyIdType": "MSISDN"}}, 400, "VALIDATION_ERROR"),
        ({"payer": {"partyIdType": "MSISDN", "partyId": "+46733"}}, 400, "VALIDATION_ERROR"),
    ],
)
def test_each_demand_of_the_operator_is_made(
    changed: Mapping[str, Any], status: int, code: str | None
) -> None:
    simulator = MtnSimulator(callback_host="gw.example")
    answer = simulator.handle_request(a_request(simulator=simulator, **changed), now=START)
    assert isinstance(answer, HttpResponse)
    assert (answer.status, json.loads(answer.body).get("code")) == (status, code)
    assert simulator.snapshot()["payments"] == []


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/collection/v1_0/requesttopay", 404),
        ("GET", f"/collection/v1_0/transfer/{reference_id(REFERENCE)}", 404),
        ("GET", f"/collection/v1_0/requesttopay/{reference_id(REFERENCE)}", 404),
        ("DELETE", "/collection/v1_0/account/balance", 404),
        ("GET", "/remittance/v1_0/account/balance", 401),
        ("GET", "/refunds/v1_0/account/balance", 404),
        ("GET", "/", 404),
        ("GET", "/collection/v1_0/account/balance", 200),
        ("GET", "/collection/v1_0/accountholder/msisdn/46733123999/active", 200),
        ("GET", "/collection/v1_0/accountholder/MSISDN/46733123999/active", 200),
        ("GET", "/collection/v1_0/accountholder/msisdn/46733123999/basicuserinfo", 200),
    ],
)
def test_each_path_leads_where_it_should(method: str, path: str, status: int) -> None:
    simulator = MtnSimulator()
    request = evolve(a_request(simulator=simulator), method=method, target=path.encode(), body=b"")
    answer = simulator.handle_request(request, now=START)
    assert isinstance(answer, HttpResponse)
    assert answer.status == status


def test_a_client_can_make_an_api_user_of_its_own() -> None:
    simulator = MtnSimulator()
    user = reference_id(REFERENCE)
    key = (b"ocp-apim-subscription-key", COLLECTION_KEY.encode())

    def call(method: str, path: str, *headers: tuple[bytes, bytes], body: bytes = b"") -> Any:
        answer = simulator.handle_request(
            HttpRequest(method, path.encode(), (key, *headers), body), now=START
        )
        assert not isinstance(answer, DroppedConnection)
        return answer.status, answer.body and json.loads(answer.body)

    named = (b"x-reference-id", user.encode())
    body = b'{"providerCallbackHost":"https://cb.example/x"}'
    assert call("POST", "/v1_0/apiuser", body=body)[0] == 400
    assert call("POST", "/v1_0/apiuser", named)[0] == 400
    assert call("POST", "/v1_0/apiuser", named, body=body) == (201, b"")
    assert call("POST", "/v1_0/apiuser", named, body=body)[0] == 409
    status, document = call("POST", f"/v1_0/apiuser/{user}/apikey")
    assert (status, len(document["apiKey"])) == (201, 32)
    assert call("GET", f"/v1_0/apiuser/{user}") == (
        200,
        {
            "providerCallbackHost": "https://cb.example/x",
            "paymentServerUrl": "http://localhost",
            "targetEnvironment": "sandbox",
        },
    )
    line = a_line(simulator, collection_api_user=user, collection_api_key=document["apiKey"])
    assert isinstance(line.submit(a_payment()), ProviderNeverReceived)


def test_its_controls_open_accounts_and_show_the_book() -> None:
    simulator = MtnSimulator()
    body = b'{"accounts":[{"account":"46733123999","balance":"5.00"}]}'
    host = ((b"host", b"localhost"),)
    opened = handle_control_request(
        simulator, HttpRequest("POST", b"/_simulator/accounts", host, body)
    )
    assert opened is not None
    assert opened.status == 200
    book = handle_control_request(simulator, HttpRequest("GET", b"/_simulator/book", host))
    assert isinstance(book, HttpResponse)
    assert json.loads(book.body)["accounts"][-1] == {
        "account": "46733123999",
        "currency": "EUR",
        "balance": "5.00",
    }
    wrong = handle_control_request(
        simulator, HttpRequest("POST", b"/_simulator/accounts", (), b'{"accounts":[{}]}')
    )
    assert wrong is not None
    assert wrong.status == 400
