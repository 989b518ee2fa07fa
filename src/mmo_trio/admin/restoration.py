"""Prepares a store that was restored from a backup, so that nothing is paid twice: what had not
ended then may have been submitted since, and what was created since is missing."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from itertools import islice

from attrs import evolve

from mmo_sansio.messages.inputs import MarkRestored, RecordLostUse
from mmo_sansio.messages.replies import Applied
from mmo_sansio.messages.reversals import MarkReversalRestored
from mmo_sansio.values.clock import Instant
from mmo_sansio.values.model import Status
from mmo_trio.admin.brand_hold import SubmitBatch
from mmo_trio.storage.interface.admin_types import RESTORATION, BrandHold, PaymentFilter
from mmo_trio.storage.sql.store import Store

ROUND_SIZE = 200
"""Payments or references in one commit."""

REVERSALS_MAX = 1_000_000
"""Payments whose reversals are marked; staff ask for few."""


async def begin_restoration(
    store: Store, submit: SubmitBatch, *, user: str, now: Instant, lost_id: str = ""
) -> int:
    """Mark what had not ended, then give the store another id and hold every brand; return how many
    payments were marked. `lost_id` is the id that the store had when it was lost, where the backup
    has another. Raises what the store raises; to repeat it does no harm."""
    marked = await mark_unfinished(store, submit, user=user)
    holds = [BrandHold(each.brand.id, now, RESTORATION) for each in await store.admin.brands()]
    await store.admin.begin_restoration(new_store_id(), holds, lost_id)
    return marked


def new_store_id() -> str:
    """Return a name that no other store has."""
    return secrets.token_hex(16)


async def mark_unfinished(store: Store, submit: SubmitBatch, *, user: str) -> int:
    """Mark every payment and every reversal that has not ended as one that may have been submitted;
    return how many payments there were."""
    await _mark_reversals(store, submit, user=user)
    marked, selection = 0, PaymentFilter(status=Status.PENDING, limit=ROUND_SIZE)
    while True:
        page = await store.admin.list_payments(selection)
        found = [MarkRestored(each.reference, user) for each in page.transactions]
        replies = await submit(found) if found else ()
        marked += sum(isinstance(each, Applied) for each in replies)
        if page.next_position is None:
            return marked
        selection = evolve(selection, before=page.next_position)


async def _mark_reversals(store: Store, submit: SubmitBatch, *, user: str) -> None:
    """Mark every reversal that has not ended, also one that waits for an approval: it may have been
    sent."""
    found = await store.list_reversals(only_unfinished=True, limit=REVERSALS_MAX)
    unmarked = [MarkReversalRestored(each.id, user) for each in found if not each.is_restored]
    for start in range(0, len(unmarked), ROUND_SIZE):
        await submit(unmarked[start : start + ROUND_SIZE])


async def record_lost_uses(store: Store, submit: SubmitBatch, uses: Iterable[RecordLostUse]) -> int:
    """Let the merchantReferences of payments count as used that the store lacks; return how many
    payments that were."""
    recorded, waiting = 0, iter(uses)
    while some := list(islice(waiting, ROUND_SIZE)):
        stored = await store.transactions([each.gateway_reference for each in some])
        if lost := [each for each in some if each.gateway_reference not in stored]:
            await submit(lost)
        recorded += len(lost)
    return recorded
