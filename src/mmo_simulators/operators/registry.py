"""Lists the simulators by the name that `mmo simulate` gives them, with what a gateway's account
with each needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from mmo_sansio.providers.common.interface import RsaPadding
from mmo_simulators.common.simulator import Simulator
from mmo_simulators.operators.airtel.api import open_airtel
from mmo_simulators.operators.mpesa.accounts import SANDBOX_PASSKEY
from mmo_simulators.operators.mpesa.keys import open_mpesa
from mmo_simulators.operators.mtn.api import (
    API_KEY,
    API_USER,
    COLLECTION_KEY,
    DISBURSEMENT_KEY,
    MtnSimulator,
)
from mmo_simulators.operators.pawapay.api import API_TOKEN, open_pawapay
from mmo_simulators.operators.wave import api as wave

# The name under which the certificate of M-Pesa is kept.
CERTIFICATE_FILE: Final = "simulated-mpesa.pem"

# Functions that open a new operator, with accounts to begin with.
SIMULATORS: Final[Mapping[str, Callable[[], Simulator]]] = MappingProxyType(
    {
        "airtel": open_airtel,
        "mpesa": open_mpesa,
        "mtn": MtnSimulator,
        "pawapay": open_pawapay,
        "wave": wave.WaveSimulator,
    }
)

# The options of a gateway's account with each operator, but for `base_url`: published, as no money
# is behind them.
ACCOUNT_OPTIONS: Final[Mapping[str, Mapping[str, str]]] = MappingProxyType(
    {
        "airtel": {
            "kind": "airtel_money",
            "country": "UG",
            "client_id": "client-id",
            "client_secret": "client-secret",
            "pin": "1234",
        },
        "mpesa": {
            "kind": "mpesa_daraja",
            "consumer_key": "consumer-key",
            "consumer_secret": "consumer-secret",
            "shortcode": "174379",
            "passkey": SANDBOX_PASSKEY,
            "payout_shortcode": "600997",
            "initiator": "testapi",
            "initiator_password": "Safaricom999!*!",
            "certificate_file": CERTIFICATE_FILE,
        },
        "mtn": {
            "kind": "mtn_momo",
            "market": "sandbox",
            "collection_subscription_key": COLLECTION_KEY,
            "collection_api_user": API_USER,
            "collection_api_key": API_KEY,
            "disbursement_subscription_key": DISBURSEMENT_KEY,
            "disbursement_api_user": API_USER,
            "disbursement_api_key": API_KEY,
        },
        "pawapay": {"kind": "pawapay", "market": "MTN_MOMO_RWA", "api_token": API_TOKEN},
        "wave": {
            "kind": "wave",
            "api_key": wave.API_KEY,
            "webhook_secret": wave.WEBHOOK_SECRET,
        },
    }
)


def account_settings(operator: str, origin: str) -> str:
    """Return the table of `mmo.toml` for a gateway's account with this operator, which is served at
    this origin."""
    options = {**ACCOUNT_OPTIONS[operator], "base_url": origin}
    lines = ["[provider.simulated]", *(f'{key} = "{value}"' for key, value in options.items())]
    # Only a simulator makes its certificate itself: M-Pesa's own is taken from its portal.
    if "certificate_file" in options:
        lines.insert(0, f"# First: curl -o {CERTIFICATE_FILE} {origin}/_simulator/certificate")
    return "\n".join(lines)


def open_simulator(operator: str, pin_padding: str | None = None) -> Simulator:
    """Open an operator; `pin_padding` is the only one that Airtel Money accepts for PINs, None: it
    accepts all.

    Raises ValueError for the padding of another operator.
    """
    if pin_padding is None:
        return SIMULATORS[operator]()
    if operator != "airtel":
        raise ValueError("only airtel has PINs that are encrypted with a padding")
    return open_airtel((RsaPadding(pin_padding),))
