"""Decides inputs in a store that this process does not serve, as commands do."""

from __future__ import annotations

from collections.abc import Sequence

from mmo_sansio.messages.inputs import Input
from mmo_sansio.messages.replies import Reply
from mmo_sansio.payments.decide import decide, reads
from mmo_sansio.payments.decision import Decision
from mmo_sansio.payments.ledger import Ledger, merge_reads
from mmo_trio.engine.clock_continuity import continue_clock
from mmo_trio.storage.interface.store import Store
from mmo_trio.system.clock import GatewayClock


async def submit_once(store: Store, input_: Input, clock: GatewayClock) -> Reply:
    """Return the reply to this input, once what it changed is durable; see `submit_batch_once`."""
    [reply] = await submit_batch_once(store, [input_], clock)
    return reply


async def submit_batch_once(store: Store, inputs: Sequence[Input], clock: GatewayClock) -> Sequence[Reply]:
    """Return the replies to these inputs, once what they changed is durable, in one commit.

    Their intents, such as callbacks, wait in the store for the process that serves it. Raises StoreUnavailable and
    OutcomeUnknown as the store does.
    """
    await continue_clock(clock, store)

    def decide_all(ledger: Ledger) -> Sequence[Decision]:
        decisions = []
        moments = clock.next_moments(len(inputs), after=ledger.not_before)
        for input_, (now, utc) in zip(inputs, moments, strict=True):
            decision = decide(ledger, input_, now=now, utc=utc)
            ledger.apply(decision.changes, decision.intents)
            decisions.append(decision)
        return decisions

    decisions = await store.transact(merge_reads(map(reads, inputs)), decide_all)
    return [each.reply for each in decisions]
