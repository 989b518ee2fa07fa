"""Simulates transactions of a server that several processes share: what lets their commits wait,
and fail.

The rules are those of `mmo_trio.storage.postgres`: a commit waits for others that write the same
rows, and fails when what it was decided from has changed."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from enum import Enum

from attrs import Factory, define

from mmo_sansio.messages.intents import DeliverCallback, DurableIntent, IntentKey
from mmo_sansio.payments.decision import Decision
from mmo_sansio.payments.ledger import Ledger, Reads, ReferenceKey, ReferenceUse, UsageCount
from mmo_sansio.values.clock import Instant
from mmo_trio.storage.sql.net_effect import NetEffect
from tests.simulation.stores.shared_rows import SharedRows

IDLE_SESSION_S = 5.0
"""Seconds after which the server ends a session that has begun a transaction and says nothing
more."""


class TransactionStage(Enum):
    """Says how far a transaction of the server has come."""

    OPEN = "open"
    COMMITTING = "committing"
    COMMITTED = "committed"
    VOID = "void"
    """It has stored nothing, and never will."""


@define(eq=False)
class ServerTransaction:
    """One attempt of a process to commit a batch."""

    number: int
    process: str
    holder: int
    """The number of the lease under which the process claims intents."""
    idle_until: float
    """When the server ends its session, by Trio's clock, unless it is used before."""
    is_writer: bool = False
    """Whether readers of records wait for its end."""
    stage: TransactionStage = TransactionStage.OPEN
    keys: frozenset[Hashable] = frozenset()
    """The keys of rows that its commit writes."""
    concluded: frozenset[IntentKey] = frozenset()
    uses: Mapping[ReferenceKey, ReferenceUse] = Factory(dict)
    """The newest use of each merchantReference, as it was loaded."""
    fences: Mapping[IntentKey, int] = Factory(dict)
    """The fences of durable intents, as they were loaded."""
    decisions: Sequence[Decision] = ()
    """What its commit writes."""
    at_end: list[Callable[[], None]] = Factory(list)
    """What waits for its end."""

    def load(self, rows: SharedRows, reads: Reads) -> Ledger:
        """Return the working set, and keep what the commit must find unchanged."""
        ledger = rows.load(reads)
        self.uses = dict(ledger.references)
        self.fences = {key: fence_of_intent(intent) for key, intent in ledger.intents.items()}
        return ledger

    def conflict(self, rows: SharedRows, effect: NetEffect, horizon: Instant) -> str | None:
        """Return what has changed since the load; None when the batch can be stored."""
        return next(self._conflicts(rows.load(reads_of(effect)), effect, horizon), None)

    def _conflicts(self, ledger: Ledger, effect: NetEffect, horizon: Instant) -> Iterator[str]:
        if effect.created:
            if not self.is_writer and horizon > min(
                each.order.created_at for each in effect.created.values()
            ):
                yield "horizon"
            if effect.created.keys() & ledger.transactions.keys():
                yield "transaction"
        for use in effect.references:
            key = (use.brand, use.merchant_reference)
            if ledger.references.get(key) != self.uses.get(key):
                yield "reference"
        for deposit in effect.deposits:
            if (deposit.provider, deposit.provider_reference) in ledger.deposits:
                yield "deposit"
        for reference, (was, _) in effect.advanced.items():
            found = ledger.transactions.get(reference)
            if found is None or found.progress.version != was.progress.version:
                yield "version"
        if effect.submitted_brands & ledger.held_brands:
            yield "hold"
        for claim_key, (version, _) in effect.claims.items():
            claim = ledger.claims.get(claim_key)
            if (0 if claim is None else claim.version) != version:
                yield "claim"
        for payment, (version, _) in effect.reversals.items():
            if sum(each.version for each in ledger.reversals.get(payment, ())) != version:
                yield "reversals"
        for intent_key in effect.concluded & self.fences.keys():
            intent = ledger.intents.get(intent_key)
            if intent is None or fence_of_intent(intent) > self.fences[intent_key]:
                yield "intent"
        for usage_key, added in effect.usage.items():
            count = ledger.usage.get(usage_key, UsageCount(added.share.day, 0)).plus(added.share)
            if added.limit is not None and count.amount > added.limit:
                yield "limit"


def fence_of_intent(intent: DurableIntent) -> int:
    """Return the fence of the last claim of an intent; 0 where it has none."""
    return intent.fence if isinstance(intent, DeliverCallback) else 0


def reads_of(effect: NetEffect) -> Reads:
    """Return what has to be read to see whether a batch can still be stored."""
    return Reads(
        transactions=frozenset((*effect.created, *effect.advanced)),
        references=frozenset((each.brand, each.merchant_reference) for each in effect.references),
        deposits=frozenset((each.provider, each.provider_reference) for each in effect.deposits),
        intents=frozenset(effect.concluded),
        claims=frozenset(effect.claims),
        usage=frozenset(effect.usage),
        reversals=frozenset(effect.reversals),
        held_brands=True,
    )


def keys_of(effect: NetEffect) -> frozenset[Hashable]:
    """Return the keys of the rows that a batch writes: of two batches with a common key one waits
    for the other."""
    keys: set[Hashable] = set()
    keys.update(("transaction", reference) for reference in (*effect.created, *effect.advanced))
    keys.update(("reference", each.brand, each.merchant_reference) for each in effect.references)
    keys.update(("deposit", each.provider, each.provider_reference) for each in effect.deposits)
    keys.update(("claim", key) for key in effect.claims)
    keys.update(("intent", key) for key in (*effect.concluded, *effect.scheduled))
    keys.update(("usage", key) for key in effect.usage)
    keys.update(("reversals", payment) for payment in effect.reversals)
    return frozenset(keys)
