"""Puts the simulator of an operator into a simulated world, with an account of the gateway's, and lets its messages
meet with misfortune."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Final

from attrs import Factory, define, evolve

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.providers.common.interface import ExchangeFailed
from mmo_sansio.values.clock import Instant
from mmo_trio.http.client.client import HttpClient
from mmo_trio.simulators.base import DroppedConnection, Simulator, json_response
from mmo_trio.simulators.forwarding import ForwardingSimulator
from mmo_trio.simulators.mtn.accounts import SimulatedMtnAccounts
from mmo_trio.simulators.mtn.api import API_KEY, API_USER, COLLECTION_KEY, DISBURSEMENT_KEY, MtnSimulator
from mmo_trio.simulators.server import serve_simulator
from mmo_trio.testing.simulated_process import SimulatedProcess
from mmo_trio.testing.simulated_trace import SimulationTrace
from mmo_trio.testing.world_files import WorldMethod
from mmo_trio.testing.world_party import WorldParty
from mmo_trio.testing.world_schedule import WorldSchedule

OPERATOR_PORT: Final = 443
MTN: Final = "mtn_ug"
SUBMISSIONS: Final = ("requesttopay", "transfer", "deposit")
"""The last segments of the paths to which submissions are sent."""
_PAY_BOTH_WAYS: Final = ("direct/payin", "direct/payout")


def operator_host(name: str) -> str:
    """Return the name of an operator's API."""
    return f"{name.replace('_', '-')}.example"


def mtn_method() -> WorldMethod:
    """Return the account with the simulated MTN MoMo of Uganda."""
    return WorldMethod(
        MTN,
        "UG",
        "UGX",
        _PAY_BOTH_WAYS,
        {
            "kind": "mtn_momo",
            "market": "mtnuganda",
            "collection_subscription_key": COLLECTION_KEY,
            "collection_api_user": API_USER,
            "collection_api_key": API_KEY,
            "disbursement_subscription_key": DISBURSEMENT_KEY,
            "disbursement_api_user": API_USER,
            "disbursement_api_key": API_KEY,
            "base_url": f"https://{operator_host(MTN)}",
        },
    )


def open_mtn() -> Simulator:
    """Return the operator of that account."""
    return MtnSimulator(market="mtnuganda", accounts=SimulatedMtnAccounts(currency="UGX"))


@define
class OperatorWeather:
    """Says how often each misfortune happens at an operator at present; all are shares of 1."""

    notification_lost: float = 0.0
    notification_late: float = 0.0
    notification_repeated: float = 0.0
    notification_contradicts: float = 0.0
    """Another result is notified before the true one."""
    request_lost: float = 0.0
    """The connection is closed before anything is done."""
    answer_lost: float = 0.0
    """The request is carried out, and the connection closed."""
    unavailable: float = 0.0
    """The answer is 503, and nothing is done."""
    rate_limited: float = 0.0
    """The answer is 429, and nothing is done."""


@define(eq=False)
class WorldOperator:
    """Runs one operator. It is never killed: its book is the truth about the money."""

    name: str
    simulator: Simulator
    party: WorldParty
    now: Callable[[], Instant]
    """Returns the world's time, by which operators go."""
    random: Random
    trace: SimulationTrace
    schedule: WorldSchedule
    weather: OperatorWeather = Factory(OperatorWeather)
    submissions: Counter[str] = Factory(Counter)
    """How many submissions of each payment have arrived, by gatewayReference, whatever was answered."""
    denials: Counter[str] = Factory(Counter)
    """How often the operator has said that it does not know a submission, by its own name of it."""
    notified: list[HttpRequest] = Factory(list)
    """The notifications that were accepted, from which forgers and faulty networks repeat."""

    async def run(self, process: SimulatedProcess) -> None:
        """Serve until cancelled."""
        client = self.party.http_client()
        await serve_simulator(
            _MisfortunateSimulator(self.simulator, self),
            [self.party.listen(OPERATOR_PORT)],
            send_callback=partial(self._notify, client),
            now=self.now,
        )

    def misfortune(self, request: HttpRequest) -> HttpResponse | DroppedConnection | None:
        """Return what a request meets with instead of the operator; None when it arrives."""
        chance, weather = self.random.random(), self.weather
        for share, name, reaction in (
            (weather.request_lost, "request_lost", DroppedConnection()),
            (weather.unavailable, "operator_unavailable", json_response(503, {})),
            (weather.rate_limited, "operator_rate_limited", json_response(429, {})),
        ):
            if chance < share:
                self.trace.add(name, self.name, request.method)
                return reaction
            chance -= share
        return None

    def observe(self, request: HttpRequest, response: HttpResponse | DroppedConnection) -> None:
        """Count submissions that have arrived, and polls that were answered with 404."""
        segment = request.target.rpartition(b"/")[2].decode("ascii")
        if request.method == "POST" and segment in SUBMISSIONS:
            self.submissions[json.loads(request.body)["externalId"]] += 1
        elif request.method == "GET" and isinstance(response, HttpResponse) and response.status == 404:
            self.denials[segment] += 1

    def loses_answer(self) -> bool:
        """Return whether the answer to a request that was carried out is lost."""
        lost = self.random.random() < self.weather.answer_lost
        if lost:
            self.trace.add("answer_lost", self.name)
        return lost

    async def forge(self, reference: str, result: str) -> None:
        """Send what somebody might who knows the address for notifications: a result of this payment that the operator
        has not reported, in the form of its latest notification. Nothing is sent before there was one."""
        if not self.notified:
            return
        genuine = self.notified[-1]
        document = {**json.loads(genuine.body), "externalId": reference, "status": result}
        target = genuine.target.rpartition(b"/")[0] + b"/" + reference.encode()
        self.trace.add("notification_forged", self.name, reference, result)
        try:
            client = self.party.http_client()
            body = json.dumps(document).encode()
            await self._call(client, HttpRequest(genuine.method, target, genuine.headers, body))
        except ExchangeFailed:
            self.trace.add("forgery_lost", self.name)

    async def _call(self, client: HttpClient, request: HttpRequest) -> HttpResponse:
        with self.schedule.activity():
            return await client.call_provider(request)

    async def _notify(self, client: HttpClient, request: HttpRequest) -> HttpResponse:
        """Send a notification as the weather lets it through. Raises ExchangeFailed."""
        weather, chance = self.weather, self.random.random()
        if chance < weather.notification_lost:
            self.trace.add("notification_lost", self.name)
            raise ExchangeFailed("It was lost.", may_have_arrived=False)
        if self.random.random() < weather.notification_late:
            delay_s = self.random.choice((5, 60, 1_800, 40_000))
            self.trace.add("notification_late", self.name, delay_s)
            await self.schedule.sleep(delay_s)
        if self.random.random() < weather.notification_contradicts:
            self.trace.add("notification_contradicts", self.name)
            await self._call(client, contradicting(request))
            await self.schedule.sleep(self.random.choice((0, 1, 600)))
        response = await self._call(client, request)
        self.trace.add("notified", self.name, response.status)
        if self.random.random() < weather.notification_repeated:
            self.trace.add("notification_repeated", self.name)
            await self.schedule.sleep(self.random.choice((0, 1, 600)))
            response = await self._call(client, request)
        self.notified.append(request)
        return response


def contradicting(request: HttpRequest) -> HttpRequest:
    """Return a notification of the other result."""
    document = json.loads(request.body)
    document["status"] = "FAILED" if document["status"] == "SUCCESSFUL" else "SUCCESSFUL"
    return evolve(request, body=json.dumps(document).encode())


@define(eq=False)
class _MisfortunateSimulator(ForwardingSimulator):
    """Is the simulator as the network in front of it lets it appear."""

    operator: WorldOperator

    def handle_request(self, request: HttpRequest, *, now: Instant) -> HttpResponse | DroppedConnection:
        met = self.operator.misfortune(request)
        if met is not None:
            return met
        response = super().handle_request(request, now=now)
        self.operator.observe(request, response)
        return DroppedConnection() if self.operator.loses_answer() else response
