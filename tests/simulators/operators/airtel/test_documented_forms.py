"""The simulated Airtel Money takes what the portal's samples and clients send, and offers what
every client has."""

from __future__ import annotations

import base64
import subprocess
import sys
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import load_der_public_key

from mmo_sansio.providers.common.interface import RsaPadding
from mmo_sansio.values.clock import SECOND
from mmo_simulators.common.faults import EndWith, Fault, LoseAnswer, LoseRequest, PlannedFault
from mmo_trio.system.ciphers import SystemCiphers
from tests.support.airtel_account import KEYS, PAYER, Client, a_simulator
from tests.support.captures import assert_documented
from tests.support.time_limits import HANGS_AFTER_S


def disburse(client: Client, padding: str) -> tuple[int, Any]:
    key = base64.b64decode(client.call("GET", "/v1/rsa/encryption-keys")[1]["data"]["key"])
    assert load_der_public_key(key)
    pin = base64.b64encode(SystemCiphers().rsa_encrypt(key, b"1234", RsaPadding(padding)))
    document = {
        "payee": {"msisdn": PAYER},
        "reference": "Order #1",
        "pin": pin.decode(),
        "transaction": {"amount": "1000", "id": "TXN-20261122-EF70CB4C"},
    }
    return client.call("POST", "/standard/v1/disbursements/", document)


def test_answers_have_the_members_that_the_adapter_is_tested_with() -> None:
    client = Client()
    refund = {"transaction": {"airtel_money_id": client.paid()}}
    payment = "/standard/v1/payments/random-unique-id"
    told = {
        "taken": client.collect(id="another-id")[1],
        "paid": client.call("GET", payment)[1],
        "refund": client.call("POST", "/standard/v1/payments/refund", refund)[1],
        "user": client.call("GET", f"/standard/v1/users/{PAYER}")[1],
        "key": client.call("GET", "/v1/rsa/encryption-keys")[1],
        "token": client.call("POST", "/auth/oauth2/token", KEYS)[1],
    }
    assert_documented("airtel_money", told)


PADDINGS = ["pkcs1v15", "oaep-sha1", "oaep-sha256", "oaep-sha256-mgf1-sha1"]


@pytest.mark.parametrize("padding", PADDINGS)
def test_a_pin_may_have_any_padding(padding: str) -> None:
    client = Client()
    status, found = disburse(client, padding)
    assert (status, found["data"]["transaction"]["status"]) == (200, "TS")
    assert client.balances()["disbursement"] == "999000"


@pytest.mark.parametrize("padding", PADDINGS)
def test_the_switch_leaves_one_padding(padding: str) -> None:
    client = Client(a_simulator(2048, pin_paddings=(RsaPadding.OAEP_SHA256,)))
    status, found = disburse(client, padding)
    assert (status, found["status"]["response_code"]) == (
        (200, "DP00900001001") if padding == "oaep-sha256" else (400, "ROUTER116")
    )


def test_the_switch_is_airtels_alone() -> None:
    command = [sys.executable, "-m", "mmo_trio.cli", "simulate", "mpesa"]
    done = subprocess.run(
        [*command, "--pin-padding", "pkcs1v15"],
        capture_output=True,
        text=True,
        timeout=HANGS_AFTER_S,
        check=False,
    )
    assert done.returncode == 2
    assert "--pin-padding is for airtel" in done.stderr


def refund(client: Client, receipt: str, version: str = "v1") -> tuple[Any, str]:
    """Whether a refund was successful, and the code of its answer."""
    body = {"transaction": {"airtel_money_id": receipt}}
    _, found = client.call("POST", f"/standard/{version}/payments/refund", body)
    return found["status"]["success"], found["status"]["response_code"]


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_a_refund_gives_a_collection_back_once(version: str) -> None:
    client = Client()
    receipt = client.paid()
    body = {"transaction": {"airtel_money_id": receipt}}
    status, found = client.call("POST", f"/standard/{version}/payments/refund", body)
    done = {"airtel_money_id": receipt, "status": "SUCCESS"}
    assert (status, found["data"]["transaction"]) == (200, done)
    assert found["status"]["success"] is True
    assert client.balances() == {PAYER: "100000", "collection": "0", "disbursement": "1000000"}
    assert refund(client, receipt, version) == (False, "DP00800001008")
    assert refund(client, "x", version)[1] == "DP00800001025"
    assert client.balances()[PAYER] == "100000"
    kinds = [each["kind"] for each in client.simulator.snapshot()["payments"]]
    assert kinds == ["collection", "refund"]


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
    grace = {"first_name": "Grace", "last_name": "Okello"}
    client.simulator.open_accounts([{"account": PAYER, **grace, "barred": True}])
    status, found = client.call("GET", f"/standard/v1/users/{PAYER}")
    told = {**grace, "is_barred": True, "msisdn": int(PAYER)}
    assert (status, found["data"].items() >= told.items()) == (200, True)
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
