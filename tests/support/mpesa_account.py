"""The options of an account with the simulated M-Pesa as it begins."""

from __future__ import annotations

from mmo_simulators.operators.mpesa.accounts import SANDBOX_PASSKEY


def mpesa_options(certificate: str) -> dict[str, str]:
    """Return the options, without the simulator's URL."""
    return {
        "consumer_key": "consumer-key",
        "consumer_secret": "consumer-secret",
        "shortcode": "174379",
        "passkey": SANDBOX_PASSKEY,
        "payout_shortcode": "600997",
        "initiator": "testapi",
        "initiator_password": "Safaricom999!*!",
        "certificate": certificate,
        "merchant_name": "TEST SHOP",
    }
