"""A fresh environment with the gateway and the package of Wave leads a payer to Wave and back, pays
out, and believes no webhook that Wave has not just signed for it."""

from __future__ import annotations

import html
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlencode

import pytest
import trio
from attrs import define, evolve

from mmo_sansio.http.messages import HttpRequest
from mmo_sansio.values.clock import SECOND, Span, earlier
from mmo_simulators.common.faults import CallBack, PlannedFault
from mmo_simulators.common.messages import JSON_HEADERS
from mmo_simulators.operators.wave.api import API_KEY, PAYER, WEBHOOK_SECRET, WaveSimulator
from mmo_simulators.operators.wave.signatures import HEADER, sign
from mmo_simulators.server.serving import serve, system_now
from mmo_trio.brands.master_key import create_master_key
from tests.packages.environments import ROOT, Environment, a_wheel, an_environment
from tests.support.merchant import Answer, Merchant, ask
from tests.support.mmo_process import SETTINGS_ON_A_FILE, serving_process
from tests.support.time_limits import HANGS_AFTER_S

pytestmark = [pytest.mark.long, pytest.mark.trio]

PACKAGE = ROOT / "packages/mmo-provider-wave"
SHOP_KEY = "test-key-of-wave-0123456789"
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
ACCOUNT = """
[provider.wave_sn]
kind = "wave"
base_url = "{origin}"
api_key = "{api_key}"
webhook_secret = "{secret}"
"""
PAGES = '[gateway]\nhpp_url = "https://pay.example"'
BRAND = """
[[brand]]
id = "acme"
name = "Acme"
api_keys = ["{key}"]

[[brand.method]]
key = "wave_sn"
provider = "wave_sn"
country = "SN"
flows = ["{payin}", "direct/payout"]
limits.XOF = {{ min = "1", max = "10000" }}
"""


@define(eq=False)
class Stage:
    """Holds Wave on its socket, and a gateway that serves."""

    simulator: WaveSimulator
    merchant: Merchant
    pages: str
    """Where the payment pages are reached."""
    hook: str

    async def create(self, operation: str) -> dict[str, str]:
        return await self.merchant.accepted(
            operation, msisdn=PAYER, country="SN", amount={"value": 1000, "currency": "XOF"}
        )

    async def page(self, accepted: dict[str, str], words: str) -> str:
        """The payment page, once it has these words."""
        url = accepted["pageUrl"].replace("https://pay.example", self.pages)
        with trio.fail_after(HANGS_AFTER_S):
            while True:
                found = await self.merchant.status(accepted["gatewayReference"])
                assert found["status"] != "failed", found["errorMessage"]
                page = html.unescape((await ask(url)).body.decode())
                if words in page:
                    return page
                await trio.sleep(0.05)

    async def sent_to_wave(self, accepted: dict[str, str]) -> str:
        """Press the button of the payment page: the address to which it leads then."""
        url = accepted["pageUrl"].replace("https://pay.example", self.pages)
        await ask(url, method="POST", headers=FORM, body=b"")
        page = await self.page(accepted, "/c/cos-")
        found = re.search(r'href="(http://127\.0\.0\.1:[0-9]+/c/cos-[^"]+)"', page)
        assert found is not None, page
        return found[1]

    async def approve(self, url: str) -> str:
        """Pay at Wave's page: where the payer is sent then."""
        body = urlencode({"decision": "approve", "mobile": PAYER}).encode()
        answer = await ask(url, method="POST", headers=FORM, body=body)
        assert answer.status == 303
        return answer.headers["location"]

    async def notify(self, request: HttpRequest) -> int:
        headers = {name.decode(): value.decode() for name, value in request.headers}
        answer: Answer = await ask(self.hook, method="POST", headers=headers, body=request.body)
        return answer.status

    def balance(self) -> int:
        rows = {row["account"]: row["balance"] for row in self.simulator.snapshot()["accounts"]}
        return int(rows["wallet"])


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """The gateway and the package, and nothing of this folder."""
    package = a_wheel(
        tmp_path_factory.mktemp("package"), PACKAGE, "pyproject.toml", "README.md", "src"
    )
    return an_environment(tmp_path_factory.mktemp("wave"), f"{wheel}[server]", str(package))


def write_settings(folder: Path, origin: str, payin: str = "web/payin") -> tuple[Path, Path]:
    create_master_key(folder / "master.key")
    settings = SETTINGS_ON_A_FILE.format(folder=folder).replace("[gateway]", PAGES)
    settings += ACCOUNT.format(origin=origin, api_key=API_KEY, secret=WEBHOOK_SECRET)
    (folder / "mmo.toml").write_text(settings)
    (folder / "brands.toml").write_text(BRAND.format(key=SHOP_KEY, payin=payin))
    return folder / "mmo.toml", folder / "brands.toml"


@pytest.fixture
async def stage(
    environment: Environment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Stage]:
    monkeypatch.delenv("PYTHONPATH", raising=False)
    simulator = WaveSimulator()
    async with serve(simulator) as origin:
        config, brands = write_settings(tmp_path, origin)
        checked, _ = environment.run("mmo", "check-config", "--config", str(config))
        assert "(from mmo-provider-wave 0.1)" in checked, checked
        address, _ = environment.run(
            "mmo", "providers", "address", "wave_sn", "--config", str(config)
        )
        command = (str(environment.folder / "bin/mmo"),)
        arguments = ("serve", "--config", config, "--brands", brands)
        async with serving_process(*arguments, log=tmp_path / "log", command=command) as process:
            hook = process.ready["api"] + address.strip().removeprefix("https://pay.example")
            simulator.webhook_url = hook
            merchant = Merchant(process.ready["api"], SHOP_KEY, method="wave_sn")
            yield Stage(simulator, merchant, process.ready["pages"], hook)


@pytest.mark.spec("W1", "S2")
async def test_a_payer_pays_at_wave_and_comes_back(stage: Stage) -> None:
    opening = stage.balance()
    accepted = await stage.create("web/payin")
    back = await stage.approve(await stage.sent_to_wave(accepted))
    assert back.startswith(f"https://pay.example/pay/{accepted['gatewayReference']}.")
    ended = await stage.merchant.ended(accepted["gatewayReference"])
    (paid,) = stage.simulator.snapshot()["payments"]
    assert (ended["status"], ended["providerReference"]) == ("success", paid["receipt"])
    assert stage.balance() == opening + 1000


@pytest.mark.spec("S2", "S5")
async def test_a_return_without_a_payment_proves_nothing_and_one_without_a_webhook_asks(
    stage: Stage,
) -> None:
    stage.simulator.faults.plan([PlannedFault("checkout", CallBack(()))])
    accepted = await stage.create("web/payin")
    url = await stage.sent_to_wave(accepted)
    declined = await ask(url, method="POST", headers=FORM, body=b"decision=decline")
    back = declined.headers["location"].replace("https://pay.example", stage.pages)
    assert (await ask(back)).status == 303
    found = await stage.merchant.status(accepted["gatewayReference"])
    assert found["status"] == "pending"
    await stage.approve(url)
    await ask(back)
    assert (await stage.merchant.ended(accepted["gatewayReference"]))["status"] == "success"


async def test_a_pay_out_is_paid(stage: Stage) -> None:
    opening = stage.balance()
    accepted = await stage.create("direct/payout")
    ended = await stage.merchant.ended(accepted["gatewayReference"])
    (paid,) = stage.simulator.snapshot()["payments"]
    assert (ended["status"], ended["providerReference"]) == ("success", paid["receipt"])
    assert stage.balance() == opening - 1000


async def test_a_webhook_counts_only_if_wave_has_just_signed_it(stage: Stage) -> None:
    accepted = await stage.create("web/payin")
    await stage.sent_to_wave(accepted)
    (session,) = stage.simulator.wallets.sessions.values()
    data = {
        **session.describe(),
        "checkout_status": "complete",
        "payment_status": "succeeded",
        "transaction_id": "T1",
    }
    event = {"id": "EV_1", "type": "checkout.session.completed", "data": data}
    body, now = json.dumps(event).encode(), system_now()
    unsigned = HttpRequest("POST", stage.hook.encode(), JSON_HEADERS, body)

    def signed(*secrets: str, age_s: int = 0) -> HttpRequest:
        value = sign(body, secrets, now=earlier(now, Span(age_s * SECOND)))
        return evolve(unsigned, headers=(*JSON_HEADERS, (HEADER, value)))

    good = signed("of-another-key", WEBHOOK_SECRET)
    refused = {
        "missing": unsigned,
        "of another key": signed("of-another-key"),
        "of another body": evolve(good, body=body.replace(b"1000", b"9000")),
        "old, or replayed later": signed(WEBHOOK_SECRET, age_s=301),
    }
    for what, request in refused.items():
        assert await stage.notify(request) == 401, what
    found = await stage.merchant.status(accepted["gatewayReference"])
    assert found["status"] == "pending"
    assert [await stage.notify(good) for _ in range(2)] == [200, 200]
    ended = await stage.merchant.ended(accepted["gatewayReference"])
    assert (ended["status"], ended["providerReference"]) == ("success", "T1")


async def test_a_brand_can_not_offer_a_prompt_on_the_phone(
    environment: Environment, tmp_path: Path
) -> None:
    config, brands = write_settings(tmp_path, "https://wave.example", payin="direct/payin")
    _, told = environment.run(
        "mmo", "serve", "--config", str(config), "--brands", str(brands), exit_code=2
    )
    assert "'direct/payin' has no page" in told
