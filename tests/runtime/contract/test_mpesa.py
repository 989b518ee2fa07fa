"""Payments by M-Pesa from the merchant's request to the merchant's callback, over real sockets: the gateway, its
adapter for Daraja, a simulated M-Pesa, a receiver."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
from attrs import define
from hostile_receivers import Receiver

from mmo_sansio.egress import EgressRules
from mmo_sansio.providers.mpesa_daraja.codes import RESULTS
from mmo_sansio.providers.mpesa_daraja.references import account_reference
from mmo_trio.http.client import Client, tls_context
from mmo_trio.simulators.mpesa import MpesaSimulator
from mmo_trio.simulators.mpesa_book import SANDBOX_PASSKEY
from mmo_trio.simulators.mpesa_keys import open_mpesa
from mmo_trio.simulators.mpesa_tales import PICTURE
from mmo_trio.simulators.serving import serve_simulator
from mmo_trio.wallclock import WallClock

from .conftest import Running, Serve
from .merchant import PATIENCE_S, Merchant, ask
from .merchants import ACME_KEY, a_brand, developer
from .program import COMMAND, outside
from .receivers import calls_to, receiver, url_of

PAYER = "254708374149"
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
SOON = {"at": "*", "do": "end_after", "after_s": 0.2, "times": 1000}


async def until(holds: Callable[[], bool]) -> None:
    """Return once this holds."""
    with trio.fail_after(PATIENCE_S):
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

    async def post(self, path: str, document: object) -> Any:
        answer = await ask(
            self.origin + path,
            method="POST",
            headers={"Content-Type": "application/json"},
            body=json.dumps(document).encode(),
        )
        assert answer.status == 200, answer.body
        return answer.json

    async def plan(self, *faults: Mapping[str, Any]) -> None:
        """Let the simulator follow this script, and everything end soon."""
        await self.post("/_simulator/faults", {"faults": [*faults, SOON]})

    async def account(self, account: str, **members: Any) -> None:
        await self.post("/_simulator/accounts", {"accounts": [{"account": account, **members}]})

    async def payments(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (await ask(f"{self.origin}/_simulator/book")).json["payments"]
        return found

    async def began(self, operation: str, **changes: Any) -> str:
        """A payment that the simulator has: its gatewayReference."""
        before = len(await self.payments())
        changes = {"msisdn": PAYER, "reconciliationReference": "PRN1234XN", **changes}
        made = await self.merchant.accepted(operation, **changes)
        await until(lambda: len(self.simulator.book()["payments"]) > before)
        return str(made["gatewayReference"])

    async def submitted(self, reference: str) -> None:
        """Return once the payment was sent to the provider."""
        with trio.fail_after(PATIENCE_S):
            while True:
                if (await self.merchant.status(reference))["providerData"] is not None:
                    return
                await trio.sleep(0.02)

    async def ended(self, reference: str) -> dict[str, Any]:
        """The transaction that the merchant was called back with, once."""
        found = await self.merchant.ended(reference)
        assert (await self.running.outcome_of(reference))["outcome"] == "delivered"
        calls = [
            each.transaction
            for each in calls_to(self.receiver)
            if each.transaction["gatewayReference"] == reference
            and "qrImage" not in each.transaction
        ]
        assert [each["status"] for each in calls] == [found["status"]]
        return found

    async def deposit(self, shillings: int, bill_reference: str) -> None:
        """Somebody pays by himself."""
        document = {
            "ShortCode": 174379,
            "CommandID": "CustomerPayBillOnline",
            "Amount": shillings,
            "Msisdn": int(PAYER),
            "BillRefNumber": bill_reference,
        }
        for _ in range(10):  # Whenever the gateway signs in, our token ends.
            token = (await self._signed_in())["access_token"]
            answer = await ask(
                f"{self.origin}/mpesa/c2b/v2/simulate",
                method="POST",
                headers={
                    "Content-Type": "application/json",
                    "Authorization": f"Bearer {token}",
                },
                body=json.dumps(document).encode(),
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


@asynccontextmanager
async def in_kenya(serve: Serve, directory: Path) -> AsyncIterator[Kenya]:
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    origin = f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}"
    simulator = open_mpesa()
    options = {
        "kind": "mpesa_daraja",
        "base_url": origin,
        "consumer_key": "consumer-key",
        "consumer_secret": "consumer-secret",
        "shortcode": "174379",
        "passkey": SANDBOX_PASSKEY,
        "payout_shortcode": "600997",
        "initiator": "testapi",
        "initiator_password": "Safaricom999!*!",
        "certificate": simulator.certificate,
        "merchant_name": "TEST SHOP",
    }
    environment = {f"MMO_PROVIDER__KENYA__{key.upper()}": value for key, value in options.items()}
    client = Client(rules=EgressRules(), context=tls_context())
    async with trio.open_nursery() as nursery, receiver(directory) as found:
        await nursery.start(
            partial(serve_simulator, simulator, listeners, tell=client.ask, now=WallClock().now)
        )
        brand = a_brand("acme", ACME_KEY, push_result_url=url_of(found)).replace(
            'provider = "sandbox"', 'provider = "kenya"'
        )
        async with serve(brands=brand, environment=environment) as running:
            merchant = developer(running, ACME_KEY, result_url=url_of(found))
            kenya = Kenya(running, simulator, origin, merchant, found, environment)
            await kenya.plan()
            yield kenya
        nursery.cancel_scope.cancel()


@pytest.mark.spec("C1", "C2", "C5", "S2")
@pytest.mark.parametrize("operation", ["direct/payin", "direct/payout", "direct/taxpayout"])
async def test_a_payment_succeeds_and_has_the_receipt(
    serve: Serve, tmp_path: Path, operation: str
) -> None:
    async with in_kenya(serve, tmp_path) as kenya:
        found = await kenya.ended(await kenya.began(operation))
        (paid,) = await kenya.payments()
        assert (found["status"], paid["result"]) == ("success", "success")
        assert found["providerReference"] == paid["receipt"]
        assert found["completionSource"] == "poll"


@pytest.mark.spec("C4", "W1", "S2")
async def test_a_payer_who_confirms_on_the_page_is_prompted(serve: Serve, tmp_path: Path) -> None:
    async with in_kenya(serve, tmp_path) as kenya:
        made = await kenya.merchant.accepted("web/payin", msisdn=PAYER)
        assert await kenya.payments() == []
        assert (await ask(made["pageUrl"], method="POST", headers=FORM, body=b"")).status == 303
        found = await kenya.ended(str(made["gatewayReference"]))
        (paid,) = await kenya.payments()
        assert (found["status"], found["providerReference"]) == ("success", paid["receipt"])


@pytest.mark.spec("E1", "S2")
@pytest.mark.parametrize("operation", ["direct/payin", "direct/payout"])
async def test_every_failure_reaches_the_merchant_by_its_own_name(
    serve: Serve, tmp_path: Path, operation: str
) -> None:
    at = "stk_push" if operation == "direct/payin" else "b2c"
    async with in_kenya(serve, tmp_path) as kenya:
        began = {}
        for number, code in enumerate(RESULTS):
            msisdn = f"2547000000{number:02d}"
            await kenya.account(msisdn, balance="1000.00")
            await kenya.plan({"at": at, "do": "end_with", "code": code})
            began[code] = await kenya.began(operation, msisdn=msisdn)
        for code, reference in began.items():
            found = await kenya.ended(reference)
            meaning = RESULTS[code]
            expected = meaning.payin if operation == "direct/payin" else meaning.payout
            assert (found["status"], found["errorCode"]) == ("failed", expected)
            assert found["providerData"]["errorCode"] == code


@pytest.mark.spec("S6")
@pytest.mark.parametrize("operation", ["direct/payin", "direct/payout", "direct/taxpayout"])
@pytest.mark.parametrize(
    "fault", [{"do": "lose_answer"}, {"do": "answer_after", "status": 503, "body": {}}]
)
async def test_a_lost_answer_costs_nobody_money(
    serve: Serve, tmp_path: Path, operation: str, fault: dict[str, Any]
) -> None:
    at = {"direct/payin": "stk_push", "direct/payout": "b2c", "direct/taxpayout": "tax"}
    async with in_kenya(serve, tmp_path) as kenya:
        await kenya.plan({"at": at[operation], **fault})
        reference = await kenya.began(operation)
        await until(lambda: all(each["told"] for each in kenya.simulator.book()["payments"]))
        await kenya.running.advance("2m")
        found = await kenya.ended(reference)
        (paid,) = await kenya.payments()
        assert (found["status"], paid["result"]) == ("success", "success")


@pytest.mark.spec("S6")
async def test_a_lost_request_is_sent_again_and_paid_once(serve: Serve, tmp_path: Path) -> None:
    """Daraja is asked, and is certain only when the time is over in which the request could still arrive."""
    async with in_kenya(serve, tmp_path) as kenya:
        await kenya.plan({"at": "b2c", "do": "lose_request"})
        made = await kenya.merchant.accepted("direct/payout", msisdn=PAYER)
        reference = str(made["gatewayReference"])
        with trio.fail_after(3 * PATIENCE_S):
            while not await kenya.payments():
                await kenya.running.advance("65m")
                with trio.move_on_after(3):
                    await until(lambda: bool(kenya.simulator.book()["payments"]))
        assert (await kenya.ended(reference))["status"] == "success"
        assert len(await kenya.payments()) == 1


@pytest.mark.spec("S5", "S6")
async def test_callbacks_that_come_twice_or_never_change_nothing(
    serve: Serve, tmp_path: Path
) -> None:
    async with in_kenya(serve, tmp_path) as kenya:
        await kenya.plan({"at": "b2c", "do": "call_back", "after_s": [0, 0.1]})
        twice = await kenya.began("direct/payout")
        await kenya.plan({"at": "b2c", "do": "call_back", "after_s": []})
        never = await kenya.began("direct/payout")
        assert (await kenya.ended(twice))["status"] == "success"
        await kenya.running.advance("1m")
        assert (await kenya.ended(never))["status"] == "success"
        assert len(await kenya.payments()) == 2
        assert await kenya.running.seen("suspense") == []


@pytest.mark.spec("S6")
async def test_a_payout_that_times_out_in_the_queue_is_asked_about(
    serve: Serve, tmp_path: Path
) -> None:
    async with in_kenya(serve, tmp_path) as kenya:
        await kenya.plan({"at": "b2c", "do": "end_with", "code": "queue_timeout"})
        found = await kenya.ended(await kenya.began("direct/payout"))
        assert (found["status"], found["errorCode"]) == ("failed", "transaction_expired")


@pytest.mark.spec("S6")
@pytest.mark.parametrize("code", ["404.001.03", "400.003.01"])
async def test_a_token_that_ended_early_costs_nothing_but_another(
    serve: Serve, tmp_path: Path, code: str
) -> None:
    async with in_kenya(serve, tmp_path) as kenya:
        body = {"requestId": "1", "errorCode": code, "errorMessage": "Invalid Access Token"}
        await kenya.plan({"at": "b2c", "do": "answer_instead", "status": 404, "body": body})
        assert (await kenya.ended(await kenya.began("direct/payout")))["status"] == "success"


@pytest.mark.spec("C3", "S2", "Q1")
async def test_a_qr_code_is_paid_by_whoever_scans_it(serve: Serve, tmp_path: Path) -> None:
    async with in_kenya(serve, tmp_path) as kenya:
        await registered(kenya)
        made = await kenya.merchant.accepted("qr/payin", msisdn=PAYER)
        reference = str(made["gatewayReference"])
        await until(lambda: bool(calls_to(kenya.receiver)))  # Nobody can scan what isn't shown.
        (shown,) = calls_to(kenya.receiver)
        code = shown.transaction
        assert (code["gatewayReference"], code["qrPayload"]) == (reference, None)
        assert code["qrImage"] == PICTURE
        await kenya.deposit(150, account_reference(reference))
        found = await kenya.ended(reference)
        (paid,) = await kenya.payments()
        assert (found["status"], found["providerReference"]) == ("success", paid["receipt"])


@pytest.mark.spec("S4")
async def test_a_deposit_is_asked_about_and_becomes_a_transaction(
    serve: Serve, tmp_path: Path
) -> None:
    async with in_kenya(serve, tmp_path) as kenya:
        await kenya.account("174379", validates=True)
        await registered(kenya)
        await kenya.deposit(75, "ACC-7")
        await until(lambda: bool(calls_to(kenya.receiver)))
        (call,) = calls_to(kenya.receiver)
        (paid,) = await kenya.payments()
        assert (call.transaction["flow"], call.transaction["status"]) == ("push", "success")
        assert call.transaction["providerReference"] == paid["receipt"]


@pytest.mark.spec("S5")
@pytest.mark.parametrize("confirms", [False, True])
async def test_a_push_is_one_payment_whether_or_not_it_is_confirmed_as_a_deposit(
    serve: Serve, tmp_path: Path, confirms: bool
) -> None:
    async with in_kenya(serve, tmp_path) as kenya:
        kenya.simulator.confirms_pushes = confirms
        await registered(kenya)
        reference = await kenya.began("direct/payin")
        assert (await kenya.ended(reference))["status"] == "success"
        assert len(calls_to(kenya.receiver)) == 1


@pytest.mark.spec("S6")
async def test_a_payout_is_found_by_either_originator_conversation_id(
    serve: Serve, tmp_path: Path
) -> None:
    async with in_kenya(serve, tmp_path) as kenya:
        kenya.simulator.echoes_originator = False
        assert (await kenya.ended(await kenya.began("direct/payout")))["status"] == "success"


async def registered(kenya: Kenya) -> None:
    """Our addresses for deposits are told to M-Pesa, as `mmo providers register` does."""
    with trio.fail_after(PATIENCE_S):
        done = await trio.run_process(
            [*COMMAND, "providers", "register", "kenya", "--data", str(kenya.running.directory)],
            env=outside() | kenya.environment,
            capture_stdout=True,
            capture_stderr=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr
