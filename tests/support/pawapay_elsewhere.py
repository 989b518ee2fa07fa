"""Accounts with pawaPay's markets with a page and with a code, for gateways in processes of their
own, which find the package as an installed one."""

from __future__ import annotations

import json
import os
from pathlib import Path

from attrs import frozen

from mmo_simulators.operators.pawapay.api import API_TOKEN
from tests.support.provider_packages import package_paths

KIND = "pawapay"
API_KEY = "pawapay-test-key-0123456789"


@frozen
class ElsewhereMarket:
    """Describes a market whose payers do not approve on the phone."""

    method: str
    title: str
    country: str
    msisdn: str
    options: dict[str, str]


PAGE = ElsewhereMarket(
    "wave_sn",
    "Wave",
    "SN",
    "+221775000001",
    {"market": "WAVE_SEN", "auth_type": "REDIRECT_AUTH", "payer_hosts": "127.0.0.1"},
)
CODE = ElsewhereMarket(
    "orange_bf",
    "Orange Money",
    "BF",
    "+22607500001",
    {"market": "ORANGE_BFA", "auth_type": "PREAUTH"},
)
MARKETS = (PAGE, CODE)


def python_path(directory: Path) -> str:
    """Return a PYTHONPATH with which a process finds the package as a kind of provider."""
    return os.pathsep.join(package_paths(directory))


def write_configuration(directory: Path, origin: str) -> tuple[Path, Path]:
    """Write mmo.toml and brands.toml of a gateway with all markets at this simulator."""
    sections, methods = [], []
    for market in MARKETS:
        account = {
            "kind": KIND,
            "title": market.title,
            "base_url": origin,
            "api_token": API_TOKEN,
            **market.options,
        }
        lines = [f"{key} = {json.dumps(value)}" for key, value in account.items()]
        sections.append("\n".join((f"[provider.{market.method}]", *lines, "")))
        methods.append(f"""
[[brand.method]]
key = "{market.method}"
provider = "{market.method}"
country = "{market.country}"
flows = ["web/payin", "direct/payout"]
limits.XOF = {{ min = "100", max = "150000" }}
""")
    settings, brands = directory / "mmo.toml", directory / "brands.toml"
    settings.write_text("\n".join(sections), "utf-8")
    brand = f'[[brand]]\nid = "acme"\nname = "Acme"\napi_keys = ["{API_KEY}"]\n'
    brands.write_text(brand + "".join(methods), "utf-8")
    return settings, brands
