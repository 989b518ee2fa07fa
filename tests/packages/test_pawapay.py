"""A fresh environment with the gateway and the package of pawaPay serves payments of five
countries, and asks only after callbacks that pawaPay has just signed for it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
from attrs import define, evolve
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from mmo_provider_pawapay.wire import operation_id

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.values.clock import SECOND, Instant, Span, earlier
from mmo_simulators.common.faults import (
    CallBack,
    DroppedConnection,
    EndAfter,
    PlannedFault,
    PollWith,
)
from mmo_simulators.common.forwarding import ForwardingSimulator
from mmo_simulators.operators.pawapay.accounts import COMPLETED
from mmo_simulators.operators.pawapay.api import (
    API_TOKEN,
    JSON_UTF8,
    PawapaySimulator,
    open_pawapay,
)
from mmo_simulators.operators.pawapay.markets import PROVIDERS
from mmo_simulators.operators.pawapay.signatures import sign_callback
from mmo_simulators.server.callbacks import call_back, system_streams
from mmo_simulators.server.serving import serve, system_now
from mmo_trio.brands.master_key import create_master_key
from tests.packages.environments import ROOT, Environment, a_wheel, an_environment
from tests.support.merchant import Answer, Merchant, ask
from tests.support.mmo_process import SETTINGS_ON_A_FILE, serving_process
from tests.support.time_limits import HANGS_AFTER_S

pytestmark = [pytest.mark.long, pytest.mark.trio]

PACKAGE = ROOT / "packages/mmo-provider-pawapay"
API_KEY = "test-key-of-pawapay-0123456789"
MARKETS = {
    "MTN_MOMO_BEN": "BJ",
    "MPESA_KEN": "KE",
    "MTN_MOMO_RWA": "RW",
    "MTN_MOMO_UGA": "UG",
    "MTN_MOMO_ZMB": "ZM",
}
"""The country, ISO 3166-1 alpha-2, of each market."""
FIRST = "MTN_MOMO_RWA"
"""The account whose address the callbacks of all markets go to."""
DEPOSIT, PAYOUT = 1_500, 1_000
ACCOUNT = """
[provider.{name}]
kind = "pawapay"
market = "{market}"
base_url = "{origin}"
api_token_file = "{folder}/api-token"
signing_key_file = "{folder}/signing-key"
signing_key_id = "OUR_KEY"
callback_keys = """
BRAND = """
[[brand]]
id = "acme"
name = "Acme"
api_keys = ["{key}"]
"""
METHOD = """
[[brand.method]]
key = "{name}"
provider = "{name}"
country = "{country}"
flows = ["direct/payin", "direct/payout"]
limits.{currency} = {{ min = "1", max = "10000" }}
"""


def account_of(market: str) -> str:
    """The name of the account, and of the method, in a market."""
    return f"paw_{MARKETS[market].lower()}"


def currency_of(market: str) -> str:
    return next(iter(PROVIDERS[market][0].limits))


@define(eq=False)
class Stage:
    """Holds pawaPay on its socket, and a gateway that serves."""

    simulator: PawapaySimulator
    check: Callable[[], str]
    """Has the gateway check the first account, and prints what is known of it."""
    gateway: str
    """Where the gateway's API is reached."""
    hook: str
    """The address of the callbacks."""
    sent: list[HttpRequest]
    """The callbacks that pawaPay has sent."""
    asked: list[bytes]
    """Where pawaPay was asked about deposits."""
    book: Callable[[], str]
    """Prints the suspense book, in JSON."""

    def merchant(self, market: str) -> Merchant:
        return Merchant(self.gateway, API_KEY, method=account_of(market))

    async def pay(self, market: str, operation: str, amount: int) -> str:
        """Create a payment; its gatewayReference."""
        accepted = await self.merchant(market).accepted(
            operation,
            msisdn=f"+{PROVIDERS[market][1].numbers}789",
            country=MARKETS[market],
            amount={"value": amount, "currency": currency_of(market)},
        )
        return str(accepted["gatewayReference"])

    async def notify(self, request: HttpRequest) -> int:
        """Send a callback to the gateway; the status of its answer."""
        headers = {name.decode(): value.decode() for name, value in request.headers}
        answer: Answer = await ask(
            request.target.decode(), method="POST", headers=headers, body=request.body
        )
        return answer.status

    async def set_availability(self, **states: str) -> None:
        """Have the operator behind the first account process deposits or pay-outs or not; the
        gateway learns it."""
        self.simulator.open_accounts([{"account": FIRST, **states}])
        with trio.fail_after(HANGS_AFTER_S):
            while True:
                known = await trio.to_thread.run_sync(self.check)
                if all(each in known for each in states.values()):
                    break
                await trio.sleep(0.5)

    async def until_taken(self, reference: str) -> None:
        """Wait until pawaPay has the payment, which the gateway records as sent before."""
        with trio.fail_after(HANGS_AFTER_S):
            while all(  # noqa: ASYNC110
                each["reference"] != reference for each in self.simulator.snapshot()["payments"]
            ):
                await trio.sleep(0.02)

    async def until_asked(self, times: int) -> None:
        """Wait until pawaPay was asked so often."""
        with trio.fail_after(HANGS_AFTER_S):
            while len(self.asked) < times:  # noqa: ASYNC110
                await trio.sleep(0.02)

    async def suspense(self, *, until: int = 0) -> list[dict[str, Any]]:
        """Return the suspense book, once it has so many entries."""
        with trio.fail_after(HANGS_AFTER_S):
            while True:
                entries = json.loads(await trio.to_thread.run_sync(self.book))
                if len(entries) >= until:
                    return list(entries)
                await trio.sleep(0.2)

    def balances(self) -> Mapping[str, str]:
        return {each["account"]: each["balance"] for each in self.simulator.snapshot()["accounts"]}


@define(eq=False)
class AskedSimulator(ForwardingSimulator):
    """Writes down where a simulator is asked about deposits."""

    asked: list[bytes]

    def handle_request(
        self, request: HttpRequest, *, now: Instant
    ) -> HttpResponse | DroppedConnection:
        if request.method == "GET" and request.target.startswith(b"/v2/deposits/"):
            self.asked.append(request.target)
        return super().handle_request(request, now=now)


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """The gateway and the package, and nothing of this folder."""
    package = a_wheel(
        tmp_path_factory.mktemp("package"), PACKAGE, "pyproject.toml", "README.md", "src"
    )
    return an_environment(tmp_path_factory.mktemp("pawapay"), f"{wheel}[server]", str(package))


@pytest.fixture
async def stage(
    environment: Environment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Stage]:
    monkeypatch.delenv("PYTHONPATH", raising=False)
    async with staged(environment, tmp_path) as it:
        yield it


@asynccontextmanager
async def staged(environment: Environment, folder: Path) -> AsyncIterator[Stage]:
    """Serve pawaPay and the gateway, whose accounts sign their requests and verify callbacks."""
    simulator, sent = open_pawapay(), list[HttpRequest]()
    asked = AskedSimulator(simulator, [])
    send = partial(call_back, open_stream=system_streams())

    async def send_and_keep(request: HttpRequest) -> HttpResponse:
        sent.append(request)
        return await send(request)

    async with serve(asked, send_callback=send_and_keep) as origin:
        config, brands, request_key = write_settings(folder, simulator, origin)
        checked, _ = environment.run("mmo", "check-config", "--config", str(config))
        assert checked.count("(from mmo-provider-pawapay 0.1)") == len(MARKETS), checked
        address, _ = environment.run(
            "mmo", "providers", "address", account_of(FIRST), "--config", str(config)
        )
        command = (str(environment.folder / "bin/mmo"),)
        arguments = ("serve", "--config", config, "--brands", brands)
        async with serving_process(*arguments, log=folder / "log", command=command) as process:
            hook = process.ready["api"] + address.strip().removeprefix("https://pay.example")
            simulator.open_accounts(
                [{"account": "merchant", "callback_url": hook, "request_key": request_key}]
            )

            def mmo(*words: str) -> str:
                return environment.run("mmo", *words, "--config", str(config))[0]

            yield Stage(
                simulator,
                check=lambda: mmo("providers", "check", account_of(FIRST), "--ask"),
                gateway=process.ready["api"],
                hook=hook,
                sent=sent,
                asked=asked.asked,
                book=lambda: mmo("suspense", "list", "--json"),
            )


def write_settings(
    folder: Path, simulator: PawapaySimulator, origin: str
) -> tuple[Path, Path, str]:
    """Write settings and brands: their files, and the public key of what the gateway signs."""
    create_master_key(folder / "master.key")
    (folder / "api-token").write_text(API_TOKEN)
    signing_key = generate_private_key(SECP256R1())
    pem = signing_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (folder / "signing-key").write_bytes(pem)
    callback_key = public_pem(simulator.key)
    config, brands = SETTINGS_ON_A_FILE.format(folder=folder), BRAND.format(key=API_KEY)
    for market, country in MARKETS.items():
        name = account_of(market)
        config += ACCOUNT.format(
            name=name, market=market, origin=origin, folder=folder
        ) + json.dumps(callback_key)
        if market == FIRST:
            others = " ".join(f"{each}={account_of(each)}" for each in MARKETS if each != FIRST)
            config += f"\ncallbacks_of = {json.dumps(others)}"
        brands += METHOD.format(name=name, country=country, currency=currency_of(market))
    (folder / "mmo.toml").write_text(config)
    (folder / "brands.toml").write_text(brands)
    return folder / "mmo.toml", folder / "brands.toml", public_pem(signing_key)


def public_pem(key: Any) -> str:
    """The public half of a key pair."""
    pem: bytes = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return pem.decode()


async def test_deposits_and_pay_outs_of_five_countries(stage: Stage) -> None:
    opening = stage.balances()
    assert len(set(MARKETS.values())) == 5
    for market in MARKETS:
        paid_in = await stage.pay(market, "direct/payin", DEPOSIT)
        paid_out = await stage.pay(market, "direct/payout", PAYOUT)
        receipts = {
            reference: await stage.merchant(market).ended(reference)
            for reference in (paid_in, paid_out)
        }
        assert [each["status"] for each in receipts.values()] == ["success", "success"], receipts
        booked = {
            each["reference"]: each["receipt"] for each in stage.simulator.snapshot()["payments"]
        }
        assert {
            name: each["providerReference"] for name, each in receipts.items()
        }.items() <= booked.items()
        wallet = f"{PROVIDERS[market][0].code}/{currency_of(market)}"
        assert Decimal(stage.balances()[wallet]) - Decimal(opening[wallet]) == DEPOSIT - PAYOUT
    assert len(stage.simulator.snapshot()["payments"]) == 2 * len(MARKETS)


@pytest.mark.spec("E1", "S6")
async def test_what_an_operator_can_not_process_waits_until_it_can(stage: Stage) -> None:
    merchant = stage.merchant(FIRST)
    await stage.set_availability(DEPOSIT="CLOSED", PAYOUT="DELAYED")
    held = [await stage.pay(FIRST, "direct/payin", DEPOSIT) for _ in range(3)]
    sent = await stage.pay(FIRST, "direct/payout", PAYOUT)
    await stage.until_taken(sent)
    assert [each["reference"] for each in stage.simulator.snapshot()["payments"]] == [sent]
    assert [(await merchant.status(each))["status"] for each in held] == ["pending"] * 3
    await stage.set_availability(DEPOSIT="OPERATIONAL", PAYOUT="OPERATIONAL")
    assert [(await merchant.ended(each))["status"] for each in (*held, sent)] == ["success"] * 4
    assert sorted(each["reference"] for each in stage.simulator.snapshot()["payments"]) == sorted(
        [*held, sent]
    )


async def test_a_published_number_fails_with_its_code(stage: Stage) -> None:
    merchant = stage.merchant("MPESA_KEN")
    amount = {"value": DEPOSIT, "currency": "KES"}
    made = await merchant.accepted(
        "direct/payin", msisdn="+254703456049", country="KE", amount=amount
    )
    found = await merchant.ended(made["gatewayReference"])
    assert (found["status"], found["errorCode"]) == ("failed", "user_insufficient_funds"), found


async def test_a_callback_only_asks_pawapay_and_the_answer_counts(stage: Stage) -> None:
    """Nobody else's payment under the id of ours, about which pawaPay has signed a callback."""
    stage.simulator.faults.plan([PlannedFault("deposit", EndAfter(None))])
    reference, merchant = await stage.pay(FIRST, "direct/payin", DEPOSIT), stage.merchant(FIRST)
    await stage.until_taken(reference)
    said_paid = HttpRequest("POST", stage.hook.encode(), JSON_UTF8, completed(reference))
    signed = sign_callback(said_paid, stage.simulator.key, now=system_now())
    asked_before = len(stage.asked)

    assert await stage.notify(signed) == 200
    await stage.until_asked(asked_before + 1)
    assert (await merchant.status(reference))["status"] == "pending"

    (deposit,) = stage.simulator.accounts.payments.values()
    deposit.result, deposit.receipt = COMPLETED, "87654321"
    ended = await merchant.ended(reference)
    assert (ended["status"], ended["providerReference"]) == ("success", "87654321")


@pytest.mark.spec("S5")
async def test_a_callback_asks_only_if_pawapay_has_just_signed_it_for_this_address(
    stage: Stage,
) -> None:
    """About a payment that has failed, as the gateway does not ask after that one by itself."""
    told_failed = PlannedFault("deposit", PollWith("PAYER_LIMIT_REACHED"))
    stage.simulator.faults.plan([told_failed, PlannedFault("deposit", CallBack(()))])
    reference, merchant = await stage.pay(FIRST, "direct/payin", DEPOSIT), stage.merchant(FIRST)
    failed = await merchant.ended(reference)
    assert failed["status"] == "failed"

    paid = HttpRequest("POST", stage.hook.encode(), JSON_UTF8, completed(reference))
    now, other = system_now(), generate_private_key(SECP256R1())
    good = sign_callback(paid, stage.simulator.key, now=now)
    old = earlier(now, Span(600 * SECOND))
    elsewhere = evolve(paid, target=stage.hook.encode() + b"x")
    refused = {
        "missing": paid,
        "of another key": sign_callback(paid, other, now=now),
        "of another body": evolve(good, body=good.body.replace(b"1500", b"9500")),
        "without its digest": evolve(good, headers=without(good, b"content-digest")),
        "old, or replayed later": sign_callback(paid, stage.simulator.key, now=old),
        "of the future": sign_callback(paid, stage.simulator.key, now=Instant(now + 600 * SECOND)),
        "replayed from another address": evolve(
            sign_callback(elsewhere, stage.simulator.key, now=now), target=paid.target
        ),
    }
    asked_before = len(stage.asked)
    statuses = {what: await stage.notify(request) for what, request in refused.items()}
    assert statuses == dict.fromkeys(refused, 401)
    assert await stage.suspense() == []

    (deposit,) = stage.simulator.accounts.payments.values()
    deposit.polled_code = None
    deposit.result, deposit.receipt = COMPLETED, "87654321"
    assert await stage.notify(good) == 200
    entries = await stage.suspense(until=2)
    assert [entry["reason"] for entry in entries] == ["unproved_success", "conflicting_result"]
    assert "87654321" in json.dumps(entries[1])
    assert len(stage.asked) == asked_before + 1
    assert await merchant.status(reference) == failed


async def test_a_replayed_callback_changes_nothing(stage: Stage) -> None:
    stage.simulator.faults.plan([PlannedFault("deposit", CallBack((Span(0), Span(0))))])
    reference, merchant = await stage.pay(FIRST, "direct/payin", DEPOSIT), stage.merchant(FIRST)
    ended = await merchant.ended(reference)
    with trio.fail_after(HANGS_AFTER_S):
        while True:
            if len(stage.sent) == 2:
                break
            await trio.sleep(0.02)
    assert [await stage.notify(each) for each in stage.sent] == [200, 200]
    assert await merchant.status(reference) == ended


def completed(reference: str) -> bytes:
    """The body of the callback about a paid deposit."""
    account = {"phoneNumber": f"{PROVIDERS[FIRST][1].numbers}789", "provider": FIRST}
    document = {
        "depositId": operation_id(reference),
        "status": "COMPLETED",
        "amount": str(DEPOSIT),
        "currency": "RWF",
        "country": "RWA",
        "payer": {"type": "MMO", "accountDetails": account},
        "providerTransactionId": "12356789",
    }
    return json.dumps(document).encode()


def without(request: HttpRequest, name: bytes) -> tuple[tuple[bytes, bytes], ...]:
    """The headers but this one."""
    return tuple(each for each in request.headers if each[0] != name)
