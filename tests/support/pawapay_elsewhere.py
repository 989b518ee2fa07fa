"""Accounts with pawaPay's markets with a page and with a code, for gateways in processes of their
own, which find the package as an installed one."""

from __future__ import annotations

import json
import os
from pathlib import Path

from attrs import frozen

from mmo_simulators.operators.pawapay.api import API_TOKEN

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "packages/mmo-provider-pawapay/src"
KIND = "pawapaytest"
"""The package's own name may be taken by an installation of it."""
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
    metadata = directory / "pawapaytest-0.1.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: pawapaytest\nVersion: 0.1\n")
    (metadata / "entry_points.txt").write_text(
        f"[mmo_gateway.providers]\n{KIND} = mmo_provider_pawapay:PAWAPAY\n"
    )
    return os.pathsep.join((str(directory), str(SOURCE)))


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
