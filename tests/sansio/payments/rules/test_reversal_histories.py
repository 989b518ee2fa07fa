"""In 2,000 histories with kills, lost and late messages, contradictions and restores no money goes
back twice, and none is lost (S5, S6). The operator of these is the strictest: it moves money at
each request that arrives."""

from __future__ import annotations

import copy
from collections import Counter
from random import Random

import pytest
from attrs import Factory, define

from mmo_sansio.messages.replies import ReversalApplied
from mmo_sansio.messages.reversals import (
    DecideReversal,
    MarkReversalRestored,
    RequestReversal,
    ReversalAccepted,
    ReversalFailed,
    ReversalNeverReceived,
    ReversalReport,
    ReversalSucceeded,
    ReversalUnreachable,
    ReversalWoke,
)
from mmo_sansio.payments.gateway import Gateway
from mmo_sansio.payments.ledger import Ledger
from mmo_sansio.testing import (
    KES,
    REFERENCE,
    START,
    a_begin_submission,
    a_create_payment,
    succeeded,
)
from mmo_sansio.values.clock import DAY, HOUR, SECOND, Instant, Span, later
from mmo_sansio.values.model import Source
from mmo_sansio.values.reversals import Reversal, ReversalState, reversed_minor

SEEDS = 2_000
PAID = KES(150)
FLIGHT = Span(25 * SECOND)
"""How long a request may be under way: less than the time after which it is first asked after."""


@define
class History:
    """One seed."""

    random: Random
    gateway: Gateway = Factory(Gateway)
    now: Instant = START
    moved: Counter[str] = Factory(Counter)
    """How often the operator has moved money for each reversal."""
    refused: set[str] = Factory(set)
    amounts: dict[str, int] = Factory(dict)
    lied_about: set[str] = Factory(set)
    """Reversals whose result the operator has reported wrongly at first."""
    under_way: list[tuple[Instant, Reversal]] = Factory(list)
    happened: Counter[str] = Factory(Counter)

    def play(self) -> None:
        for each in (a_create_payment(), a_begin_submission(), succeeded()):
            self.gateway.receive(each, now=self.now)
        backup, healed_at = copy.deepcopy(self.gateway.ledger), later(START, Span(HOUR))
        while self.now < later(START, Span(2 * DAY)):
            is_faulty = self.now < healed_at
            chance = self.random.random() if is_faulty else 1.0
            if chance < 0.15:
                self._ask()
            elif chance < 0.2:
                self._tell_wrongly()
            elif chance < 0.22:
                backup = copy.deepcopy(self.gateway.ledger)
            elif chance < 0.23 and len(backup.reversals_of(REFERENCE)) == len(self.reversals):
                self._restore(backup)
            self._arrive()
            for reversal in self.reversals:
                if reversal.wake_at is not None and reversal.wake_at <= self.now:
                    self._work(reversal, is_faulty=is_faulty)
            self.now = later(
                self.now,
                Span(self.random.randrange(5, 60) * SECOND) if is_faulty else Span(HOUR // 2),
            )

    @property
    def reversals(self) -> tuple[Reversal, ...]:
        return self.gateway.ledger.reversals_of(REFERENCE)

    def _ask(self) -> None:
        amount = KES(self.random.randint(1, 150)) if self.random.random() < 0.7 else None
        asked = RequestReversal(
            REFERENCE, "acme", amount, "Paid twice.", "amina", self.random.random() < 0.3
        )
        reply = self.gateway.receive(asked, now=self.now)
        if isinstance(reply, ReversalApplied) and reply.reversal.state is ReversalState.REQUESTED:
            is_approved = self.random.random() < 0.8
            decision = DecideReversal(
                reply.reversal.id, "brian", is_approved=is_approved, four_eyes=True
            )
            self.gateway.receive(decision, now=self.now)

    def _restore(self, backup: Ledger) -> None:
        self.happened["restored"] += 1
        self.gateway.ledger = copy.deepcopy(backup)
        for each in self.reversals:
            self.gateway.receive(MarkReversalRestored(each.id, "amina"), now=self.now)

    def _tell_wrongly(self) -> None:
        """Report the opposite of what the operator has done, or will do."""
        for each in self.reversals:
            if each.id in self.moved and not each.state.has_ended:
                self.lied_about.add(each.id)
                self.happened["lie"] += 1
                self.gateway.receive(
                    ReversalFailed(each.id, "test", Source.WEBHOOK, "No."), now=self.now
                )
                self.gateway.receive(
                    ReversalSucceeded(each.id, "test", Source.WEBHOOK), now=self.now
                )

    def _arrive(self) -> None:
        for at, reversal in self.under_way:
            if at <= self.now:
                self._move(reversal)
        self.under_way = [(at, each) for at, each in self.under_way if at > self.now]

    def _move(self, reversal: Reversal) -> ReversalReport:
        self.amounts[reversal.id] = reversal.amount.minor
        if reversal.number % 5 == 0:
            self.refused.add(reversal.id)
            return ReversalFailed(reversal.id, "test", Source.POLL, "No.")
        self.moved[reversal.id] += 1
        return ReversalAccepted(reversal.id, "test", Source.POLL)

    def _work(self, due: Reversal, *, is_faulty: bool) -> None:
        """Stand for a worker, whose process may be killed at any step."""
        attempt = f"attempt {self.random.random()}"
        reply = self.gateway.receive(ReversalWoke(due.id, attempt), now=self.now)
        chance = self.random.random() if is_faulty else 1.0
        if not isinstance(reply, ReversalApplied) or chance < 0.1:
            return  # Killed before anything left.
        report = self._converse(reply.reversal, reply.reversal.may_send(attempt), chance)
        if chance >= 0.5 or chance < 0.3:
            self.gateway.receive(report, now=self.now)
        else:
            self.happened["answer lost with its process"] += 1

    def _converse(self, reversal: Reversal, is_to_be_sent: bool, chance: float) -> ReversalReport:
        unreachable = ReversalUnreachable(reversal.id, "test", "No answer.")
        if chance < 0.15:
            if is_to_be_sent:
                self.happened["not connected"] += 1
                return ReversalNeverReceived(reversal.id, "test", reversal.version)
            return unreachable
        if is_to_be_sent and chance < 0.25:
            self.happened["late"] += 1
            self.under_way.append((later(self.now, FLIGHT), reversal))
            return unreachable
        if is_to_be_sent:
            answer = self._move(reversal)
            return unreachable if chance < 0.3 else answer
        if chance < 0.3:
            return unreachable
        if reversal.id in self.moved:
            return ReversalSucceeded(reversal.id, "test", Source.POLL)
        if reversal.id in self.refused:
            return ReversalFailed(reversal.id, "test", Source.POLL, "No.")
        self.happened["never received"] += 1
        return ReversalNeverReceived(reversal.id, "test", reversal.version)


def check(history: History) -> None:
    """Compare the operator's book with the gateway's records."""
    assert max(history.moved.values(), default=0) <= 1, "money went back twice"
    honest = [id for id in history.moved if id not in history.lied_about]
    assert sum(history.amounts[id] for id in honest) <= PAID.minor
    for each in history.reversals:
        was_moved = each.id in history.moved
        assert each.state.has_ended, f"{each.id} has no end"
        assert each.is_counted == was_moved, (
            f"{each.id} was{'' if was_moved else ' not'} moved: {each}"
        )
    known = {each.id for each in history.reversals}
    assert known >= set(history.moved), "money went back of which nothing is on record"
    if not history.lied_about:
        assert reversed_minor(history.reversals) <= PAID.minor


@pytest.mark.spec("S5", "S6")
def test_no_money_goes_back_twice_and_none_is_lost() -> None:
    happened = Counter[str]()
    for seed in range(SEEDS):
        history = History(Random(seed))
        history.play()
        check(history)
        happened += history.happened + Counter(each.state.value for each in history.reversals)
    kinds = {
        "restored",
        "lie",
        "late",
        "not connected",
        "never received",
        "answer lost with its process",
    }
    assert kinds | {"succeeded", "failed"} <= happened.keys(), happened
