"""Airtel Money's simulator and an account with it, for tests: one RSA key for all of them; and a
client that is not ours."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

from attrs import Factory, define
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.testing import START
from mmo_sansio.values.clock import MINUTE, Instant, later
from mmo_simulators.operators.airtel.api import AirtelSimulator
from mmo_simulators.operators.airtel.request_checks import SimulatedAirtelMarket
from tests.support.bodies import documented

PAYER = "752000000"
"""A national number in Uganda."""
KEYS = {
    "client_id": "client-id",
    "client_secret": "client-secret",
    "grant_type": "client_credentials",
}
HEADERS = {"content-type": "application/json", "x-country": "UG", "x-currency": "UGX"}


@cache
def private_key(bits: int = 1024) -> RSAPrivateKey:
    """Return an RSA key, which is generated once."""
    return generate_private_key(65537, bits)


def a_simulator(bits: int = 1024, **market: Any) -> AirtelSimulator:
    """Return a simulator for Uganda: the payer has UGX 100000, and UGX 1000000 can be paid out."""
    simulator = AirtelSimulator(SimulatedAirtelMarket(private_key(bits), **market))
    currency = simulator.market.currency
    simulator.open_accounts(
        [
            {"account": PAYER, "balance": "100000", "currency": currency},
            {"account": "disbursement", "balance": "1000000"},
        ]
    )
    return simulator


def options(base_url: str, **more: Any) -> dict[str, Any]:
    """Return the gateway's options for an account with this simulator."""
    standard = {
        "base_url": base_url,
        "country": "UG",
        "client_id": "client-id",
        "client_secret": "client-secret",
        "pin": "1234",
    }
    return {**standard, **more}


@define
class Client:
    """Talks with a simulator as any client does."""

    simulator: AirtelSimulator = Factory(lambda: a_simulator(2048))
    now: Instant = START
    _token: str = ""

    def send(
        self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] = HEADERS
    ) -> HttpResponse:
        """Send a request as it is."""
        fields = tuple((name.encode(), value.encode()) for name, value in headers.items())
        request = HttpRequest(method, path.encode(), fields, body)
        answer = self.simulator.handle_request(request, now=self.now)
        assert isinstance(answer, HttpResponse)
        return answer

    def signed(self, headers: Mapping[str, str] = HEADERS) -> dict[str, str]:
        """Return headers with a token."""
        if not self._token:
            answer = self.send("POST", "/auth/oauth2/token", json.dumps(KEYS).encode())
            self._token = json.loads(answer.body)["access_token"]
        return {**headers, "authorization": f"Bearer {self._token}"}

    def call(self, method: str, path: str, document: object = None) -> tuple[int, Any]:
        """Send a document with a token; return the status of the answer, and its document."""
        body = b"" if document is None else json.dumps(document).encode()
        answer = self.send(method, path, body, self.signed())
        return answer.status, json.loads(answer.body)

    def collect(self, **changes: Any) -> tuple[int, Any]:
        """Send the portal's sample."""
        document = documented("airtel_money", "collection", **changes)
        return self.call("POST", "/merchant/v1/payments/", document)

    def paid(self) -> str:
        """The airtel_money_id of a collection that was paid."""
        assert self.collect()[0] == 200
        self.now = later(self.now, MINUTE)
        _, found = self.call("GET", "/standard/v1/payments/random-unique-id")
        return str(found["data"]["transaction"]["airtel_money_id"])

    def balances(self) -> dict[str, str]:
        """The balances in the simulator's book, by account."""
        return {each["account"]: each["balance"] for each in self.simulator.snapshot()["accounts"]}
