"""The package, installed beside the gateway, serves payments of five countries with the simulator of pawaPay; forged,
old and repeated callbacks change nothing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from attrs import define, frozen
from pawapay_samples import EC_KEY, EC_PRIVATE_PEM, public_pem
from tests.support.merchant import Answer, Merchant, ask
from tests.support.mmo_process import mmo, serving_process
from tests.support.operator_gateway import API_KEY, run_simulator
from tests.support.time_limits import HANGS_AFTER_S

from mmo_sansio import MINUTE, HttpRequest, Span, earlier
from mmo_simulators.operators.pawapay.api import API_TOKEN, PawapaySimulator, open_pawapay
from mmo_simulators.operators.pawapay.signatures import sign_callback
from mmo_trio.brands.master_key import create_master_key
from mmo_trio.system.clock import GatewayClock

PACKAGE = Path(__file__).resolve().parents[1]

CONFIGURATION = """
[gateway]
base_url = "https://pay.example"

[database]
url = "sqlite:///{folder}/payments.db"

[egress]
allow_private = true

[keys]
master_key_file = "{folder}/master.key"

[listen]
api = "127.0.0.1:0"
pages = "127.0.0.1:0"
console = "127.0.0.1:0"
"""
PROVIDER = """
[provider.{name}]
kind = "pawapay"
market = "{market}"
base_url = "{origin}"
api_token_file = "{folder}/api-token"
callback_keys_file = "{folder}/callback-keys.pem"
signing_key_file = "{folder}/signing-key.pem"
signing_key_id = "OURS:1"
"""
BRAND = f"""
[[brand]]
id = "acme"
name = "Acme"
api_keys = ["{API_KEY}"]
"""
METHOD = """
[[brand.method]]
key = "{name}"
provider = "{name}"
country = "{country}"
flows = ["direct/payin", "direct/payout"]
limits.{currency} = {{ min = "1", max = "150000" }}
"""


@frozen
class Market:
    """A market of pawaPay, with a number whose payments succeed."""

    name: str
    code: str
    country: str
    currency: str
    msisdn: str
    refused_msisdn: str
    """A number whose deposits fail as PAYER_LIMIT_REACHED."""


MARKETS = (
    Market("mtn_rw", "MTN_MOMO_RWA", "RW", "RWF", "250783456789", "250783456019"),
    Market("mtn_ug", "MTN_MOMO_UGA", "UG", "UGX", "256783456789", "256783456019"),
    Market("mtn_zm", "MTN_MOMO_ZMB", "ZM", "ZMW", "260763456789", "260763456019"),
    Market("mtn_cm", "MTN_MOMO_CMR", "CM", "XAF", "237653456789", "237653456019"),
    Market("mpesa_ke", "MPESA_KEN", "KE", "KES", "254703456789", "254703456019"),
)
AMOUNT = 1000


@define(eq=False)
class Stage:
    """A gateway that serves with an account for each market, and pawaPay."""

    simulator: PawapaySimulator
    api: str
    hook: str
    """Where callbacks come to."""
    config: Path

    async def pay(self, market: Market, operation: str, msisdn: str) -> dict[str, Any]:
        """Pay, and return the transaction once it has ended."""
        merchant = Merchant(self.api, API_KEY, method=market.name)
        amount = {"value": AMOUNT, "currency": market.currency}
        made = await merchant.accepted(operation, msisdn=msisdn, country=market.country, amount=amount)
        return await merchant.ended(made["gatewayReference"])

    async def call_back(self, request: HttpRequest) -> Answer:
        """Send a callback to the gateway, with the headers of this request."""
        headers = {name.decode(): value.decode() for name, value in request.headers}
        return await ask(self.hook, method="POST", headers=headers, body=request.body)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package, built and installed from a copy."""
    folder, copy = tmp_path_factory.mktemp("site"), tmp_path_factory.mktemp("sources") / "package"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("*.egg-info", "__pycache__", "tests"))
    options = ("--quiet", "--no-compile", "--no-deps", "--no-build-isolation", "--no-index", "--target")
    command = [sys.executable, "-m", "pip", "install", *options, str(folder), str(copy)]
    subprocess.run(command, check=True, timeout=HANGS_AFTER_S)
    return folder


@asynccontextmanager
async def staging(folder: Path) -> AsyncIterator[Stage]:
    """Serve both during the block. pawaPay has one address for callbacks: that of the first market's account."""
    simulator = open_pawapay()
    create_master_key(folder / "master.key")
    (folder / "api-token").write_text(API_TOKEN)
    (folder / "callback-keys.pem").write_text(public_pem(simulator.key))
    (folder / "signing-key.pem").write_text(EC_PRIVATE_PEM)
    config, brands = folder / "mmo.toml", folder / "brands.toml"
    methods = (METHOD.format(name=each.name, country=each.country, currency=each.currency) for each in MARKETS)
    brands.write_text(BRAND + "".join(methods))
    async with run_simulator(simulator) as operator:
        first, *others = (
            PROVIDER.format(name=each.name, market=each.code, origin=operator.origin, folder=folder) for each in MARKETS
        )
        siblings = " ".join(f"{each.code}={each.name}" for each in MARKETS[1:])
        text = CONFIGURATION.format(folder=folder) + first + f'callbacks_of = "{siblings}"\n' + "".join(others)
        config.write_text(text)
        assert "(from mmo-provider-pawapay 0.1)" in await mmo("check-config", "--config", config)
        address = (await mmo("providers", "address", MARKETS[0].name, "--config", config)).strip()
        path = address.removeprefix("https://pay.example")
        async with serving_process("serve", "--config", config, "--brands", brands, log=folder / "log") as gateway:
            hook = gateway.ready["api"] + path
            dashboard = {"account": "merchant", "callback_url": hook, "request_key": public_pem(EC_KEY)}
            simulator.open_accounts([dashboard])
            yield Stage(simulator, gateway.ready["api"], hook, config)


@pytest.mark.trio
async def test_deposits_and_pay_outs_of_five_countries(
    site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, (str(site), os.environ.get("PYTHONPATH")))))
    async with staging(tmp_path) as stage:
        ended: list[tuple[Market, str, dict[str, Any]]] = []

        async def play(market: Market, operation: str, msisdn: str) -> None:
            ended.append((market, operation, await stage.pay(market, operation, msisdn)))

        async with trio.open_nursery() as nursery:
            for market in MARKETS:
                nursery.start_soon(play, market, "direct/payin", market.msisdn)
                nursery.start_soon(play, market, "direct/payout", market.msisdn)
                nursery.start_soon(play, market, "direct/payin", market.refused_msisdn)
        book = {each["reference"]: each for each in stage.simulator.snapshot()["payments"]}
        assert len(book) == len(ended) == 3 * len(MARKETS)
        for market, operation, found in ended:
            row = book[found["gatewayReference"]]
            assert row["kind"] == ("deposit" if operation == "direct/payin" else "payout")
            assert found["requestedAmount"]["currency"] == market.currency
            if row["result"] == "success":
                assert (found["status"], found["providerReference"]) == ("success", row["receipt"])
            else:
                assert (found["status"], found["errorCode"]) == ("failed", "user_limit_exceeded")
                assert row["result"] == found["providerData"]["errorCode"] == "PAYER_LIMIT_REACHED"
        last = ended[-1][2]["gatewayReference"]
        assert "webhook" in await mmo("tx", "show", last, "--json", "--config", stage.config), "its callback ended it"
        await check_refusals(stage)


async def check_refusals(stage: Stage) -> None:
    """Callbacks that are not signed, signed wrongly or old are refused; a repetition changes nothing."""
    now = GatewayClock().now()
    body = b'{"depositId":"8917c345-4791-4285-a416-62f24b6982db","status":"COMPLETED","amount":"1","currency":"RWF"}'
    plain = HttpRequest("POST", stage.hook.encode(), ((b"content-type", b"application/json"),), body)
    good = sign_callback(plain, stage.simulator.key, now=now)
    old = sign_callback(plain, stage.simulator.key, now=earlier(now, Span(2 * MINUTE)))
    forged = sign_callback(plain, EC_KEY, now=now)
    tampered = HttpRequest("POST", good.target, good.headers, body.replace(b'"1"', b'"2"'))
    statuses = [(await stage.call_back(each)).status for each in (plain, old, forged, tampered, good, good)]
    assert statuses == [401, 401, 401, 401, 200, 200]
    shown = await mmo("suspense", "list", "--json", "--config", stage.config)
    assert shown.count("8917c345") == 0, "what was refused left nothing"
