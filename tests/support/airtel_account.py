"""Airtel Money's simulator and an account with it, for tests: one RSA key for all of them."""

from __future__ import annotations

from functools import cache
from typing import Any

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key

from mmo_simulators.operators.airtel.api import AirtelSimulator
from mmo_simulators.operators.airtel.request_checks import SimulatedAirtelMarket

PAYER = "752000000"
"""A national number in Uganda."""


@cache
def private_key(bits: int = 1024) -> RSAPrivateKey:
    """Return an RSA key, which is generated once."""
    return generate_private_key(65537, bits)


def a_simulator(bits: int = 1024, **market: Any) -> AirtelSimulator:
    """Return a simulator for Uganda: the payer has UGX 100000, and UGX 1000000 can be paid out."""
    simulator = AirtelSimulator(SimulatedAirtelMarket(private_key(bits), **market))
    currency = simulator.market.currency
    simulator.open_accounts(
        [
            {"account": PAYER, "balance": "100000", "currency": currency},
            {"account": "disbursement", "balance": "1000000"},
        ]
    )
    return simulator


def options(base_url: str, **more: Any) -> dict[str, Any]:
    """Return the gateway's options for an account with this simulator."""
    standard = {
        "base_url": base_url,
        "country": "UG",
        "client_id": "client-id",
        "client_secret": "client-secret",
        "pin": "1234",
    }
    return {**standard, **more}
