"""How the checks drive a store: whole batches, as an engine would."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TypeAlias

from mmo_sansio.messages.inputs import Input
from mmo_sansio.messages.intents import Intent, IntentKey, PollProvider
from mmo_sansio.messages.replies import Reply
from mmo_sansio.payments.decide import decide, reads
from mmo_sansio.payments.decision import Decision
from mmo_sansio.payments.ledger import Ledger, merge_reads
from mmo_sansio.values import clock
from mmo_sansio.values.clock import Instant
from mmo_trio.storage.interface.store import Store, WorkItem

OpenStore: TypeAlias = Callable[[], AbstractAsyncContextManager[Store]]
"""Opens the same storage each time, as its one serving process."""

NOON = Instant(1_700_000_000 * clock.SECOND)


async def submit_batch(store: Store, *inputs: tuple[Input, Instant]) -> Sequence[Reply]:
    """One batch, as an engine would do it."""

    def decide_all(ledger: Ledger) -> Sequence[Decision]:
        decisions = []
        for each, now in inputs:
            decision = decide(ledger, each, now=now)
            ledger.apply(decision.changes, decision.intents)
            decisions.append(decision)
        return decisions

    decisions = await store.transact(merge_reads(reads(each) for each, _ in inputs), decide_all)
    return [decision.reply for decision in decisions]


async def claim_all_abandoned(store: Store, *, limit: int) -> Sequence[WorkItem]:
    """What others have left, taken on by this process."""
    orphans = await store.claim_abandoned(limit=limit)
    if store.ownership is None or len(orphans) == limit:
        return orphans
    await store.ownership.claim()
    room = {of: limit - len(orphans) for of in ("acme", "globex")}
    return [*orphans, *await store.ownership.claim_callbacks(room)]


def intent_key(intent: Intent) -> IntentKey:
    """What identifies a kept intent; a store hands out no other."""
    assert not isinstance(intent, PollProvider)
    return (intent.gateway_reference, intent.kind)
