"""A gateway, one operator's adapter and its simulator in virtual time, with a network that loses, delays and repeats,
and a gateway that is killed at any moment. One seed is one course of events.

The law is the real one, and so are adapter and simulator; what lies between does what the shell does: a payment is in
one conversation at a time, a conversation ends in 20 s, and a killed gateway forgets all but what is on record.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Sequence
from decimal import Decimal
from heapq import heappop, heappush
from random import Random
from typing import Any

from attrs import evolve
from operator_faults import Misfortune
from operator_kinds import Operator
from operator_line import Line

from mmo_sansio.clock import HOUR, MINUTE, SECOND, Instant, Span
from mmo_sansio.gateway import Gateway
from mmo_sansio.http import HttpRequest, HttpResponse
from mmo_sansio.inputs import BeginSubmission, Input, ProviderNeverReceived
from mmo_sansio.intents import AskProvider, Intent, SubmitToProvider
from mmo_sansio.model import Brand, Limits, Transaction, Type
from mmo_sansio.money import money
from mmo_sansio.providers.conversation import (
    Conversation,
    DepositAsked,
    DepositTold,
    ExchangeFailed,
)
from mmo_sansio.providers.operations import paced
from mmo_sansio.replies import Noted
from mmo_sansio.testing import START, a_brand, a_create_payment, a_method, a_party, reference
from mmo_trio.simulators.base import (
    ANYWHERE,
    Fault,
    Planned,
)

ANSWER_WITHIN: Span = 10 * SECOND
CONVERSATION: Span = 20 * SECOND
LATE_BY: Span = 25 * SECOND
"""How much later a request may arrive than it was sent, though nobody waits for its answer any more."""
HEALED_AFTER: Span = 2 * HOUR
"""From then on nothing is lost and nobody is killed."""
STEPS_MAX = 200_000


class World:
    """One seed's course of events; `run` plays it to its end."""

    def __init__(self, operator: Operator, seed: int) -> None:
        self.operator = operator
        self.seed = seed
        self.tally: Counter[str] = Counter()
        """What happened, so that a test can tell that it did."""
        self.random = Random(seed)
        self.gateway = Gateway()
        self.misfortune = Misfortune(self.random, self.tally, operator.failures)
        provider, simulator = operator.open()
        self.line = Line(provider, simulator, START)
        self.opening = self.balances()
        self.agenda: list[tuple[Instant, int, Callable[[], None]]] = []
        self.count = 0
        self.life = 0
        """Counts the gateway's lives; what belongs to an earlier one is forgotten."""
        self.is_up = True
        self.in_hand: dict[str, Intent | None] = {}
        self.setbacks: Counter[str] = Counter()
        self.asked_at: dict[str, Instant] = {}
        """When each payment was asked about for the last time before its end."""

    @property
    def now(self) -> Instant:
        """The one clock there is."""
        return self.line.now

    @property
    def is_healed(self) -> bool:
        """Whether nothing is lost any more."""
        return self.now >= START + HEALED_AFTER

    def balances(self) -> dict[str, Decimal]:
        """What each account of the operator holds."""
        return {
            each["account"]: Decimal(each["balance"])
            for each in self.line.simulator.book()["accounts"]
        }

    def run(self, payments: int, kills: int) -> None:
        """Let so many payments and so many deaths happen, and come to rest."""
        for number in range(payments):
            self.at(START + self.random.randrange(HOUR), self._creating(number))
        for _ in range(kills):
            self.at(START + self.random.randrange(HOUR + 10 * MINUTE), self._kill)
        for _ in range(STEPS_MAX):
            if not self._step():
                return
        raise AssertionError("The world does not come to rest.")

    def at(self, when: Instant, act: Callable[[], None]) -> None:
        """Let this happen then."""
        self.count += 1
        heappush(self.agenda, (when, self.count, act))

    def _later(self, after: Span, act: Callable[[], None]) -> None:
        """Let this happen after a while, unless the gateway is killed before."""
        life = self.life

        def unless_killed() -> None:
            if life == self.life:
                act()

        self.at(self.now + after, unless_killed)

    def _step(self) -> bool:
        """The next thing that happens; False when nothing will."""
        dues = (
            self.agenda[0][0] if self.agenda else None,
            self.gateway.next_wake() if self.is_up else None,
            self.line.simulator.next_due(),
        )
        next_due = min((at for at in dues if at is not None), default=None)
        if next_due is None:
            return False
        self.line.now = max(self.now, next_due)
        while self.agenda and self.agenda[0][0] <= self.now:
            heappop(self.agenda)[2]()
        for each in self.line.simulator.due(now=self.now):
            self._call_back(each)
        if self.is_up:
            self.gateway.wake(now=self.now)
            self._work()
        return True

    # Merchants.

    def _creating(self, number: int) -> Callable[[], None]:
        operation = self.random.choice(self.operator.operations)
        amount = self.random.randint(*self.operator.amounts)
        msisdn = self.random.choice(self.operator.msisdns)

        def create() -> None:
            if not self.is_up:
                self.at(self.now + MINUTE, create)
                return
            given = a_create_payment(
                reference(number),
                brand=self._brand(),
                operation=operation,
                amount=Decimal(amount),
                country=self.operator.country,
                currency=self.operator.currency,
                merchant_reference=f"order-{number}",
                party=None if operation.type is Type.TAX else a_party(msisdn=msisdn),
            )
            self._receive(given)

        return create

    def _brand(self) -> Brand:
        lowest, highest = (
            money(Decimal(units), self.operator.currency) for units in (1, 10_000_000)
        )
        limits = {self.operator.currency: Limits(lowest, highest)}
        method = a_method(
            provider=self.line.provider.name, country=self.operator.country, limits=limits
        )
        return a_brand(methods=(method,))

    # The gateway.

    def _receive(self, given: Input) -> Any:
        reply = self.gateway.receive(given, now=self.now)
        self._work()
        return reply

    def _work(self) -> None:
        for intent in self.gateway.take_intents():
            self._take(intent)

    def _take(self, intent: Intent) -> None:
        if not isinstance(intent, SubmitToProvider | AskProvider):
            return
        subject = intent.gateway_reference
        if subject in self.in_hand:
            if isinstance(intent, SubmitToProvider):
                self.in_hand[subject] = intent
            return
        self.in_hand[subject] = None
        setbacks = self.setbacks[subject] if isinstance(intent, SubmitToProvider) else 0
        patience = min(SECOND << min(setbacks, 10), 300 * SECOND) // 2 if setbacks else 0
        self._later(patience, lambda: self._handle(intent))

    def _handle(self, intent: Intent) -> None:
        subject = intent.gateway_reference
        provider = self.line.provider
        if isinstance(intent, AskProvider):
            about = self.gateway.transaction(subject)
            if not about.progress.stage.is_terminal:
                self.asked_at[subject] = self.now
            if intent.hint is not None:
                about = evolve(about, progress=evolve(about.progress, hint=intent.hint))
            self._begin(provider.ask(about, now=self.now), about, is_submission=False)
            return
        reply = self.gateway.receive(BeginSubmission(subject), now=self.now)
        if not isinstance(reply, Noted):
            self._finish(subject)
            return
        about = reply.transaction
        if not self.is_healed and self.random.random() < 0.03:
            self.tally["killed between record and request"] += 1
            self._kill()
            return
        self._begin(provider.submit(about, now=self.now), about, is_submission=True)

    def _begin(
        self, conversation: Conversation, about: Transaction, *, is_submission: bool
    ) -> None:
        deadline = self.now + CONVERSATION

        def go_on(step: Callable[[], HttpRequest]) -> None:
            try:
                request = step()
            except StopIteration as end:
                report = paced(end.value, self.line.provider.operations, about)
                self.tally[type(report).__name__] += 1
                is_setback = isinstance(report, ProviderNeverReceived)
                self.setbacks[about.reference] = (
                    self.setbacks[about.reference] + 1 if is_setback else 0
                )
                self._receive(report)
                self._finish(about.reference)
            else:
                self._send(
                    request,
                    deadline,
                    is_submission,
                    lambda answer: go_on(lambda: conversation.send(answer)),
                    lambda failure: go_on(lambda: conversation.throw(failure)),
                )

        go_on(lambda: next(conversation))

    def _finish(self, subject: str) -> None:
        follows = self.in_hand.pop(subject, None)
        if follows is not None:
            self._take(follows)

    def _kill(self) -> None:
        """The gateway dies; a while later another starts with what is on record."""
        if not self.is_up or self.is_healed:
            return
        self.tally["killed"] += 1
        if self.in_hand:
            self.tally["killed in a conversation"] += 1
        self.life += 1
        self.is_up = False
        self.in_hand.clear()
        self.gateway.take_intents()

        def start() -> None:
            self.is_up = True
            for intent in tuple(self.gateway.ledger.intents.values()):
                self._take(intent)

        self.at(self.now + self.random.randrange(2 * MINUTE), start)

    # The network.

    def _send(
        self,
        request: HttpRequest,
        deadline: Instant,
        is_submission: bool,
        answered: Callable[[HttpResponse], None],
        failed: Callable[[ExchangeFailed], None],
    ) -> None:
        """A request leaves, and may or may not arrive; so may its answer."""
        patience = min(ANSWER_WITHIN, deadline - self.now)
        chance = 1.0 if self.is_healed else self.random.random()
        if chance < 0.05:
            self.tally["not connected"] += 1
            failure = ExchangeFailed("No connection.", may_have_arrived=False)
            self._later(SECOND, lambda: failed(failure))
            return
        if chance < 0.12:
            silence = ExchangeFailed("No answer came in time.", may_have_arrived=True)
            self._later(patience, lambda: failed(silence))
            if chance < 0.08:
                self.tally["request lost"] += 1
                return
            self.tally["request late"] += 1
            late = self.random.randrange(LATE_BY)
            self.at(self.now + late, lambda: self._arrive_unheard(request))
            return
        faults = () if self.is_healed else self.misfortune.meet(is_submission)

        def arrive() -> None:
            try:
                answer = self._arrive(request, faults)
            except ExchangeFailed as failure:
                lost = failure
                self._later(SECOND, lambda: failed(lost))
            else:
                self._later(self.random.randrange(SECOND), lambda: answered(answer))

        self.at(self.now + self.random.randrange(SECOND), arrive)

    def _arrive_unheard(self, request: HttpRequest) -> None:
        with contextlib.suppress(ExchangeFailed):
            self._arrive(request, ())

    def _arrive(self, request: HttpRequest, faults: Sequence[Fault]) -> HttpResponse:
        """At the operator; a token is there before, as its request may be lost without harm."""
        script = self.line.simulator.faults
        script.plan(())
        self.line.sign(request)
        script.plan(Planned(ANYWHERE, each) for each in faults)
        try:
            return self.line.exchange(request)
        finally:
            script.plan(())

    def _call_back(self, request: HttpRequest) -> None:
        """A callback arrives, or doesn't."""
        is_lost = not self.is_up or (not self.is_healed and self.random.random() < 0.1)
        if is_lost:
            self.tally["callback lost"] += 1
            self.line.simulator.heard(request, None, now=self.now)
            return
        provider = self.line.provider
        self._hear(request)
        answer = provider.answer_notification(request, True)
        self.line.simulator.heard(request, answer, now=self.now)
        if not self.is_healed and self.random.random() < 0.1:
            self.tally["callback told again"] += 1
            self.at(self.now + self.random.randrange(HOUR), lambda: self._hear(request))

    def _hear(self, request: HttpRequest) -> None:
        if self.is_up:
            told = self.line.provider.read_notification(request)
            assert not isinstance(told, DepositTold | DepositAsked)
            self._receive(told)
