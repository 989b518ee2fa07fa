"""Puts the simulated M-Pesa on a socket, asked by a client that knows nothing of ours."""

from __future__ import annotations

import base64
import json
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import trio
import trio.testing
from attrs import Factory, define, field

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.providers.common.interface import RsaPadding
from mmo_sansio.providers.mpesa_daraja.wire import password
from mmo_sansio.values.clock import Span
from mmo_simulators.operators.mpesa.accounts import SANDBOX_PASSKEY
from mmo_simulators.operators.mpesa.api import MpesaSimulator
from mmo_simulators.operators.mpesa.keys import open_mpesa
from mmo_simulators.server.serving import serve
from mmo_trio.system.ciphers import SystemCiphers
from mmo_trio.system.clock import GatewayClock
from tests.support.time_limits import HANGS_AFTER_S

STAMP = "20261121120000"
PUSH = {
    "BusinessShortCode": 174379,
    "Password": password("174379", SANDBOX_PASSKEY, STAMP),
    "Timestamp": STAMP,
    "TransactionType": "CustomerPayBillOnline",
    "Amount": "1",
    "PartyA": 254708374149,
    "PartyB": 174379,
    "PhoneNumber": 254708374149,
    "CallBackURL": "https://gw.example.com/cb/x",
    "AccountReference": "INV0001",
    "TransactionDesc": "Deposit",
}


REGISTRATION = {
    "ShortCode": "174379",
    "ResponseType": "Cancelled",
    "ConfirmationURL": "https://gw.example.com/confirm",
    "ValidationURL": "https://gw.example.com/validate",
}
DEPOSIT = {
    "ShortCode": 174379,
    "CommandID": "CustomerPayBillOnline",
    "Amount": 5,
    "Msisdn": 254708374149,
    "BillRefNumber": "ACC-1",
}


@define
class Stage:
    """A simulator on a socket, and whoever calls it."""

    simulator: MpesaSimulator
    clock: GatewayClock
    origin: str = field(init=False)
    told: list[HttpRequest] = Factory(list)
    heard: Callable[[HttpRequest], HttpResponse] = lambda request: HttpResponse(200, (), b"{}")
    token: str = ""

    async def tell(self, request: HttpRequest) -> HttpResponse:
        self.told.append(request)
        return self.heard(request)

    async def call(
        self, method: str, path: str, document: object = None, **headers: str
    ) -> tuple[int, Any]:
        return await trio.to_thread.run_sync(
            partial(self._call, method, path, document, headers), abandon_on_cancel=True
        )

    async def post(self, path: str, document: object) -> tuple[int, Any]:
        if not self.token:
            await self.sign_in()
        return await self.call("POST", path, document, Authorization=f"Bearer {self.token}")

    async def sign_in(self) -> None:
        pair = base64.b64encode(b"consumer-key:consumer-secret").decode()
        path = "/oauth/v1/generate?grant_type=client_credentials"
        status, answer = await self.call("GET", path, Authorization=f"Basic {pair}")
        assert (status, answer["expires_in"]) == (200, "3599")
        self.token = answer["access_token"]

    async def pass_time(self, seconds: float) -> None:
        """Let the simulator live through this time, and wait until it has told all."""
        self.clock.advance(Span(round(seconds * 1_000_000)))
        await self.call("GET", "/_simulator/book")
        while (due := self.simulator.next_due_at()) is not None and due <= self.clock.wall_time():
            await self.call("GET", "/_simulator/book")
        await trio.testing.wait_all_tasks_blocked(0.01)

    async def book(self) -> Any:
        return (await self.call("GET", "/_simulator/book"))[1]

    async def balance(self, account: str) -> str:
        rows = (await self.book())["accounts"]
        found: str = next(each["balance"] for each in rows if each["account"] == account)
        return found

    def _call(
        self, method: str, path: str, document: object, headers: dict[str, str]
    ) -> tuple[int, Any]:
        data = None if document is None else json.dumps(document).encode()
        request = urllib.request.Request(
            f"{self.origin}{path}",
            data,
            {"Content-Type": "application/json", **headers},
            method=method,
        )
        try:
            with urllib.request.urlopen(request, timeout=HANGS_AFTER_S) as answer:
                body = answer.read()
                return answer.status, json.loads(body) if body[:1] in (
                    b"{",
                    b"[",
                ) else body.decode()
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())


@asynccontextmanager
async def staged() -> AsyncIterator[Stage]:
    stage = Stage(open_mpesa(), GatewayClock())
    with trio.fail_after(HANGS_AFTER_S):
        async with serve(
            stage.simulator, now=stage.clock.wall_time, send_callback=stage.tell
        ) as stage.origin:
            yield stage


async def credential(stage: Stage) -> str:
    """The password of the API operator testapi, encrypted for the simulator's certificate."""
    _, certificate = await stage.call("GET", "/_simulator/certificate")
    secret = SystemCiphers().rsa_encrypt(
        certificate.encode(), b"Safaricom999!*!", RsaPadding.PKCS1V15
    )
    return base64.b64encode(secret).decode()


async def payout(stage: Stage, **members: Any) -> tuple[int, Any]:
    document = {
        "OriginatorConversationID": "gw-0001",
        "InitiatorName": "testapi",
        "SecurityCredential": await credential(stage),
        "CommandID": "BusinessPayment",
        "Amount": 100,
        "PartyA": 600997,
        "PartyB": 254708374149,
        "Remarks": "payout",
        "QueueTimeOutURL": "https://gw.example.com/timeout",
        "ResultURL": "https://gw.example.com/result",
        **members,
    }
    return await stage.post("/mpesa/b2c/v3/paymentrequest", document)


def told(request: HttpRequest) -> Any:
    return json.loads(request.body)


async def plan(stage: Stage, *faults: dict[str, Any]) -> None:
    status, answer = await stage.call("POST", "/_simulator/faults", {"faults": faults})
    assert status == 200, answer
