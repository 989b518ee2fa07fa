"""The ledger: what `decide` looks at, as plain mappings in memory, and how decisions change it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias, assert_never

from attrs import Factory, define, frozen

from mmo_sansio.messages.changes import (
    BreakerSaved,
    CallbackRecorded,
    Change,
    DepositRecorded,
    IntentConcluded,
    JournalEntry,
    QrRecorded,
    ReferenceConsumed,
    SuspenseRecorded,
    TransactionAdvanced,
    TransactionCreated,
)
from mmo_sansio.messages.intents import DurableIntent, Intent, IntentKey, PollProvider
from mmo_sansio.values.clock import Instant
from mmo_sansio.values.model import Transaction

ReferenceKey: TypeAlias = tuple[str, str]
"""(brand, merchantReference)."""

DepositKey: TypeAlias = tuple[str, str]
"""(provider, provider's transaction id)."""


@frozen
class Reads:
    """The keys that a decision will look at; a store loads exactly these."""

    transactions: frozenset[str] = frozenset()
    references: frozenset[ReferenceKey] = frozenset()
    deposits: frozenset[DepositKey] = frozenset()
    """With a deposit comes the transaction that it became."""
    intents: frozenset[IntentKey] = frozenset()


def merge_reads(all_reads: Iterable[Reads]) -> Reads:
    """The keys of them all."""
    transactions: set[str] = set()
    references: set[ReferenceKey] = set()
    deposits: set[DepositKey] = set()
    intents: set[IntentKey] = set()
    for each in all_reads:
        transactions |= each.transactions
        references |= each.references
        deposits |= each.deposits
        intents |= each.intents
    return Reads(
        frozenset(transactions), frozenset(references), frozenset(deposits), frozenset(intents)
    )


@frozen
class ReferenceUse:
    """The newest use of a merchantReference."""

    gateway_reference: str
    at: Instant


class NotPrefetched(AssertionError):
    """A decision looked at a key outside its `reads`: absent and not loaded must never look the same."""


@define
class Ledger:
    """Transactions, consumed references, deposits and open intents.

    With `covers` it is a working set for one batch: looking at a key outside raises NotPrefetched, so that
    "absent" always means absent. Without, it holds everything there is.
    """

    prefetched: Reads | None = None
    transactions: dict[str, Transaction] = Factory(dict)
    references: dict[ReferenceKey, ReferenceUse] = Factory(dict)
    deposits: dict[DepositKey, str] = Factory(dict)
    """Deposit to gatewayReference."""
    intents: dict[IntentKey, DurableIntent] = Factory(dict)
    """Those scheduled and not concluded."""
    not_before: Instant = Instant(0)
    """What is created must not be stamped earlier, as others have been told what there is up to here (R7)."""

    def transaction(self, gateway_reference: str) -> Transaction | None:
        """The transaction with this reference, if there is one."""
        found = self.transactions.get(gateway_reference)
        if (
            found is None
            and self.prefetched
            and gateway_reference not in self.prefetched.transactions
        ):
            raise NotPrefetched(gateway_reference)
        return found

    def reference_use(self, brand: str, merchant_reference: str) -> ReferenceUse | None:
        """The newest use of this merchantReference by this brand, if there was one."""
        key = (brand, merchant_reference)
        found = self.references.get(key)
        if found is None and self.prefetched and key not in self.prefetched.references:
            raise NotPrefetched(key)
        return found

    def deposit(self, provider: str, provider_reference: str) -> str | None:
        """The gatewayReference that this deposit became, if it was told before."""
        key = (provider, provider_reference)
        found = self.deposits.get(key)
        if found is None and self.prefetched and key not in self.prefetched.deposits:
            raise NotPrefetched(key)
        return found

    def open_intent(self, key: IntentKey) -> DurableIntent | None:
        """This kept intent, if it is scheduled and not concluded."""
        found = self.intents.get(key)
        if found is None and self.prefetched and key not in self.prefetched.intents:
            raise NotPrefetched(key)
        return found

    def apply(self, changes: Iterable[Change], intents: Iterable[Intent] = ()) -> None:
        """Make the changes of a decision true here, then keep its intents.

        Raises AssertionError when a change doesn't fit what is here: a store would refuse it as well.
        """
        for change in changes:
            self._apply(change)
        for intent in intents:
            if not isinstance(intent, PollProvider):
                self.intents[intent.gateway_reference, intent.kind] = intent

    def _apply(self, change: Change) -> None:
        match change:
            case ReferenceConsumed(brand, merchant_reference, gateway_reference, at):
                self.references[brand, merchant_reference] = ReferenceUse(gateway_reference, at)
            case DepositRecorded(provider, provider_reference, gateway_reference):
                assert (provider, provider_reference) not in self.deposits
                self.deposits[provider, provider_reference] = gateway_reference
            case TransactionCreated(transaction):
                assert transaction.reference not in self.transactions
                self.transactions[transaction.reference] = transaction
            case TransactionAdvanced(was, now):
                assert self.transactions[was.reference].progress.version == was.progress.version
                assert now.progress.version == was.progress.version + 1
                self.transactions[now.reference] = now
            case IntentConcluded(key):
                self.intents.pop(key, None)
            case (
                CallbackRecorded()
                | QrRecorded()
                | BreakerSaved()
                | SuspenseRecorded()
                | JournalEntry()
            ):
                pass  # Kept by stores for people and for workers; no decision looks at them.
            case _:
                assert_never(change)
