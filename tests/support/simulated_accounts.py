"""The options of accounts with the simulated operators as they begin."""

from __future__ import annotations

from mmo_simulators.operators.registry import ACCOUNT_OPTIONS


def account_options(operator: str, **others: str) -> dict[str, str]:
    """Return the published options, without the adapter's kind and the simulator's URL, and with
    others."""
    options = {name: value for name, value in ACCOUNT_OPTIONS[operator].items() if name != "kind"}
    return {**options, **others}


def mpesa_options(certificate: str) -> dict[str, str]:
    """Return the options of M-Pesa, with the certificate itself instead of its file."""
    options = account_options("mpesa", certificate=certificate, merchant_name="TEST SHOP")
    del options["certificate_file"]
    return options
