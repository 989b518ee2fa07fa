"""Puts the simulator of an operator into a simulated world, with an account of the gateway's, and
lets its messages meet with misfortune."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from enum import Enum
from random import Random
from types import MappingProxyType
from typing import Any, Final

import trio
from attrs import Factory, define, evolve, field

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.providers.common.interface import ExchangeFailed
from mmo_sansio.values.clock import DAY, HOUR, MINUTE, SECOND, Instant, Span
from mmo_simulators.common.faults import (
    ANY_OPERATION,
    CallBack,
    DroppedConnection,
    EndAfter,
    EndWith,
    Fault,
    PlannedFault,
    PollWith,
)
from mmo_simulators.common.forwarding import ForwardingSimulator
from mmo_simulators.common.messages import json_response
from mmo_simulators.common.simulator import Simulator
from mmo_simulators.server.callbacks import call_back
from mmo_simulators.server.serving import serve_on_listeners
from tests.simulation.clocks.virtual_clock import TRUE_TIME_AT_START
from tests.simulation.world.operator_kinds import OperatorKind, is_unauthorized
from tests.simulation.world.party import WorldParty
from tests.simulation.world.process import SimulatedProcess
from tests.simulation.world.schedule import WorldSchedule
from tests.simulation.world.trace import SimulationTrace

OPERATOR_PORT: Final = 443
OF_ONE_CONNECTION: Final = (b"host", b"content-length", b"connection", b"transfer-encoding")
"""Fields that a request gets anew when it is sent again."""
UNASKED: Final = "c2b"
"""How M-Pesa's book calls what nobody was asked for."""


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
    """The request is carried out, and the connection closed before or within the answer."""
    unavailable: float = 0.0
    """The answer is 503, and nothing is done."""
    rate_limited: float = 0.0
    """The answer is 429, and nothing is done."""
    garbled: float = 0.0
    """The answer is a page of its maintenance, and the request was carried out or was not."""
    request_late: float = 0.0
    """The connection is closed, and the request arrives all the same, when nobody waits for it."""


class PaymentEnding(Enum):
    """Says how a payment ends that its operator has accepted."""

    AT_ONCE = "at once"
    """It succeeds within seconds, unless there is no money."""
    REFUSED = "refused"
    """The other party declines."""
    LATE = "late"
    """It succeeds only after some minutes."""
    NEVER = "never"
    """The operator never tells a result."""
    DENIED = "denied"
    """It succeeds late, and whoever asks about it is told that it has failed."""
    UNDOCUMENTED = "undocumented"
    """It fails with a code that may mean anything."""
    AFTER_EXPIRY = "after expiry"
    """It succeeds when the gateway has given it up."""


ENDINGS: Final[Mapping[PaymentEnding, float]] = MappingProxyType(
    {
        PaymentEnding.AT_ONCE: 0.795,
        PaymentEnding.REFUSED: 0.12,
        PaymentEnding.LATE: 0.08,
        PaymentEnding.NEVER: 0.005,
    }
)
"""The share of each. A payment that never ends is polled some eighty times in three days, so one of
them costs as much time as ten others: few worlds need more than one."""
ALL_ENDINGS: Final[Mapping[PaymentEnding, float]] = MappingProxyType(
    {
        PaymentEnding.AT_ONCE: 0.60,
        PaymentEnding.REFUSED: 0.15,
        PaymentEnding.UNDOCUMENTED: 0.08,
        PaymentEnding.LATE: 0.08,
        PaymentEnding.NEVER: 0.01,
        PaymentEnding.DENIED: 0.05,
        PaymentEnding.AFTER_EXPIRY: 0.03,
    }
)
"""The share of each where all that can be done with an operator is played."""
REVERSAL_ENDINGS: Final[Mapping[PaymentEnding, float]] = MappingProxyType(
    {
        PaymentEnding.AT_ONCE: 0.75,
        PaymentEnding.REFUSED: 0.12,
        PaymentEnding.LATE: 0.08,
        PaymentEnding.DENIED: 0.05,
    }
)
"""The share of each among the requests for money back."""
LATE_MAX_S: Final = 3_000.0
EXPIRED_AFTER: Final = Span(3 * DAY + HOUR)
TOLD_OFTEN: Final = tuple(Span(minutes * MINUTE) for minutes in (0, 1, 5, 180))
"""When an operator tells a result that it denies whenever it is asked."""
LATE_REQUEST_S: Final = (1.0, 20.0, 60.0)
"""How long a request is on its way of which nobody waits for an answer, one of these."""
CORRECTED_AFTER_S: Final = (0, 1, 600)
"""How long after a wrong result the true one follows, one of these."""
CORRECTED_LATE_AFTER_S: Final = (*CORRECTED_AFTER_S, 20_000, 60_000)
"""The same of an operator that insists on the true one: staff may have acted on the wrong one."""
INSISTS_EVERY_S: Final = 600.0
"""Seconds until a notification is repeated that was not taken."""
NOTIFIED_WITHIN_S: Final = 0.5
"""How long a notification takes to leave, where nothing is wrong: two about one receipt may meet,
at two gateways."""


@define(eq=False)
class WorldOperator:
    """Runs one operator. It is never killed: its book is the truth about the money."""

    name: str
    kind: OperatorKind
    simulator: Simulator
    party: WorldParty
    now: Callable[[], Instant]
    """Returns the world's time, by which operators go."""
    random: Random
    trace: SimulationTrace
    schedule: WorldSchedule
    is_whole: bool = False
    """Whether all that can be done with it is played, and more of what can go wrong there."""
    insists: bool = False
    """Whether it repeats a true result that follows upon a wrong one until that is taken."""
    weather: OperatorWeather = Factory(OperatorWeather)
    lost_reversals: list[str] = Factory(list)
    """The reversals whose requests were lost, of which somebody notifies all the same."""
    has_told_wrongly: bool = False
    """Whether it has notified of another result than the one in its book."""
    submissions: Counter[str] = Factory(Counter)
    """How many submissions of each payment have arrived, by the operator's name of it, whatever was
    answered."""
    denials: Counter[str] = Factory(Counter)
    """How often the operator has said that it does not know a payment, by its own name of it."""
    reversal_requests: Counter[str] = Factory(Counter)
    """How many requests for money back have arrived, by what they name."""
    endings: dict[str, PaymentEnding] = Factory(dict)
    """How each payment ends, by the operator's name of it, and each reversal, by
    `reversal_name`."""
    notified: list[HttpRequest] = Factory(list)
    """The notifications that were sent, from which forgers and faulty networks repeat."""
    accepted: list[HttpRequest] = Factory(list)
    """The notifications that the gateway has accepted."""
    _late: trio.Nursery = field(init=False)
    """Sends what arrives late."""
    opening: Mapping[str, Decimal] = Factory(dict)
    """What was on each account at the beginning, where all that can be done with it is played."""

    @property
    def payments(self) -> Sequence[Mapping[str, Any]]:
        """The payments in its book that it was asked for."""
        return [
            each
            for each in self.simulator.snapshot()["payments"]
            if each["kind"] not in (self.kind.reversal_kind, UNASKED)
        ]

    @property
    def unasked(self) -> Sequence[Mapping[str, Any]]:
        """The payments in its book that somebody has made of his own accord, or by a code."""
        return [each for each in self.simulator.snapshot()["payments"] if each["kind"] == UNASKED]

    def change_accounts(self, members: Mapping[str, object]) -> None:
        """Give the merchant's own accounts these members."""
        accounts = sorted(set(self.kind.accounts.values()))
        self.simulator.open_accounts([{"account": each, **members} for each in accounts])

    def balances(self) -> Mapping[str, Decimal]:
        """Return what is on each account with it."""
        return {
            each["account"]: Decimal(each["balance"])
            for each in self.simulator.snapshot()["accounts"]
        }

    @property
    def sent_back(self) -> Sequence[Mapping[str, Any]]:
        """What its book says that went back, each named by the reversal or by the payment or its
        receipt."""
        rows = self.simulator.snapshot()["payments"]
        return [
            each
            for each in rows
            if each["kind"] == self.kind.reversal_kind and each["result"] == "success"
        ]

    async def run(self, process: SimulatedProcess) -> None:
        """Serve until cancelled."""
        async with trio.open_nursery() as self._late:
            await serve_on_listeners(
                _MisfortunateSimulator(self.simulator, self),
                [self.party.listen(OPERATOR_PORT)],
                send_callback=self._notify,
                now=self.now,
            )

    def misfortune(self, request: HttpRequest) -> HttpResponse | DroppedConnection | None:
        """Return what a request meets with instead of the operator; None when it arrives."""
        chance, weather = self.random.random(), self.weather
        for share, name, reaction in (
            (weather.request_lost, "request_lost", DroppedConnection()),
            (weather.unavailable, "operator_unavailable", json_response(503, {})),
            (weather.rate_limited, "operator_rate_limited", json_response(429, {})),
            (weather.request_late, "request_late", DroppedConnection()),
            (weather.garbled / 2, "answer_garbled", self.kind.maintenance[0]),
        ):
            if chance < share:
                self.trace.add(name, self.name, request.method)
                asked_back = self.kind.reversal(request) if self.kind.names_reversals else None
                if asked_back is not None:
                    self.lost_reversals.append(asked_back)
                if name == "request_late":
                    self._late.start_soon(self._arrive_late, request)
                if name == "answer_garbled":
                    return self.random.choice(self.kind.maintenance)
                return reaction
            chance -= share
        return None

    async def _arrive_late(self, request: HttpRequest) -> None:
        """Let a request arrive of whose answer nobody hears."""
        await self.schedule.sleep(self.random.choice(LATE_REQUEST_S))
        target = f"https://{self.party.host}".encode() + request.target
        headers = tuple(each for each in request.headers if each[0] not in OF_ONE_CONNECTION)
        with suppress(ExchangeFailed):
            await self.send(evolve(request, target=target, headers=headers))

    def observe(self, request: HttpRequest, response: HttpResponse | DroppedConnection) -> None:
        """Count submissions and requests for money back that have arrived, and answers that one is
        not known."""
        submitted, denied = self.kind.submission(request), self.kind.denial(request, response)
        asked_back = self.kind.reversal(request)
        if asked_back is not None and not is_unauthorized(response):
            self.reversal_requests[asked_back] += 1
        if submitted is not None and not is_unauthorized(response):
            self.submissions[submitted] += 1
        if denied is not None:
            self.denials[denied] += 1

    def plan_ending(self, request: HttpRequest) -> None:
        """Decide how the payment ends that a request submits, or the reversal that it asks for."""
        name, asked_back = self.kind.submission(request), self.kind.reversal(request)
        what, refusal = "payment_ends", self.kind.refusal
        endings = ALL_ENDINGS if self.is_whole else ENDINGS
        if asked_back is not None:
            name, what = reversal_name(asked_back), "reversal_ends"
            endings, refusal = REVERSAL_ENDINGS, self.kind.reversal_refusal
        if name is None:
            return
        if name not in self.endings:
            (self.endings[name],) = self.random.choices(list(endings), list(endings.values()))
            self.trace.add(f"{what} {self.endings[name].value}", self.name)
        faults: list[Fault] = []
        match self.endings[name]:
            case PaymentEnding.REFUSED:
                faults = [EndWith(refusal)]
            case PaymentEnding.UNDOCUMENTED:
                faults = [EndWith(self.random.choice(self.kind.failures))]
            case PaymentEnding.AFTER_EXPIRY:
                faults = [EndAfter(EXPIRED_AFTER)]
            case PaymentEnding.DENIED if asked_back is None:
                faults = [EndAfter(MINUTE), CallBack(TOLD_OFTEN)]
                if self.kind.contradiction is not None:
                    faults.append(PollWith(self.kind.contradiction))
            case PaymentEnding.LATE | PaymentEnding.DENIED as ending:
                faults = [EndAfter(Span(round(self.random.uniform(60.0, LATE_MAX_S) * SECOND)))]
                faults += [PollWith(refusal)] if ending is PaymentEnding.DENIED else []
            case PaymentEnding.NEVER:
                faults = [EndAfter(None)]
            case PaymentEnding.AT_ONCE:
                pass
        self.simulator.faults.plan(PlannedFault(ANY_OPERATION, each) for each in faults)

    def lose_answer(self, response: HttpResponse) -> HttpResponse | DroppedConnection:
        """Return the answer to a request that was carried out, or as much of it as is sent."""
        chance = self.random.random()
        if chance < self.weather.garbled / 2:
            self.trace.add("answer_garbled_after", self.name)
            return self.random.choice(self.kind.maintenance)
        if chance >= self.weather.answer_lost:
            return response
        self.trace.add("answer_lost", self.name)
        return DroppedConnection(response=response, sent_share=self.random.random())

    async def forge(self, reference: str, *, is_success: bool) -> None:
        """Send what somebody might who knows the address for notifications: a result of this
        payment that the operator has not reported, in the form of its latest notification. Nothing
        is sent before there was one."""
        if not self.notified:
            return
        forged = self.kind.with_result(self.notified[-1], is_success, reference)
        if forged is None:
            return
        self.trace.add("notification_forged", self.name, reference, is_success)
        try:
            await self._call(forged)
        except ExchangeFailed:
            self.trace.add("forgery_lost", self.name)

    async def tell_of_lost(self) -> None:
        """Notify of the reversals whose requests were lost, as somebody may who knows the
        address."""
        while self.lost_reversals and self.notified:
            await self.forge(self.lost_reversals.pop(), is_success=True)

    async def _call(self, request: HttpRequest) -> HttpResponse:
        response = await self.send(request)
        if response.status < 300:
            self.accepted.append(request)
        return response

    async def send(self, request: HttpRequest) -> HttpResponse:
        """Send this request to the gateway, or to the operator itself. Raises ExchangeFailed."""
        with self.schedule.activity():
            return await call_back(request, open_stream=self.party.open_stream)

    async def _insist(self, request: HttpRequest) -> HttpResponse:
        """Notify until the gateway has taken it, and return its answer."""
        while True:
            with suppress(ExchangeFailed):
                response = await self._call(request)
                if response.status == 200:
                    return response
            await self.schedule.sleep(INSISTS_EVERY_S)

    async def _notify(self, request: HttpRequest) -> HttpResponse:
        """Send a notification as the weather lets it through. Raises ExchangeFailed."""
        if self.is_whole and b'"BillRefNumber"' in request.body:
            return await self._insist(request)  # It cannot be asked about what nobody asked for.
        weather, chance = self.weather, self.random.random()
        if chance < weather.notification_lost:
            self.trace.add("notification_lost", self.name)
            raise ExchangeFailed("It was lost.", may_have_arrived=False)
        await self.schedule.sleep(self.random.uniform(0.0, NOTIFIED_WITHIN_S))
        if self.random.random() < weather.notification_late:
            delay_s = self.random.choice((5, 60, 1_800, 40_000))
            self.trace.add("notification_late", self.name, delay_s)
            await self.schedule.sleep(delay_s)
        if self.random.random() < weather.notification_contradicts:
            contradicting = self.kind.with_result(request, self.random.random() < 0.5, None)
            if contradicting is not None:
                self.trace.add("notification_contradicts", self.name)
                self.has_told_wrongly = True
                await self._call(contradicting)
                waits_s = CORRECTED_LATE_AFTER_S if self.insists else CORRECTED_AFTER_S
                await self.schedule.sleep(self.random.choice(waits_s))
                if self.insists:
                    await self._insist(request)
        response = await self._call(request)
        self.trace.add("notified", self.name, response.status)
        if self.random.random() < weather.notification_repeated:
            self.trace.add("notification_repeated", self.name)
            await self.schedule.sleep(self.random.choice((0, 1, 600)))
            response = await self._call(request)
        self.notified.append(request)
        return response


@define(eq=False)
class _MisfortunateSimulator(ForwardingSimulator):
    """Is the simulator as the network in front of it lets it appear."""

    operator: WorldOperator

    def handle_request(
        self, request: HttpRequest, *, now: Instant
    ) -> HttpResponse | DroppedConnection:
        met = self.operator.misfortune(request)
        if met is not None:
            return met
        request = _as_through_tls(request, self.operator.party.host)
        self.operator.plan_ending(request)
        response = super().handle_request(request, now=now)
        self.operator.simulator.faults.plan(())
        self.operator.observe(request, response)
        return (
            self.operator.lose_answer(response) if isinstance(response, HttpResponse) else response
        )

    def next_due_at(self) -> Instant | None:
        due_at = super().next_due_at()
        if due_at is not None:
            self.operator.schedule.expect((due_at - TRUE_TIME_AT_START) / SECOND)
        return due_at


def _as_through_tls(request: HttpRequest, host: str) -> HttpRequest:
    """Return a request as an operator sees it behind what ends TLS for it: pages of its own are
    addressed by https."""
    headers = tuple(each for each in request.headers if each[0] != b"host")
    return evolve(request, target=f"https://{host}".encode() + request.target, headers=headers)


def reversal_name(asked_back: str) -> str:
    """Return the name of a reversal among the endings, by what its requests name."""
    return f"reversal {asked_back}"
