"""The simulated Airtel Money takes what the portal's samples and clients send, and offers what
every client has."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import uuid
from typing import Any

import pytest
from attrs import Factory, define
from cryptography.hazmat.primitives.serialization import load_der_public_key

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.providers.common.interface import RsaPadding
from mmo_sansio.testing import START
from mmo_sansio.values.clock import MINUTE, SECOND, Instant, later
from mmo_simulators.common.faults import EndWith, Fault, LoseAnswer, LoseRequest, PlannedFault
from mmo_simulators.operators.airtel.api import AirtelSimulator
from mmo_trio.system.ciphers import SystemCiphers
from tests.support.airtel_account import PAYER, a_simulator
from tests.support.time_limits import HANGS_AFTER_S

SAMPLE: dict[str, Any] = {
    "reference": "Testing transaction",
    "subscriber": {"country": "UG", "currency": "UGX", "msisdn": PAYER},
    "transaction": {"amount": 1000, "country": "UG", "currency": "UGX", "id": "random-unique-id"},
}
"""The portal's own sample of a collection, with a number of the simulator."""


@define
class Client:
    """Talks with a simulator as any client does."""

    simulator: AirtelSimulator = Factory(lambda: a_simulator(2048))
    now: Instant = START
    _token: str = ""

    def call(self, method: str, path: str, document: object = None) -> tuple[int, Any]:
        if not self._token:
            keys = {
                "client_id": "client-id",
                "client_secret": "client-secret",
                "grant_type": "client_credentials",
            }
            self._token = self._send("POST", "/auth/oauth2/token", keys, ())[1]["access_token"]
        authorization = (b"authorization", f"Bearer {self._token}".encode())
        return self._send(
            method, path, document, (authorization, (b"x-country", b"UG"), (b"x-currency", b"UGX"))
        )

    def collect(self, **changed: Any) -> tuple[int, Any]:
        transaction = {**SAMPLE["transaction"], **changed.pop("transaction", {})}
        return self.call(
            "POST", "/merchant/v1/payments/", {**SAMPLE, **changed, "transaction": transaction}
        )

    def paid(self) -> str:
        """The airtel_money_id of a collection that was paid."""
        assert self.collect()[0] == 200
        self.now = later(self.now, MINUTE)
        return str(
            self.call("GET", "/standard/v1/payments/random-unique-id")[1]["data"]["transaction"][
                "airtel_money_id"
            ]
        )

    def balances(self) -> dict[str, str]:
        return {each["account"]: each["balance"] for each in self.simulator.snapshot()["accounts"]}

    def disburse(self, padding: str) -> tuple[int, Any]:
        key = base64.b64decode(self.call("GET", "/v1/rsa/encryption-keys")[1]["data"]["key"])
        assert load_der_public_key(key)
        document = {
            "payee": {"msisdn": PAYER},
            "reference": "Order #1",
            "pin": encrypted(key, padding),
            "transaction": {"amount": "1,000".replace(",", ""), "id": "TXN-20261122-EF70CB4C"},
        }
        return self.call("POST", "/standard/v1/disbursements/", document)

    def _send(self, method: str, path: str, document: object, headers: Any) -> tuple[int, Any]:
        body = b"" if document is None else json.dumps(document).encode()
        request = HttpRequest(
            method, path.encode(), ((b"content-type", b"application/json"), *headers), body
        )
        answer = self.simulator.handle_request(request, now=self.now)
        assert isinstance(answer, HttpResponse)
        return answer.status, json.loads(answer.body)


def encrypted(key: bytes, padding: str) -> str:
    return base64.b64encode(SystemCiphers().rsa_encrypt(key, b"1234", RsaPadding(padding))).decode()


PADDINGS = ["pkcs1v15", "oaep-sha1", "oaep-sha256", "oaep-sha256-mgf1-sha1"]


@pytest.mark.parametrize("padding", PADDINGS)
def test_a_pin_may_have_any_padding(padding: str) -> None:
    client = Client()
    status, found = client.disburse(padding)
    assert (status, found["data"]["transaction"]["status"]) == (200, "TS")
    assert client.balances()["disbursement"] == "999000"


@pytest.mark.parametrize("padding", PADDINGS)
def test_the_switch_leaves_one_padding(padding: str) -> None:
    client = Client(a_simulator(2048, pin_paddings=(RsaPadding.OAEP_SHA256,)))
    status, found = client.disburse(padding)
    assert (status, found["status"]["response_code"]) == (
        (200, "DP00900001001") if padding == "oaep-sha256" else (400, "ROUTER116")
    )


def test_the_switch_is_airtels_alone() -> None:
    command = [
        sys.executable,
        "-m",
        "mmo_trio.cli",
        "simulate",
        "mpesa",
        "--pin-padding",
        "pkcs1v15",
    ]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=HANGS_AFTER_S, check=False
    )
    assert done.returncode == 2
    assert "--pin-padding is for airtel" in done.stderr


@pytest.mark.parametrize(
    ("reference", "id"),
    [
        ("Testing transaction", "random-unique-id"),
        ("Order #1", str(uuid.UUID(int=7, version=4))),
        ("order-99", "TXN-20261122131415123456-EF70CB4C"),
    ],
)
def test_ids_and_references_are_those_of_samples_and_clients(reference: str, id: str) -> None:
    client = Client()
    status, found = client.collect(reference=reference, transaction={"id": id})
    assert (status, found["data"]["transaction"]["id"]) == (200, id)
    client.now = later(client.now, MINUTE)
    status, found = client.call("GET", f"/standard/v1/payments/{id}")
    assert (status, found["data"]["transaction"]["status"]) == (200, "TS")


@pytest.mark.parametrize(
    "changed", [{"reference": ""}, {"reference": "a\nb"}, {"transaction": {"id": "a/b"}}]
)
def test_what_no_sample_has_is_still_rejected(changed: dict[str, Any]) -> None:
    status, found = Client().collect(**changed)
    assert (status, found["status"]["response_code"]) == (400, "ROUTER003")


@pytest.mark.parametrize(
    ("amount", "expected"), [("1000", 200), (1000, 200), ("0", 400), ("1 000", 400), (None, 400)]
)
def test_an_amount_is_a_number_or_its_text(amount: object, expected: int) -> None:
    client = Client()
    assert client.collect(transaction={"amount": amount})[0] == expected
    rows = [each["amount"] for each in client.simulator.snapshot()["payments"]]
    assert rows == (["1000"] if expected == 200 else [])


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_a_refund_gives_a_collection_back_once(version: str) -> None:
    client = Client()
    receipt = client.paid()
    body = {"transaction": {"airtel_money_id": receipt}}
    status, found = client.call("POST", f"/standard/{version}/payments/refund", body)
    assert (status, found["data"]["transaction"]) == (
        200,
        {"airtel_money_id": receipt, "status": "SUCCESS"},
    )
    assert found["status"]["success"] is True
    assert client.balances() == {PAYER: "100000", "collection": "0", "disbursement": "1000000"}
    status, found = client.call("POST", f"/standard/{version}/payments/refund", body)
    assert (found["status"]["success"], found["status"]["response_code"]) == (
        False,
        "DP00800001008",
    )
    status, found = client.call(
        "POST", f"/standard/{version}/payments/refund", {"transaction": {"airtel_money_id": "x"}}
    )
    assert (status, found["status"]["response_code"]) == (400, "DP00800001025")
    assert client.balances()[PAYER] == "100000"
    kinds = [each["kind"] for each in client.simulator.snapshot()["payments"]]
    assert kinds == ["collection", "refund"]


def refund(client: Client, receipt: str) -> tuple[Any, str]:
    _, found = client.call(
        "POST", "/standard/v1/payments/refund", {"transaction": {"airtel_money_id": receipt}}
    )
    return found["status"]["success"], found["status"]["response_code"]


def test_a_refund_is_refused_where_the_wallet_lacks_the_money() -> None:
    client = Client()
    receipt = client.paid()
    client.simulator.open_accounts([{"account": "collection", "balance": "999"}])
    assert refund(client, receipt) == (False, "DP00800001007")
    assert client.balances()[PAYER] == "99000"


def test_a_refund_is_refused_when_the_payment_is_too_old() -> None:
    client = Client(a_simulator(2048, refundable_for=SECOND))
    receipt = client.paid()
    assert refund(client, receipt) == (False, "DP00800001008")
    assert client.balances()[PAYER] == "99000"


def test_a_refund_goes_wrong_as_a_script_says() -> None:
    client = Client()
    receipt = client.paid()
    faults: tuple[Fault, ...] = (EndWith("DP00800001000"), LoseRequest(), LoseAnswer())
    client.simulator.faults.plan(
        [PlannedFault("refund", each, skip=skip) for skip, each in enumerate(faults)]
    )
    assert refund(client, receipt) == (False, "DP00800001000")
    for balance in ("99000", "100000"):
        with pytest.raises(AssertionError):
            refund(client, receipt)
        assert client.balances()[PAYER] == balance
    assert refund(client, receipt) == (False, "DP00800001008")
    assert [each["kind"] for each in client.simulator.snapshot()["payments"]] == [
        "collection",
        "refund",
    ]


def test_users_are_known_by_their_numbers() -> None:
    client = Client()
    wallet = {"account": PAYER, "first_name": "Grace", "last_name": "Okello", "barred": True}
    client.simulator.open_accounts([wallet])
    status, found = client.call("GET", f"/standard/v1/users/{PAYER}")
    data = found["data"]
    assert (status, data["first_name"], data["last_name"], data["is_barred"]) == (
        200,
        "Grace",
        "Okello",
        True,
    )
    assert data["msisdn"] == int(PAYER)
    status, found = client.call("GET", "/standard/v1/users/700000001")
    assert (status, found["status"]["response_code"]) == (400, "DP02200000002")


@pytest.mark.parametrize(
    ("path", "balance"),
    [
        ("/standard/v1/users/balance", "1,000,000.00"),
        ("/standard/v2/users/balance?type=DISB", "1,000,000.00"),
        ("/standard/v2/users/balance?type=COLL", "1,000.00"),
    ],
)
def test_balances_are_those_of_the_book(path: str, balance: str) -> None:
    client = Client()
    client.paid()
    status, found = client.call("GET", path)
    assert (status, found["data"]) == (
        200,
        {"balance": balance, "currency": "UGX", "account_status": "Active"},
    )


def test_a_path_that_is_no_enquiry_is_not_found() -> None:
    path = f"/standard/v1/disbursements/mobile-money/validity?msisdn={PAYER}&country=UG"
    status, found = Client().call("GET", path)
    assert (status, found["status"]["response_code"]) == (404, "ROUTER005")
