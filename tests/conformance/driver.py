"""The checks drive a store as an engine does: with batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TypeAlias

from mmo_sansio.messages.inputs import Input
from mmo_sansio.messages.intents import Intent, IntentKey, PollProvider
from mmo_sansio.messages.replies import Reply
from mmo_sansio.payments.decide import decide, reads
from mmo_sansio.payments.decision import Decision
from mmo_sansio.payments.ledger import Ledger, merge_reads
from mmo_sansio.values import clock
from mmo_sansio.values.clock import Instant, Span, later
from mmo_trio.storage.interface.store import WorkItem
from mmo_trio.storage.sql.store import Store
from tests.conformance.inputs import creation

OpenStore: TypeAlias = Callable[[], AbstractAsyncContextManager[Store]]
"""Opens the same storage each time, as its one serving process."""

NOON = Instant(1_700_000_000 * clock.SECOND)


def after_noon(microseconds: int) -> Instant:
    """Return the instant this long after NOON."""
    return later(NOON, Span(microseconds))


async def submit_batch(store: Store, *inputs: tuple[Input, Instant]) -> Sequence[Reply]:
    """Decide one batch as an engine does; return the replies."""

    def decide_all(ledger: Ledger) -> Sequence[Decision]:
        decisions = []
        for each, now in inputs:
            decision = decide(ledger, each, now=now)
            ledger.apply(decision.changes, decision.intents)
            decisions.append(decision)
        return decisions

    decisions = await store.transact(merge_reads(reads(each) for each, _ in inputs), decide_all)
    return [decision.reply for decision in decisions]


async def create_payments(store: Store, numbers: Iterable[int]) -> None:
    """Create the payments of these numbers in one batch, each as many microseconds after NOON."""
    await submit_batch(store, *((creation(number), after_noon(number)) for number in numbers))


async def claim_all_abandoned(
    store: Store, *, limit: int, taken: Iterable[WorkItem] = ()
) -> Sequence[WorkItem]:
    """Claim for this process all that others have left, and find the callbacks that wait, except
    those `taken`."""
    abandoned = await store.claim_abandoned(limit=limit)
    if store.ownership is None or len(abandoned) == limit:
        return abandoned
    await store.ownership.claim()
    brands, references = ("acme", "globex"), [each.transaction.reference for each in taken]
    room, excluded = (
        dict.fromkeys(brands, limit - len(abandoned)),
        dict.fromkeys(brands, references),
    )
    return [*abandoned, *await store.ownership.find_callbacks(room, taken=excluded)]


def intent_key(intent: Intent) -> IntentKey:
    """Return the key of a durable intent; a store returns no other."""
    assert not isinstance(intent, PollProvider)
    return (intent.gateway_reference, intent.kind)
