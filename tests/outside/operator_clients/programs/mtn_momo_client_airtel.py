"""Drives the simulated Airtel Money by mtn-momo-client: collections, pay-outs and balances, with
amounts as text.

PIN_PADDING names the only padding of PINs that the operator takes. For PKCS#1 v1.5 the client
encrypts the PIN itself; for the paddings of OAEP, which it has no function for, the program gives
it an encrypted PIN."""

from __future__ import annotations

import base64
import os

import httpx
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding
from cryptography.hazmat.primitives.serialization import load_der_public_key
from momo_api import AirtelApi, AirtelConfig, encrypt_airtel_pin

from support import ORIGIN, CallbackReceiver, balances, control

PAYER = "752000000"
OAEP_HASHES = {
    "oaep-sha256": (hashes.SHA256(), hashes.SHA256()),
    "oaep-sha256-mgf1-sha1": (hashes.SHA256(), hashes.SHA1()),
    "oaep-sha1": (hashes.SHA1(), hashes.SHA1()),
}
"""By padding: the hash of OAEP, and that of its mask."""


def encrypted_pin(key: str) -> str:
    hash_and_mask = OAEP_HASHES.get(os.environ.get("PIN_PADDING", ""))
    if hash_and_mask is None:
        return encrypt_airtel_pin("1234", key)
    hash, mask = hash_and_mask
    oaep = padding.OAEP(padding.MGF1(mask), hash, None)
    return base64.b64encode(
        load_der_public_key(base64.b64decode(key)).encrypt(b"1234", oaep)
    ).decode()


def main() -> None:
    receiver = CallbackReceiver()
    control(
        "/_simulator/accounts",
        {"accounts": [{"account": "collection", "callback_url": receiver.url()}]},
    )
    api = AirtelApi(ORIGIN)
    config = AirtelConfig.collection("client-id", "client-secret", country="UG", currency="UGX")
    collection = api.get_collection(config)
    id = collection.request_to_pay("1000", PAYER, "Order 1")
    assert receiver.next()["transaction"]["id"] == id
    assert collection.get_payment_status(id).is_successful()
    assert collection.get_balance().currency == "UGX"

    headers = {
        "Authorization": f"Bearer {collection.get_access_token()}",
        "X-Country": "UG",
        "X-Currency": "UGX",
    }
    key = httpx.get(f"{ORIGIN}/v1/rsa/encryption-keys", headers=headers).json()["data"]["key"]
    disbursement = api.get_disbursement(
        AirtelConfig.disbursement(
            "client-id", "client-secret", encrypted_pin(key), country="UG", currency="UGX"
        )
    )
    id = disbursement.transfer("500", PAYER, "Order 2")
    assert disbursement.get_transfer_status(id).is_successful()
    expected = {PAYER: "999500", "collection": "1000", "disbursement": "9999500"}
    assert balances().items() >= expected.items(), balances()


main()
