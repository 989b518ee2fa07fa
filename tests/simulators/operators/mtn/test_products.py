"""The simulated MTN MoMo offers what clients of all its products ask for, with the numbers and
forms of its sandbox."""

from __future__ import annotations

import base64
import json
import uuid
from typing import Any

import pytest
from attrs import Factory, define

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.providers.mtn_momo.account import read_account
from mmo_sansio.providers.mtn_momo.adapter import MtnMomoProvider
from mmo_sansio.testing import START
from mmo_sansio.values.clock import MINUTE, SECOND, Instant, Moment, Span, later
from mmo_simulators.common.faults import CallBack, LoseAnswer, PlannedFault
from mmo_simulators.operators.mtn.accounts import SimulatedMtnAccounts
from mmo_simulators.operators.mtn.api import API_KEY, API_USER, MtnSimulator
from tests.simulators.operators.mtn.test_api import HOOKS, OPTIONS, a_line, a_payment, outcome
from tests.support.captures import assert_documented

PARTY = {"partyIdType": "MSISDN", "partyId": "46733123999"}


@define
class Client:
    """Talks with a simulator as any client does."""

    simulator: MtnSimulator = Factory(MtnSimulator)
    now: Instant = START
    _tokens: dict[str, str] = Factory(dict)

    def token(
        self, product: str, body: bytes = b"", *, key: str = API_KEY, **headers: str
    ) -> tuple[int, Any]:
        pair = base64.b64encode(f"{API_USER}:{key}".encode()).decode()
        return self._send(
            "POST", f"/{product}/token/", body, authorization=f"Basic {pair}", **headers
        )

    def call(
        self, method: str, path: str, document: object = None, **headers: str
    ) -> tuple[int, Any]:
        product = path.split("/")[1]
        if product not in self._tokens:
            self._tokens[product] = self.token(product)[1]["access_token"]
        body = b"" if document is None else json.dumps(document).encode()
        sent = {
            "authorization": f"Bearer {self._tokens[product]}",
            "x_target_environment": "sandbox",
            "content_type": "application/json",
            **headers,
        }
        return self._send(method, path, body, **sent)

    def submit(self, path: str, **members: Any) -> str:
        """Submit, and return the id."""
        id = str(uuid.uuid4())
        document = {
            "amount": "10",
            "currency": "EUR",
            "externalId": "1",
            "payerMessage": "Thanks",
            "payeeNote": "Thanks",
        }
        assert self.call("POST", path, {**document, **members}, x_reference_id=id) == (202, None)
        return id

    def ended(self, path: str, id: str) -> Any:
        self.now = later(self.now, MINUTE)
        status, found = self.call("GET", f"{path}/{id}")
        assert status == 200
        return found

    def balance(self, account: str) -> str:
        rows = {each["account"]: each["balance"] for each in self.simulator.snapshot()["accounts"]}
        return str(rows[account])

    def _send(self, method: str, path: str, body: bytes, **headers: str) -> tuple[int, Any]:
        product = path.split("/")[1]
        key = self.simulator.subscription_keys.get(
            product, self.simulator.subscription_keys["collection"]
        )
        fields = {"ocp_apim_subscription_key": key, **headers}
        request = HttpRequest(
            method,
            path.encode(),
            tuple((k.replace("_", "-").encode(), v.encode()) for k, v in fields.items()),
            body,
        )
        answer = self.simulator.handle_request(request, now=self.now)
        assert isinstance(answer, HttpResponse)
        return answer.status, json.loads(answer.body) if answer.body else None


def test_answers_have_the_members_that_the_adapter_is_tested_with() -> None:
    client = Client()
    paid = client.submit("/collection/v1_0/requesttopay", payer=PARTY)
    payment = client.ended("/collection/v1_0/requesttopay", paid)
    refund = client.submit("/disbursement/v1_0/refund", referenceIdToRefund=paid)
    unknown = f"/collection/v1_0/requesttopay/{uuid.uuid4()}"
    told = {
        "paid": payment,
        "refund": client.ended("/disbursement/v1_0/refund", refund),
        "not_found": client.call("GET", unknown)[1],
        "token": client.token("collection")[1],
    }
    assert_documented("mtn_momo", told)


@pytest.mark.parametrize(
    "body",
    [b"", b"{}", b"null", b'{"grant_type":"client_credentials"}', b"grant_type=client_credentials"],
)
def test_a_token_request_may_have_any_body(body: bytes) -> None:
    status, found = Client().token("collection", body)
    assert (status, found["expires_in"]) == (200, 3600)


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        ("46733123450", (404, "RESOURCE_NOT_FOUND")),
        ("46733123451", (200, False)),
        ("46733123452", (500, "NOT_ALLOWED")),
        ("46733123453", (500, "NOT_ALLOWED_TARGET_ENVIRONMENT")),
        ("46733123454", (500, "INTERNAL_PROCESSING_ERROR")),
        ("46733123455", (503, "SERVICE_UNAVAILABLE")),
        ("46733123456", (200, True)),
    ],
)
@pytest.mark.parametrize("product", ["collection", "disbursement"])
def test_account_holders_are_those_of_the_sandbox(
    product: str, number: str, expected: tuple[int, object]
) -> None:
    status, found = Client().call("GET", f"/{product}/v1_0/accountholder/msisdn/{number}/active")
    assert (status, found["result"] if status == 200 else found["code"]) == expected


def test_subscription_keys_have_the_form_of_the_operators() -> None:
    keys = MtnSimulator().subscription_keys
    assert keys.keys() == {"collection", "disbursement", "remittance"}
    assert [uuid.UUID(each).hex for each in keys.values()] == list(keys.values())
    assert {uuid.UUID(each).version for each in keys.values()} == {4}


def test_a_wrong_api_key_is_answered_as_the_sandbox_does() -> None:
    assert Client().token("collection", key="0" * 32) == (500, {"error": "login_failed"})


@pytest.mark.parametrize("version", ["v1_0", "v2_0"])
def test_a_refund_gives_back_what_was_paid_and_no_more(version: str) -> None:
    client = Client()
    paid = client.submit("/collection/v1_0/requesttopay", payer=PARTY)
    assert client.ended("/collection/v1_0/requesttopay", paid)["status"] == "SUCCESSFUL"
    path = f"/disbursement/{version}/refund"
    part = client.submit(path, amount="7", referenceIdToRefund=paid)
    found = client.ended("/disbursement/v1_0/refund", part)
    assert (found["status"], found["amount"], found["payee"]) == ("SUCCESSFUL", "7", PARTY)
    assert "financialTransactionId" in found
    too_much = client.submit(path, amount="4", referenceIdToRefund=paid)
    assert client.ended("/disbursement/v1_0/refund", too_much)["reason"] == "NOT_ALLOWED"
    unknown = client.submit(path, referenceIdToRefund=str(uuid.uuid4()))
    assert client.ended("/disbursement/v1_0/refund", unknown)["reason"] == "TRANSACTION_NOT_FOUND"
    assert client.balance("46733123999") == "999997.00"
    assert (client.balance("collection"), client.balance("disbursement")) == (
        "1000010.00",
        "999993.00",
    )


def test_a_refund_is_refused_when_money_or_time_has_run_out() -> None:
    client = Client(MtnSimulator(accounts=SimulatedMtnAccounts(refundable_for=Span(3 * MINUTE))))
    paid = client.submit("/collection/v1_0/requesttopay", payer=PARTY)
    client.ended("/collection/v1_0/requesttopay", paid)
    client.simulator.open_accounts([{"account": "disbursement", "balance": "1"}])
    path = "/disbursement/v1_0/refund"
    assert (
        client.ended(path, client.submit(path, referenceIdToRefund=paid))["reason"]
        == "NOT_ENOUGH_FUNDS"
    )
    client.now = later(client.now, Span(3 * MINUTE))
    assert (
        client.ended(path, client.submit(path, amount="1", referenceIdToRefund=paid))["reason"]
        == "NOT_ALLOWED"
    )
    assert client.balance("46733123999") == "999990.00"


def test_a_refund_is_called_back_and_goes_wrong_as_a_script_says() -> None:
    client = Client()
    paid = client.submit("/collection/v1_0/requesttopay", payer=PARTY)
    client.ended("/collection/v1_0/requesttopay", paid)
    path = "/disbursement/v1_0/refund"
    plan = [
        PlannedFault("refund", LoseAnswer()),
        PlannedFault("refund", CallBack((SECOND, MINUTE))),
    ]
    client.simulator.faults.plan(plan)
    members = {
        "amount": "10",
        "currency": "EUR",
        "externalId": "back",
        "payerMessage": "Thanks",
        "payeeNote": "Thanks",
    }
    id, url = str(uuid.uuid4()), "https://gw.example/hooks/mtn/token/back"
    with pytest.raises(AssertionError):
        client.call(
            "POST",
            path,
            {**members, "referenceIdToRefund": paid},
            x_reference_id=id,
            x_callback_url=url,
        )
    status, found = client.call(
        "POST", path, {**members, "referenceIdToRefund": paid}, x_reference_id=id
    )
    assert (status, found["code"]) == (409, "RESOURCE_ALREADY_EXIST")
    assert client.ended(path, id)["status"] == "SUCCESSFUL"
    client.now = later(client.now, MINUTE)
    told = client.simulator.take_due_callbacks(now=client.now)
    assert [each.target.decode() for each in told] == [url, url]
    assert json.loads(told[0].body)["externalId"] == "back"
    assert [each["kind"] for each in client.simulator.snapshot()["payments"]] == [
        "requesttopay",
        "refund",
    ]


@pytest.mark.parametrize(
    ("id", "reason"), [("1", "TRANSACTION_NOT_FOUND"), ("3", "APPROVAL_REJECTED")]
)
def test_ids_to_refund_mean_what_they_do_in_the_sandbox(id: str, reason: str) -> None:
    client = Client()
    refund = client.submit("/disbursement/v1_0/refund", referenceIdToRefund=id)
    assert client.ended("/disbursement/v1_0/refund", refund)["reason"] == reason


@pytest.mark.parametrize(
    ("path", "member", "ours", "change"),
    [
        ("/remittance/v1_0/transfer", "payee", "remittance", 10),
        ("/collection/v1_0/requesttowithdraw", "payer", "collection", -10),
        ("/collection/v2_0/requesttowithdraw", "payer", "collection", -10),
    ],
)
def test_remittances_and_withdrawals_move_money(
    path: str, member: str, ours: str, change: int
) -> None:
    client = Client()
    id = client.submit(path, **{member: PARTY})
    assert client.ended(path.replace("v2_0", "v1_0"), id)["status"] == "SUCCESSFUL"
    assert client.balance("46733123999") == f"{1_000_000 + change}.00"
    assert client.balance(ours) == f"{1_000_000 - change}.00"


def test_a_balance_can_be_asked_for_by_currency() -> None:
    client = Client()
    for product in ("collection", "disbursement", "remittance"):
        found = {"availableBalance": "1000000", "currency": "EUR"}
        assert client.call("GET", f"/{product}/v1_0/account/balance/EUR") == (200, found)
    status, error = client.call("GET", "/collection/v1_0/account/balance/UGX")
    assert (status, error["code"]) == (500, "INVALID_CURRENCY")


def test_the_adapter_names_its_market_to_the_second_platform() -> None:
    line = a_line(MtnSimulator(requires_token_environment=True))
    assert outcome(line, a_payment()).provider == "mtn"
    assert line.simulator.snapshot()["payments"][0]["result"] == "success"
    client = Client(MtnSimulator(requires_token_environment=True))
    error = {"error": "Invalid or missing X-Target-Environment header"}
    assert client.token("collection") == (400, error)
    assert client.token("collection", x_target_environment="mtnuganda") == (400, error)


def test_the_adapter_signs_in_with_an_api_user_in_base64() -> None:
    user = "dXNlci1pZC0xMjM0NTY3OA=="
    account = read_account({**OPTIONS, "collection_api_user": user}, hooks_url=HOOKS)
    request = next(
        MtnMomoProvider("mtn", "MTN", account).sign_in("collection", now=Moment.at(START))
    )
    encoded = dict(request.headers)[b"authorization"].removeprefix(b"Basic ")
    assert base64.b64decode(encoded).decode() == f"{user}:{API_KEY}"
