"""Decides one input in a store that this process does not serve, as commands do."""

from __future__ import annotations

from collections.abc import Sequence

from mmo_sansio.messages.inputs import Input
from mmo_sansio.messages.replies import Reply
from mmo_sansio.payments.decide import decide, reads
from mmo_sansio.payments.decision import Decision
from mmo_sansio.payments.ledger import Ledger
from mmo_trio.engine.clock_continuity import continue_clock
from mmo_trio.storage.interface.store import Store
from mmo_trio.system.clock import WallClock


async def submit_once(store: Store, input_: Input, clock: WallClock) -> Reply:
    """Return the reply to this input, once what it changed is durable.

    Its intents, such as the callback, wait in the store for the process that serves it. Raises StoreUnavailable and
    OutcomeUnknown as the store does.
    """
    await continue_clock(clock, store)

    def decide_it(ledger: Ledger) -> Sequence[Decision]:
        [moment] = clock.next_moments(1, after=ledger.not_before)
        decision = decide(ledger, input_, now=moment.time, utc=moment.utc)
        ledger.apply(decision.changes, decision.intents)
        return (decision,)

    [decision] = await store.transact(reads(input_), decide_it)
    return decision.reply
