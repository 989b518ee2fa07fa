"""`create_or_get` makes one payment for an order, whatever is lost or delayed on the way."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from attrs import Factory, define, evolve

from mmo_merchant import (
    Answer,
    ApiAccess,
    ApiRejection,
    Exchange,
    GatewayUnavailable,
    KeyRejected,
    Money,
    NoAnswer,
    OutcomeUnclear,
    Party,
    PayOut,
    ReferenceMismatch,
    ReferenceUsed,
    StartedPayment,
    Status,
    create_or_get,
    creation_request,
    read_started,
)
from mmo_merchant.api.idempotent_creation import PAUSES_S, Ask
from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.testing import FakeProvider, World, a_brand, accepts, fails, succeeds
from mmo_sansio.values.clock import DAY, MINUTE, SECOND, Instant, Span, elapsed, later
from mmo_sansio.values.model import ReferenceReuse, ReusePolicy
from tests.support.effort import by_effort
from tests.support.merchant_orders import RESULT_URL, a_pay_in
from tests.support.simulated_api import BASE_URL, KEY, SimulatedApi

ACCESS = ApiAccess(BASE_URL, KEY)
WINDOW = 15 * MINUTE
SEEDS = by_effort(600, 3000)
Attempt = Callable[[bool], Exchange[StartedPayment]]
"""Begins an attempt to create the order; called with whether it is the first one."""


def payments_of(api: SimulatedApi, *statuses: Status) -> list[str]:
    """The payments with these statuses; all without any."""
    return [each.reference for each in api.payments if not statuses or each.status in statuses]


@define
class Script:
    """A gateway behind a network that loses what the script says, exchange by exchange."""

    losses: Sequence[str]
    """`request`, `answer`, `proxy` (an answer of a proxy that hides the gateway's) or `` for each
    exchange."""
    api: SimulatedApi = Factory(SimulatedApi)
    sent: list[tuple[str, float]] = Factory(list)
    """The method of each request and the pause before it."""

    def run(self, exchange: Exchange[StartedPayment]) -> StartedPayment:
        """Drive an exchange to its end."""
        answer: Answer | None = None
        losses = iter(self.losses)
        while True:
            try:
                ask = next(exchange) if answer is None else exchange.send(answer)
            except StopIteration as stop:
                result: StartedPayment = stop.value
                return result
            self.sent.append((ask.request.method, ask.pause_s))
            answer = self._exchange(ask, next(losses, ""))

    def _exchange(self, ask: Ask, loss: str) -> Answer:
        if loss == "request":
            return NoAnswer("lost")
        answer = self.api.answer(ask.request)
        if loss == "proxy":
            return HttpResponse(502, (), b"Bad gateway")
        return NoAnswer("lost") if loss == "answer" else answer

    @property
    def methods(self) -> list[str]:
        return [method for method, _ in self.sent]


@pytest.mark.spec("C12")
def test_a_new_payment_is_looked_up_first_unless_it_is_surely_the_first_attempt() -> None:
    careful, first = Script(()), Script(())
    assert careful.run(create_or_get(ACCESS, a_pay_in())).found is None
    assert first.run(create_or_get(ACCESS, a_pay_in(), is_first_attempt=True)).found is None
    assert (careful.methods, first.methods) == (["GET", "POST"], ["POST"])


@pytest.mark.spec("C12")
@pytest.mark.parametrize("loss", ["answer", "proxy"])
def test_a_lost_answer_costs_a_look_up_and_no_payment(loss: str) -> None:
    script = Script((loss,))
    started = script.run(create_or_get(ACCESS, a_pay_in(), is_first_attempt=True))
    assert script.methods == ["POST", "GET"]
    assert started.found is not None
    assert [started.gateway_reference] == payments_of(script.api)


@pytest.mark.spec("C12")
def test_a_lost_request_is_sent_again_after_the_look_up_says_404() -> None:
    script = Script(("request",))
    assert script.run(create_or_get(ACCESS, a_pay_in(), is_first_attempt=True)).found is None
    assert script.methods == ["POST", "GET", "POST"]
    assert [pause_s for _, pause_s in script.sent] == [0, PAUSES_S[0], 0]


@pytest.mark.spec("C12")
def test_an_earlier_payment_is_found_even_if_it_has_failed() -> None:
    script = Script((), SimulatedApi(World(FakeProvider(on_submit=(fails,)))))
    first = script.run(create_or_get(ACCESS, a_pay_in(), is_first_attempt=True))
    script.api.world.settle()
    script.api.world.advance(Span(DAY))
    again = script.run(create_or_get(ACCESS, a_pay_in()))
    assert again.found is not None
    assert (again.gateway_reference, again.found.status) == (first.gateway_reference, Status.FAILED)
    assert script.run(create_or_get(ACCESS, a_pay_in(), is_first_attempt=True)).found is None, (
        "the caller's word"
    )


def test_a_gateway_that_stays_silent_leaves_the_outcome_unclear() -> None:
    script = Script(("request",) * 20)
    with pytest.raises(OutcomeUnclear, match="order-1"):
        script.run(create_or_get(ACCESS, a_pay_in(), is_first_attempt=True))
    assert script.methods == ["POST"] + ["GET"] * len(PAUSES_S)
    nothing_sent = Script(("request",) * 20)
    with pytest.raises(GatewayUnavailable):
        nothing_sent.run(create_or_get(ACCESS, a_pay_in()))
    assert set(nothing_sent.methods) == {"GET"}


def test_a_rejection_is_raised_as_it_is() -> None:
    with pytest.raises(ApiRejection, match="config_unsupported_country"):
        Script(()).run(create_or_get(ACCESS, a_pay_in(country="UG")))
    with pytest.raises(KeyRejected):
        Script(()).run(create_or_get(ApiAccess(BASE_URL, "wrong"), a_pay_in()))


def test_a_rejection_says_nothing_of_an_earlier_request_without_an_answer() -> None:
    """The first request may still be on its way."""
    exchange = create_or_get(ACCESS, a_pay_in(), is_first_attempt=True)
    api = SimulatedApi()
    next(exchange)
    look_up = exchange.send(NoAnswer("lost"))
    again = exchange.send(api.answer(look_up.request))
    api.brand = a_brand(enabled=False)
    with pytest.raises(OutcomeUnclear, match="merchant_disabled"):
        exchange.send(api.answer(again.request))


def test_a_reference_that_is_used_and_not_found_is_never_sent_again() -> None:
    used = SimulatedApi()
    request = creation_request(ACCESS, a_pay_in())
    used.answer(request)
    exchange = create_or_get(ACCESS, a_pay_in(), is_first_attempt=True)
    next(exchange)
    ask = exchange.send(used.answer(request))
    nowhere = SimulatedApi()
    for _ in PAUSES_S:
        assert ask.request.method == "GET"
        ask = exchange.send(nowhere.answer(ask.request))
    with pytest.raises(OutcomeUnclear):
        exchange.send(nowhere.answer(ask.request))


@pytest.mark.parametrize(
    ("changes", "differences"),
    [
        ({"amount": Money(20_000, "KES")}, ("amount",)),
        ({"method": "other_ke", "country": "UG"}, ("method", "country")),
    ],
)
def test_a_reference_of_another_payment_is_no_answer(
    changes: dict[str, Any], differences: tuple[str, ...]
) -> None:
    script = Script(())
    script.run(create_or_get(ACCESS, a_pay_in(), is_first_attempt=True))
    with pytest.raises(ReferenceMismatch) as raised:
        script.run(create_or_get(ACCESS, a_pay_in(**changes)))
    assert raised.value.differences == differences
    assert len(payments_of(script.api)) == 1


@pytest.mark.spec("P5")
def test_a_503_is_waited_for_as_long_as_it_says() -> None:
    problem = b"""{
        "type": "e/service_unavailable", "title": "T", "status": 503, "detail": "D",
        "errorCode": "service_unavailable"
    }"""
    exchange = create_or_get(ACCESS, a_pay_in(), is_first_attempt=True)
    next(exchange)
    asks = [
        exchange.send(HttpResponse(503, ((b"retry-after", each),), problem))
        for each in (b"0", b"8", b"9999")
    ]
    assert [(ask.request.method, ask.pause_s) for ask in asks] == [
        ("GET", 1),
        ("GET", 8),
        ("GET", 60),
    ]
    exchange.send(HttpResponse(503, (), problem))
    with pytest.raises(GatewayUnavailable):
        exchange.send(HttpResponse(503, (), problem))


@define
class Network:
    """A network that loses and delays requests and answers, in virtual time, as its seed says."""

    api: SimulatedApi
    chance: random.Random
    delay_max: Span
    """How long a request may be held up on its way."""
    late: list[tuple[Instant, HttpRequest]] = Factory(list)

    def advance(self, span: Span) -> None:
        """Let time pass; requests that were held up arrive when they are due."""
        until = later(self.api.world.now, span)
        for at, request in sorted(self.late, key=lambda each: each[0]):
            if at <= until:
                self.late.remove((at, request))
                self.api.world.advance(Span(max(0, elapsed(self.api.world.now, at))))
                self.api.answer(request)
                self.api.world.settle()
        self.api.world.advance(elapsed(self.api.world.now, until))

    def exchange(self, request: HttpRequest) -> Answer:
        """Deliver the request, or not, and its answer, or not."""
        event = self.chance.choice(
            ["fine", "fine", "fine", "lost", "unanswered", "held up", "proxy"]
        )
        if event == "fine":
            answer = self.api.answer(request)
            self.api.world.settle()
            return answer
        if event in ("unanswered", "proxy"):
            self.api.answer(request)
            self.api.world.settle()
        if event == "held up":
            arrival = later(self.api.world.now, Span(self.chance.randint(0, self.delay_max)))
            self.late.append((arrival, request))
        self.advance(Span(self.chance.choice([SECOND, 30 * SECOND])))
        return HttpResponse(502, (), b"Bad gateway") if event == "proxy" else NoAnswer(event)


class Crashed(Exception):
    """The merchant's program was killed."""


def drive(network: Network, exchange: Exchange[StartedPayment]) -> StartedPayment:
    """Drive an exchange, with a crash now and then before or after a request."""
    answer: Answer | None = None
    while True:
        try:
            ask = next(exchange) if answer is None else exchange.send(answer)
        except StopIteration as stop:
            result: StartedPayment = stop.value
            return result
        network.advance(Span(int(ask.pause_s * SECOND)))
        if network.chance.random() < 0.05:
            raise Crashed
        answer = network.exchange(ask.request)
        if network.chance.random() < 0.05:
            raise Crashed


def play(seed: int, reuse: ReferenceReuse, attempt: Attempt, *, delay_max: Span) -> SimulatedApi:
    """One order, attempted until its payment is known, and what the gateway has in the end."""
    chance = random.Random(seed)
    provider = FakeProvider(
        on_submit=(chance.choice([succeeds, fails, accepts]),), on_poll=(succeeds,)
    )
    brand = a_brand(reference_reuse=ReusePolicy.same_for_all(reuse))
    network = Network(SimulatedApi(World(provider), brand), chance, delay_max)
    is_first = True
    for _ in range(6):
        try:
            drive(network, attempt(is_first))
            break
        except (Crashed, OutcomeUnclear, GatewayUnavailable, ReferenceUsed):
            network.advance(Span(chance.choice([SECOND, MINUTE, WINDOW, 2 * WINDOW, DAY])))
        is_first = False
    network.advance(Span(4 * DAY))
    return network.api


def our_attempt(is_first: bool) -> Exchange[StartedPayment]:
    """What the library does."""
    return create_or_get(ACCESS, a_pay_in(), is_first_attempt=is_first)


def hasty_attempt(is_first: bool) -> Exchange[StartedPayment]:
    """What a merchant does who sends the same request again when no answer came."""
    answer: Answer = NoAnswer("not sent")
    for _ in range(4):
        answer = yield Ask(creation_request(ACCESS, a_pay_in()), 20 * 60.0)
        if isinstance(answer, HttpResponse) and answer.status == 200:
            break
    return read_started(answer)


@pytest.mark.spec("C12")
@pytest.mark.parametrize("reuse", ReferenceReuse)
def test_an_order_is_never_paid_twice(reuse: ReferenceReuse) -> None:
    """With requests that are held up for less than the window, an order has one payment under any
    policy."""
    for seed in range(SEEDS):
        api = play(seed, reuse, our_attempt, delay_max=Span(WINDOW - MINUTE))
        assert len(payments_of(api)) <= 1, f"seed {seed}"


@pytest.mark.spec("C12")
@pytest.mark.parametrize("reuse", [ReferenceReuse.NEVER, ReferenceReuse.UNLESS_PAID])
def test_a_request_that_is_held_up_beyond_the_window_pays_nothing_twice(
    reuse: ReferenceReuse,
) -> None:
    for seed in range(SEEDS):
        api = play(seed, reuse, our_attempt, delay_max=Span(2 * DAY))
        assert len(payments_of(api, Status.SUCCESS, Status.PENDING)) <= 1, f"seed {seed}"


def test_the_simulation_sees_a_client_that_pays_twice() -> None:
    def count(reuse: ReferenceReuse) -> int:
        runs = (play(seed, reuse, hasty_attempt, delay_max=Span(WINDOW)) for seed in range(200))
        return sum(len(payments_of(api, Status.SUCCESS)) > 1 for api in runs)

    assert count(ReferenceReuse.AFTER_WINDOW) > 10
    assert count(ReferenceReuse.NEVER) == 0


@pytest.mark.spec("C2")
def test_other_payments_are_compared_as_well() -> None:
    pay_out = PayOut(
        method="test_ke",
        amount=Money(15_000, "KES"),
        country="KE",
        result_url=RESULT_URL,
        merchant_reference="salary-1",
        payee=Party("staff-1", "+254700000200"),
    )
    script = Script(("answer",))
    assert script.run(create_or_get(ACCESS, pay_out, is_first_attempt=True)).found is not None
    with pytest.raises(ReferenceMismatch):
        script.run(create_or_get(ACCESS, evolve(a_pay_in(), merchant_reference="salary-1")))
    script.run(create_or_get(ACCESS, evolve(pay_out, payee=Party("staff-1", "254700000200"))))
    with pytest.raises(ReferenceMismatch) as raised:
        script.run(create_or_get(ACCESS, evolve(pay_out, payee=Party("staff-2", "+254700000201"))))
    assert raised.value.differences == ("payee",)
