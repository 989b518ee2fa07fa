"""Accounts with pawaPay's markets with a page and with a code, for gateways in processes of their
own, which find the package as an installed one."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Queue

import trio
from attrs import frozen

from mmo_sansio.values.clock import Span
from mmo_simulators.operators.pawapay.api import API_TOKEN, PawapaySimulator, open_pawapay
from mmo_simulators.server.serving import serve, system_now
from tests.support.browser_gateway import PATIENCE_S
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


@contextmanager
def serving_operator() -> Iterator[tuple[PawapaySimulator, str]]:
    """Run the operator, whose payers need no time, in a thread during the block; its address."""
    simulator = open_pawapay()
    simulator.accounts.approval_delay = Span(0)
    started: Queue[tuple[str, trio.lowlevel.TrioToken, trio.Event]] = Queue()

    async def run() -> None:
        async with serve(simulator, now=system_now) as origin:
            ended = trio.Event()
            started.put((origin, trio.lowlevel.current_trio_token(), ended))
            await ended.wait()

    thread = threading.Thread(target=trio.run, args=(run,))
    thread.start()
    origin, token, ended = started.get(timeout=PATIENCE_S)
    try:
        yield simulator, origin
    finally:
        token.run_sync_soon(ended.set)
        thread.join()
