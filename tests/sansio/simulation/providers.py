"""Simulated providers: each keeps a book of what it received, loses things, and some lie."""

from __future__ import annotations

from collections import Counter
from random import Random

from attrs import Factory, define

from mmo_sansio.messages.inputs import (
    ProviderAccepted,
    ProviderCannotTell,
    ProviderFailed,
    ProviderHinted,
    ProviderNeverReceived,
    ProviderReport,
    ProviderSucceeded,
    ProviderUnreachable,
)
from mmo_sansio.values.clock import MINUTE, Span
from mmo_sansio.values.error_codes import ErrorCode
from mmo_sansio.values.model import Source, Transaction
from mmo_sansio.values.money import Money, percentage_of
from mmo_sansio.values.payer_actions import EnterCode, OpenUrl

CODES = tuple(ErrorCode)


@define
class Entry:
    """What a provider knows of one payment."""

    transaction: Transaction
    succeeded: bool | None = None
    """None while it is undecided."""
    code: ErrorCode = ErrorCode.USER_CANCELLED
    final: Money | None = None


@define
class SimulatedProvider:
    """One provider; a `wild` one contradicts itself, and says "never received" of what it has
    received."""

    name: str
    wild: bool
    random: Random
    tally: Counter[object]
    mute: bool = False
    """Whether it can't be asked, and only tells by itself."""
    healed: bool = False
    book: dict[str, Entry] = Factory(dict)
    received: Counter[str] = Factory(Counter)
    """How often a request to move the money arrived."""
    lies: Counter[str] = Factory(Counter)
    """How often it falsely said that none arrived."""

    def submit(self, transaction: Transaction) -> ProviderReport:
        """A request to move money is sent; it may or may not arrive, and so may the answer."""
        reference, chance = transaction.reference, self.random.random()
        if not self.healed and chance < 0.2:
            self.tally["request lost"] += 1
            return self.never(transaction) if chance < 0.1 else self.silent(reference)
        asks_first = transaction.order.page is not None and int(reference[-1], 36) % 2 == 0
        if asks_first and not isinstance(transaction.progress.payer_action, EnterCode):
            self.tally["code asked for"] += 1
            version = transaction.progress.version
            return ProviderNeverReceived(reference, self.name, version, EnterCode())
        self.received[reference] += 1
        entry = self.book.setdefault(reference, Entry(transaction))
        if not self.healed and chance < 0.4:
            self.tally["answer lost"] += 1
            return self.silent(reference)
        if self.wild and not self.healed and chance < 0.5:
            return self.lie(transaction)
        return self.result(entry, Source.POLL) if chance < 0.6 else self.accepted(reference)

    def ask(self, transaction: Transaction) -> ProviderReport:
        """What became of it? The answer is as old as the question."""
        reference, chance = transaction.reference, self.random.random()
        if self.mute:
            self.tally["can't be asked"] += 1
            return ProviderCannotTell(reference, self.name, transaction.progress.version)
        if not self.healed and chance < 0.2:
            self.tally["answer lost"] += 1
            return self.silent(reference)
        entry = self.book.get(reference)
        if entry is None:
            return self.never(transaction)
        if self.wild and not self.healed and chance < 0.4:
            return self.lie(transaction)
        if entry.succeeded is None and not self.healed and chance < 0.6:
            return self.accepted(reference)
        return self.result(entry, Source.POLL)

    def notify(self) -> ProviderReport | ProviderHinted | None:
        """A notification about some payment in the book; told again, or otherwise, as it likes."""
        if not self.book:
            return None
        entry = self.random.choice(tuple(self.book.values()))
        self.tally["notified again" if entry.succeeded is not None else "notified"] += 1
        if self.wild and entry.succeeded is not None and self.random.random() < 0.3:
            self.tally["contradicted itself"] += 1
            entry.succeeded = not entry.succeeded
        if not self.mute and self.random.random() < 0.4:
            self.tally["hinted"] += 1
            return ProviderHinted(entry.transaction.reference, self.name, "news")
        return self.result(entry, Source.WEBHOOK)

    def result(self, entry: Entry, source: Source) -> ProviderReport:
        """The result, decided when it is first told."""
        order, random = entry.transaction.order, self.random
        if entry.succeeded is None:
            entry.succeeded = random.random() < 0.6
            entry.code = random.choice(CODES)
            less = random.random() < 0.3 and order.requested.minor > 1
            entry.final = Money(order.requested.minor - 1, "KES") if less else None
        known = f"{self.name}-{order.gateway_reference}"
        if not entry.succeeded:
            return ProviderFailed(order.gateway_reference, self.name, source, entry.code, known)
        final = entry.final
        if not self.healed and random.random() < 0.1:
            self.tally["wrong currency"] += 1
            final = Money(order.requested.minor, "UGX")
        fee = percentage_of(order.requested, 1)
        return ProviderSucceeded(order.gateway_reference, self.name, source, known, final, fee)

    def lie(self, transaction: Transaction) -> ProviderReport:
        """It did receive it."""
        self.tally["denied what it has"] += 1
        self.lies[transaction.reference] += 1
        return self.never(transaction)

    def never(self, transaction: Transaction) -> ProviderReport:
        """Nothing arrived."""
        version = transaction.progress.version
        return ProviderNeverReceived(transaction.reference, self.name, version)

    def silent(self, reference: str) -> ProviderReport:
        """No answer came back."""
        return ProviderUnreachable(reference, self.name, "No answer.")

    def accepted(self, reference: str) -> ProviderReport:
        """It has not decided."""
        wait = self.random.choice((None, Span(MINUTE)))
        known = f"{self.name}-{reference}"
        action = self.random.choice((None, OpenUrl(f"https://pay.example/{reference}")))
        return ProviderAccepted(reference, self.name, Source.POLL, known, wait, payer_action=action)
