"""Has the pay-roll of an accountant, of which some lines fail at first, and pays it."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import trio
from click.testing import Result

from mmo_merchant.api.gateway_requests import RecordsWindow
from mmo_merchant.clients.async_client import AsyncMerchantClient
from tests.support.commands import mmo
from tests.support.sandbox_gateway import Running

BRANDS = """
[[brand]]
id = "acme"
name = "Acme"
api_keys = ["a-key-of-the-pay-roll"]
limits = { requests_per_second = 20, pending_payments = 4 }

[[brand.method]]
key = "mpesa_ke"
provider = "sandbox"
country = "KE"
flows = ["direct/payout"]
limits.KES = { min = "10", max = "150000" }
"""

ROOMY_BRANDS = BRANDS.replace("= 20,", "= 500,").replace("= 4 }", "= 100 }")
"""Limits that hold no pay-roll up."""

KEY = "a-key-of-the-pay-roll"
HEADINGS = "msisdn,amount,merchantReference"
SETTINGS = """
currency = "KES"
country = "KE"
method = "mpesa_ke"
result_url = "https://localhost:9/results"
name = "2026-11"
poll_s = 0.05
patience_s = 60
"""


def write(file: Path, *lines: str, headings: str = HEADINGS) -> None:
    file.write_text("\n".join([headings, *lines]) + "\n")


async def pay(file: Path, gateway: Running | str, *further: str) -> Result:
    url = gateway if isinstance(gateway, str) else gateway.merchant.api
    options = f"--gateway {url} --key {KEY} --per-second 100".split()
    # As words of their own: the names of people's folders have blanks.
    words: list[object] = [file, "--settings", file.parent / "settings.toml", *options, *further]
    return await trio.to_thread.run_sync(lambda: mmo("pay-outs", *words))


STAFF = "Staff,Phone,Net pay"
WALK = f"""{SETTINGS}
[columns]
msisdn = "Phone"
amount = "Net pay"
key = "Staff"
"""
PAID, BLOCKED = 19, 11
"""Lines of the accountant's pay-roll that are paid at first, and that fail."""


def salaries() -> list[list[str]]:
    """Thirty lines; the accounts of some are blocked, and they have other numbers by now."""
    numbers = [f"2547123{nth:02d}{'001' if nth < PAID else '107'}" for nth in range(PAID + BLOCKED)]
    return [[f"S{nth:02d}", number, f"{100 + nth}.00"] for nth, number in enumerate(numbers)]


def corrected() -> list[list[str]]:
    """The same, with the numbers at which the payees of the failed lines are paid."""
    return [[staff, f"{number[:-3]}001", amount] for staff, number, amount in salaries()]


def put(file: Path, rows: list[list[str]]) -> None:
    write(file, *(",".join(row) for row in rows), headings=STAFF)


async def payments_of(roomy: Running) -> Counter[str]:
    """How often each number was paid, by the records."""
    window = RecordsWindow(
        begin=datetime.now(UTC) - timedelta(days=30), end=datetime.now(UTC) + timedelta(days=30)
    )
    client = AsyncMerchantClient(roomy.merchant.api, KEY)
    return Counter(
        [
            each.party.msisdn
            async for each in client.records(window)
            if each.party is not None and each.status == "success"
        ]
    )
