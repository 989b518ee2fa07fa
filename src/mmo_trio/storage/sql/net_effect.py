"""The net effect of a batch of decisions, so that a store writes each row once, and what it adds to
the counts of payments: few rows, however large the batch is. It is pure."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from hashlib import sha256
from typing import TypeAlias, assert_never

from attrs import Factory, define, evolve, frozen

from mmo_sansio.messages import changes
from mmo_sansio.messages.intents import DurableIntent, IntentKey, PollProvider, merge_intents
from mmo_sansio.payments.decision import Decision
from mmo_sansio.payments.ledger import DepositKey, UsageKey
from mmo_sansio.values.clock import SECOND, Instant, Span, elapsed
from mmo_sansio.values.model import DepositClaim, Order, Status, Transaction
from mmo_sansio.values.reversals import Reversal
from mmo_trio.storage.interface.admin_types import (
    COUNT_SPANS,
    COUNTED_MINOR_MAX,
    LATENCY_BOUNDS_S,
    QUARTER_HOUR,
)

# The beginning of the shortest span, brand, method, provider, whether it is simulated, status,
# class of latency, type, currency and error code.
FineKey: TypeAlias = tuple[Instant, str, str, str, int, str, int, str, str, str]

# Span, and a FineKey whose beginning is that of the span.
CountKey: TypeAlias = tuple[Span, Instant, str, str, str, int, str, int, str, str, str]

# The columns of a CountKey, in its order.
FIGURE_KEY = (
    "span, began_at, brand, method, provider, is_simulated, status, latency_s, type, currency, "
    "error_code"
)


@frozen
class Counted:
    """What is counted of payments."""

    times: int
    minor: int
    """Their money in minor units; at most COUNTED_MINOR_MAX."""

    def __add__(self, other: Counted) -> Counted:
        return Counted(self.times + other.times, min(self.minor + other.minor, COUNTED_MINOR_MAX))


NOTHING_COUNTED = Counted(0, 0)


@define
class NetEffect:
    """The rows that a batch of decisions adds, changes and removes."""

    created: dict[str, Transaction] = Factory(dict)
    """New transactions by gatewayReference, as they are at the end of the batch."""
    advanced: dict[str, tuple[Transaction, Transaction]] = Factory(dict)
    """Stored transactions that moved: as they must be stored, and as they are at the end of the
    batch."""
    redated: dict[str, Transaction] = Factory(dict)
    """Those of the advanced whose order has changed as well, as its times were corrected."""
    references: list[changes.ReferenceConsumed] = Factory(list)
    usage: dict[UsageKey, changes.UsageChanged] = Factory(dict)
    """What the batch adds to counters of brands on the latest day of each, and the most that each
    may reach."""
    deposits: list[changes.DepositRecorded] = Factory(list)
    claims: dict[DepositKey, tuple[int, DepositClaim | None]] = Factory(dict)
    """Claims of deposits that changed: the version that must be stored (0: none), and how they are
    at the end of the batch (None: withdrawn)."""
    reversals: dict[str, tuple[int, tuple[Reversal, ...]]] = Factory(dict)
    """Reversals that changed, by payment: the sum of the versions that must be stored (0: none),
    and all that the payment has at the end of the batch."""
    concluded: set[IntentKey] = Factory(set)
    """Durable intents to remove, before the scheduled ones are added."""
    scheduled: dict[IntentKey, DurableIntent] = Factory(dict)
    """Durable intents that are open at the end of the batch, in order."""
    callbacks: list[changes.CallbackRecorded] = Factory(list)
    breakers: dict[str, changes.BreakerSaved] = Factory(dict)
    """By brand, as they are at the end of the batch."""
    suspense: list[changes.SuspenseRecorded] = Factory(list)
    closed: dict[int, changes.SuspenseClosed] = Factory(dict)
    """Entries of the suspense book that are to be closed at the end of the batch, by id."""
    reopened: set[int] = Factory(set)
    """Entries that are to be open, if they were closed by themselves."""
    journal: list[changes.JournalEntry] = Factory(list)

    @property
    def is_empty(self) -> bool:
        """Return whether there is nothing to write. Every decision with changes has a journal
        entry."""
        return not self.journal and not self.scheduled

    @property
    def written_transactions(self) -> Iterator[Transaction]:
        """Yield the transactions that are new or have moved, as they are at the end of the
        batch."""
        yield from self.created.values()
        for _, now in self.advanced.values():
            yield now

    @property
    def submitted_brands(self) -> frozenset[str]:
        """Return the brands of payments whose submission begins."""
        created = (creation for creation in self.created.values() if creation.progress.submissions)
        advanced = (
            now
            for was, now in self.advanced.values()
            if now.progress.submissions > was.progress.submissions
        )
        return frozenset(change.order.brand for change in (*created, *advanced))

    @property
    def latest_stamp(self) -> Instant:
        """Return the latest instant in the batch."""
        return Instant(max((line.at for line in self.journal), default=0))

    def add(self, change: changes.Change) -> None:
        """Add one more change, after those that are there.

        Raises AssertionError when a transaction moves from another version than it has.
        """
        match change:
            case changes.ReferenceConsumed():
                self.references.append(change)
            case changes.UsageChanged():
                self._add_usage(change)
            case changes.TransactionCreated(transaction):
                assert transaction.reference not in self.created
                self.created[transaction.reference] = transaction
            case changes.TransactionAdvanced(before, after):
                self._advance(before, after)
            case changes.JournalEntry():
                self.journal.append(change)
            case changes.IntentConcluded(key):
                self.scheduled.pop(key, None)
                self.concluded.add(key)
            case changes.CallbackRecorded():
                self.callbacks.append(change)
            case changes.BreakerSaved(brand):
                self.breakers[brand] = change
            case changes.DepositRecorded():
                self.deposits.append(change)
            case changes.DepositClaimChanged(claim_before, claim_after):
                # The first change of a batch says what must be stored, the last one how it ends.
                stored, _ = self.claims.get(
                    change.key, (claim_before.version if claim_before else 0, None)
                )
                self.claims[change.key] = (stored, claim_after)
            case changes.ReversalChanged(known, reversal):
                stored, _ = self.reversals.get(
                    reversal.payment, (sum(reversal.version for reversal in known), known)
                )
                self.reversals[reversal.payment] = (stored, change.reversals)
            case changes.QrRecorded():
                pass  # The journal entry contains it.
            case changes.SuspenseRecorded():
                self.suspense.append(change)
            # Closed and reopened in one batch: the last of the two counts.
            case changes.SuspenseClosed(entry):
                self.reopened.discard(entry)
                self.closed.setdefault(entry, change)
            case changes.SuspenseReopened(entry):
                self.closed.pop(entry, None)
                self.reopened.add(entry)
            case _:
                assert_never(change)

    def _add_usage(self, added: changes.UsageChanged) -> None:
        # A day begins at 0; what is added to an earlier one counts no more.
        key = (added.brand, added.share.counter)
        known = self.usage.get(key)
        if known is None or known.share.day < added.share.day:
            self.usage[key] = added
        elif known.share.day == added.share.day:
            share = evolve(added.share, amount=known.share.amount + added.share.amount)
            limits = [limit for limit in (known.limit, added.limit) if limit is not None]
            self.usage[key] = changes.UsageChanged(added.brand, share, max(limits, default=None))

    def _advance(self, before_change: Transaction, after_change: Transaction) -> None:
        if after_change.order is not before_change.order:
            self.redated[after_change.reference] = after_change

        # Three cases: new in this batch, moved in it before, or as it is stored.
        before = before_change.progress.version
        after = after_change.progress.version
        assert after == before + 1
        reference = after_change.reference
        if reference in self.created:
            assert self.created[reference].progress.version == before
            self.created[reference] = after_change
        elif reference in self.advanced:
            stored, earlier = self.advanced[reference]
            assert earlier.progress.version == before
            self.advanced[reference] = (stored, after_change)
        else:
            self.advanced[reference] = (before_change, after_change)


def net_effect(decisions: Iterable[Decision]) -> NetEffect:
    """Return the net effect of these decisions, in their order."""
    batch = NetEffect()
    for decision in decisions:
        for change in decision.changes:
            batch.add(change)

        # A poll of a pending payment is no durable intent: it is polled at its next time anyway.
        for intent in decision.intents:
            if not isinstance(intent, PollProvider):
                key = intent.gateway_reference, intent.kind
                batch.scheduled[key] = merge_intents(batch.scheduled.get(key), intent)
    return batch


def suspense_identity(recorded: changes.SuspenseRecorded) -> bytes:
    """Return a digest of what makes two entries the same: provider, reason, payment and content."""
    parts = (recorded.provider, recorded.reason.value, recorded.gateway_reference, recorded.content)
    return sha256(json.dumps(parts).encode()).digest()


def batch_counts(effect: NetEffect) -> dict[FineKey, Counted]:
    """Count new payments by when they were created, and those that end by when they end, in the
    shortest spans. One that changes after it was counted, as its receipt comes late or its times
    are corrected, is counted once, by what it is now."""
    counts: dict[FineKey, Counted] = {}
    for payment in effect.created.values():
        _count_creation(counts, payment, 1)
        _count_end(counts, payment, 1)

    # What was counted before is taken away, so that a change is counted once.
    for before, after in effect.advanced.values():
        if after.order is not before.order:
            _count_creation(counts, before, -1)
            _count_creation(counts, after, 1)

        _count_end(counts, before, -1)
        _count_end(counts, after, 1)

    return {key: counted for key, counted in counts.items() if counted != NOTHING_COUNTED}


def _count_creation(counts: dict[FineKey, Counted], payment: Transaction, times: int) -> None:
    order = payment.order
    key = _count_key(order, order.created_at, Status.PENDING, 0, "")
    _count(counts, key, times, order.requested.minor)


def _count_end(counts: dict[FineKey, Counted], payment: Transaction, times: int) -> None:
    order, progress = payment.order, payment.progress
    if progress.completed_at is None:
        return

    latency_s = latency_class(elapsed(order.created_at, progress.completed_at))
    key = _count_key(
        order, progress.completed_at, payment.status, latency_s, progress.error_code or ""
    )
    _count(counts, key, times, (progress.final or order.requested).minor)


def _count_key(
    order: Order, at: Instant, status: Status, latency_s: int, error_code: str
) -> FineKey:
    return (
        Instant(at - at % COUNT_SPANS[0]),
        order.brand,
        order.method,
        order.provider,
        int(order.is_simulated),
        status.value,
        latency_s,
        order.type.value,
        order.requested.currency,
        str(error_code),
    )


def _count(counts: dict[FineKey, Counted], key: FineKey, times: int, minor: int) -> None:
    """Add a payment; with `times` -1 take one away that was counted before."""
    counts[key] = counts.get(key, NOTHING_COUNTED) + Counted(times, times * minor)


def sum_by_span(fine: dict[FineKey, Counted]) -> dict[CountKey, Counted]:
    """Add up counts of the shortest spans in spans of each length."""
    counts: dict[CountKey, Counted] = {}
    for fine_key, counted in fine.items():
        began_at, brand, _, provider, is_simulated, status, *_ = fine_key
        for span in COUNT_SPANS:
            began = Instant(began_at - began_at % span)

            # Quarters by brand, provider and status alone.
            key: CountKey = (span, began, *fine_key[1:])
            if span == QUARTER_HOUR:
                key = (span, began, brand, "", provider, is_simulated, status, 0, "", "", "")

            counts[key] = counts.get(key, NOTHING_COUNTED) + counted

    return counts


def latency_class(latency: Span) -> int:
    """Return the upper bound in seconds of the class that a latency falls into; 0 beyond the
    last."""
    index = bisect_left(LATENCY_BOUNDS_S, latency / SECOND)
    if index < len(LATENCY_BOUNDS_S):
        return LATENCY_BOUNDS_S[index]
    return 0
