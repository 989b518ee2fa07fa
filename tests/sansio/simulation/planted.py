"""Bugs, planted one at a time: each is a law or a world with one thing wrong, to see that the
simulation sees it."""

from __future__ import annotations

from attrs import evolve, frozen

from mmo_sansio.messages.changes import ReferenceConsumed
from mmo_sansio.messages.inputs import Input
from mmo_sansio.messages.intents import DeliverCallback, Intent
from mmo_sansio.messages.queries import ListRecords
from mmo_sansio.messages.replies import Accepted
from mmo_sansio.payments.decide import decide
from mmo_sansio.payments.decision import Decision
from mmo_sansio.payments.ledger import Ledger
from mmo_sansio.values.clock import Instant, Span, earlier
from mmo_sansio.values.model import Stage, Transaction
from tests.sansio.simulation.planted_laws import LAWS, Law
from tests.sansio.simulation.world import Decide, Simulation


@frozen
class Bug:
    """One planted bug, and the words of the invariant that must see it."""

    name: str
    seen_as: str
    law: Law | None = None
    world: type[Simulation] = Simulation

    def simulation(self, seed: int) -> Simulation:
        """The world of this seed with the bug in it."""
        return self.world(seed, decide if self.law is None else _keyworded(self.law))


def _keyworded(law: Law) -> Decide:
    def wrong(ledger: Ledger, input_: Input, *, now: Instant) -> Decision:
        return law(ledger, input_, now)

    return wrong


class ActsBeforeCommit(Simulation):
    """Callbacks are handed to their workers before the commit is known to have succeeded."""

    def failed_commit(self, decision: Decision) -> None:
        callbacks = [each for each in decision.intents if isinstance(each, DeliverCallback)]
        self.todo += [
            each for each in callbacks if each.gateway_reference in self.ledger.transactions
        ]


class SubmitsAgainAfterRestart(Simulation):
    """A new process sends what was being sent."""

    def kept(self) -> list[Intent]:
        for each in tuple(self.ledger.transactions.values()):
            if each.progress.stage is Stage.SUBMITTING:
                self.send(each)
        return super().kept()


class CommitsHalf(Simulation):
    """A commit that failed has left the reference behind."""

    def failed_commit(self, decision: Decision) -> None:
        used = [each for each in decision.changes if isinstance(each, ReferenceConsumed)]
        self.ledger.apply(used)


class LosesWhatWasAccepted(Simulation):
    """A transaction is gone although its creation was answered."""

    def heal(self) -> None:
        super().heal()
        accepted = {
            decision.reply.order.gateway_reference
            for _, _, decision in self.history
            if isinstance(decision.reply, Accepted)
        }
        del self.ledger.transactions[max(accepted)]


class SkipsARow(Simulation):
    """The next page begins one row too late."""

    def page(self, query: ListRecords) -> tuple[list[Transaction], bool]:
        found, more = super().page(query)
        return (found[1:], more) if query.after and len(found) > 1 else (found, more)


class RepeatsARow(Simulation):
    """The next page begins with the last row of the one before."""

    def page(self, query: ListRecords) -> tuple[list[Transaction], bool]:
        if query.after is not None:
            query = evolve(
                query,
                after=evolve(query.after, created_at=earlier(query.after.created_at, Span(1))),
            )
        return super().page(query)


class IgnoresTheBreaker(Simulation):
    """Callbacks go out although the breaker is open."""

    def is_open(self, brand: str) -> bool:
        return False


class ForgetsIntents(Simulation):
    """After a restart nobody looks at what was kept."""

    def kept(self) -> list[Intent]:
        return []


class HandsOutWhatIsDone(Simulation):
    """After a restart every callback is made again."""

    def kept(self) -> list[Intent]:
        done = [DeliverCallback(each.gateway_reference) for each in self.recorded]
        return [*super().kept(), *done]


WORLDS: tuple[tuple[type[Simulation], str], ...] = (
    (
        ActsBeforeCommit,
        "a callback for a pending payment|after its outcome was recorded|sent again",
    ),
    (SubmitsAgainAfterRestart, "money was asked for twice"),
    (CommitsHalf, "finds another|a free reference was refused"),
    (LosesWhatWasAccepted, "something accepted is gone"),
    (SkipsARow, "a row was skipped"),
    (RepeatsARow, "a row was listed twice"),
    (IgnoresTheBreaker, "sent while the breaker was open"),
    (ForgetsIntents, "has no outcome|is left to do"),
    (HandsOutWhatIsDone, "a callback was sent"),
)

BUGS = (
    *(Bug(law.__name__, words, law=law) for law, words in LAWS),
    *(Bug(world.__name__, words, world=world) for world, words in WORLDS),
)
"""Every planted bug."""
