"""Runs an operator that several gateways share: MTN MoMo over HTTP, in a process of its own, with
payments in Kenyan shillings.

    python -m tests.support.shared_operator

prints its origin, and ends with its standard input."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import trio
from attrs import frozen

from mmo_sansio.values.clock import MILLISECOND, Span
from mmo_simulators.operators.mtn.accounts import SimulatedMtnAccounts
from mmo_simulators.operators.mtn.api import MtnSimulator
from mmo_simulators.server.serving import serve
from mmo_trio.brands.master_key import create_master_key
from mmo_trio.sandbox.local_ca import ensure_authority
from tests.support.mmo_process import BRAND_ON_THE_SANDBOX
from tests.support.simulated_accounts import account_options

PROVIDER = "operator"
"""The name of the account in `account_settings`, for methods of brands."""
MARKET = "shared"
APPROVAL_DELAY = Span(200 * MILLISECOND)
BALANCE = "1000000000"
"""Of the accounts from which pay-outs and into which pay-ins go."""
WITHOUT_MONEY = ("254712345001", "254712345101")
"""Payers whose pay-ins fail."""
ROOT = Path(__file__).parents[2]

SETTINGS = """
[database]
url = "{database_url}"

[keys]
master_key_file = "{directory}/master.key"

[egress]
allow_private = true
extra_ca_file = "{directory}/ca.pem"

[listen]
api = "127.0.0.1:0"
pages = "127.0.0.1:0"
console = "127.0.0.1:0"
"""
BRAND = BRAND_ON_THE_SANDBOX.replace('"sandbox"', f'"{PROVIDER}"')
"""A brand, with its `key`, whose one method is the shared operator's."""


@frozen
class SharedOperator:
    """An operator that serves."""

    origin: str
    """`http://127.0.0.1:PORT`."""
    pid: int

    @property
    def account_settings(self) -> str:
        """The table of `mmo.toml` for a gateway's account with it."""
        options = account_options("mtn", kind="mtn_momo", market=MARKET, base_url=self.origin)
        lines = [f'{key} = "{value}"' for key, value in options.items()]
        return "\n".join([f"[provider.{PROVIDER}]", *lines, ""])

    async def submitted(self) -> Counter[str]:
        """How many submissions it has accepted for each payment, by gatewayReference."""
        book = await trio.to_thread.run_sync(self._read_book)
        return Counter(payment["reference"] for payment in book["payments"])

    def _read_book(self) -> dict[str, list[dict[str, str]]]:
        with urllib.request.urlopen(f"{self.origin}/_simulator/book") as response:
            book: dict[str, list[dict[str, str]]] = json.load(response)
        return book


def configure_gateways(
    directory: Path, database_url: str, operator: SharedOperator, *, key: str, further: str = ""
) -> None:
    """Write the settings, `mmo.toml`, and the one brand, `brands.toml`, of gateways that share this
    operator and a database, with what they need; `key` is the brand's."""
    create_master_key(directory / "master.key")
    ensure_authority(directory)
    settings = SETTINGS.format(directory=directory, database_url=database_url)
    text = "\n".join([settings, operator.account_settings, further])
    (directory / "mmo.toml").write_text(text, encoding="utf-8")
    (directory / "brands.toml").write_text(BRAND.format(key=key), encoding="utf-8")


@contextmanager
def shared_operator() -> Iterator[SharedOperator]:
    """Run the operator during the block."""
    command = [sys.executable, "-m", "tests.support.shared_operator"]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        origin = process.stdout.readline().strip()
        assert origin, "the operator has not started"
        yield SharedOperator(origin, process.pid)


async def main() -> None:
    """Serve the operator until standard input ends."""
    accounts = SimulatedMtnAccounts(currency="KES", approval_delay=APPROVAL_DELAY)
    for account in ("collection", "disbursement"):
        accounts.open_account(account, BALANCE)
    for payer in WITHOUT_MONEY:
        accounts.open_account(payer, "0")

    async with serve(MtnSimulator(market=MARKET, accounts=accounts)) as origin:
        print(origin, flush=True)
        await trio.to_thread.run_sync(sys.stdin.read, abandon_on_cancel=True)


if __name__ == "__main__":
    trio.run(main)
