"""Finds and corrects what a wrong clock has written into a store (clause S3)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from attrs import evolve, frozen

from mmo_sansio.messages.inputs import CorrectTimes
from mmo_sansio.messages.replies import Reply
from mmo_sansio.payments.misdated import MISDATED_FROM, is_misdated
from mmo_sansio.values.clock import Instant, Moment, format_with_microseconds, later
from mmo_sansio.values.model import Transaction
from mmo_trio.storage.interface.admin_types import PaymentFilter
from mmo_trio.storage.sql.store import Store

PAGE_SIZE = 500

ROUND_SIZE = 100
"""Payments that are corrected in one commit."""

NAMED_MAX = 20
"""Payments that are named one by one."""


@frozen
class ClockErrors:
    """Holds what lies in the future of a store's clock."""

    payments: Sequence[Transaction]
    """The newest first."""
    held_until: Instant | None
    """The wall time before which nothing new may be dated, if it lies in the future (R7)."""

    def __bool__(self) -> bool:
        return bool(self.payments) or self.held_until is not None

    def sentences(self) -> Sequence[str]:
        """Return a sentence for each error."""
        found = [
            f"transaction {each.reference}: its createdAt "
            f"{format_with_microseconds(each.order.created_at)} lies in the"
            " future, as a wrong clock wrote it: see `mmo db mend-clock`"
            for each in self.payments[:NAMED_MAX]
        ]
        if len(self.payments) > NAMED_MAX:
            found.append(
                f"transactions with a createdAt in the future, not named here: "
                f"{len(self.payments) - NAMED_MAX}"
            )
        if self.held_until is not None:
            found.append(
                f"stamps reach to {format_with_microseconds(self.held_until)}, which lies in the "
                f"future, as a wrong"
                " clock wrote them: see `mmo db mend-clock`"
            )
        return found


async def find_clock_errors(store: Store, *, now: Moment) -> ClockErrors:
    """Return what lies in the future. Raises StoreUnavailable."""
    limit = later(now.utc, MISDATED_FROM)
    held_until = await store.held_until()
    found: list[Transaction] = []
    selection = PaymentFilter(limit=PAGE_SIZE)
    while True:
        page = await store.admin.list_payments(selection)
        misdated = [each for each in page.transactions if is_misdated(each, now=now)]
        found += misdated
        if len(misdated) < len(page.transactions) or page.next_position is None:
            return ClockErrors(found, held_until if held_until > limit else None)
        selection = evolve(selection, before=page.next_position)


async def correct_clock_errors(
    store: Store,
    submit: Callable[[Sequence[CorrectTimes]], Awaitable[Sequence[Reply]]],
    errors: ClockErrors,
    *,
    now: Instant,
    user: str,
    report: Callable[[int], object] = lambda count: None,
) -> None:
    """Correct the times of these payments, the oldest first, and let new ones be dated from now on.
    `submit` commits a round of them, `report` is called with its size. Raises StoreUnavailable and
    OutcomeUnknown; to repeat it does no harm."""
    await store.release_held(now)
    inputs = [CorrectTimes(each.reference, user) for each in reversed(errors.payments)]
    for first in range(0, len(inputs), ROUND_SIZE):
        replies = await submit(inputs[first : first + ROUND_SIZE])
        report(len(replies))
