"""The messages of the simulated pawaPay are those of the documentation's examples, to the last
member: `tests/captures/pawapay/bodies.toml` has them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mmo_sansio.values.clock import Instant, parse_timestamp
from mmo_simulators.operators.pawapay.markets import OperationType
from tests.simulators.operators.pawapay.test_api import (
    DEPOSIT,
    ID,
    PAYOUT,
    REFUND,
    Merchant,
    a_merchant,
    path_of,
    request_to,
)
from tests.support.bodies import documented

FULL_REQUEST = documented("pawapay", "full_deposit_request")
REFUND_ID = "f02b543c-541c-4f21-bbea-20d2d56063d6"


def at(timestamp: str) -> Merchant:
    """A merchant at this time."""
    merchant = a_merchant()
    merchant.now = Instant(parse_timestamp(timestamp))
    return merchant


def example(name: str, **changes: Any) -> Any:
    return documented("pawapay", name, **changes)


@pytest.mark.parametrize(
    ("operation", "request_body", "own"),
    [
        (DEPOSIT, example("deposit_request"), {"nextStep": "FINAL_STATUS"}),
        (DEPOSIT, FULL_REQUEST, {"nextStep": "FINAL_STATUS"}),
        (PAYOUT, example("payout_request"), {}),
    ],
)
def test_each_request_is_accepted_and_then_a_duplicate(
    operation: OperationType, request_body: dict[str, Any], own: dict[str, str]
) -> None:
    merchant, path = at("2020-10-19T11:17:01Z"), path_of(operation)
    id = {operation.id_member: request_body[operation.id_member]}
    accepted, duplicate = example("accepted"), example("duplicate_ignored")
    for answer in (accepted, duplicate):
        del answer["depositId"]
    assert merchant.ask("POST", path, request_body) == {**accepted, **id, **own}
    assert merchant.ask("POST", path, request_body) == {**duplicate, **id}


def test_a_rejection_has_the_words_of_the_reference() -> None:
    wrong = example("full_deposit_request", phoneNumber="2607634")
    assert a_merchant().ask("POST", path_of(DEPOSIT), wrong) == example("rejected")


def test_a_wrong_token_is_answered_with_the_id_of_the_request() -> None:
    wrong = {"Authorization": "Bearer wrong"}
    answer = a_merchant().receive(request_to("POST", path_of(DEPOSIT), FULL_REQUEST, wrong))
    assert json.loads(answer.body) == example("authentication_error")


@pytest.mark.parametrize(
    ("operation", "name", "own"),
    [(DEPOSIT, "deposit_completed", {"clientReferenceId"}), (PAYOUT, "payout_completed", set())],
)
def test_a_status_is_that_of_the_reference(
    operation: OperationType, name: str, own: set[str]
) -> None:
    merchant, expected = at("2020-10-19T08:17:01Z"), example(name)
    data = expected["data"]
    # The reference writes the number's name in two ways.
    account = data[operation.party_member]["accountDetails"]
    account["phoneNumber"] = account.pop("phoneNUmber", "260763456789")
    id = data[operation.id_member]
    names = {operation.id_member, operation.party_member, "currency", "customerMessage", *own}
    request = {member: data[member] for member in names} | {"amount": "123"}
    assert merchant.status(operation, id) == example("not_found")
    metadata = FULL_REQUEST["metadata"]
    merchant.ask("POST", path_of(operation), {**request, "metadata": metadata})
    [callback] = merchant.wait()
    receipt = merchant.data(operation, id)["providerTransactionId"]
    assert receipt.isdigit()
    data["providerTransactionId"] = receipt
    assert merchant.status(operation, id) == expected
    assert json.loads(callback.body) == {m: v for m, v in data.items() if m not in own}


def test_a_refund_is_that_of_the_guide() -> None:
    merchant = at("2025-05-15T07:36:56Z")
    merchant.submit(DEPOSIT)
    merchant.wait()
    merchant.now = Instant(parse_timestamp("2025-05-15T07:38:56Z"))
    accepted = merchant.submit(REFUND, refundId=REFUND_ID, depositId=ID)
    assert accepted == example("refund_accepted", refundId=REFUND_ID)


def test_wallet_balances_are_those_of_the_reference() -> None:
    merchant = a_merchant()
    for wallet in example("wallets")["balances"]:
        # Uganda's money has no cents.
        wallet["balance"] = wallet["balance"].replace("10798.03", "10798")
        merchant.open(f"{wallet['country']}/{wallet['currency']}", balance=wallet["balance"])
        assert wallet in merchant.ask("GET", "/v2/wallet-balances")["balances"]


def test_the_availability_of_a_country_is_that_of_the_reference() -> None:
    merchant = a_merchant()
    merchant.open("MTN_MOMO_ZMB", DEPOSIT="CLOSED")
    merchant.open("AIRTEL_OAPI_ZMB", PAYOUT="DELAYED")
    [served] = merchant.ask("GET", "/v2/availability?country=ZMB")
    for provider in served["providers"]:
        states = provider["operationTypes"]
        provider["operationTypes"] = [it for it in states if it["operationType"] != REFUND]
    assert served == example("availability")[1]
