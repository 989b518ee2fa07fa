"""A fresh environment with the gateway and the package of Wave leads a payer to Wave and back, pays
out, gives money back that two people want to, goes on where it was killed, and believes no webhook
that Wave has not just signed for it."""

from __future__ import annotations

import html
import json
import re
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlencode

import pytest
import trio
from attrs import define, evolve

from mmo_sansio.http.messages import HttpRequest
from mmo_sansio.values.clock import SECOND, Span, earlier
from mmo_simulators.common.faults import CallBack, LoseAnswer, PlannedFault
from mmo_simulators.common.messages import JSON_HEADERS
from mmo_simulators.operators.wave.api import API_KEY, PAYER, WEBHOOK_SECRET, WaveSimulator
from mmo_simulators.operators.wave.signatures import HEADER, sign
from mmo_simulators.server.serving import serve, system_now
from mmo_trio.brands.master_key import create_master_key
from tests.packages.environments import ROOT, Environment, a_wheel, an_environment
from tests.support.console_browser import PASSWORD, ConsoleBrowser
from tests.support.merchant import Answer, Merchant, ask
from tests.support.mmo_process import SETTINGS_ON_A_FILE, Process, serving_process
from tests.support.operator_gateway import NEVER
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
    """Holds Wave on its socket, and a gateway that serves, one after the other on one store."""

    environment: Environment
    folder: Path
    simulator: WaveSimulator
    process: Process | None = None

    @asynccontextmanager
    async def gateway(self) -> AsyncIterator[None]:
        """Serve as long as the block lasts, unless it is killed."""
        command = (str(self.environment.folder / "bin/mmo"),)
        config, brands = self.folder / "mmo.toml", self.folder / "brands.toml"
        address = self.mmo("providers", "address", "wave_sn")
        arguments = ("serve", "--config", config, "--brands", brands)
        async with serving_process(
            *arguments, log=self.folder / "log", command=command
        ) as self.process:
            path = address.strip().removeprefix("https://pay.example")
            self.simulator.webhook_url = self.process.ready["api"] + path
            yield

    def mmo(self, *words: str, typed: str | None = None) -> str:
        """Run a command about the gateway: what it prints."""
        config = str(self.folder / "mmo.toml")
        return self.environment.run("mmo", *words, "--config", config, typed=typed)[0]

    def at(self, listener: str) -> str:
        assert self.process is not None
        return self.process.ready[listener]

    @property
    def merchant(self) -> Merchant:
        return Merchant(self.at("api"), SHOP_KEY, method="wave_sn")

    @property
    def pages(self) -> str:
        """Where the payment pages are reached."""
        return self.at("pages")

    @property
    def hook(self) -> str:
        assert self.simulator.webhook_url is not None
        return self.simulator.webhook_url

    async def kill(self) -> None:
        assert self.process is not None
        await self.process.kill()

    async def staff(self, name: str) -> ConsoleBrowser:
        """Somebody who has signed in to the console."""
        browser = ConsoleBrowser(self.at("console"))
        answer = await browser.sign_in(name)
        assert answer.status == 303, answer.body
        return browser

    async def ask_back(self, reference: str) -> None:
        """Have one person ask for the money of a payment, and another approve that."""
        ann, abe = await self.staff("ann"), await self.staff("abe")
        path = f"/payments/{reference}"
        await ann.get(path)
        asked = await ann.post(f"{path}/reversals", amount="1000", reason="Paid twice.", number="1")
        assert asked.status == 303, asked.body
        assert (await ann.post(f"{path}/reversals/1/approve")).status == 409
        assert self.rows("refund") == []
        await abe.get(path)
        assert (await abe.post(f"{path}/reversals/1/approve")).status == 303

    async def until_page_says(self, reference: str, words: str) -> None:
        """Wait until the console says this of a payment."""
        abe = await self.staff("abe")
        with trio.fail_after(HANGS_AFTER_S):
            while True:
                page = (await abe.get(f"/payments/{reference}")).body.decode()
                if words in page:
                    return
                await trio.sleep(0.2)

    async def until_taken(self, kind: str, number: int) -> None:
        """Wait until Wave has so many of these."""
        with trio.fail_after(HANGS_AFTER_S):
            while len(self.rows(kind)) < number:  # noqa: ASYNC110
                await trio.sleep(0.02)

    def rows(self, kind: str) -> list[dict[str, str]]:
        """What Wave's book has of this kind."""
        return [row for row in self.simulator.snapshot()["payments"] if row["kind"] == kind]

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
    stage = Stage(environment, tmp_path, WaveSimulator())
    async with serve(stage.simulator) as origin:
        write_settings(tmp_path, origin)
        checked = stage.mmo("check-config")
        assert "(from mmo-provider-wave 0.1)" in checked, checked
        async with stage.gateway():
            yield stage


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


@pytest.fixture
def with_staff(stage: Stage) -> None:
    """Two people who may ask for money back and approve that."""
    for name in ("ann", "abe"):
        words = ("users", "add", name, "--role", "approver", "--password-stdin")
        stage.mmo(*words, typed=f"{PASSWORD}\n")


async def paid_checkout(stage: Stage) -> str:
    """Have a payer pay; the gatewayReference."""
    accepted = await stage.create("web/payin")
    await stage.approve(await stage.sent_to_wave(accepted))
    reference = accepted["gatewayReference"]
    assert (await stage.merchant.ended(reference))["status"] == "success"
    return reference


@pytest.mark.spec("S2")
async def test_two_people_give_the_money_of_a_checkout_back(stage: Stage, with_staff: None) -> None:
    opening = stage.balance()
    reference = await paid_checkout(stage)
    before = await stage.merchant.status(reference)
    await stage.ask_back(reference)
    await stage.until_page_says(reference, "Reversal 1: succeeded")
    assert [row["reference"] for row in stage.rows("refund")] == [reference]
    assert stage.balance() == opening
    assert await stage.merchant.status(reference) == before


@pytest.mark.spec("S6")
async def test_a_kill_in_between_moves_no_money_twice_and_loses_none(
    stage: Stage, with_staff: None
) -> None:
    """The gateway dies before it has the answers to a checkout, a pay-out and a refund."""
    opening = stage.balance()
    refunded = await paid_checkout(stage)
    lost = [PlannedFault(kind, LoseAnswer(NEVER)) for kind in ("checkout", "payout", "refund")]
    stage.simulator.faults.plan(lost)
    paid_in, paid_out = await stage.create("web/payin"), await stage.create("direct/payout")
    page_url = paid_in["pageUrl"].replace("https://pay.example", stage.pages)
    await ask(page_url, method="POST", headers=FORM, body=b"")
    await stage.ask_back(refunded)
    for kind, number in (("checkout", 2), ("payout", 1), ("refund", 1)):
        await stage.until_taken(kind, number)
    await stage.kill()

    async with stage.gateway():
        await stage.approve(await stage.sent_to_wave(paid_in))
        for each in (paid_in, paid_out):
            ended = await stage.merchant.ended(each["gatewayReference"])
            assert ended["status"] == "success"
        await stage.until_page_says(refunded, "Reversal 1: succeeded")
    book = stage.simulator.snapshot()["payments"]
    assert Counter(row["kind"] for row in book) == {"checkout": 2, "payout": 1, "refund": 1}
    assert stage.balance() == opening + 1000 - 1000 + 1000 - 1000


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
