"""Drives the simulated Airtel Money by pyairtel 0.1.1, which writes each number with its country
code: the simulator refuses that, as Airtel does, and nothing is paid."""

from __future__ import annotations

import base64
import json
import urllib.request
from collections.abc import Callable
from functools import partial

from pyairtel import AirtelMoney
from pyairtel.exceptions import AirtelError

from support import ORIGIN, balances, control

PAYER = "681219610"


def refusal(call: Callable[[], object]) -> str:
    """Return what the client tells of a refusal; empty where there was none."""
    try:
        call()
    except AirtelError as error:
        return str(error)
    return ""


def main() -> None:
    control("/_simulator/accounts", {"accounts": [{"account": PAYER, "balance": "100000"}]})
    client = AirtelMoney("client-id", "client-secret", sandbox=True, country="UG", currency="UGX")
    for part in (client, client._token_manager, client._collection, client._disbursement):
        part._base_url = ORIGIN
    before = balances()

    collect = partial(client.collect, phone=f"0{PAYER}", amount=1000, reference="invoice-42")
    assert "ESB000033" in refusal(collect)

    token = client._token_manager.access_token
    headers = {"Authorization": f"Bearer {token}", "X-Country": "UG", "X-Currency": "UGX"}
    request = urllib.request.Request(f"{ORIGIN}/v1/rsa/encryption-keys", headers=headers)
    with urllib.request.urlopen(request) as answer:
        key = json.load(answer)["data"]["key"]
    lines = "\n".join(key[at : at + 64] for at in range(0, len(key), 64))
    pem = f"-----BEGIN PUBLIC KEY-----\n{lines}\n-----END PUBLIC KEY-----\n"
    assert base64.b64decode(key)

    transfer = partial(
        client.transfer,
        phone=f"255{PAYER}",
        amount=500,
        pin="1234",
        public_key_pem=pem,
        payer_first_name="Test",
        payer_last_name="Shop",
        reference="order-99",
    )
    assert "ESB000033" in refusal(transfer)
    assert balances() == before


main()
