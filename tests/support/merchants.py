"""Provides further brands for tests: their `brands.toml`, clients and deposits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.support.merchant import Answer, Merchant
from tests.support.sandbox_gateway import Running

ACME_KEY = "acme-key-12345678901234567890"
ZENITH_KEY = "zenith-key-1234567890123456"


FLOWS = ("direct/payin", "direct/payout", "qr/payin", "web/payin", "direct/taxpayout")


def a_brand(
    id: str,
    key: str,
    *,
    push_result_url: str | None = None,
    more: str = "",
    method: str = "mpesa_ke",
    provider: str = "sandbox",
    country: str = "KE",
    currency: str = "KES",
    flows: Sequence[str] = FLOWS,
) -> str:
    """Return the text of a brand with one method: M-Pesa in Kenya, unless told otherwise."""
    push = "" if push_result_url is None else f'push_result_url = "{push_result_url}"\n'
    return f"""
[[brand]]
id = "{id}"
name = "{id.title()} Ltd"
api_keys = ["{key}"]
{push}{more}
  [[brand.method]]
  key = "{method}"
  provider = "{provider}"
  country = "{country}"
  flows = {list(flows)}
  limits.{currency} = {{ min = "10", max = "150000" }}
"""


ACME = a_brand("acme", ACME_KEY)
ZENITH = a_brand("zenith", ZENITH_KEY)


def developer(
    running: Running, key: str, *, result_url: str = "https://localhost:9/callback"
) -> Merchant:
    """Return a merchant with this key."""
    return Merchant(running.ready.api, key, result_url=result_url)


async def deposit(running: Running, **changes: Any) -> Answer:
    """Report an offline deposit of 250 KES to the demo brand, with these changes."""
    members: dict[str, Any] = {
        "brand": "demo",
        "method": "mpesa_ke",
        "amount": {"value": 250, "currency": "KES"},
        "party": {"msisdn": "254711000111", "id": "ACC-7"},
        "providerReference": "SBX-DEPOSIT-1",
    }
    return await running.control("push", **(members | changes))


async def deposited(running: Running, **changes: Any) -> str:
    """The same, when it must make a transaction: its gatewayReference."""
    answer = await deposit(running, **changes)
    assert answer.status == 200, answer.body
    reference = answer.json["gatewayReference"]
    assert isinstance(reference, str)
    return reference
