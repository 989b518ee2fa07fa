"""Each operator's books are the gateway's successes and its suspense book, to the unit, whatever is lost, late, told
twice or killed. `MMO_TEST_WORLDS` says how many worlds of 100 payments each operator gets; a world is its seed."""

from __future__ import annotations

import os
from collections import Counter

import pytest
from operator_world import Operator, World

from mmo_sansio.model import Operation, Type
from mmo_sansio.providers.conversation import Provider
from mmo_sansio.providers.mpesa_daraja.account import account_from as daraja_account_from
from mmo_sansio.providers.mpesa_daraja.adapter import DarajaProvider
from mmo_sansio.providers.mtn_momo.account import account_from as mtn_account_from
from mmo_sansio.providers.mtn_momo.adapter import MtnMomoProvider
from mmo_trio.ciphers import SystemCiphers
from mmo_trio.simulators.base import Simulator
from mmo_trio.simulators.mpesa import SANDBOX_PASSKEY
from mmo_trio.simulators.mpesa_keys import open_mpesa
from mmo_trio.simulators.mtn import (
    API_KEY,
    API_USER,
    COLLECTION_KEY,
    DISBURSEMENT_KEY,
    MtnSimulator,
)
from mmo_trio.simulators.mtn_till import Till

WORLDS = int(os.environ.get("MMO_TEST_WORLDS", "2"))
PAYMENTS = 100
KILLS = 12
HOOKS = "https://gw.example/hooks/NAME/token"


def open_mtn() -> tuple[Provider, Simulator]:
    options = {
        "market": "mtnuganda",
        "collection_subscription_key": COLLECTION_KEY,
        "collection_api_user": API_USER,
        "collection_api_key": API_KEY,
        "disbursement_subscription_key": DISBURSEMENT_KEY,
        "disbursement_api_user": API_USER,
        "disbursement_api_key": API_KEY,
    }
    account = mtn_account_from(options, hooks_url=HOOKS)
    simulator = MtnSimulator(market="mtnuganda", till=Till(currency="UGX"))
    return MtnMomoProvider("mtn", "MTN", account), simulator


def open_kenya() -> tuple[Provider, Simulator]:
    simulator = open_mpesa()
    options = {
        "consumer_key": "consumer-key",
        "consumer_secret": "consumer-secret",
        "shortcode": "174379",
        "passkey": SANDBOX_PASSKEY,
        "payout_shortcode": "600997",
        "initiator": "testapi",
        "initiator_password": "Safaricom999!*!",
        "certificate": simulator.certificate,
    }
    customers = [
        {"account": f"25470834{number:04}", "balance": "100000.00"} for number in range(1000)
    ]
    simulator.open_accounts(customers)
    hooks = "https://gw.example/hooks/kenya/token"
    account = daraja_account_from(options, hooks_url=hooks, ciphers=SystemCiphers())
    return DarajaProvider("kenya", "M-Pesa", account), simulator


OPERATORS = {
    "mpesa": Operator(
        open_kenya,
        operations=(Operation.DIRECT_PAYIN, Operation.DIRECT_PAYOUT, Operation.DIRECT_TAXPAYOUT),
        currency="KES",
        failures=("1", "1032", "2040", "17", "SOMETHING_NEW"),
        accounts={Type.PAYIN: "174379", Type.PAYOUT: "600997", Type.TAX: "600997"},
        msisdn="+25470834",
        must_be_heard=True,
    ),
    "mtn": Operator(
        open_mtn,
        operations=(Operation.DIRECT_PAYIN, Operation.DIRECT_PAYOUT),
        currency="UGX",
        failures=("APPROVAL_REJECTED", "EXPIRED", "PAYEE_NOT_FOUND", "SOMETHING_NEW"),
        accounts={Type.PAYIN: "collection", Type.PAYOUT: "disbursement"},
    ),
}

HAPPENS = (
    "AnswerAfter",
    "AnswerInstead",
    "LoseAnswer",
    "LoseRequest",
    "ProviderAccepted",
    "ProviderFailed",
    "ProviderNeverReceived",
    "ProviderSucceeded",
    "ProviderUnreachable",
    "callback lost",
    "callback told again",
    "decided after the expiry",
    "expired",
    "killed between record and request",
    "killed in a conversation",
    "never decided",
    "not connected",
    "request late",
    "request lost",
)
"""What has to have happened in some world, so that the worlds prove something."""


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.spec("S2", "S5", "S6")
def test_an_operators_books_are_the_gateways_to_the_unit(name: str) -> None:
    happened: Counter[str] = Counter()
    for seed in range(WORLDS):
        world = World(OPERATORS[name], seed)
        world.run(PAYMENTS, KILLS)
        world.check()
        happened += world.tally
    assert [each for each in HAPPENS if not happened[each]] == []
