"""Holds the ledger: the data of `decide` as plain mappings in memory, and how decisions change
it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from typing import TypeAlias, TypeVar, assert_never, final

from attrs import Factory, define, evolve, frozen

from mmo_sansio.messages.changes import (
    BreakerSaved,
    CallbackRecorded,
    Change,
    DepositClaimChanged,
    DepositRecorded,
    IntentConcluded,
    JournalEntry,
    QrRecorded,
    ReferenceConsumed,
    ReversalChanged,
    SuspenseClosed,
    SuspenseRecorded,
    SuspenseReopened,
    TransactionAdvanced,
    TransactionCreated,
    UsageChanged,
)
from mmo_sansio.messages.intents import (
    DurableIntent,
    Intent,
    IntentKey,
    PollProvider,
    merge_intents,
)
from mmo_sansio.values.clock import Instant
from mmo_sansio.values.model import DepositClaim, Status, Transaction, UsageShare
from mmo_sansio.values.reversals import Reversal

T = TypeVar("T")
KeyT = TypeVar("KeyT")

# (brand, merchantReference).
ReferenceKey: TypeAlias = tuple[str, str]

# (brand, counter).
UsageKey: TypeAlias = tuple[str, str]

# (provider, provider's transaction id).
DepositKey: TypeAlias = tuple[str, str]


@final
@frozen
class Reads:
    """Names the keys that a decision will look at; a store loads exactly these."""

    transactions: frozenset[str] = frozenset()
    references: frozenset[ReferenceKey] = frozenset()
    """The transaction of the newest use of a reference is loaded with it."""
    deposits: frozenset[DepositKey] = frozenset()
    """The transaction that a deposit became is loaded with it."""
    intents: frozenset[IntentKey] = frozenset()
    claims: frozenset[DepositKey] = frozenset()
    usage: frozenset[UsageKey] = frozenset()
    reversals: frozenset[str] = frozenset()
    """The gatewayReferences of payments whose reversals are read."""
    held_brands: bool = False
    """Whether it matters which brands are on hold."""


def merge_reads(all_reads: Iterable[Reads]) -> Reads:
    """Return the union of all these keys."""
    reads = [*all_reads]
    if len(reads) == 1:
        return reads[0]

    # Lists, as a generator for each kind of key would cost a create a fiftieth of its time.
    return Reads(
        frozenset().union(*[read.transactions for read in reads]),
        frozenset().union(*[read.references for read in reads]),
        frozenset().union(*[read.deposits for read in reads]),
        frozenset().union(*[read.intents for read in reads]),
        frozenset().union(*[read.claims for read in reads]),
        frozenset().union(*[read.usage for read in reads]),
        frozenset().union(*[read.reversals for read in reads]),
        any(read.held_brands for read in reads),
    )


@frozen
class UsageCount:
    """Says what a counter of a brand shows, and for which day."""

    day: int
    amount: int

    def plus(self, share: UsageShare) -> UsageCount:
        """Return the counter after this change: a later day begins at 0, and an earlier one counts
        no more."""
        # A day begins with its first payment; a failure of an earlier day is no matter of this one.
        if share.day > self.day:
            return UsageCount(share.day, max(0, share.amount))
        if share.day == self.day:
            return UsageCount(self.day, max(0, self.amount + share.amount))
        return self


@frozen
class ReferenceUse:
    """Names the newest use of a merchantReference, and says how those before it ended."""

    gateway_reference: str
    at: Instant
    earlier: Status = Status.FAILED
    """SUCCESS when one was paid; FAILED when all of them failed, or there are none."""


class NotPrefetched(AssertionError):
    """Raised when a decision looks at a key outside its `reads`: an absent key and an unloaded key
    must never look the same."""


def _known(loaded: Mapping[KeyT, T], key: KeyT, prefetched: Set[KeyT] | None) -> T | None:
    """Return what is loaded under a key. Raises NotPrefetched for a key that is not among those
    that were read."""
    # What is there was read; only of an absent key it matters whether anybody looked.
    found = loaded.get(key)
    if found is None and prefetched is not None and key not in prefetched:
        raise NotPrefetched(key)
    return found


@define
class Ledger:
    """Holds transactions and their reversals, consumed references, deposits, their claims and open
    intents.

    With `prefetched` it is the working set of one batch: looking at a key outside raises
    NotPrefetched, so that "absent" always means absent. Without, it holds everything."""

    prefetched: Reads | None = None
    transactions: dict[str, Transaction] = Factory(dict)
    references: dict[ReferenceKey, ReferenceUse] = Factory(dict)
    deposits: dict[DepositKey, str] = Factory(dict)
    """Maps a deposit to its gatewayReference."""
    intents: dict[IntentKey, DurableIntent] = Factory(dict)
    """The intents that are scheduled and not concluded."""
    claims: dict[DepositKey, DepositClaim] = Factory(dict)
    usage: dict[UsageKey, UsageCount] = Factory(dict)
    reversals: dict[str, tuple[Reversal, ...]] = Factory(dict)
    """By the gatewayReference of their payment, in the order of their numbers."""
    held_brands: frozenset[str] = frozenset()
    """The brands on hold: nothing more of theirs is submitted. Staff change it, not decisions."""
    not_before: Instant = Instant(0)
    """No transaction may be created with an earlier stamp: the records up to here have been served
    (R7)."""

    def working_set(self, reads: Reads) -> Ledger:
        """Return what is read and nothing else, with the transactions of known deposits and of the
        newest uses of references."""
        deposits = {key: self.deposits[key] for key in reads.deposits & self.deposits.keys()}
        references = {
            key: self.references[key] for key in reads.references & self.references.keys()
        }
        # A rule that finds a reference or a deposit looks at its payment next.
        wanted = reads.transactions.union(
            deposits.values(), (reference.gateway_reference for reference in references.values())
        )
        return Ledger(
            prefetched=evolve(reads, transactions=wanted),
            transactions={key: self.transactions[key] for key in wanted & self.transactions.keys()},
            references=references,
            deposits=deposits,
            claims={key: self.claims[key] for key in reads.claims & self.claims.keys()},
            intents={key: self.intents[key] for key in reads.intents & self.intents.keys()},
            usage={key: self.usage[key] for key in reads.usage & self.usage.keys()},
            reversals={key: self.reversals[key] for key in reads.reversals & self.reversals.keys()},
            held_brands=self.held_brands if reads.held_brands else frozenset(),
        )

    def transaction(self, gateway_reference: str) -> Transaction | None:
        """Return the transaction with this reference, if there is one."""
        return _known(
            self.transactions, gateway_reference, self.prefetched and self.prefetched.transactions
        )

    def reference_use(self, brand: str, merchant_reference: str) -> ReferenceUse | None:
        """Return the newest use of this merchantReference by this brand, if there is one."""
        return _known(
            self.references,
            (brand, merchant_reference),
            self.prefetched and self.prefetched.references,
        )

    def deposit(self, provider: str, provider_reference: str) -> str | None:
        """Return the gatewayReference that this deposit became, if it was reported before."""
        return _known(
            self.deposits,
            (provider, provider_reference),
            self.prefetched and self.prefetched.deposits,
        )

    def claim(self, provider: str, receipt: str) -> DepositClaim | None:
        """Return the claim with this receipt, open or settled, if there is one."""
        return _known(self.claims, (provider, receipt), self.prefetched and self.prefetched.claims)

    def reversals_of(self, gateway_reference: str) -> tuple[Reversal, ...]:
        """Return the reversals of this payment, in the order of their numbers."""
        return (
            _known(self.reversals, gateway_reference, self.prefetched and self.prefetched.reversals)
            or ()
        )

    def open_intent(self, key: IntentKey) -> DurableIntent | None:
        """Return this durable intent, if it is scheduled and not concluded."""
        return _known(self.intents, key, self.prefetched and self.prefetched.intents)

    def used_on(self, brand: str, counter: str, day: int) -> int:
        """Return what this counter of a brand shows on this day; a later day begins at 0."""
        found = _known(self.usage, (brand, counter), self.prefetched and self.prefetched.usage)
        # A counter of an earlier day is at 0 again, whatever it shows.
        if found is not None and found.day >= day:
            return found.amount
        return 0

    def is_held(self, brand: str) -> bool:
        """Tell whether this brand is on hold."""
        # Not loaded must not look like not on hold: the payment would be sent.
        if self.prefetched and not self.prefetched.held_brands:
            raise NotPrefetched(brand)
        return brand in self.held_brands

    def apply(self, changes: Iterable[Change], intents: Iterable[Intent] = ()) -> None:
        """Apply the changes of a decision, then store its intents.

        Raises AssertionError when a change does not fit the ledger: a store would reject it as
        well."""
        for change in changes:
            self._apply(change)
        for intent in intents:
            # A poll is not kept: `wake_at` has the payment polled again after a crash.
            if not isinstance(intent, PollProvider):
                key = intent.gateway_reference, intent.kind
                self.intents[key] = merge_intents(self.intents.get(key), intent)

    def _apply(self, change: Change) -> None:
        match change:
            case ReferenceConsumed(brand, merchant_reference, gateway_reference, at, earlier):
                self.references[brand, merchant_reference] = ReferenceUse(
                    gateway_reference, at, earlier
                )
            case UsageChanged(brand, share):
                key = (brand, share.counter)
                known = self.usage.get(key)
                # A counter outside the working set is changed in the store alone, as only its sum
                # counts.
                if known is not None or self.prefetched is None or key in self.prefetched.usage:
                    self.usage[key] = (known or UsageCount(share.day, 0)).plus(share)
            case DepositRecorded(provider, provider_reference, gateway_reference):
                # The assertions are the conditions under which a store writes the rows.
                assert (provider, provider_reference) not in self.deposits
                self.deposits[provider, provider_reference] = gateway_reference
            case DepositClaimChanged(claim_before, claim_after):
                assert self.claims.get(change.key) == claim_before
                if claim_after is None:
                    del self.claims[change.key]
                else:
                    self.claims[change.key] = claim_after
            case ReversalChanged(known_reversals, reversal):
                assert self.reversals.get(reversal.payment, ()) == known_reversals
                self.reversals[reversal.payment] = change.reversals
            case TransactionCreated(transaction):
                assert transaction.reference not in self.transactions
                self.transactions[transaction.reference] = transaction
            case TransactionAdvanced(before, now):
                assert (
                    self.transactions[before.reference].progress.version == before.progress.version
                )
                assert now.progress.version == before.progress.version + 1
                self.transactions[now.reference] = now
            case IntentConcluded(intent):
                self.intents.pop(intent, None)
            case (
                CallbackRecorded()
                | QrRecorded()
                | BreakerSaved()
                | SuspenseRecorded()
                | SuspenseClosed()
                | SuspenseReopened()
                | JournalEntry()
            ):
                pass  # Kept by stores for people and for workers; no decision looks at them.
            case _:
                assert_never(change)
