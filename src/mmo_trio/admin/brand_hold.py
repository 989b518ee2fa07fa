"""Stops the payments of a brand on hold that were not submitted yet: each fails, and its merchant
is called back.

The hold itself is in the store, and the payment rules look at it before each submission; so nothing
more of the brand is submitted, whether or not this has come to a payment yet."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from attrs import evolve, frozen

from mmo_sansio.messages.inputs import Input, StopPayment
from mmo_sansio.messages.replies import Applied, Reply
from mmo_sansio.values.model import Stage, Status
from mmo_trio.storage.interface.admin_types import PaymentFilter
from mmo_trio.storage.sql.store import Store

# Payments in one commit, so that a serving process waits only briefly for its turn.
STOPPED_AT_ONCE_MAX = 200

# Decides inputs in one commit and returns their replies.
SubmitBatch: TypeAlias = Callable[[Sequence[Input]], Awaitable[Sequence[Reply]]]


@frozen
class HoldReport:
    """Counts the payments of a brand that a hold met."""

    stopped: int
    """Payments that were not submitted yet, and have failed."""
    going_on: int
    """Payments that were submitted before: their results are still awaited."""


async def stop_unsubmitted(
    store: Store, brand: str, *, user: str, submit: SubmitBatch
) -> HoldReport:
    """Fail every payment of the brand that was not submitted yet, in bounded commits. Raises what
    the store raises; repeating it does no harm."""
    stopped = 0
    going_on = 0
    selection = PaymentFilter(brand=brand, status=Status.PENDING, limit=STOPPED_AT_ONCE_MAX)
    while True:
        page = await store.admin.list_payments(selection)
        waiting = [
            transaction
            for transaction in page.transactions
            if transaction.progress.stage in (Stage.CREATED, Stage.AWAITING_CUSTOMER)
        ]
        replies: Sequence[Reply] = ()
        if waiting:
            replies = await submit([StopPayment(payment.reference, user) for payment in waiting])

        # One that was submitted meanwhile is not stopped: the payment rules decide in the commit.
        applied = sum(isinstance(reply, Applied) for reply in replies)
        stopped += applied
        going_on += len(page.transactions) - applied
        if page.next_position is None:
            return HoldReport(stopped, going_on)

        selection = evolve(selection, before=page.next_position)
