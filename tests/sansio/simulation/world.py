"""The simulated world: every step lets something happen that could happen next, chosen by the
seed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from random import Random
from typing import Protocol

from mmo_sansio.http.exchange import DeliveryAttempt, DeliveryOutcome
from mmo_sansio.messages.changes import CallbackRecorded, JournalEntry, SuspenseRecorded
from mmo_sansio.messages.inputs import (
    BeginSubmission,
    CallbackConcluded,
    CreatePayment,
    EndedPollConcluded,
    Input,
    ProviderFailed,
    ProviderReport,
    ProviderSucceeded,
    QrConcluded,
    TransactionWoke,
)
from mmo_sansio.messages.intents import (
    DeliverCallback,
    DeliverQr,
    Intent,
    PollEnded,
    PollProvider,
    SubmitToProvider,
)
from mmo_sansio.messages.queries import ListRecords
from mmo_sansio.messages.replies import Accepted, Applied, Reply
from mmo_sansio.payments.answers import answers_ended_poll
from mmo_sansio.payments.decide import decide
from mmo_sansio.payments.decision import Decision
from mmo_sansio.payments.ledger import Ledger
from mmo_sansio.testing import START
from mmo_sansio.values import clock
from mmo_sansio.values.clock import Instant, Span, later
from mmo_sansio.values.model import Stage, Transaction
from tests.sansio.simulation import invariants, rest
from tests.sansio.simulation.parties import BRANDS, Parties
from tests.sansio.simulation.providers import SimulatedProvider
from tests.sansio.simulation.records import Walk, page

INPUTS_A_SEED = 200
"""So many inputs happen before the world is healed; more follow until it is at rest."""

HEALING_ROUNDS_MAX = 400

TOLD = (ProviderSucceeded, ProviderFailed)


class Decide(Protocol):
    """The law, or one with a planted bug."""

    def __call__(self, ledger: Ledger, input_: Input, *, now: Instant) -> Decision: ...


class Simulation:
    """One seed's world. A step may raise AssertionError: then an invariant is broken."""

    def __init__(self, seed: int, law: Decide = decide) -> None:
        self.random = Random(seed)
        self.law = law
        self.tally: Counter[object] = Counter()
        self.ledger = Ledger()
        self.raw = START
        """What the wall clock shows; it jumps."""
        self.stamp = START
        """The latest stamp given: stamps only rise."""
        self.todo: list[Intent] = []
        """Intents in the workers' memory."""
        self.returning: list[Input] = []
        """What workers are about to report; a crash forgets it."""
        self.asked_after_end: dict[str, PollEnded] = {}
        """Payments of which a poll is out that has to be concluded."""
        self.arriving: list[Input] = []
        """What others have sent us; it arrives whatever happens here."""
        self.history: list[tuple[Input, Instant, Decision]] = []
        self.journal: dict[str | None, list[JournalEntry]] = {}
        self.suspense: list[SuspenseRecorded] = []
        self.recorded: list[CallbackRecorded] = []
        self.sends: Counter[str] = Counter()
        self.lost_sends: Counter[str] = Counter()
        self.open_until: dict[str, Instant] = {}
        self.sick: set[str] = set()
        self.walks: list[Walk] = []
        self.providers = {
            name: SimulatedProvider(
                name, name == "other", self.random, self.tally, mute=name == "mute"
            )
            for name in ("test", "other", "mute")
        }
        self.parties = Parties(self)
        self._weights, self._actions = self._plan()

    def _plan(self) -> tuple[list[int], list[Callable[[], None]]]:
        parties = self.parties
        plan: list[tuple[int, Callable[[], None]]] = [
            (16, parties.create),
            (6, parties.reuse_a_reference),
            (4, parties.tell_a_deposit),
            (5, parties.confirm_a_page),
            (3, parties.resolve_by_hand),
            (12, parties.notify),
            (10, parties.stray),
            (40, self.work),
            (32, self.report_back),
            (20, self.arrive),
            (14, self.wake),
            (3, self.crash),
            (2, self.jump),
            (2, self.fall_ill),
            (5, self.read_records),
        ]
        total, weights = 0, []
        for weight, _ in plan:
            total += weight
            weights.append(total)
        return weights, [action for _, action in plan]

    def run(self, inputs: int = INPUTS_A_SEED) -> None:
        """Let so many inputs happen, heal everything, and come to rest."""
        while len(self.history) < inputs:
            self.step()
        self.heal()
        rest.check_rest(self)

    def step(self) -> None:
        """Let one thing happen."""
        (action,) = self.random.choices(self._actions, cum_weights=self._weights)
        action()

    # The engine.

    def receive(self, given: Input) -> Reply | None:
        """Decide, make durable, answer, then act; None when the commit failed, and nothing came of
        it."""
        self.raw = later(self.raw, Span(self.random.randrange(1, 200_000)))
        now = self.stamp = Instant(max(self.raw, self.stamp + 1))
        before = self.ledger.transactions.get(getattr(given, "gateway_reference", ""))
        stage = before.progress.stage if before else None
        self.tally[stage, type(given)] += 1
        decision = self.law(self.ledger, given, now=now)
        if stage is Stage.CREATED and isinstance(given, TOLD) and decision.intents:
            self.tally["took back its never received"] += 1
        invariants.check_decision(self, given, before, decision, now)
        if self.random.random() < 0.01 and decision.changes:
            self.tally["commit failed"] += 1
            self.failed_commit(decision)
            return None
        self.commit(decision)
        self.history.append((given, now, decision))
        self.todo.extend(decision.intents)
        if isinstance(decision.reply, Accepted) and decision.reply.submitted is not None:
            self.tally["submitted in its creation"] += 1
            self.send_unless_crashed(decision.reply.submitted)
        return decision.reply

    def failed_commit(self, decision: Decision) -> None:
        """Nothing of it became true."""

    def commit(self, decision: Decision) -> None:
        """Make it durable."""
        self.ledger.apply(decision.changes, decision.intents)
        for change in decision.changes:
            match change:
                case JournalEntry():
                    self.journal.setdefault(change.gateway_reference, []).append(change)
                case SuspenseRecorded():
                    self.suspense.append(change)
                case CallbackRecorded():
                    self.recorded.append(change)
                case _:
                    pass

    # The workers.

    def work(self) -> None:
        """A worker takes on something that is to be done."""
        if not self.todo:
            return
        intent = self.todo.pop(self.random.randrange(len(self.todo)))
        match intent:
            case SubmitToProvider(reference):
                self.submit(reference)
            case PollProvider(reference) | PollEnded(reference):
                if isinstance(intent, PollEnded):
                    self.asked_after_end[reference] = intent
                transaction = self.ledger.transactions[reference]
                provider = self.providers[transaction.order.provider]
                self.returning.append(provider.ask(transaction))
                if self.random.random() < 0.3:
                    self.tally["asked twice"] += 1
                    self.returning.append(provider.ask(transaction))
            case DeliverCallback(reference):
                self.deliver(reference)
            case DeliverQr(reference):
                url = self.ledger.transactions[reference].order.display_qr_url or ""
                attempt = DeliveryAttempt(DeliveryOutcome.DELIVERED, url)
                self.returning.append(QrConcluded(reference, attempt))

    def submit(self, reference: str) -> None:
        """Put it on record, then send it; a crash may come between the two."""
        reply = self.receive(BeginSubmission(reference))
        if reply is None:
            self.todo.append(SubmitToProvider(reference))
        elif isinstance(reply, Applied):
            self.send_unless_crashed(reply.transaction)

    def send_unless_crashed(self, transaction: Transaction) -> None:
        """The submission is on record."""
        if self.random.random() < 0.05:
            self.tally["crash before sending"] += 1
            self.crash()
            return
        self.send(transaction)

    def send(self, transaction: Transaction) -> None:
        """The request leaves for the provider."""
        provider = self.providers[transaction.order.provider]
        self.returning.append(provider.submit(transaction))
        invariants.money_is_asked_for_once(self, transaction.reference)

    def deliver(self, reference: str) -> None:
        """One attempt, or none while the merchant's breaker is open."""
        transaction = self.ledger.transactions[reference]
        invariants.callbacks_tell_what_has_ended(self, transaction)
        brand = transaction.order.brand
        if self.is_open(brand):
            self.tally["breaker open"] += 1
            self.conclude(transaction, DeliveryOutcome.BREAKER_OPEN)
            return
        self.sends[reference] += 1
        invariants.a_callback_is_sent_once(self, reference)
        invariants.an_open_breaker_sends_nothing(self, brand)
        if brand in self.sick and self.random.random() < 0.7:
            self.tally["callback failed"] += 1
            if self.random.random() < 0.5:
                self.open_until[brand] = later(self.stamp, Span(30 * clock.SECOND))
            self.conclude(transaction, DeliveryOutcome.TIMEOUT)
        else:
            self.conclude(transaction, DeliveryOutcome.DELIVERED)

    def is_open(self, brand: str) -> bool:
        """Whether this merchant's breaker is open."""
        return self.stamp < self.open_until.get(brand, 0)

    def conclude(self, transaction: Transaction, outcome: DeliveryOutcome) -> None:
        """The worker has this to report, if it lives."""
        attempt = DeliveryAttempt(outcome, transaction.order.result_url or "")
        self.returning.append(CallbackConcluded(transaction.reference, attempt))

    def report_back(self) -> None:
        """Some worker's report gets through, in any order; it is kept until its commit succeeds."""
        if self.returning:
            given = self.returning.pop(self.random.randrange(len(self.returning)))
            if self.receive(given) is None:
                self.returning.append(given)
            elif (
                isinstance(given, ProviderReport)
                and given.gateway_reference in self.asked_after_end
            ):
                asked = self.asked_after_end.pop(given.gateway_reference)
                if answers_ended_poll(given, None):
                    self.returning.append(
                        EndedPollConcluded(
                            asked.gateway_reference,
                            hint=asked.hint,
                            provider_reference=asked.provider_reference,
                        )
                    )
                else:
                    self.todo.append(asked)

    def arrive(self) -> None:
        """Something that others sent arrives; some of it twice."""
        if self.arriving:
            index = self.random.randrange(len(self.arriving))
            if self.random.random() < 0.2 and not isinstance(self.arriving[index], CreatePayment):
                self.tally["arrived twice"] += 1
                self.receive(self.arriving[index])
            else:
                self.insist(self.arriving.pop(index))

    def insist(self, given: Input) -> None:
        """Who gets no answer, or a 503, sends the same again some time (P5)."""
        if self.receive(given) is None:
            self.arriving.append(given)

    def crash(self) -> None:
        """The process dies. Only what is durable is handed out again."""
        self.tally["crash"] += 1
        for each in self.returning:
            if isinstance(each, CallbackConcluded):
                self.lost_sends[each.gateway_reference] += 1
                self.tally["crash between sending and recording"] += 1
        if any(isinstance(each, PollProvider) for each in self.todo):
            self.tally["question lost"] += 1
        self.returning.clear()
        self.asked_after_end.clear()
        self.todo = self.kept()

    def kept(self) -> list[Intent]:
        """What a new process finds to be done."""
        return list(self.ledger.intents.values())

    # Time.

    def wake(self) -> None:
        """The scanner wakes what is due; now and then what is not; sometimes the time until then
        passes."""
        chance = self.random.random()
        if chance < 0.1 and self.ledger.transactions:
            self.tally["woke early"] += 1
            reference = self.random.choice(tuple(self.ledger.transactions))
            self.receive(TransactionWoke(reference))
            return
        due = [
            (each.progress.wake_at, each.reference)
            for each in self.ledger.transactions.values()
            if each.progress.wake_at is not None
        ]
        if not due:
            return
        at, reference = min(due)
        if at > self.stamp:
            if chance < 0.6:
                return
            self.raw = max(self.raw, at)
        self.receive(TransactionWoke(reference))

    def jump(self) -> None:
        """The wall clock is set."""
        span = self.random.choice((-clock.HOUR, clock.MINUTE, clock.HOUR, clock.DAY, 4 * clock.DAY))
        self.tally["clock set back" if span < 0 else "clock set forward"] += 1
        self.raw = later(self.raw, Span(span))

    def fall_ill(self) -> None:
        """A merchant's receiver falls ill, or recovers."""
        self.sick ^= {self.random.choice(BRANDS).id}

    # Readers.

    def rows(self) -> Iterable[Transaction]:
        """What a store lists."""
        return self.ledger.transactions.values()

    def page(self, query: ListRecords) -> tuple[list[Transaction], bool]:
        """One page, as a store answers."""
        return page(self.rows(), query)

    def read_records(self) -> None:
        """A reader begins a walk, or takes another page of one."""
        if not self.walks or self.random.random() < 0.3:
            self.walks.append(self.parties.begin_a_walk())
        walk = self.random.choice(self.walks)
        self.tally["page read"] += 1
        walk.take(*self.page(walk.query))
        if walk.is_over:
            self.tally["walk finished"] += 1
            invariants.a_walk_sees_each_row_once(walk)
            self.walks.remove(walk)

    # The end.

    def heal(self) -> None:
        """Everybody is well again, every message arrives, and time passes until nothing is left to
        do."""
        self.sick.clear()
        for provider in self.providers.values():
            provider.healed = True
        for _ in range(HEALING_ROUNDS_MAX):
            while self.todo or self.returning or self.arriving:
                self.work()
                self.report_back()
                self.arrive()
            at = min(
                (
                    each.progress.wake_at
                    for each in self.ledger.transactions.values()
                    if each.progress.wake_at is not None
                ),
                default=None,
            )
            if at is None:
                return
            self.raw = max(self.raw, at, self.stamp)
            for each in tuple(self.ledger.transactions.values()):
                if each.progress.wake_at is not None and each.progress.wake_at <= self.raw:
                    self.receive(TransactionWoke(each.reference))
        pending = [each.reference for each in self.rows() if not each.progress.stage.is_terminal]
        raise AssertionError(f"The world does not come to rest: {pending}")
