"""Holds a whole gateway in memory, which its caller drives.

    gateway = Gateway()
    reply = gateway.receive(CreatePayment(...), now=0)
    intents = gateway.take_intents()
    gateway.wake(now=gateway.next_wake())

Users of the library drive it in tests; the engine and every store are compared with it.
"""

from __future__ import annotations

from mmo_sansio.messages.changes import CallbackRecorded, JournalEntry, SuspenseRecorded
from mmo_sansio.messages.inputs import Input, TransactionWoke
from mmo_sansio.messages.intents import Intent
from mmo_sansio.messages.replies import Reply
from mmo_sansio.payments.decide import decide
from mmo_sansio.payments.ledger import Ledger
from mmo_sansio.values.clock import Instant
from mmo_sansio.values.model import Transaction


class Gateway:
    """Decides the inputs of `receive`; `take_intents` gives the actions to take, and `wake` lets
    time pass.

    `callbacks`, `suspense` and `journal` are lists of what was recorded, the oldest first; `ledger`
    holds the payments. A look-up by the merchantReference is a query for a store, not an input."""

    def __init__(self) -> None:
        self.ledger = Ledger()
        self.journal: list[JournalEntry] = []
        self.suspense: list[SuspenseRecorded] = []
        self.callbacks: list[CallbackRecorded] = []
        self._intents: list[Intent] = []

    def receive(self, input_: Input, *, now: Instant, utc: Instant | None = None) -> Reply:
        """Decide the input, apply the decision and return its reply. Its intents then wait in
        `take_intents`. `now` and `utc` are those of `decide`."""
        decision = decide(self.ledger, input_, now=now, utc=utc)
        # The law of the engine, without its store: changes, then intents, then the reply.
        self.ledger.apply(decision.changes, decision.intents)
        for change in decision.changes:
            match change:
                case JournalEntry():
                    self.journal.append(change)
                case SuspenseRecorded():
                    self.suspense.append(change)
                case CallbackRecorded():
                    self.callbacks.append(change)
                # All other changes are facts of the ledger alone.
                case _:
                    pass

        self._intents.extend(decision.intents)
        return decision.reply

    def take_intents(self) -> tuple[Intent, ...]:
        """Return the actions to take, in order, each of them once."""
        # Taken once: who calls again gets what has come since.
        taken, self._intents = tuple(self._intents), []
        return taken

    def transaction(self, gateway_reference: str) -> Transaction:
        """Return the transaction with this gatewayReference; raises KeyError when there is none."""
        return self.ledger.transactions[gateway_reference]

    def next_wake(self) -> Instant | None:
        """Return when `wake` has something to do; None while nothing is pending."""
        due = [transaction.progress.wake_at for transaction in self.ledger.transactions.values()]
        return min((at for at in due if at is not None), default=None)

    def wake(self, *, now: Instant, utc: Instant | None = None) -> None:
        """Wake all transactions that are due by now, the earliest first. Calling it too early does
        no harm."""
        # The list is made before anything is woken, as a wake moves the next one.
        due = sorted(
            (transaction.progress.wake_at, transaction.reference)
            for transaction in self.ledger.transactions.values()
            if transaction.progress.wake_at is not None and transaction.progress.wake_at <= now
        )
        for _, reference in due:
            self.receive(TransactionWoke(reference), now=now, utc=utc)
