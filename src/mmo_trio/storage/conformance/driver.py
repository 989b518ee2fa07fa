"""How the checks drive a store: whole batches, as an engine would."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TypeAlias

from mmo_sansio.messages.inputs import Input
from mmo_sansio.messages.intents import AskProvider, Intent, IntentKey
from mmo_sansio.messages.replies import Reply
from mmo_sansio.payments.decide import decide, reads
from mmo_sansio.payments.decision import Decision
from mmo_sansio.payments.ledger import Ledger, merge
from mmo_sansio.values import clock
from mmo_sansio.values.clock import Instant
from mmo_trio.storage.interface.store import Store, Work

OpenStore: TypeAlias = Callable[[], AbstractAsyncContextManager[Store]]
"""Opens the same storage each time, as its one serving process."""

NOON: Instant = 1_700_000_000 * clock.SECOND


async def feed(store: Store, *given: tuple[Input, Instant]) -> Sequence[Reply]:
    """One batch, as an engine would do it."""

    def decide_all(ledger: Ledger) -> Sequence[Decision]:
        decisions = []
        for each, now in given:
            decision = decide(ledger, each, now=now)
            ledger.apply(decision.changes, decision.intents)
            decisions.append(decision)
        return decisions

    decisions = await store.transact(merge(reads(each) for each, _ in given), decide_all)
    return [decision.reply for decision in decisions]


async def left_over(store: Store, *, limit: int) -> Sequence[Work]:
    """What others have left, taken on by this process."""
    orphans = await store.orphans(limit=limit)
    if store.channels is None or len(orphans) == limit:
        return orphans
    await store.channels.take()
    room = {of: limit - len(orphans) for of in ("acme", "globex")}
    return [*orphans, *await store.channels.take_callbacks(room)]


def key_of(intent: Intent) -> IntentKey:
    """What identifies a kept intent; a store hands out no other."""
    assert not isinstance(intent, AskProvider)
    return (intent.gateway_reference, intent.kind)
