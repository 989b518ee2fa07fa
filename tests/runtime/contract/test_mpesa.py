"""Payments by M-Pesa from the merchant's request to the merchant's callback, over real sockets: the
gateway, its adapter for Daraja, a simulated M-Pesa, a receiver."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from attrs import Factory, define

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.providers.common.interface import AccountState
from mmo_sansio.providers.mpesa_daraja.account import read_account
from mmo_sansio.providers.mpesa_daraja.requests import account_reference, registration
from mmo_simulators.common.faults import parse_planned_fault
from mmo_simulators.operators.mpesa.api import MpesaSimulator
from mmo_simulators.operators.mpesa.keys import open_mpesa
from mmo_simulators.server.callbacks import call_back, system_streams
from mmo_simulators.server.serving import serve as serve_simulator
from mmo_trio.brands.keyring import KeyRing
from mmo_trio.brands.master_key import load_master_keys
from mmo_trio.storage.interface.admin_types import NoteTopic
from mmo_trio.system.ciphers import SystemCiphers
from mmo_trio.workers.providers.account_notes import read_finding_note
from tests.support.console_browser import open_store_of
from tests.support.emv_qr_reader import parse_objects, parse_payload
from tests.support.hostile_receivers import Receiver
from tests.support.merchant import TIMEOUT_S, Merchant, ask
from tests.support.merchants import ACME_KEY, a_brand, developer
from tests.support.mmo_process import COMMAND, environment_without_settings
from tests.support.qr_reader import read_qr_code
from tests.support.receivers import calls_to, receiver, url_of
from tests.support.sandbox_gateway import Running, Serve
from tests.support.simulated_accounts import mpesa_options

PAYER = "254708374149"
OF_EVERY_KIND = ("kind", "answer_within_s")
SOON = {"at": "*", "do": "end_after", "after_s": 0.2, "times": 1000}


async def until(holds: Callable[[], bool]) -> None:
    """Return once this holds."""
    with trio.fail_after(TIMEOUT_S):
        while True:
            if holds():
                return
            await trio.sleep(0.02)


@define(eq=False)
class Kenya:
    """A gateway with an account at a simulated M-Pesa."""

    running: Running
    simulator: MpesaSimulator
    origin: str
    """Of the simulator: `http://127.0.0.1:PORT`."""
    merchant: Merchant
    receiver: Receiver
    environment: dict[str, str]
    """Settings of the gateway's account and store, for its commands."""
    options: dict[str, str]
    answered: list[tuple[HttpRequest, HttpResponse]] = Factory(list)
    """The simulator's callbacks that the gateway answered, with its answers."""

    def confirmations(self) -> list[tuple[dict[str, Any], int]]:
        """The confirmed deposits that reached the gateway, with the status of its answer."""
        documents = [(json.loads(each.body), answer.status) for each, answer in self.answered]
        return [(each, status) for each, status in documents if "TransID" in each]

    def plan(self, *faults: Mapping[str, Any]) -> None:
        """Let the simulator follow this script, and everything end soon."""
        self.simulator.faults.plan(parse_planned_fault(each) for each in (*faults, SOON))

    def account(self, account: str, **members: Any) -> None:
        self.simulator.open_accounts([{"account": account, **members}])

    @property
    def payments(self) -> Sequence[dict[str, Any]]:
        """The simulator's book."""
        found: Sequence[dict[str, Any]] = self.simulator.snapshot()["payments"]
        return found

    async def began(self, operation: str, **changes: Any) -> str:
        """A payment that the simulator has: its gatewayReference."""
        before = len(self.payments)
        changes = {"msisdn": PAYER, "reconciliationReference": "PRN1234XN", **changes}
        made = await self.merchant.accepted(operation, **changes)
        await until(lambda: len(self.payments) > before)
        return str(made["gatewayReference"])

    async def ended(self, reference: str) -> dict[str, Any]:
        """The transaction that the merchant was called back with, once."""
        found = await self.merchant.ended(reference)
        assert (await self.running.outcome_of(reference))["outcome"] == "delivered"
        calls = [each for each in self.told if each["gatewayReference"] == reference]
        assert [each["status"] for each in calls] == [found["status"]]
        return found

    @property
    def told(self) -> list[dict[str, Any]]:
        """What the merchant was called back with, codes aside."""
        transactions = [each.transaction for each in calls_to(self.receiver)]
        return [each for each in transactions if "qrImage" not in each]

    def told_once(self, reference: str) -> bool:
        """Whether the merchant was called back about this payment once."""
        return [each["gatewayReference"] for each in self.told].count(reference) == 1

    async def deposit(self, shillings: int, bill_reference: str, shortcode: int = 174379) -> None:
        """Somebody pays by himself."""
        document = {
            "ShortCode": shortcode,
            "CommandID": "CustomerPayBillOnline",
            "Amount": shillings,
            "Msisdn": int(PAYER),
            "BillRefNumber": bill_reference,
        }
        await self._ask_daraja("/mpesa/c2b/v2/simulate", json.dumps(document).encode())

    async def register(self) -> None:
        """Tell M-Pesa our addresses for deposits, without the seconds that `mmo providers register`
        takes to start."""
        ring = KeyRing(*load_master_keys(self.running.directory / "master.key"))
        hooks_url = f"{self.running.ready.api}/hooks/kenya/{ring.webhook_tokens('kenya')[0]}"
        options = {key: each for key, each in self.options.items() if key not in OF_EVERY_KIND}
        account = read_account(options, hooks_url=hooks_url, ciphers=SystemCiphers())
        request = registration(account, 2)
        path = request.target.decode().removeprefix(self.origin)
        await self._ask_daraja(path, request.body)

    async def forge(self, document: Mapping[str, Any]) -> None:
        """Send a confirmation to the address that M-Pesa has."""
        accounts = self.simulator._accounts.accounts
        url = accounts["174379"].confirmation_url
        assert url is not None
        answer = await ask(url, method="POST", body=json.dumps(document).encode())
        assert answer.status == 200

    async def suspense_is(self, *reasons: str) -> list[dict[str, Any]]:
        """Return the suspense book once it has entries for these reasons."""
        with trio.fail_after(TIMEOUT_S):
            while True:
                kept = await self.running.seen("suspense")
                if sorted(each["reason"] for each in kept) == sorted(reasons):
                    return kept
                await trio.sleep(0.05)

    async def _ask_daraja(self, path: str, body: bytes) -> None:
        for _ in range(10):  # Whenever the gateway signs in, our token ends.
            token = (await self._signed_in())["access_token"]
            answer = await ask(
                self.origin + path,
                method="POST",
                headers={"Content-Type": "application/json", "Authorization": f"Bearer {token}"},
                body=body,
            )
            if answer.status == 200:
                return
        raise AssertionError(answer.body)

    async def _signed_in(self) -> Any:
        answer = await ask(
            f"{self.origin}/oauth/v1/generate?grant_type=client_credentials",
            headers={"Authorization": "Basic Y29uc3VtZXIta2V5OmNvbnN1bWVyLXNlY3JldA=="},
        )
        return answer.json


def confirmation(bill_reference: str, **members: str) -> dict[str, str]:
    """The confirmation of a deposit of KES 150."""
    return {
        "TransactionType": "Pay Bill",
        "TransID": "RKL51ZDR4F",
        "TransTime": "20231121121325",
        "TransAmount": "150.00",
        "BusinessShortCode": "174379",
        "BillRefNumber": bill_reference,
        "MSISDN": "2547 ***** 149",
        "FirstName": "JANE",
        **members,
    }


@asynccontextmanager
async def in_kenya(serve: Serve, directory: Path, **further: str) -> AsyncIterator[Kenya]:
    simulator, open_stream = open_mpesa(), system_streams()
    answered: list[tuple[HttpRequest, HttpResponse]] = []

    async def send_callback(request: HttpRequest) -> HttpResponse:
        response = await call_back(request, open_stream=open_stream)
        answered.append((request, response))
        return response

    async with (
        serve_simulator(simulator, send_callback=send_callback) as origin,
        receiver(directory) as found,
    ):
        options = {
            "kind": "mpesa_daraja",
            "base_url": origin,
            **mpesa_options(simulator.certificate),
            "answer_within_s": "1",
            **further,
        }
        environment = {
            f"MMO_PROVIDER__KENYA__{key.upper()}": value for key, value in options.items()
        }
        brand = a_brand("acme", ACME_KEY, push_result_url=url_of(found)).replace(
            'provider = "sandbox"', 'provider = "kenya"'
        )
        async with serve(brands=brand, environment=environment) as running:
            merchant = developer(running, ACME_KEY, result_url=url_of(found))
            reachable = environment | running.storage.environment
            kenya = Kenya(running, simulator, origin, merchant, found, reachable, options, answered)
            kenya.plan()
            yield kenya


@pytest.mark.spec("C3", "S2", "S5", "Q1")
async def test_a_qr_code_is_paid_by_whoever_scans_it(serve: Serve, tmp_path: Path) -> None:
    async with in_kenya(serve, tmp_path) as kenya:
        await kenya.register()
        kenya.plan({"at": "c2b", "do": "call_back", "after_s": [0, 0.5]})
        made = await kenya.merchant.accepted("qr/payin", msisdn=PAYER)
        reference = str(made["gatewayReference"])
        await until(lambda: bool(calls_to(kenya.receiver)))  # Nobody can scan what isn't shown.
        (shown,) = calls_to(kenya.receiver)
        code = shown.transaction
        assert (code["gatewayReference"], code["qrPayload"]) == (reference, None)
        objects = parse_payload(read_qr_code(base64.b64decode(code["qrImage"], validate=True)))
        assert (objects["53"], objects["54"], objects["58"]) == ("404", "150.00", "KE")
        assert parse_objects(objects["62"])["01"] == account_reference(reference)
        await kenya.deposit(150, account_reference(reference))
        found = await kenya.ended(reference)
        (paid,) = kenya.payments
        assert (found["status"], found["providerReference"]) == ("success", paid["receipt"])
        await until(lambda: kenya.payments[0]["told"] == 2)
        assert kenya.told_once(reference)


@pytest.mark.spec("Q1", "S4")
async def test_a_qr_code_is_paid_by_whoever_types_its_reference_in_groups(
    serve: Serve, tmp_path: Path
) -> None:
    """It is no deposit to whichever brand owns the rest of the account."""
    async with in_kenya(serve, tmp_path) as kenya:
        await kenya.register()
        made = await kenya.merchant.accepted("qr/payin", msisdn=PAYER)
        reference = str(made["gatewayReference"])
        await until(lambda: bool(calls_to(kenya.receiver)))
        typed = account_reference(reference).lower()
        await kenya.deposit(150, f"{typed[:4]} {typed[4:8]} {typed[8:]}")
        found = await kenya.ended(reference)
        (paid,) = kenya.payments
        assert (found["status"], found["providerReference"]) == ("success", paid["receipt"])


@pytest.mark.spec("S4")
async def test_a_deposit_is_asked_about_and_becomes_a_transaction(
    serve: Serve, tmp_path: Path
) -> None:
    async with in_kenya(serve, tmp_path) as kenya:
        kenya.account("174379", validates=True)
        await registered(kenya)
        kenya.plan({"at": "c2b", "do": "call_back", "after_s": [0, 0, 0.5]})
        await kenya.deposit(75, "ACC-7")
        await until(lambda: [each["told"] for each in kenya.payments] == [3])
        await until(lambda: bool(calls_to(kenya.receiver)))
        (call,) = calls_to(kenya.receiver)
        (paid,) = kenya.payments
        assert (call.transaction["flow"], call.transaction["status"]) == ("push", "success")
        assert call.transaction["providerReference"] == paid["receipt"]


async def test_whoever_knows_the_address_of_confirmations_books_nothing(
    serve: Serve, tmp_path: Path
) -> None:
    async with in_kenya(serve, tmp_path) as kenya:
        await kenya.register()
        first, second = [
            str((await kenya.merchant.accepted("qr/payin", msisdn=PAYER))["gatewayReference"])
            for _ in "12"
        ]
        await until(lambda: len(calls_to(kenya.receiver)) == 2)
        forged = confirmation(account_reference(first), TransID="FORGED0001")
        await kenya.forge(forged)
        await kenya.forge({**forged, "BusinessShortCode": "999999", "TransID": "FORGED0002"})
        await kenya.forge(confirmation("ACC-7", TransID="FORGED0003", TransAmount="70000.00"))
        await kenya.suspense_is("unmatched_deposit")
        await kenya.running.advance("70m")
        await kenya.running.advance("20m")
        await kenya.suspense_is("unmatched_deposit", "unconfirmed_deposit", "unconfirmed_deposit")
        assert (await kenya.merchant.status(first))["status"] == "pending"
        await kenya.deposit(150, account_reference(first))
        paid = await kenya.ended(first)
        assert paid["status"] == "success"
        await kenya.forge(
            confirmation(account_reference(second), TransID=paid["providerReference"])
        )
        await kenya.suspense_is(
            "unmatched_deposit", "unconfirmed_deposit", "unconfirmed_deposit", "conflicting_deposit"
        )
        assert (await kenya.merchant.status(second))["status"] == "pending"


@pytest.mark.spec("S5")
async def test_a_push_that_is_confirmed_as_a_deposit_is_one_payment(
    serve: Serve, tmp_path: Path
) -> None:
    async with in_kenya(serve, tmp_path) as kenya:
        kenya.account("174379", confirms_pushes=True)
        await kenya.register()
        reference = await kenya.began("direct/payin")
        assert (await kenya.ended(reference))["status"] == "success"
        await until(lambda: len(kenya.answered) == 2)
        (paid,) = kenya.payments
        confirmed = [
            (each["TransID"], each["BillRefNumber"], status)
            for each, status in kenya.confirmations()
        ]
        assert confirmed == [(paid["receipt"], paid["reference"], 200)]
        assert paid["told"] == 2
        assert len(calls_to(kenya.receiver)) == 1
        assert await kenya.running.seen("suspense") == []


async def test_an_app_with_the_older_c2b_is_registered_and_the_version_is_kept(
    serve: Serve, tmp_path: Path
) -> None:
    async with in_kenya(serve, tmp_path) as kenya:
        kenya.account("174379", c2b_version=1)
        await registered(kenya)
        assert kenya.simulator._accounts.accounts["174379"].confirmation_url is not None
        async with open_store_of(kenya.running.directory) as store:
            notes = await store.admin.provider_notes(NoteTopic.FINDING)
        (kept,) = (read_finding_note(note) for note in notes if note.subject == "c2b")
        assert (kept.state, kept.code) == (AccountState.WORKS, "v1")


async def registered(kenya: Kenya) -> None:
    """Our addresses for deposits are told to M-Pesa, as `mmo providers register` does."""
    with trio.fail_after(TIMEOUT_S):
        done = await trio.run_process(
            [*COMMAND, "providers", "register", "kenya", "--data", str(kenya.running.directory)],
            env=environment_without_settings() | kenya.environment,
            capture_stdout=True,
            capture_stderr=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr


PULLS = {"pull_number": "0722000000"}
CONFIRMATION_LOST = {"at": "c2b", "do": "call_back", "after_s": []}


@pytest.mark.spec("S2", "S4", "S5")
async def test_a_list_and_late_confirmations_credit_each_deposit_once(
    serve: Serve, tmp_path: Path
) -> None:
    async with in_kenya(serve, tmp_path, **PULLS) as kenya:
        await registered(kenya)
        reference = str(
            (await kenya.merchant.accepted("qr/payin", msisdn=PAYER))["gatewayReference"]
        )
        await until(lambda: bool(calls_to(kenya.receiver)))
        named = account_reference(reference)
        for shillings, bill_reference in ((150, named), (75, "ACC-7")):
            kenya.plan(CONFIRMATION_LOST)
            await kenya.deposit(shillings, bill_reference)
        await until(lambda: all(each["result"] for each in kenya.payments))
        await kenya.running.advance("6m")
        assert (await kenya.ended(reference))["status"] == "success"
        await until(lambda: len(calls_to(kenya.receiver)) == 3)
        for each in kenya.payments:
            members = {"TransID": each["receipt"], "TransAmount": each["amount"]}
            await kenya.forge(confirmation(each["reference"], **members))
        await kenya.running.advance("20m")
        assert kenya.told_once(reference)
        receipts = sorted(each["receipt"] for each in kenya.payments)
        assert sorted(each["providerReference"] for each in kenya.told) == receipts
        assert await kenya.running.seen("suspense") == []


@pytest.mark.spec("S5")
async def test_an_account_that_m_pesa_lists_nothing_for_goes_on(
    serve: Serve, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    async with in_kenya(serve, tmp_path, **PULLS) as kenya:  # Nobody has registered it.
        await kenya.running.advance("6m")
        logged = ""
        with trio.fail_after(TIMEOUT_S):
            while "deposits_not_listed" not in logged:
                logged += "".join(capfd.readouterr())
                await trio.sleep(0.02)
        assert (await kenya.ended(await kenya.began("direct/payin")))["status"] == "success"
