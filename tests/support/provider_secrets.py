"""Provides valid options for each kind of provider, with secrets that can be found wherever they
appear."""

from __future__ import annotations

import base64
from functools import cache
from typing import Any

from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from mmo_simulators.operators.mpesa.keys import open_mpesa
from tests.support.airtel_account import private_key

CANARY = "canary-7f3e"
"""The prefix of every planted secret."""

SECRETS: dict[str, tuple[str, ...]] = {
    "airtel_money": ("client_secret", "pin", "callback_key"),
    "mpesa_daraja": (
        "consumer_key",
        "consumer_secret",
        "passkey",
        "initiator_password",
        "deposit_initiator_password",
    ),
    "mtn_momo": (
        "collection_subscription_key",
        "collection_api_key",
        "disbursement_subscription_key",
        "disbursement_api_key",
    ),
}
"""The secret options of each kind."""


def canary(name: str) -> str:
    """The secret that is planted in this option."""
    return f"{CANARY}-{name.replace('_', '-')}"


@cache
def certificate() -> str:
    """A certificate such as Daraja's."""
    return open_mpesa().certificate


def good_options(kind: str, base_url: str) -> dict[str, Any]:
    """Options with which an account of this kind opens, its secrets planted."""
    der = private_key().public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    user = "c72025f5-5cd1-4630-99e4-8ba4722fad56"
    plain: dict[str, dict[str, Any]] = {
        "airtel_money": {
            "country": "UG",
            "client_id": "client",
            "collection_version": "2",
            "public_key": base64.b64encode(der).decode(),
        },
        "mpesa_daraja": {
            "shortcode": "174379",
            "payout_shortcode": "600997",
            "initiator": "testapi",
            "certificate": certificate(),
        },
        "mtn_momo": {
            "market": "mtnuganda",
            "collection_api_user": user,
            "disbursement_api_user": user,
        },
    }
    planted = {name: canary(name) for name in SECRETS[kind]}
    return {"base_url": base_url, **plain[kind], **planted}
